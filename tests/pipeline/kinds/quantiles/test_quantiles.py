"""Quantiles of columns are released end to end: near the truth, the same bits for all blocks, dates as dates."""

from datetime import date
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
import zarr

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.report import make_report, own_units
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.verification.checked_arrays import OtherArray
from blockveil.pipeline.verification.released_arrays import ArrayCheck
from blockveil.pipeline.verification.stated_sensitivity import moved
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.pipeline.questions.test_queries import NIGHT, config, run

QUERY = """kind = "quantiles"
rows_at_most = 500
missing = "drop"
probabilities = [0.05, 0.5, 0.95]
axes = [
  { name = "age", cells = 121 },
  { name = "born", since = 2000-01-01, lower = 1940-01-01, upper = 2010-01-01, cells = 400 },
  { name = "debt", edges = [-500_000, -50_000, 0, 50_000, 500_000] },
]
"""
FOUR = """kind = "quantiles"
rows_at_most = 500
missing = "refuse"
probabilities = [0.1, 0.5]
axes = [
  { name = "a", lower = -1, upper = 1, cells = 16 },
  { name = "b", lower = -1, upper = 1, cells = 16 },
  { name = "c", lower = -1, upper = 1, cells = 8 },
  { name = "d", cells = 3 },
]
"""
"""Of any four columns."""

ADD, GAUSSIAN = "add-remove", 'kind = "gaussian"'
RNG = np.random.default_rng(5)
VALUES = np.column_stack([RNG.integers(18, 90, 400), RNG.integers(-20_000, 3_000, 400), RNG.normal(0.0, 1e5, 400)])
VALUES[::50, 2] = np.nan


def asked(folder, query=QUERY, values=VALUES, **settings):
    support.write_records(folder, values)
    loaded = config(folder, query, **{"neighbours": ADD, "mechanism": GAUSSIAN, **settings})
    support.set_budget(loaded, 150.0)
    return loaded


@pytest.mark.parametrize("neighbours", [ADD, "replace-one"])
@pytest.mark.parametrize("missing", ["drop", "refuse"])
def test_the_release_holds_the_quantiles_in_its_intervals_and_a_report_shows_them(tmp_path, neighbours, missing):
    values = VALUES if missing == "drop" else np.nan_to_num(VALUES)
    query = QUERY.replace('"drop"', f'"{missing}"').replace("kind =", "confidence = 0.999\nkind =")
    loaded = asked(tmp_path, query, values, neighbours=neighbours)
    plan, outcome = run(loaded)
    group = zarr.open_group(outcome.path, mode="r")
    truth = np.nanquantile(np.clip(values, None, 500_000.0), [0.05, 0.5, 0.95], axis=0, method="inverted_cdf").T
    assert np.all(group["quantile_lower"][...] <= truth)
    assert np.all(truth <= group["quantile_upper"][...])
    assert np.all(group["quantile_lower"][...] <= group["quantile"][...])
    assert np.all(np.diff(group["quantile"][...], axis=1) >= 0.0)
    # Noise is a few ranks in 400: of ages and days these are known to a few years.
    assert np.max(np.abs(group["quantile"][...] - truth)[0]) < 8.0
    deviation = group["cumulative_standard_deviation"][...]
    assert np.array_equal(deviation > 0.0, ~np.isnan(group["cell_lower"][...]))
    ages = np.unique(group["cell_upper"][0][deviation[0] > 0.0])
    exact = [np.sum(values[:, 0] <= age) for age in ages]
    assert np.max(np.abs(group["cumulative"][0, : ages.size] - exact) / deviation[0, : ages.size]) < 6.0
    assert Ledger(loaded.ledger_url).budget("people").spent_mu == pytest.approx(plan.charge.mu)
    assert "the rank of a quantile" in dict(describe(plan, None))["Expected error"]
    shown = own_units.by_feature(Facts(read_release(outcome.path)))
    assert [row["column"] for row in shown] == ["age", "born", "debt"]
    value, _, interval = shown[1]["quantile at 0.5"].partition(" (")
    assert abs(date.fromisoformat(value).toordinal() - date(2000, 1, 1).toordinal() - truth[1, 1]) < 3000
    assert " to " in interval
    assert value in make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text()


def test_the_same_bits_are_released_for_all_blocks(tmp_path):
    arrays = []
    for rows in (50, 400):
        folder = tmp_path / str(rows)
        folder.mkdir()
        with mock.patch("blockveil.pipeline.releases.charged_steps.NoiseKey.derive", return_value=NoiseKey(bytes(32))):
            _, outcome = run(asked(folder, block_rows=rows))
        arrays.append(zarr.open_group(outcome.path, mode="r")["cumulative"][...])
    assert np.array_equal(*arrays)


