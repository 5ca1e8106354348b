"""Nights that learn from the one before: no pilot, one charge, the shape in the ledger, and when they do not."""

import copy
import shutil
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
import zarr

from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.pipeline.base.errors import StoreUnreachable
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import earlier_shape
from blockveil.pipeline.plan.begun_plans import as_begun, plan_begun
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.withdrawing import withdraw
from blockveil.pipeline.report import write_report
from blockveil.pipeline.study.replay import replay
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.house.stopping import Stopped, StoppingCompute
from tests.pipeline.releases.test_learning_stages import (
    EPSILON,
    VALUES,
    attributes,
    correlations,
    learning,
)
from tests.pipeline.releases.test_release import NIGHT, bits, charges, quiet, run, spent
from tests.pipeline.verification.test_stated_stages import failure

NEXT = NIGHT + timedelta(days=1)


def planned(loaded, night=NEXT):
    return plan_begun(loaded, night, Ledger(loaded.ledger_url))


def learned_from(loaded, night=NEXT):
    """Release that a night would learn from."""
    earlier = planned(loaded, night).designed.learning.earlier
    return None if earlier is None else earlier.release_id


def one_night(folder):
    loaded = learning(folder)
    run(loaded)
    return loaded


@pytest.fixture
def first(tmp_path):
    """Config of which one night was released."""
    return support.made_once(tmp_path, one_night)


@pytest.mark.parametrize("aim", ["correlation", "covariance"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_the_second_night_learns_from_the_first_for_the_same_charge_and_less_error(tmp_path, aim, neighbours):
    loaded = learning(tmp_path, aim, neighbours=neighbours)
    run(loaded)
    outcome = run(loaded, NEXT)
    learned = attributes(outcome)["learned"]
    assert learned["earlier"]["release_id"] == "people/covariance/2026-11-20"
    assert list(learned["stages"]) == ["rings"]
    assert learned["domain"] == "ellipsoid"
    assert spent(loaded) == pytest.approx(gaussian_mu(EPSILON, 1e-6) * 2**0.5, rel=1e-6)
    assert np.max(np.abs(correlations(outcome) - np.corrcoef(VALUES.T))) < 0.15
    assert not any("pilot" in name for name in zarr.open_group(outcome.path, mode="r"))
    assert all(finding.holds is not False for finding in verify(outcome.path).findings)
    write_report(outcome.path)
    written = next(outcome.path.parent.glob("2026-11-21-*.report.json")).read_text()
    assert "from the release people/covariance/2026-11-20" in written


def test_what_a_night_costs_does_not_follow_from_whether_it_learns_from_another(first):
    alone, later = make_plan(first, NEXT), planned(first)
    assert later.charge == alone.charge
    assert later.digest != alone.digest
    stages = later.designed.learning
    assert stages.rings.design.loss.mu**2 + later.design.loss.mu**2 <= later.charge.mu**2
    assert later.design.loss.mu**2 / later.charge.mu**2 == pytest.approx(0.98, rel=1e-3)
    assert dict(describe(later, None))["Learns"].startswith("people/covariance/2026-11-20 says where records lie, 2 %")


def test_bounds_that_are_ten_times_as_wide_cost_little(tmp_path):
    errors = {}
    for times in (1, 10):
        folder = tmp_path / str(times)
        folder.mkdir()
        loaded = learning(folder)
        text = loaded.path.read_text()
        for old, (low, high) in {
            "lower = 0\nupper = 120": (60 - 60 * times, 60 + 60 * times),
            "lower = 0\nupper = 1_000_000": (500_000 - 500_000 * times, 500_000 + 500_000 * times),
            "lower = -500_000\nupper = 500_000": (-500_000 * times, 500_000 * times),
        }.items():
            new = f"lower = {low}\nupper = {high}"
            assert old in text.replace(", ", "\n")
            text = text.replace(old.replace("\n", ", "), new.replace("\n", ", ")).replace(old, new)
        loaded.path.write_text(text)
        loaded = load_config(loaded.path)
        errors[times] = [
            np.sqrt(np.mean((correlations(run(loaded, NIGHT + timedelta(days=day))) - np.corrcoef(VALUES.T)) ** 2))
            for day in range(3)
        ]
    assert max(errors[1]) < 0.05
    assert errors[10][0] < 0.3  # here bounds are 550 standard deviations wide
    assert errors[10][2] < 0.05


class TestWhichNightIsLearnedFrom:
    def test_the_newest_before_its_date(self, first):
        run(first, NEXT + timedelta(days=3))
        assert learned_from(first, NEXT) == "people/covariance/2026-11-20"
        assert learned_from(first, NEXT + timedelta(days=4)) == "people/covariance/2026-11-24"
        assert learned_from(first, NIGHT - timedelta(days=1)) is None

    def test_never_one_that_was_withdrawn(self, first):
        run(first, NEXT)
        withdraw(first, "people/covariance/2026-11-21", "wrong unit", remove=False)
        assert learned_from(first, NEXT + timedelta(days=1)) == "people/covariance/2026-11-20"
        withdraw(first, "people/covariance/2026-11-20", "wrong unit", remove=True)
        assert learned_from(first, NEXT + timedelta(days=1)) is None

    def test_none_that_is_gone(self, first):
        shutil.rmtree(first.output_root)
        assert learned_from(first) is None
        assert attributes(run(first, NEXT))["learned"]["domain"] == "ellipsoid"

    def test_none_whose_content_the_ledger_does_not_know(self, first):
        pointer = first.output_root / "people/covariance/2026-11-20.json"
        path = next(pointer.parent.glob("*.zarr"))
        group = zarr.open_group(path, mode="r+")
        group["mean"][...] = group["mean"][...] * 2
        assert learned_from(first) is None

    @pytest.mark.parametrize("old_new", [("upper = 120", "upper = 130"), ('"correlation"', '"covariance"')])
    def test_none_of_another_declared_shape(self, first, old_new):
        first.path.write_text(first.path.read_text().replace(*old_new))
        assert learned_from(load_config(first.path)) is None

    def test_none_that_stayed_in_the_box_or_shortened_much(self, first, monkeypatch):
        monkeypatch.setattr(earlier_shape, "MOST_LOST", 1e-9)
        assert learned_from(first) is None

    def test_what_may_pass_is_tried_again_and_not_paid_for_by_a_pilot(self, first, monkeypatch):
        def away(_):
            raise StoreUnreachable("It", "does not answer", "Wait")

        monkeypatch.setattr(earlier_shape, "open_release", away)
        with pytest.raises(StoreUnreachable):
            planned(first)


def test_a_night_that_stays_in_the_box_teaches_no_other(tmp_path):
    values = np.random.default_rng(3).uniform([0, 0, -500_000], [120, 1_000_000, 500_000], (9_000, 3))
    loaded = learning(tmp_path, "covariance", values, epsilon=8.0)
    assert attributes(run(loaded))["learned"]["domain"] == "box"
    assert learned_from(loaded) is None


def test_records_that_moved_far_are_followed_within_four_nights(tmp_path):
    loaded = learning(tmp_path)
    run(loaded)
    moved = VALUES + np.array([30.0, 200_000.0, 100_000.0])
    group = zarr.open_group(loaded.store, mode="r+")
    group["records"][...] = moved
    for day in range(1, 5):
        outcome = run(loaded, NIGHT + timedelta(days=day))
        assert all(finding.holds is not False for finding in verify(outcome.path).findings)
    assert np.max(np.abs(correlations(outcome) - np.corrcoef(moved.T))) < 0.15


class TestBegunNight:
    """What a night learns from is in the ledger when its budget is reserved, and stays whatever becomes of it."""

    @pytest.mark.parametrize("stop", [2, 3, 4])  # before the first exact sum nothing is kept
    @pytest.mark.parametrize("what", ["withdrawn", "gone", "newer"])
    def test_it_is_finished_with_the_bits_of_one_that_nothing_ended(self, tmp_path, monkeypatch, stop, what):
        monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))
        (tmp_path / "whole").mkdir()
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        begun = learning(tmp_path / "whole")
        run(begun)
        for folder, copy_of_it in (("whole", "killed"), ("state", "other-state")):
            shutil.copytree(tmp_path / folder, tmp_path / copy_of_it)
        later, whole = NIGHT + timedelta(days=3), run(begun, NIGHT + timedelta(days=3))
        loaded = load_config(tmp_path / "killed" / begun.path.name)

        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other-state"))  # else the copied ledger is found out
        with pytest.raises(Stopped):
            run(loaded, later, compute=StoppingCompute(stop))
        if what == "withdrawn":
            withdraw(loaded, "people/covariance/2026-11-20", "wrong", remove=True)
        elif what == "gone":
            shutil.rmtree(loaded.output_root)
        else:
            run(loaded, NEXT)
        outcome = run(loaded, later)
        assert len(charges(loaded)) == (3 if what == "newer" else 2)
        assert bits(outcome) == bits(whole)


