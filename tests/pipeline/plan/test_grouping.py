"""Several rows a unit: the noise hides all of them, and the ledger books what that is worth."""

from __future__ import annotations

import math
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.guarantees.calibration import CannotCalibrate, gaussian_delta
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss
from blockveil.pipeline.base.errors import BudgetExhausted, ConfigError, DataError
from blockveil.pipeline.config import PrivacySection, load_config
from blockveil.pipeline.plan.grouping import charge_of_a_unit, guarantee_of_a_row
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.test_contract import RELEASE

NIGHT = date(2026, 11, 20)
WHOLE = ApproxDP(1.0, 1e-6)


def section(rows, **changes):
    fields = {"epsilon": 1.0, "delta": 1e-6, "neighbours": "add-remove", "unit": "one person", **changes}
    return PrivacySection.model_validate({**fields, "rows_per_unit": rows})


def plan(folder, rows=None, mechanism='kind = "gaussian"', kind="covariance", neighbours="add-remove"):
    named = ", ".join(f'{{name = "{name}", lower = 0, upper = 1}}' for name in ("cost", "stay"))
    more = "" if rows is None else f", rows_per_unit = {rows}"
    text = RELEASE.format(unit="one person", neighbours=neighbours, kind=kind, features=named, more=more)
    (folder / "release.toml").write_text(text.replace('{kind = "gaussian"}', f"{{{mechanism}}}"))
    return make_plan(load_config(folder / "release.toml"), NIGHT)


@pytest.mark.parametrize("rows", [2, 3, 10, 1000])
def test_gaussian_noise_grows_by_the_number_of_rows(tmp_path, rows):
    one, many = plan(tmp_path), plan(tmp_path, rows)
    # Independent of the way through a guarantee for one row: k rows have at most k times the sensitivity of one.
    assert many.design.scale == pytest.approx(rows * one.design.scale, rel=1e-3)
    assert many.design.scale > rows * many.design.sensitivity.bound / many.charge.mu
    assert many.charge.mu == pytest.approx(one.charge.mu, rel=1e-6)
    assert many.charge.mu >= rows * many.design.loss.mu
    assert many.charge.delta(1.0) <= many.guarantee.delta


@pytest.mark.parametrize(
    "mechanism",
    [
        'kind = "laplace", optimise_for = "relative-error"',
        'kind = "auto", minimise = "total"',
        'kind = "classic-gaussian"',
    ],
)
def test_every_mechanism_keeps_the_guarantee_of_the_unit(tmp_path, mechanism):
    made = plan(tmp_path, 4, mechanism)
    assert made.charge.delta(made.guarantee.epsilon) <= made.guarantee.delta
    assert made.charge.mu + made.charge.epsilon >= 4 * (made.design.loss.mu + made.design.loss.epsilon)
    assert made.public["calibration"]["loss"]["mu"] == made.charge.mu


def test_one_row_a_unit_changes_nothing(tmp_path):
    assert plan(tmp_path, 1).design.scale == plan(tmp_path).design.scale
    assert plan(tmp_path, 1).charge == plan(tmp_path).charge == plan(tmp_path).design.loss
    assert "rows_per_unit" not in plan(tmp_path).public["privacy"]


@given(st.floats(0.01, 20), st.floats(1e-12, 1e-2), st.integers(2, 1000))
def test_the_guarantee_of_a_row_amounts_to_that_of_the_unit(epsilon, delta, rows):
    whole, privacy = ApproxDP(epsilon, delta), section(rows, epsilon=epsilon, delta=delta)
    row = guarantee_of_a_row(whole, privacy)
    assert rows * row.epsilon <= epsilon
    pure = charge_of_a_unit(Loss(0.0, row.epsilon, 0.0), whole, privacy)
    assert rows * row.epsilon <= pure.epsilon <= epsilon


def test_a_unit_is_charged_what_its_rows_cost_one_after_the_other():
    privacy = section(3)
    unit = charge_of_a_unit(Loss(0.01, 0.1, 1e-12), WHOLE, privacy)
    assert unit.mu == pytest.approx(0.03)
    assert unit.epsilon == pytest.approx(0.3)
    assert unit.total_variation == pytest.approx(1e-12 * (1 + math.exp(0.1) + math.exp(0.2)))
    assert unit.mu >= 0.03
    assert unit.epsilon >= 3 * 0.1
    # Composed step by step: three neighbours of epsilon and delta, as in Vadhan's Lemma 2.2.
    assert unit.total_variation >= sum(1e-12 * math.exp(0.1 * i) for i in range(3))


def test_a_mechanism_that_was_calibrated_to_the_unit_instead_of_the_row_is_refused():
    mu = 0.2
    while gaussian_delta(mu, WHOLE.epsilon) < WHOLE.delta:
        mu *= 1.001
    with pytest.raises(CannotCalibrate, match="the loss of 2 rows exceeds"):
        charge_of_a_unit(Loss(mu / 1.01, 0.0, 0.0), WHOLE, section(2))


def test_several_rows_need_add_remove(tmp_path):
    with pytest.raises(ConfigError, match=r'privacy\.rows_per_unit: 2 with neighbours = "replace-one"'):
        plan(tmp_path, 2, neighbours="replace-one")


def test_the_plan_says_how_many_rows(tmp_path):
    shown = dict(describe(plan(tmp_path, 3), None))
    assert shown["Neighbours"] == "add-remove; one person, at most 3 rows each"


def test_a_release_over_rows_of_units_needs_noise_for_all_of_them(tmp_path):
    people.write_parquet(tmp_path, people.visits())
    columns = [people.NUMBER, people.COLUMNS[1]]
    people.run(people.configure(tmp_path, columns, unit=people.CHOOSE.format(most=3)))
    for rows in (None, 1, 2):
        few = plan(tmp_path, rows)
        support.set_budget(few.loaded)
        with pytest.raises(DataError, match=r"3 rows in the store and privacy\.rows_per_unit is [12]"):
            run_release(few, ThreadCompute(2), "test", lambda stage, share: None)
    for rows in (3, 5):
        made = plan(tmp_path, rows)
        (tmp_path / "ledger.db").unlink(missing_ok=True)
        support.set_budget(made.loaded, epsilon=1.0, delta=1e-9)
        outcome = run_release(made, ThreadCompute(2), "test", lambda stage, share: None)
        assert outcome.path.exists()
        # The whole of the budget is the whole of one unit's loss.
        other = make_plan(made.loaded, date(2026, 11, 21))
        with pytest.raises(BudgetExhausted):
            run_release(other, ThreadCompute(2), "test", lambda stage, share: None)
        for folder in ("out", "keys"):
            (tmp_path / folder).rename(tmp_path / f"{folder}-{rows}")


def test_rows_that_no_ingest_bounded_are_refused(tmp_path):
    loaded = support.prepare(tmp_path)
    loaded.path.write_text(loaded.path.read_text().replace("delta = 1e-6", "delta = 1e-6\nrows_per_unit = 2"))
    with pytest.raises(DataError, match="records that were not ingested"):
        run_release(make_plan(load_config(loaded.path), NIGHT), ThreadCompute(2), "test", lambda stage, share: None)