def test_probabilities_cost_nothing_and_columns_and_rows_of_a_unit_do(tmp_path):
    def deviation(query=QUERY, **settings):
        plan = make_plan(config(tmp_path, query, neighbours=ADD, mechanism=GAUSSIAN, **settings), NIGHT)
        return plan.answer.rank_deviations()

    usual = deviation()
    many = deviation(QUERY.replace("0.5, 0.95", "0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95"))
    assert many[:, [0, 5, 10]] == pytest.approx(usual)
    alone = QUERY.replace('  { name = "born"', '  #{ name = "born"').replace('  { name = "debt"', '  #{ name = "debt"')
    assert usual[0, 1] / deviation(alone)[0, 1] == pytest.approx(np.sqrt(1 + 2.37 / 1.95 + 0.8 / 1.95), rel=0.1)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[0.05, 0.5, 0.95]", "[0.5, 0.05]", "increase strictly"),
        ("[0.05, 0.5, 0.95]", "[0.5, 1.0]", "less than 1"),
        ("cells = 121", "cells = 2", "3 to 4096 cells"),
        ("cells = 121", "cells = 5000", "3 to 4096 cells"),
        ("since = 2000-01-01, ", "", "number"),
        ("upper = 2010-01-01, cells = 400", "upper = 1940-01-01, cells = 400", "lower must be below upper"),
        ("cells = 121", "lower = 1e20, upper = 1.0000000000000001e20, cells = 4096", "different numbers"),
    ],
)
def test_what_is_not_declared_is_refused(tmp_path, before, after, message):
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, QUERY.replace(before, after))


def test_laplace_noise_has_a_pure_epsilon_and_intervals_by_a_bound_of_its_sums(tmp_path):
    mechanism = 'kind = "laplace"\noptimise_for = "absolute-error"'
    plan, outcome = run(asked(tmp_path, mechanism=mechanism))
    assert plan.charge.mu == 0.0
    group = zarr.open_group(outcome.path, mode="r")
    truth = np.nanquantile(np.clip(VALUES, None, 500_000.0), [0.05, 0.5, 0.95], axis=0, method="inverted_cdf").T
    assert np.all((group["quantile_lower"][...] <= truth) & (truth <= group["quantile_upper"][...]))


@pytest.mark.parametrize("missing", ["drop", "refuse"])
@pytest.mark.parametrize("neighbours", [ADD, "replace-one"])
def test_sensitivity_and_arrays_are_recomputed_and_others_are_refuted(tmp_path, neighbours, missing):
    query = QUERY.replace('"drop"', f'"{missing}"')
    _, outcome = run(asked(tmp_path, query, np.nan_to_num(VALUES), neighbours=neighbours))
    checked = {each.what: each for each in verify(outcome.path).findings}
    assert checked["Sensitivity"].words.startswith("recomputed")
    assert checked["Sensitivity"].holds
    assert checked["Arrays"].holds, checked["Arrays"].words
    assert "not checked" not in checked["Arrays"].words
    release = zarr.open_group(outcome.path, mode="r")
    stated, arrays = dict(release.attrs), {name: array[...] for name, array in release.arrays()}
    for name, wrong in (
        ("cumulative", arrays["cumulative"] + 1e-3),
        ("cumulative_standard_deviation", arrays["cumulative_standard_deviation"] * 1.05),
        ("quantile", arrays["quantile"][:, ::-1]),
        ("quantile_upper", arrays["quantile_upper"] + 0.5),
        ("cell_lower", arrays["cell_lower"] - 1.0),
        ("measured_kernel", arrays["measured_kernel"] * 2),
    ):
        with pytest.raises(OtherArray):
            ArrayCheck(stated, {**arrays, name: wrong}).run()
    claimed = Fraction(stated["mechanism"]["sensitivity"]) ** 2
    own = moved(stated, arrays)
    assert own.most <= claimed
    assert claimed * Fraction(95, 100) ** 2 < own.least <= claimed
    larger = moved(stated, {**arrays, "measured_kernel": arrays["measured_kernel"] * 2})
    assert larger.least > claimed
    of_lengths = {**stated["mechanism"], "grid": "K-norm of rate 1/9, length of 7 entries, version 1"}
    with pytest.raises(ValueError, match="quantiles"):  # no bound of it is known in that norm
        moved({**stated, "mechanism": of_lengths}, arrays)
    with pytest.raises(KeyError, match="others"):  # what builds on ours may move by more
        moved({**stated, "query": {**stated["query"], "kind": "others"}}, arrays)
