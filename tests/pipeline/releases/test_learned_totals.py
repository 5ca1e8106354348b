"""Totals that learn where records lie: one charge each night, whatever the declared bounds, and errors that hold."""

import json
from datetime import timedelta

import numpy as np
import pytest
import zarr

from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.report import write_report
from blockveil.pipeline.verification.verified import verify
from tests.pipeline.releases.test_learned_bounds import WIDTHS, wide
from tests.pipeline.releases.test_learning_stages import EPSILON, ROWS, VALUES, attributes, learning
from tests.pipeline.releases.test_release import NIGHT, charges, no_trace, run, spent

NEXT = NIGHT + timedelta(days=1)


@pytest.fixture(autouse=True)
def same_noise(monkeypatch):
    monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))


def scores(outcome, values=VALUES):
    """Errors of means over the standard errors that the release states, and in standard deviations of the records."""
    group = zarr.open_group(outcome.path, mode="r")
    apart = group["mean"][...] - values.mean(axis=0)
    return apart / group["mean_standard_deviation"][...], apart / values.std(axis=0)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_means_in_wide_bounds_are_as_exact_as_in_near_ones_for_one_charge_a_night(tmp_path, neighbours):
    loaded = learning(tmp_path, "mean", neighbours=neighbours)
    text = loaded.path.read_text()
    for old, new in zip(WIDTHS, (1_200, 10_000_000, 5_000_000), strict=True):
        text = text.replace(old, f"lower = -{new}, upper = {new}")
    loaded.path.write_text(text)
    loaded = load_config(loaded.path)
    for night in (NIGHT, NEXT):
        outcome = run(loaded, night)
        assert attributes(outcome)["learned"]["domain"] == "ellipsoid"
        assert list(attributes(outcome)["learned"]["stages"]) == ["nearer_pilot", "pilot", "rings"]
        assert np.max(np.abs(scores(outcome)[1])) < 0.05
        assert all(finding.holds is not False for finding in verify(outcome.path).findings)
    assert len(charges(loaded)) == 2
    assert spent(loaded) == pytest.approx(gaussian_mu(EPSILON, 1e-6) * 2**0.5, rel=1e-6)
    no_trace(loaded)


def test_means_of_columns_of_which_nobody_knows_bounds_take_one_charge(tmp_path):
    loaded = wide(tmp_path, aim="mean")
    outcome = run(loaded)
    assert list(attributes(outcome)["learned"]["stages"]) == ["bounds", "nearer_pilot", "rings"]
    assert np.max(np.abs(scores(outcome)[1])) < 0.05
    assert len(charges(loaded)) == 1
    assert all(finding.holds is not False for finding in verify(outcome.path).findings)


def test_standard_errors_hold_what_shortening_takes_of_skewed_records(tmp_path):
    values = np.random.default_rng(4).lognormal(0.0, 1.2, (ROWS, 3)) * [4.0, 9_000.0, 9_000.0]
    inside = np.clip(values, [0, 0, -500_000], [120, 1_000_000, 500_000])
    loaded = learning(tmp_path, "mean", values=values, epsilon=1.0)
    found = [scores(run(loaded, NIGHT.replace(day=day)), inside) for day in range(20, 26)]
    assert 0.1 < np.sqrt(np.mean([np.square(score) for score, _ in found])) < 1.5
    shares = [attributes(run(loaded, NIGHT.replace(day=day)))["learned"]["clipped_share"] for day in range(20, 26)]
    assert np.mean(shares) > 0.0


def test_totals_and_means_have_the_same_error_by_shortening(tmp_path):
    values = np.random.default_rng(4).lognormal(0.0, 1.2, (ROWS, 3)) * [0.4, 900.0, 900.0]
    group = zarr.open_group(run(learning(tmp_path, "mean", values=values, neighbours="replace-one")).path, mode="r")
    means, totals = (group[f"{name}_standard_deviation"][...] for name in ("mean", "totals"))
    assert np.allclose(totals, ROWS * means)
    assert np.all(group["clipped_variance"][...] > 0.0)


def test_records_that_fill_their_bounds_and_are_many_stay_in_the_box(tmp_path):
    corners = np.random.default_rng(3).integers(0, 2, (ROWS, 3)) * 2.0 - 1.0
    values = np.array([60.0, 500_000.0, 0.0]) + corners * [60.0, 500_000.0, 500_000.0]
    stated = attributes(run(learning(tmp_path, "mean", values)))
    assert stated["learned"]["domain"] == "box"
    assert stated["query"]["geometry"]["kind"] == "box"


def test_which_means_stand_out_is_judged_from_the_declared_origin_and_not_from_where_records_were_found(tmp_path):
    outcome = run(learning(tmp_path, "mean"))
    assert write_report(outcome.path)
    said = dict(json.loads(next(outcome.path.parent.glob("*.report.json")).read_text())["in_words"])
    assert said["Means"].startswith("3 of the 3 means are further from the origin")
    assert "learned for means" in said["Shape"]


def test_a_plan_states_errors_of_means_in_standard_deviations_where_no_size_is_known(tmp_path):
    plan = make_plan(wide(tmp_path, aim="mean"), NIGHT)
    said = dict(assess(plan, Population.of(plan, Supposed(rows=ROWS))).lines())
    assert set(said) == {"Supposed", "Known to", "  count", "  a mean, in standard deviations of its feature"}
    stated = float(said["  a mean, in standard deviations of its feature"].split()[-1])
    apart = scores(run(load_config(plan.loaded.path)))[1]
    assert np.max(np.abs(apart)) < 2.0 * stated < 0.1


def test_a_plan_says_what_a_night_of_totals_learns(tmp_path):
    said = dict(describe(make_plan(learning(tmp_path, "mean"), NIGHT), None))["Learns"]
    assert "releases their totals" in said
    assert "release before" not in said


@pytest.mark.parametrize(
    ("old", "new"),
    [('learn = "mean"', 'learn = "correlation"'), ("[query.geometry]", "quantisation_bits = 24\n[query.geometry]")],
)
def test_what_totals_cannot_learn_is_refused_by_name(tmp_path, old, new):
    loaded = learning(tmp_path, "mean")
    assert old in loaded.path.read_text()
    loaded.path.write_text(loaded.path.read_text().replace(old, new))
    with pytest.raises(ConfigError, match="learn"):
        load_config(loaded.path)
