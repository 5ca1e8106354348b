"""Nights that learn bounds first: however wide the declared ones are, for the same charge, near no rare value."""

import copy
from datetime import timedelta

import numpy as np
import pytest
import zarr

from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.kinds.spread.learning_night import OF_PILOTS
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.study.replay import replay
from blockveil.pipeline.verification.verified import verify
from tests.house.stopping import Stopped
from tests.pipeline.releases.test_learning_stages import EPSILON, VALUES, attributes, correlations, learning
from tests.pipeline.releases.test_release import NIGHT, bits, charges, no_trace, quiet, run, spent
from tests.pipeline.verification.test_stated_stages import failure

NEXT = NIGHT + timedelta(days=1)
WIDTHS = "lower = 0, upper = 120", "lower = 0, upper = 1_000_000", "lower = -500_000, upper = 500_000"


def wide(folder, bound=1e12, values=VALUES, **more):
    """Config of a night that learns bounds within declared ones that are far too wide."""
    loaded = learning(folder, values=values, **more)
    aim = more.get("aim", "correlation")
    text = loaded.path.read_text().replace(f'learn = "{aim}"', f'learn = "{aim}"\nlearn_bounds = true')
    for old in WIDTHS:
        assert old in text
        text = text.replace(old, f"lower = {-bound!r}, upper = {bound!r}")
    loaded.path.write_text(text)
    return load_config(loaded.path)


def pilot(outcome):
    """Bounds of the pilot."""
    features = attributes(outcome)["learned"]["stages"]["nearer_pilot"]["query"]["geometry"]["features"]
    return [(each["lower"], each["upper"]) for each in features[:3]]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_bounds_that_nobody_knows_cost_one_charge_and_hardly_any_error(tmp_path, neighbours):
    loaded = wide(tmp_path, neighbours=neighbours)
    outcomes = [run(loaded), run(loaded, NEXT)]
    assert len(charges(loaded)) == 2
    assert spent(loaded) == pytest.approx(gaussian_mu(EPSILON, 1e-6) * 2**0.5, rel=1e-6)
    for outcome in outcomes:
        assert attributes(outcome)["learned"]["domain"] == "ellipsoid"
        assert np.max(np.abs(correlations(outcome) - np.corrcoef(VALUES.T))) < 0.05
        assert all(finding.holds is not False for finding in verify(outcome.path).findings)
    assert list(attributes(outcomes[0])["learned"]["stages"]) == ["bounds", "nearer_pilot", "rings"]
    assert list(attributes(outcomes[1])["learned"]["stages"]) == ["rings"]
    for (lower, upper), values in zip(pilot(outcomes[0]), VALUES.T, strict=True):
        assert lower < np.quantile(values, 0.05)
        assert upper > np.quantile(values, 0.95)
        assert upper - lower < 100 * values.std()
    no_trace(loaded)


def test_values_far_from_zero_and_close_together_are_found(tmp_path):
    values = VALUES.copy()
    values[:, 0] = 4_100.0 + (VALUES[:, 0] - 45.0) / 4.0
    outcome = run(wide(tmp_path, values=values))
    lower, upper = pilot(outcome)[0]
    assert 4_000 < lower < 4_098 < 4_102 < upper < 4_200
    assert np.max(np.abs(correlations(outcome) - np.corrcoef(VALUES.T))) < 0.1


def test_a_feature_of_which_counts_tell_too_little_keeps_its_declared_bounds_and_hurts_no_other(tmp_path):
    values, rng = VALUES.copy(), np.random.default_rng(8)
    values[:, 1] = np.where(rng.random(len(values)) < 0.03, rng.lognormal(5.0, 4.0, len(values)), 0.0)
    outcome = run(wide(tmp_path, values=values))
    assert pilot(outcome)[1] == (-1e12, 1e12)
    truth = np.corrcoef(VALUES[:, [0, 2]].T)[0, 1]
    assert abs(correlations(outcome)[0, 2] - truth) < 0.05


@pytest.mark.parametrize("size", [1e-9, 1e13])
def test_features_of_very_different_sizes_are_found_in_the_same_bounds(tmp_path, size):
    values = VALUES.copy()
    values[:, 1] *= size / 60_000.0
    loaded = wide(tmp_path, 1e15, values=values)
    for night in (NIGHT, NEXT):
        outcome = run(loaded, night)
        assert np.max(np.abs(correlations(outcome) - np.corrcoef(VALUES.T))) < 0.1
        assert all(finding.holds is not False for finding in verify(outcome.path).findings)


def test_a_plan_states_nothing_with_a_unit_where_sizes_are_learned(tmp_path):
    plan = make_plan(wide(tmp_path), NIGHT)
    lines = dict(assess(plan, Population.of(plan, Supposed(6_000, 0.5, 0.167))).lines())
    assert "what has a unit is not known beforehand" in lines["Supposed"]
    assert not any("age" in name or "income" in name for name in lines)
    assert any("correlation" in name for name in lines)


def test_a_feature_of_one_value_is_learned_beside_others(tmp_path):
    values = VALUES.copy()
    values[:, 1] = 7.0
    outcome = run(wide(tmp_path, values=values))
    lower, upper = pilot(outcome)[1]
    assert 0.0 < lower <= 7.0 <= upper < 20.0
    assert abs(correlations(outcome)[0, 2] - np.corrcoef(VALUES[:, [0, 2]].T)[0, 1]) < 0.05


