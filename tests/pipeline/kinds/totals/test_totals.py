"""Count, totals and means are released near the truth with honest errors, charged as planned, in every shape."""

import dataclasses
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr
from scipy import stats

import blockveil as bv
from blockveil.engine.answers.layout import Tile
from blockveil.engine.estimates.ratios import RatioErrors
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Ball, Box, Ellipsoid
from blockveil.pipeline.base.errors import ConfigError, DataError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import rounded
from blockveil.pipeline.plan.excess_noise import advised, excess_noise, with_section
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support
from tests.pipeline.questions import test_queries as queries
from tests.pipeline.questions.test_queries import NIGHT, config, prepare, run

CONFIGS = Path(__file__).parents[4] / "configs"
TOTALS = queries.ROWS.replace('"rows"', '"totals"')
MIDDLE = TOTALS.replace("lower = -1, upper = 1", "lower = 0, upper = 10")
CAPPED = TOTALS.replace('origin = "midpoint"', 'origin = "midpoint"\nnorm_at_most = 0.5')
BALL = """kind = "totals"
rows_at_most = 500
missing = "refuse"
[query.geometry]
kind = "ball"
radius = 1.0
features = [ { name = "x", origin = 0.25, count = 4 } ]
"""
ELLIPSOID = BALL.replace('"ball"\nradius = 1.0', '"ellipsoid"\nshape = "shape.npy"')
QUERIES = {"box": TOTALS, "box off zero": MIDDLE, "box in a ball": CAPPED, "ball": BALL, "ellipsoid": ELLIPSOID}
MATRIX = np.array([[2.0, 0.5, 0.0, 0.0], [0.5, 1.0, 0.2, 0.0], [0.0, 0.2, 1.0, 0.0], [0.0, 0.0, 0.0, 0.5]])
ONE = np.ones(4)
SHAPES = {
    "box": Box(-ONE, ONE, 0 * ONE),
    "box off zero": Box(0 * ONE, 10 * ONE, 5 * ONE),
    "box in a ball": Box(-ONE, ONE, 0 * ONE, 0.5),
    "ball": Ball(0.25 * ONE, 1.0),
    "ellipsoid": Ellipsoid(0.25 * ONE, MATRIX),
}
LAPLACE = 'kind = "laplace"\noptimise_for = "absolute-error"'
GAUSSIAN = 'kind = "gaussian"'


def records(name):
    return queries.VALUES * 4.0 + 3.0 if name == "box off zero" else queries.VALUES


def clipped(name):
    """Records inside the shape, by a formula of its own."""
    shape, values = SHAPES[name], records(name)
    if isinstance(shape, Box):
        values = np.clip(values, shape.lower, shape.upper)
        norm = np.inf if shape.norm_at_most is None else shape.norm_at_most
        root = np.eye(4)
    else:
        norm, root = 1.0, np.linalg.inv(MATRIX if isinstance(shape, Ellipsoid) else np.eye(4))
    about = values - shape.origin
    length = np.sqrt(np.einsum("ij,jk,ik->i", about, root, about))
    return shape.origin + about * np.minimum(1.0, norm / np.maximum(length, 1e-300))[:, None]


def planned(folder, query, **settings):
    np.save(folder / "shape.npy", MATRIX)
    support.write_records(folder, queries.VALUES)
    return make_plan(config(folder, query, **settings), NIGHT)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", QUERIES)
def test_the_release_is_near_the_truth_with_honest_errors(tmp_path, name, relation):
    np.save(tmp_path / "shape.npy", MATRIX)
    loaded = prepare(tmp_path, QUERIES[name], records(name), neighbours=relation)
    plan, outcome = run(loaded)
    group, inside = zarr.open_group(outcome.path, mode="r"), clipped(name)
    assert set(group.array_keys()) == {
        "feature",
        *(f"{what}{noise}" for what in ("count", "totals", "mean") for noise in ("", "_standard_deviation")),
    }
    for what, truth in (("totals", inside.sum(axis=0)), ("mean", inside.mean(axis=0))):
        ratio = (group[what][...] - truth) / group[f"{what}_standard_deviation"][...]
        assert np.max(np.abs(ratio)) < 7  # seven standard deviations, rounding included
    if relation == "replace-one":
        assert (group["count"][()], group["count_standard_deviation"][()]) == (400, 0)
    else:
        assert abs(group["count"][()] - 400) < 7 * group["count_standard_deviation"][()]
    assert list(group["feature"][...]) == ["x1", "x2", "x3", "x4"]
    assert group.attrs["matrix"] == "totals"
    spent = Ledger(loaded.ledger_url).budget("people")
    assert spent.spent_mu == pytest.approx(plan.charge.mu)
    assert plan.charge.delta(8.0) <= 1e-6


