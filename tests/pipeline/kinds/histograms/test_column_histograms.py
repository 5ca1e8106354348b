"""Histograms of columns are released end to end: near the truth, the same bits for all blocks, charged once."""

import re

import numpy as np
import pytest
import zarr

import blockveil as bv
from blockveil.engine.answers.column_bins import EdgeBins, HistogramQuery, MissingValue, PowerBins, column_histograms
from blockveil.engine.answers.layout import Tile
from blockveil.pipeline.base.errors import ConfigError, DataError
from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.kinds.histograms.released_bounds import bounds_of
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.report import make_report, own_units
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.own_units import measured
from tests.house import support
from tests.pipeline.questions.test_queries import NIGHT, config, run

QUERY = """kind = "column-histograms"
rows_at_most = 500
missing = "drop"
powers = [-4, 20]
features = [ { name = "age", edges = [0, 18, 65, 120] }, { name = "income" }, { name = "debt" } ]
"""
ADD, GAUSSIAN = "add-remove", 'kind = "gaussian"'
EXACT = {"mechanism": 'kind = "discrete-laplace"', "epsilon": 29.0}
"""For one column, whole-number noise of a rate of 29: it is zero everywhere but with a probability below 1e-9."""
VALUES = support.records()
BINS = (EdgeBins((0.0, 18.0, 65.0, 120.0)), PowerBins(-4, 20), PowerBins(-4, 20))


def asked(folder, query=QUERY, values=VALUES, **settings):
    support.write_records(folder, values)
    loaded = config(folder, query, **{"neighbours": ADD, "mechanism": GAUSSIAN, **settings})
    support.set_budget(loaded, 150.0)
    return loaded


def test_the_release_is_near_the_truth_with_honest_errors_and_a_report_of_bounds(tmp_path):
    loaded = asked(tmp_path)
    plan, outcome = run(loaded)
    group = zarr.open_group(outcome.path, mode="r")
    truth = column_histograms(VALUES, 0, len(VALUES), HistogramQuery(BINS, MissingValue.DROP), 100)
    ratio = (group["histograms"][...] - truth) / group["histograms_standard_deviation"][...]
    assert ratio.shape == truth.shape == (3, 53)
    # 159 draws: beyond 6.5 deviations or with a spread outside these with probability below 1e-9.
    assert np.max(np.abs(ratio)) < 6.5
    assert 0.65 < np.std(ratio) < 1.4
    assert list(group["feature"][...]) == ["age", "income", "debt"]
    assert np.isnan(group["bin_lower"][0, BINS[0].size :]).all()
    assert np.array_equal(group["bin_upper"][1], BINS[1].borders[1])
    assert Ledger(loaded.ledger_url).budget("people").spent_mu == pytest.approx(plan.charge.mu)
    report = make_report(plan, Ledger(plan.loaded.ledger_url), outcome)
    rows = support.estimates(report)
    assert [row["feature"] for row in rows] == ["age", "income", "debt"]
    assert (rows[0]["lower bound"], rows[0]["upper bound"]) == (18.0, 120.0)
    shown = own_units.by_feature(Facts(read_release(outcome.path)))
    assert shown[0]["bins stand out"] == "between 18 and 120"
    assert re.fullmatch(r"0 to [\d.]+ %", shown[0]["values beyond, in 95 of 100 releases"])
    text = report.path.read_text()
    assert "between 18 and 120" in text
    assert "±" not in text[text.index("What does it say of each column?") :].split("<h2>")[0]