def test_missing_values_that_are_replaced_are_counted_in_no_bin(tmp_path):
    values = VALUES.copy()
    values[::7, 2] = np.nan
    loaded = wide(tmp_path, values=values)
    text = loaded.path.read_text().replace('missing = "refuse"', 'missing = "impute"')
    for name in ("age", "income", "debt"):
        text = text.replace(f'name = "{name}", lower', f'name = "{name}", impute = 7.0, lower')
    loaded.path.write_text(text)
    outcome = run(load_config(loaded.path))
    assert attributes(outcome)["learned"]["stages"]["bounds"]["query"]["missing"] == "drop"
    assert all(finding.holds is not False for finding in verify(outcome.path).findings)


@pytest.mark.parametrize("stop", range(1, 9))
def test_a_night_that_ends_at_any_stage_is_finished_with_the_same_bits(tmp_path, monkeypatch, stop):
    monkeypatch.setattr("blockveil.pipeline.releases.keys.token_bytes", lambda size: bytes(range(size)))
    found = []
    for ends in (0, stop):
        folder, calls = tmp_path / str(ends), []
        folder.mkdir()
        loaded = wide(folder)

        class Ending(ThreadCompute):
            def hold(self, graph, progress, ends=ends, calls=calls):
                self.count(ends, calls)
                return super().hold(graph, progress)

            def stream(self, values, consume, progress, ends=ends, calls=calls):
                self.count(ends, calls)
                super().stream(values, consume, progress)

            def count(self, ends, calls):
                calls.append(1)
                if len(calls) == ends:
                    raise Stopped

        if ends:
            with pytest.raises(Stopped):
                run(loaded, compute=Ending(2))
            assert (spent(loaded) == 0.0) == (stop == 1)
        found.append(bits(run(loaded)))
        assert spent(loaded) == pytest.approx(gaussian_mu(EPSILON, 1e-6), rel=1e-6)
        assert KeyStore(loaded.keys_root).list() == []
    assert found[0] == found[1]


def test_the_counts_have_half_of_what_pilots_have_and_the_charge_is_fixed_beforehand(tmp_path):
    plan = make_plan(wide(tmp_path), NIGHT)
    stages = plan.designed.learning
    parts = [stages.bounds.design.loss.mu, stages.pilot.loss.mu, stages.rings.design.loss.mu, plan.design.loss.mu]
    assert sum(mu**2 for mu in parts) <= plan.charge.mu**2
    assert parts[0] ** 2 / plan.charge.mu**2 == pytest.approx(OF_PILOTS / 2.0, rel=1e-3)
    assert "in bounds that are learned too" in dict(describe(plan, None))["Learns"]
    for last in stages.extremes():
        assert plan.of_last_stage(last).digest == plan.digest


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_neighbours_differ_by_no_more_than_is_charged(tmp_path, neighbours):
    plan = make_plan(wide(tmp_path, 1e6, neighbours=neighbours), NIGHT)
    found = replay(plan, ThreadCompute(1), quiet, draws=False)
    assert not found.refutations
    assert found.share > 0.9


@pytest.mark.parametrize("bound", [1e30, 1e-20, 3.0])
def test_whatever_can_be_declared_is_refused_beforehand_or_released(tmp_path, bound):
    try:
        plan = make_plan(wide(tmp_path, bound), NIGHT)
    except ConfigError:
        return
    assert verify(run(plan.loaded).path).findings[2].holds


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('learn = "correlation"\n', 'learn = "covariance"\n', "declared bounds"),
        ('learn = "correlation"\n', "", "without learn"),
        ('name = "age"', 'name = "age, digits"', "digits"),
        ('name = "age"', 'count = 4_000, name = "age"', "4,002 features"),
    ],
)
def test_bounds_that_cannot_be_learned_are_refused_by_name(tmp_path, old, new, words):
    loaded = wide(tmp_path)
    loaded.path.write_text(loaded.path.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=words):
        load_config(loaded.path)


def _shifted(stated, end, factor):
    stated["learned"]["stages"]["nearer_pilot"]["query"]["geometry"]["features"][1][end] *= factor


FORGED = {
    "bounds at no end of a bin": lambda stated, _: _shifted(stated, "upper", 1.0001),
    "bounds beyond the declared": lambda stated, _: _shifted(stated, "upper", 2.0**40),
    "less noise in the counts": lambda stated, _: stated["learned"]["stages"]["bounds"]["mechanism"].update(scale=1.0),
    "no counts": lambda stated, _: stated["learned"]["stages"].pop("bounds"),
    "counts between steps": lambda _, arrays: arrays.update(bounds_histograms=arrays["bounds_histograms"] + 0.3),
    "less that was lost": lambda _, arrays: arrays.update(clipped_variance=arrays["clipped_variance"] / 2.0),
}


@pytest.mark.parametrize("forged", FORGED)
def test_what_a_night_states_of_its_bounds_and_did_not_do_is_found(tmp_path, forged):
    group = zarr.open_group(run(wide(tmp_path)).path, mode="r")
    stated, arrays = copy.deepcopy(group.attrs.asdict()), {name: array[...] for name, array in group.arrays()}
    assert failure(stated, arrays) is None
    FORGED[forged](stated, arrays)
    assert failure(stated, arrays) is not None