def simulated(plan, values, releases):
    """Released integers of many keys for the exact sums of records, shape (releases, columns)."""
    design, query = plan.design, plan.question.query
    (exact,) = query.partial(values, 0, len(values), len(values), [Tile((0, 1), (0, design.shape[1]))])
    tall = dataclasses.replace(design, spread=dataclasses.replace(design.spread, rows=np.ones(releases)))
    return tall.release(NoiseKey(bytes(range(32))), np.repeat(exact, releases, axis=0)), exact


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_noise_has_the_stated_size_and_a_scale_wrong_by_5_percent_is_rejected(tmp_path, relation):
    plan = planned(tmp_path, MIDDLE, neighbours=relation)
    values, releases = records("box off zero"), 12_000
    released, exact = simulated(plan, values, releases)
    design = plan.design
    noise = released * design.steps((0, 1), (0, design.shape[1])) / design.shifted_unit - exact / design.unit
    unit = (noise / design.entry_standard_deviation()).ravel()
    # alpha 1e-9 with a fixed key: the mean square of so many unit Gaussians, whose variance is 2.
    bound = stats.norm.isf(0.5e-9) * np.sqrt(2.0 / unit.size)
    assert abs(np.mean(unit**2) - 1.0) < bound
    assert abs(np.mean((1.05 * unit) ** 2) - 1.0) > bound
    assert abs(np.mean((unit / 1.05) ** 2) - 1.0) > bound
    # The same of totals in raw units, whose noise has that of the count in it.
    arrays = [plan.answer.arrays(row[None, :], len(values)) for row in released[:4000]]
    totals = np.array([found["totals"][0] for found in arrays])
    ratio = (totals - clipped("box off zero").sum(axis=0)) / arrays[0]["totals_standard_deviation"][0]
    for column in ratio.T:  # columns share the count's noise, so each is looked at alone
        bound = stats.norm.isf(0.5e-9) * np.sqrt(2.0 / column.size)
        assert abs(np.mean(column**2) - 1.0) < bound + 1e-3  # rounding of records adds less


@pytest.mark.parametrize(("epsilon", "rows"), [(8.0, 400), (1.0, 400), (0.3, 60)])
@pytest.mark.parametrize("mechanism", [None, LAPLACE], ids=["gaussian", "laplace"])
def test_intervals_of_means_hold_as_often_as_they_say(tmp_path, epsilon, rows, mechanism):
    """1,000 releases; the last setting has a count of 60 with noise of about 20, where a ratio is far from Gaussian."""
    plan = planned(tmp_path, MIDDLE, neighbours="add-remove", epsilon=epsilon, mechanism=mechanism)
    values = records("box off zero")[:rows]
    truth, origin = clipped("box off zero")[:rows].mean(axis=0), plan.question.origin
    released, _ = simulated(plan, values, 1000)
    held, stated = [], []
    size = stats.norm.isf(0.025)
    for row in released:
        found = plan.answer.arrays(row[None, :], rows)
        count = float(found["count"][0]), float(found["count_standard_deviation"][0])
        mean, deviation = found["mean"][0], found["mean_standard_deviation"][0]
        low, high = RatioErrors.of(mean - origin, deviation, count, 3.0).interval_of_mean(size)
        held.append((low <= truth - origin) & (truth - origin <= high))
        stated.append(np.abs(mean - truth) <= size * deviation)
    coverage = np.mean(held, axis=0)
    if mechanism is None:
        assert np.all((coverage >= 0.93) & (coverage <= 0.97)), coverage
    else:  # sums of Laplace noise within 1.96 of their deviations: between Gaussian and Laplace
        assert np.all((coverage >= 0.92) & (coverage <= 0.98)), coverage
    if epsilon == 8.0:
        assert np.all((np.mean(stated, axis=0) >= 0.92) & (np.mean(stated, axis=0) <= 0.98))