def test_noise_that_columns_have_in_common_is_released_with_honest_errors_and_a_report(tmp_path):
    """With bins for missing values, which stand behind the places where a column has no bin."""
    values = VALUES.copy()
    values[:9, 0] = np.nan
    loaded = asked(tmp_path, QUERY.replace("drop", "count"), values, mechanism='kind = "histogram-residuals"')
    plan, outcome = run(loaded)
    group = zarr.open_group(outcome.path, mode="r")
    truth = column_histograms(values, 0, len(values), HistogramQuery(BINS, MissingValue.COUNT), 100)
    deviation, there = group["histograms_standard_deviation"][...], plan.question.problem.there
    assert truth.shape == there.shape
    assert not truth[~there].any()
    assert np.array_equal(deviation > 0.0, there)
    assert not group["histograms"][...][~there].any()
    ratio = (group["histograms"][...] - truth)[there] / deviation[there]
    # 111 draws or more: beyond 6.5 deviations or with a spread outside these with probability below 1e-9.
    assert np.max(np.abs(ratio)) < 6.5
    assert 0.6 < np.std(ratio) < 1.45
    off = (group["values"][...] - truth.sum(axis=1)) / group["values_standard_deviation"][...]
    assert np.max(np.abs(off)) < 6.5
    assert group["histograms"][...].sum(axis=1) == pytest.approx(group["values"][...])
    assert group["within_standard_deviation"].shape == (3,)
    sentence = dict(describe(plan, None))["Expected error"]
    assert f"{deviation[there].min():.3g} to {deviation.max():.3g} records" in sentence
    # Bounds of a column rest on its own noise, which is another for columns of other numbers of bins.
    assert deviation[0].max() > 1.2 * deviation[1].max()
    for row, (_, chosen) in enumerate(bounds_of(group, group.attrs)):
        one = {name: group[name][...][row : row + 1] for name in ("feature", "bin_lower", "bin_upper", "histograms")}
        alone = bounds_of({**one, "histograms_standard_deviation": deviation[row : row + 1]}, group.attrs)
        assert alone == [(group["feature"][...][row], chosen)]
    report = make_report(plan, Ledger(plan.loaded.ledger_url), outcome)
    rows = support.estimates(report)
    assert [row["feature"] for row in rows] == ["age", "income", "debt"]
    assert (rows[0]["lower bound"], rows[0]["upper bound"]) == (18.0, 120.0)
    counted = measured(float(group["values"][0]), float(group["values_standard_deviation"][0]))
    assert own_units.by_feature(Facts(read_release(outcome.path)))[0]["values"] == counted
    assert counted in report.path.read_text()


@pytest.mark.parametrize("mechanism", [GAUSSIAN, 'kind = "discrete-laplace"', 'kind = "auto"\nminimise = "total"'])
def test_a_plan_states_the_noise_and_the_least_bin_that_is_found(tmp_path, mechanism):
    plan = make_plan(config(tmp_path, QUERY, neighbours=ADD, mechanism=mechanism), NIGHT)
    sentence = dict(describe(plan, None))["Expected error"]
    deviation, least = (float(part) for part in re.findall(r"([\d.]+) records", sentence))
    assert deviation == pytest.approx(plan.design.entry_standard_deviation()[0, 0], rel=0.01)
    assert 6 * deviation < least < 30 * deviation


def test_the_charge_is_for_all_columns_and_all_rows_of_a_unit(tmp_path):
    """At one guarantee, noise grows with the root of the number of columns, and with the rows of a unit."""
    one = QUERY.replace(
        'features = [ { name = "age", edges = [0, 18, 65, 120] }, { name = "income" }, ', "features = [ "
    )

    def deviation(query, rows):
        loaded = config(tmp_path, query, neighbours=ADD, mechanism=GAUSSIAN)
        privacy = loaded.config.privacy.model_copy(update={"rows_per_unit": rows})
        plan = make_plan(type(loaded)(loaded.config.model_copy(update={"privacy": privacy}), loaded.path), NIGHT)
        assert plan.charge.delta(plan.guarantee.epsilon) <= plan.guarantee.delta
        return plan.design.entry_standard_deviation()[0, 0]

    assert deviation(QUERY, 1) / deviation(one, 1) == pytest.approx(np.sqrt(3), rel=1e-3)
    assert deviation(QUERY, 5) / deviation(QUERY, 1) == pytest.approx(5.0, rel=1e-3)


def test_blocks_do_not_change_a_bit(tmp_path):
    digests = set()
    for number, block_rows in enumerate((7, 50, 400)):
        folder = tmp_path / str(number)
        folder.mkdir()
        plan, _ = run(asked(folder, block_rows=block_rows))
        layout = plan.effort.cut(plan.effort.machine()).layout(400, block_rows)
        parts = [
            sum(
                plan.question.query.partial(VALUES, part.start, part.stop, block_rows, layout.tiles)[0]
                for part in [each]
            )
            for each in layout.parts
        ]
        digests.add((np.sum(parts, axis=0).tobytes(), plan.digest))
    assert len(digests) == 1


@pytest.mark.parametrize("missing, counted", [("drop", 0), ("count", 3)])
def test_missing_values_fall_where_the_config_says(tmp_path, missing, counted):
    values = VALUES.copy()
    values[[1, 2, 3], [0, 1, 2]] = np.nan, np.inf, -np.inf
    plan, outcome = run(asked(tmp_path, QUERY.replace("drop", missing), values))
    (exact,) = plan.question.query.partial(values, 0, 400, 50, [Tile((0, 3), (0, plan.design.shape[1]))])
    assert exact.sum() == 3 * 400 - 3 + counted
    group = zarr.open_group(outcome.path, mode="r")
    assert group["histograms"].shape == exact.shape == (3, 53 if missing == "drop" else 54)
    if missing == "count":
        assert list(exact[:, -1]) == [1, 1, 1]
        assert np.isnan(group["bin_lower"][:, -1]).all()