def test_what_a_person_approved_stays_what_the_night_learns_from(first):
    plan = planned(first, NIGHT + timedelta(days=3))
    run(first, NEXT)
    assert as_begun(plan, Ledger(first.ledger_url)) is plan
    assert learned_from(first, NIGHT + timedelta(days=3)) == "people/covariance/2026-11-21"


def test_what_a_person_approved_is_planned_anew_where_its_teacher_was_withdrawn_since(first):
    run(first, NEXT)
    plan = planned(first, NIGHT + timedelta(days=3))
    withdraw(first, "people/covariance/2026-11-21", "wrong unit", remove=False)
    again = as_begun(plan, Ledger(first.ledger_url))
    assert again.designed.learning.earlier.release_id == "people/covariance/2026-11-20"
    assert again.digest != plan.digest


def test_neighbours_differ_by_what_is_charged_on_a_later_night_too(first):
    plan = planned(first)
    found = replay(plan, ThreadCompute(1), quiet, draws=False)
    assert not found.refutations
    assert found.share > 0.97
    less = replace(plan.charge, mu=plan.charge.mu * 0.98**0.5)
    assert replay(replace(plan, charge=less), ThreadCompute(1), quiet, draws=False).refutations


FORGED = {
    "a mean of the earlier night": lambda stated, _: stated["learned"]["earlier"]["features"][0].__setitem__(0, 50.0),
    "a variance of it": lambda stated, _: stated["learned"]["earlier"]["features"][1].__setitem__(1, 1e7),
    "less that it took": lambda stated, _: stated["learned"]["earlier"]["features"][1].__setitem__(3, 0.0),
    "no earlier night": lambda stated, _: stated["learned"].pop("earlier"),
    "less that was lost": lambda _, arrays: arrays.update(clipped_variance=arrays["clipped_variance"] / 2),
}


@pytest.mark.parametrize("forged", FORGED)
def test_what_a_later_night_states_and_did_not_do_is_found(first, forged):
    group = zarr.open_group(run(first, NEXT).path, mode="r")
    stated, arrays = copy.deepcopy(group.attrs.asdict()), {name: array[...] for name, array in group.arrays()}
    assert failure(stated, arrays) is None
    FORGED[forged](stated, arrays)
    assert failure(stated, arrays) is not None