def test_a_wrong_scale_of_the_errors_would_be_seen_in_the_coverage(tmp_path):
    plan = planned(tmp_path, MIDDLE, neighbours="add-remove")
    values, truth = records("box off zero"), clipped("box off zero").mean(axis=0)
    released, _ = simulated(plan, values, 20_000)
    lead = plan.design.entry_standard_deviation()[0]
    value = released * plan.design.steps((0, 1), (0, 5)) / plan.design.shifted_unit
    about = (truth - plan.question.origin) / plan.question.coordinates.scale
    # Fieller's pivot of the first mean: exactly a unit Gaussian at the true mean.
    pivot = (value[:, 1] - about[0] * value[:, 0]) / np.hypot(lead[1], about[0] * lead[0])
    bound = stats.norm.isf(0.5e-9) * np.sqrt(2.0 / pivot.size)
    assert abs(np.mean(pivot**2) - 1.0) < bound
    assert abs(np.mean((1.05 * pivot) ** 2) - 1.0) > bound
    assert abs(np.mean((pivot / 1.05) ** 2) - 1.0) > bound


def test_the_sums_of_the_demo_have_the_noise_that_the_formula_says_less_than_in_its_covariance():
    loaded = load_config(CONFIGS / "quickstart.toml")
    box = loaded.config.query.geometry.model_copy(update={"learn": None})
    boxed = with_section(loaded, "query", {"geometry": box})
    plans = [make_plan(each, NIGHT) for each in (load_config(CONFIGS / "totals.toml"), boxed)]
    mine, theirs = (plan.design.entry_standard_deviation()[0] for plan in plans)
    assert plans[0].charge.mu == pytest.approx(plans[1].charge.mu, rel=1e-9)
    # A share s of the sensitivity for the constant: 1 / s against 1 / s^2, and d / (1 - s) against d / (2 s (1 - s)).
    root = np.sqrt(23.0)
    assert theirs[0] / mine[0] == pytest.approx(np.sqrt(1.0 + root), rel=1e-3)  # 2.41
    assert np.allclose(theirs[1:] / mine[1:], np.sqrt((1.0 + root) / 2.0), rtol=1e-3)  # 1.70


@pytest.mark.parametrize(
    "mechanism",
    [
        LAPLACE,
        GAUSSIAN,
        'kind = "auto"\nminimise = "total"',
        'kind = "auto"\nminimise = "relative"',
        'kind = "auto"\nminimise = { x1 = 1.0, x2 = 2.0, x3 = 1.0, x4 = 1.0 }',
        'kind = "shaped-gaussian"\noptimise_for = { x1 = 1.0, x2 = 2.0, x3 = 1.0, x4 = 1.0 }',
        'kind = "imgm"\nshape = { x1 = 1.0, x2 = 1.0, x3 = 2.0, x4 = 1.5 }',
        'kind = "mgm"',
    ],
)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_every_mechanism_that_answers_it_keeps_the_guarantee(tmp_path, mechanism, relation):
    plan = planned(tmp_path, MIDDLE, neighbours=relation, mechanism=mechanism)
    assert plan.charge.delta(8.0) <= 1e-6
    assert np.all(plan.design.entry_standard_deviation() > 0)
    assert (plan.charge.mu == 0.0) == (plan.mechanism.name == "laplace")
    if relation == "add-remove":  # the noise of the count takes no more than its share
        assert plan.design.entry_standard_deviation()[0, 0] < 3.0


def test_auto_has_the_least_error_of_all_that_it_compares(tmp_path):
    plan = planned(tmp_path, MIDDLE, neighbours="add-remove", mechanism='kind = "auto"\nminimise = "total"')
    errors = {each.mechanism: each.error for each in plan.compared if each.error is not None}
    assert {"gaussian", "shaped-gaussian", "laplace"} <= set(errors)
    assert errors[plan.mechanism.name] == min(errors.values())


@pytest.mark.parametrize(
    ("mechanism", "says"),
    [
        ('kind = "discrete-laplace"', "counts"),
        ('kind = "exponential"', "."),
        ('kind = "dawa"', "."),
        ('kind = "mvg"\ntheorem = 2\nzeta = "square-root"\nallocation = { kind = "uniform" }', "choose gaussian"),
        ('kind = "mvg-exact"\nallocation = { kind = "uniform" }', "rows and second moments"),
        ('kind = "auto"\nminimise = "workload"', "workload"),
        (
            'kind = "auto"\nminimise = { kind = "subspace", dimension = 1, '
            "variance = { x1 = 1.0, x2 = 1.0, x3 = 1.0, x4 = 1.0 } }",
            ".",
        ),
    ],
)
def test_a_mechanism_that_does_not_answer_it_is_refused(tmp_path, mechanism, says):
    with pytest.raises(ConfigError, match=says):
        planned(tmp_path, MIDDLE, mechanism=mechanism)