@pytest.mark.parametrize("missing", ["drop", "count"])
def test_bins_beyond_bounds_that_differ_by_column_are_named_after_the_side(tmp_path, missing):
    edges = (
        '{ name = "age", edges = [0, 65] }, { name = "income", edges = [0, 100] }, { name = "debt", edges = [0, 9] }'
    )
    query = QUERY.replace(re.search(r"features = \[ (.*) \]", QUERY)[1], edges).replace("powers = [-4, 20]\n", "")
    plan, outcome = run(asked(tmp_path, query.replace("drop", missing)))
    sides = ["below its bounds", "within its bounds", "above its bounds", *["missing"] * (missing == "count")]
    opened = bv.open(outcome.path)
    assert list(opened["histograms"].columns) == sides
    page = make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text()
    assert "age and within its bounds" in page
    assert "age and 2" not in page


def test_missing_values_are_refused_where_the_config_says_so(tmp_path):
    values = VALUES.copy()
    values[1, 1] = np.nan
    loaded = asked(tmp_path, QUERY.replace('"drop"', '"refuse"'), values)
    with pytest.raises(DataError, match="missing"):
        run(loaded)
    assert Ledger(loaded.ledger_url).budget("people").charges == 0


def test_one_row_and_one_column_are_released_too(tmp_path):
    query = QUERY.replace('{ name = "age", edges = [0, 18, 65, 120] }, { name = "income" }, ', "")
    loaded = asked(tmp_path, query, np.array([[17.0]]), **EXACT)
    _, outcome = run(loaded)
    assert np.rint(zarr.open_group(outcome.path, mode="r")["histograms"][...]).sum() == 1
    assert list(zarr.open_group(outcome.path, mode="r")["bin"][...])[:3] == [
        "below -1.04858e+06",
        *("-1.04858e+06 to -524288", "-524288 to -262144"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("powers = [-4, 20]\n", "", "has no edges"),
        ("[-4, 20]", "[20, -4]", "The least power comes first"),
        ("[-4, 20]", "[-400, 20]", "powers"),
        ("[-4, 20]", "[0.5, 20]", "powers"),
        ("[0, 18, 65, 120]", "[0, 18, 18, 120]", "Edges increase strictly"),
        ("[0, 18, 65, 120]", "[0]", "edges"),
        ('"drop"', '"impute"', "missing"),
        ('{ name = "debt" }', '{ name = "income" }', "two features"),
        ('{ name = "debt" }', '{ name = "debt", count = 32767 }, { name = "x", count = 300000 }', "features"),
        ("rows_at_most = 500\n", "", "rows_at_most"),
    ],
)
def test_what_is_no_histogram_is_refused_in_words(tmp_path, old, new, message):
    assert old in QUERY
    with pytest.raises(ConfigError, match=message) as caught:
        config(tmp_path, QUERY.replace(old, new), neighbours=ADD, mechanism=GAUSSIAN)
    assert len(str(caught.value)) < 400


def test_powers_are_refused_where_every_feature_has_edges(tmp_path):
    query = QUERY[: QUERY.index("features")] + 'features = [ { name = "age", edges = [0, 120] } ]\n'
    with pytest.raises(ConfigError, match="given where all have edges"):
        config(tmp_path, query, neighbours=ADD, mechanism=GAUSSIAN)


def test_more_bins_than_memory_are_refused(tmp_path):
    query = QUERY.replace("[-4, 20]", "[-300, 300]").replace('{ name = "debt" }', '{ name = "debt", count = 20_000 }')
    with pytest.raises(ConfigError, match="at most 16777216 bins together"):
        config(tmp_path, query, neighbours=ADD, mechanism=GAUSSIAN)


@pytest.mark.parametrize(
    "mechanism", ['kind = "laplace"\noptimise_for = { age = 1, income = 2, debt = 3 }', 'kind = "dawa"']
)
def test_a_mechanism_that_does_not_answer_histograms_is_refused(tmp_path, mechanism):
    with pytest.raises(ConfigError, match="cannot be planned"):
        make_plan(config(tmp_path, QUERY, neighbours=ADD, mechanism=mechanism), NIGHT)


def test_a_store_of_other_columns_is_refused(tmp_path):
    with pytest.raises(DataError, match="columns"):
        run(asked(tmp_path, values=VALUES[:, :2]))
