"""The whole numbers of a map belong to a plan: another linear algebra library gives a refusal, not other numbers."""

import shutil
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
import zarr

from blockveil.engine.noise.continual import best
from blockveil.engine.records import geometry
from blockveil.pipeline.base.errors import ReleaseConflict, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.begun import Begun
from blockveil.pipeline.plan.begun_plans import as_begun
from blockveil.pipeline.plan.nights import ByChains, InLedger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import Workspace, run_release
from tests import support

NIGHT, NEXT = date(2026, 11, 1), date(2026, 11, 2)
AXES = np.diag([120.0**2, 1e12, 25e10])
TURNED = AXES + np.array([[0, 9e6, 0], [9e6, 0, 1e11], [0, 1e11, 0]])
SERIES = "\n[continual]\nnights = 4\nfirst = 2026-11-01\n"
OLD = Begun(mapped=False, exact=True)

# What version 0.1.0 booked for AXES, whose map is the same on every machine.
OLD_DIGEST = "1df6c884a371c00c7c5501f91801954f29a8f71241a57cb2de5d22ad7340bf75"
OLD_SERIES = "0a6395063b33307695ab87e052ad45b0b84e72f18958a324a61eb11573952aff"


def prepare(folder, matrix=TURNED, section="", kind="second-moment"):
    support.write_records(folder, support.records(100))
    np.save(folder / "shape.npy", matrix)
    path = support.write_config(folder, kind=kind)
    text = path.read_text()
    start, end = text.index("[query.geometry]"), text.index("[privacy]")
    features = "".join(f'  {{ name = "{name}", origin = 0 }},\n' for name in support.FEATURES)
    shape = f'[query.geometry]\nkind = "ellipsoid"\nshape = "shape.npy"\nfeatures = [\n{features}]\n\n'
    path.write_text(text[:start] + shape + text[end:] + section)
    loaded = load_config(path)
    support.set_budget(loaded, 3.0)
    return loaded


def run(loaded, night=NIGHT, begun=None):
    return run_release(make_plan(loaded, night, begun), ThreadCompute(1), "test", lambda *a: None)


def run_as_before(monkeypatch, loaded, night=NIGHT):
    """A release as version 0.1.0 made it, which wrote no map down."""
    with monkeypatch.context() as patch:
        patch.setattr("blockveil.pipeline.releases.workspace.as_begun", lambda plan, ledger: plan)
        return run(loaded, night, OLD)


def killed(monkeypatch, release):
    """A release that ends between the commit of its charge and its noise."""
    with monkeypatch.context() as patch:
        patch.setattr(
            "blockveil.pipeline.releases.charged_steps.noisy_graph",
            lambda *a: (_ for _ in ()).throw(StoreError("a", "b", "c")),
        )
        with pytest.raises(StoreError):
            release()


def bits(outcome):
    group = zarr.open_group(outcome.path, mode="r")
    return {name: array[...].tobytes() for name, array in sorted(group.arrays()) if name != "feature"}


def lapack(monkeypatch, change):
    """Another linear algebra library."""
    genuine = np.linalg.eigh
    monkeypatch.setattr(geometry.np.linalg, "eigh", lambda matrix: change(*genuine(matrix)))


def flipped(values, vectors):
    return values, vectors * np.array([-1.0, 1.0, -1.0])


def another_last_digit(values, vectors):
    # Far above what whole numbers of 2**-32 do not show, far below what a person would see.
    return values, vectors * (1.0 + 2.0**-30)


@pytest.mark.parametrize("kind", ["second-moment", "covariance"])
def test_the_plan_names_the_whole_numbers_of_its_map(tmp_path, kind):
    made = make_plan(prepare(tmp_path, kind=kind), NIGHT)
    mixing = made.question.query.quantiser.coordinates.mixing
    assert made.public["calibration"]["map"] == {"bits": mixing.bits, "sha256": mixing.digest}
    changed = geometry.Mixing(mixing.integers + np.eye(3), mixing.bits)
    assert len({mixing.digest, changed.digest, geometry.Mixing(mixing.integers, mixing.bits - 1).digest}) == 3


def test_directions_of_noise_have_their_map_in_the_plan_too(tmp_path):
    support.write_records(tmp_path, support.records(100))
    np.save(tmp_path / "w.npy", np.array([[1.0, 2.0, 2.0], [2.0, 1.0, -2.0], [2.0, -2.0, 1.0]]) / 3.0)
    path = support.write_config(tmp_path, kind="second-moment")
    shares = (
        'kind = "mvg-exact"\ndirections = "w.npy"\ndirections_source = "public"\nallocation = { kind = "uniform" }\n'
    )
    text = path.read_text()
    path.write_text(text.replace('kind = "shaped-gaussian"\noptimise_for = "relative-error"\n', shares))
    made = make_plan(load_config(path), NIGHT)
    assert made.public["calibration"]["map"]["sha256"] == made.question.query.quantiser.coordinates.mixing.digest