def test_noise_of_several_sizes_in_a_turned_ellipsoid_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="shaped-gaussian"):
        planned(tmp_path, ELLIPSOID, mechanism=GAUSSIAN)


def with_line(loaded, before, line):
    loaded.path.write_text(loaded.path.read_text().replace(before, f"\n{line}\n{before}"))
    return load_config(loaded.path)


def test_several_rows_of_a_unit_are_paid_for(tmp_path):
    loaded = prepare(tmp_path, MIDDLE, neighbours="add-remove", epsilon=1.0)
    one = make_plan(loaded, NIGHT)
    three = make_plan(with_line(loaded, "\n[mechanism]", "rows_per_unit = 3"), NIGHT)
    factor = three.design.entry_standard_deviation() / one.design.entry_standard_deviation()
    assert np.allclose(factor, 3.0, rtol=1e-3)
    assert three.charge.mu == pytest.approx(one.charge.mu, rel=1e-6)


def test_a_share_of_a_guarantee_is_charged(tmp_path):
    loaded = prepare(tmp_path, MIDDLE, neighbours="add-remove", epsilon=1.0)
    one = make_plan(loaded, NIGHT)
    quarter = make_plan(with_line(loaded, "\n[mechanism]", "share = 0.25"), NIGHT)
    assert quarter.charge.mu**2 == pytest.approx(0.25 * one.charge.mu**2, rel=1e-6)
    assert np.allclose(
        quarter.design.entry_standard_deviation(), 2.0 * one.design.entry_standard_deviation(), rtol=1e-3
    )


def test_totals_of_one_day_are_a_part_and_only_of_records_that_are_units(tmp_path):
    loaded = prepare(tmp_path, MIDDLE, neighbours="add-remove", epsilon=1.0)
    day = with_line(loaded, "\n[query]\n", 'partition_by = "day"')
    assert make_plan(day, NIGHT).charge.mu == pytest.approx(make_plan(loaded, NIGHT).charge.mu)
    with pytest.raises(ConfigError, match="partition_by"):
        with_line(loaded, "\n[mechanism]", "rows_per_unit = 3")


def test_the_release_opens_with_names_for_every_number(tmp_path):
    loaded = prepare(tmp_path, MIDDLE, records("box off zero"), neighbours="add-remove")
    _, outcome = run(loaded)
    with xarray.open_zarr(outcome.path, consolidated=False) as found:
        assert list(found["mean"].to_series().index) == ["x1", "x2", "x3", "x4"]
        assert found["totals"].dims == found["totals_standard_deviation"].dims == ("feature",)
    opened = bv.open(outcome.path)
    assert list(opened.totals.index) == ["x1", "x2", "x3", "x4"]
    assert float(opened.totals["x2"]) == pytest.approx(float(opened.mean["x2"]) * opened.count, rel=0.05)


def test_growing_nights_share_one_charge(tmp_path):
    loaded = prepare(tmp_path, MIDDLE, records("box off zero")[:200], neighbours="add-remove", mechanism=GAUSSIAN)
    loaded = with_line(loaded, "\n[compute]", "[continual]\nnights = 4\nfirst = 2026-11-20")
    spent = set()
    for day, rows in ((20, 200), (21, 300), (22, 400)):
        store = zarr.open_group(tmp_path / "records.zarr", mode="r+")["records"]
        store.resize((rows, 4))
        store[...] = records("box off zero")[:rows]
        outcome = run_release(make_plan(loaded, date(2026, 11, day)), ThreadCompute(2), "test", lambda *_: None)
        group = zarr.open_group(outcome.path, mode="r")
        assert abs(group["count"][()] - rows) < 7 * group["count_standard_deviation"][()]
        spent.add(Ledger(loaded.ledger_url).budget("people").spent_mu)
    assert len(spent) == 1


def test_a_missing_value_is_refused_and_costs_nothing_or_takes_its_constant(tmp_path):
    values = records("box off zero").copy()
    values[7, 3], values[9, 0] = np.nan, np.inf
    loaded = prepare(tmp_path, MIDDLE, values)
    with pytest.raises(DataError, match="missing or infinite"):
        run(loaded)
    assert Ledger(loaded.ledger_url).budget("people").spent.loss == 0
    imputed = MIDDLE.replace('"refuse"', '"impute"').replace("upper = 10,", "upper = 10, impute = 10,")
    folder = tmp_path / "imputed"
    folder.mkdir()
    _, outcome = run(prepare(folder, imputed, values))
    assert zarr.open_group(outcome.path, mode="r")["count"][()] == 400


@pytest.mark.parametrize("values", [np.full((1, 4), 3.0), np.full((3, 4), 1e300), np.full((3, 4), -1e300)])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_one_row_and_huge_values_are_released(tmp_path, values, relation):
    loaded = prepare(tmp_path, MIDDLE, values, neighbours=relation)
    _, outcome = run(loaded)
    group = zarr.open_group(outcome.path, mode="r")
    for name, array in group.arrays():
        assert name == "feature" or np.isfinite(array[...]).all()
    total = np.clip(values, 0.0, 10.0).sum(axis=0)
    assert np.all(np.abs(group["totals"][...] - total) < 7 * group["totals_standard_deviation"][...])


def test_no_rows_are_no_release_that_shows_it(tmp_path):
    with pytest.raises(DataError):
        run(prepare(tmp_path, MIDDLE, np.empty((0, 4))))


def test_the_plan_says_the_error_in_the_units_of_the_columns(tmp_path):
    plan = planned(tmp_path, MIDDLE, neighbours="add-remove")
    lines = dict(describe(plan, None))
    found = plan.answer.arrays(np.full(plan.design.shape, 10**9, dtype=np.int64), 400)
    assert lines["Query"] == "totals, 1 x 5, of at most 500 rows"
    count, total = found["count_standard_deviation"][0], found["totals_standard_deviation"][0][0]
    assert f"the count {count:.3g} records" in lines["Expected error"]
    assert f"the total of x1 {total:.3g}" in lines["Expected error"]


def test_excess_noise_is_warned_of_with_a_remedy_that_helps(tmp_path):
    plan = planned(tmp_path, CAPPED, neighbours="add-remove", epsilon=0.01)
    found = advised(plan)
    assert found.largest > 1.0
    changes = {one.key: one.value for one in found.advice}
    assert {"query.rows_at_most", "privacy.epsilon"} <= set(changes)
    again = planned(tmp_path, CAPPED, neighbours="add-remove", epsilon=changes["privacy.epsilon"])
    assert excess_noise(again) is None
    assert excess_noise(planned(tmp_path, CAPPED, neighbours="add-remove", epsilon=8.0)) is None


def test_rounding_is_told_where_it_is_not_far_below_the_noise(tmp_path):
    many = MIDDLE.replace("rows_at_most = 500", "rows_at_most = 900_000")
    few_bits = MIDDLE.replace('"refuse"', '"refuse"\nquantisation_bits = 8')
    assert rounded.lines(planned(tmp_path, MIDDLE).answer) == []
    assert rounded.lines(planned(tmp_path, many).answer) == [], "sums have 32 bits"
    plan = planned(tmp_path, few_bits, neighbours="add-remove")
    said = dict(describe(plan, None))
    assert "to 8 bits" in said["Rounding"]
    assert "if no more than 8 records are alike" in said["Rounding"]
    # All records alike, at a place in a step: off by less than a step each, as is said.
    query = plan.question.query
    record = 5.0 + 5.0 * (np.full((500, 4), 0.5 - 1e-9)) / 127.0
    (exact,) = query.partial(record, 0, 500, 500, [Tile((0, 1), (0, 5))])
    off = np.abs(exact[0, 1:] / 127.0 - (record.sum(axis=0) - 2500.0) / 5.0)
    assert np.all(off < 500 * 1.0 / 127.0)
    assert "widen means by 0.0079 half widths" in said["Rounding of equal records"]


def test_sums_have_as_many_bits_as_add_up_exactly(tmp_path):
    def bits(shape, rows):
        text = shape.replace("rows_at_most = 500", f"rows_at_most = {rows}")
        path = config(tmp_path, shape).path
        path.write_text(path.read_text().replace(shape, text).replace("delta = 1e-6", "delta = 1e-17"))
        return make_plan(load_config(path), NIGHT).question.problem.largest.bit_length() + 1

    assert [bits(MIDDLE, rows) for rows in (500, 2**31, 2**31 + 1, 10**15)] == [32, 32, 31, 13]
    assert bits(BALL, 500) == bits(CAPPED, 500) == 20