def test_signs_of_eigenvectors_change_neither_the_map_nor_the_plan(tmp_path, monkeypatch):
    loaded = prepare(tmp_path)
    before = make_plan(loaded, NIGHT).digest
    lapack(monkeypatch, flipped)
    assert make_plan(loaded, NIGHT).digest == before


def test_a_release_is_not_finished_with_another_map_than_it_was_begun_with(tmp_path, monkeypatch):
    loaded = prepare(tmp_path)
    killed(monkeypatch, lambda: run(loaded))
    with monkeypatch.context() as patch:
        lapack(patch, another_last_digit)
        with pytest.raises(ReleaseConflict, match="map"):
            run(loaded)
        assert not list(tmp_path.glob("releases/**/*.zarr"))
    assert "same noise" in run(loaded).resumed
    assert len([entry for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED"]) == 1


def test_a_night_of_a_series_never_has_another_map_than_those_before(tmp_path, monkeypatch):
    loaded = prepare(tmp_path, section=SERIES)
    run(loaded)
    with monkeypatch.context() as patch:
        lapack(patch, another_last_digit)
        with pytest.raises(ReleaseConflict, match="map"):
            run(loaded, NEXT)
    run(loaded, NEXT)


def test_what_an_earlier_version_began_has_the_digest_that_it_booked(tmp_path):
    loaded = prepare(tmp_path, AXES, SERIES)
    chained = InLedger(chained=True, number=2)
    old = make_plan(loaded, NEXT, replace(OLD, night=chained))
    assert (old.digest, old.series.digest) == (OLD_DIGEST, OLD_SERIES)
    new = make_plan(loaded, NEXT, Begun(night=chained))
    assert new.digest != old.digest
    assert new.series.digest != old.series.digest


def test_a_release_that_an_earlier_version_began_is_finished_with_the_same_bits(tmp_path, monkeypatch):
    (tmp_path / "new").mkdir()
    loaded = prepare(tmp_path / "new")
    killed(monkeypatch, lambda: run_as_before(monkeypatch, loaded))
    (entry,) = [entry for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED"]
    assert "map" not in entry.payload["spec"]["calibration"]
    shutil.copytree(tmp_path / "new", tmp_path / "old", copy_function=shutil.copy2)
    before = run_as_before(monkeypatch, load_config(tmp_path / "old" / "people.toml"))
    after = run(loaded)
    assert bits(after) == bits(before)
    assert "same noise" in after.resumed
    assert after.charge_id == entry.charge_id


def test_a_series_that_an_earlier_version_began_goes_on_under_its_charge_and_key(tmp_path, monkeypatch):
    loaded = prepare(tmp_path, section=SERIES)
    with monkeypatch.context() as patch:
        patch.setattr("blockveil.pipeline.plan.nights.ByWeights", lambda levels: ByChains(best(levels.nights)))
        run_as_before(monkeypatch, loaded)
        old = make_plan(loaded, NIGHT, OLD)
    spent = Ledger(loaded.ledger_url).budget("people").spent
    run(loaded, NEXT)
    assert Ledger(loaded.ledger_url).budget("people").spent == spent
    plan = Workspace.open(make_plan(loaded, date(2026, 11, 3))).plan
    assert plan.series.digest == old.series.digest


def test_a_release_that_nobody_began_is_written_as_this_version_writes_it(tmp_path, monkeypatch):
    loaded = prepare(tmp_path)
    run_as_before(monkeypatch, loaded)
    new = make_plan(loaded, NEXT)
    assert as_begun(new, Ledger(loaded.ledger_url)) is new
    run(loaded, NEXT)
    last = [entry for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED"][-1]
    assert last.payload["spec"]["calibration"]["map"]["bits"] == 31


def test_a_charge_that_was_given_back_binds_no_later_plan(tmp_path, monkeypatch):
    loaded = prepare(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(
            "blockveil.pipeline.releases.charged_steps.exact_graph",
            lambda *a: (_ for _ in ()).throw(StoreError("a", "b", "c")),
        )
        with pytest.raises(StoreError):
            run_as_before(monkeypatch, loaded)
    assert "map" in Workspace.open(make_plan(loaded, NIGHT)).plan.public["calibration"]
