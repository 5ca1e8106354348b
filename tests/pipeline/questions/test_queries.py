"""Every query is released end to end, near the truth, with the same bits whatever the blocks, and charged once."""

import re
from datetime import date

import numpy as np
import pytest
import zarr

from blockveil.pipeline.base.errors import ConfigError, DataError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import make_report
from tests.house import support

NIGHT = date(2026, 11, 20)

ROWS = """kind = "rows"
rows_at_most = 500
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
features = [ { name = "x", lower = -1, upper = 1, count = 4 } ]
"""

CAPPED = ROWS.replace('origin = "midpoint"', 'origin = "midpoint"\nnorm_at_most = 0.5')

OUTER = """kind = "outer-products"
rows_at_most = 500
missing = "refuse"
[query.left]
kind = "ball"
radius = 1.0
features = [ { name = "a", origin = 0, count = 3 } ]
[query.right]
kind = "box"
origin = "zero"
features = [ { name = "b", lower = -1, upper = 2 } ]
"""

COUNTS = """kind = "counts"
rows_at_most = 500
missing = "refuse"
outside = "drop"
[[query.axes]]
name = "latitude"
lower = -0.5
upper = 0.5
cells = 9
[[query.axes]]
name = "longitude"
lower = -0.5
upper = 0.5
cells = 7
"""

RNG = np.random.default_rng(3)
VALUES = RNG.uniform(-0.6, 0.6, (400, 4))
VALUES[:, :3] *= 0.9


def config(folder, query, *, neighbours="replace-one", epsilon=8.0, block_rows=50, mechanism=None):
    text = support.CONFIG.format(kind="rows", epsilon=epsilon, neighbours=neighbours, cluster='kind = "threads"')
    start, end = text.index("[query]"), text.index("[privacy]")
    text = text[:start] + "[query]\n" + query + "\n" + text[end:]
    text = text.replace("block_rows = 50", f"block_rows = {block_rows}")
    if mechanism is not None:
        start, end = text.index("[mechanism]"), text.index("[compute]")
        text = text[:start] + "[mechanism]\n" + mechanism + "\n" + text[end:]
    path = folder / "people.toml"
    path.write_text(text)
    return load_config(path)


def prepare(folder, query, values=VALUES, **settings):
    support.write_records(folder, values)
    loaded = config(folder, query, **settings)
    support.set_budget(loaded, 40.0)
    return loaded


def run(loaded):
    plan = make_plan(loaded, NIGHT)
    return plan, run_release(plan, ThreadCompute(2), "test", lambda *_: None)


def records(query):
    return VALUES[:, :2] if query is COUNTS else VALUES


def truth(query):
    if query is COUNTS:
        edges = [np.linspace(-0.5, 0.5, cells + 1) for cells in (9, 7)]
        return np.histogram2d(VALUES[:, 0], VALUES[:, 1], edges)[0]
    if query is CAPPED:
        return VALUES * np.minimum(1.0, 0.5 / np.linalg.norm(VALUES, axis=1))[:, None]
    return VALUES if query is ROWS else VALUES[:, :3].T @ VALUES[:, 3:]


@pytest.mark.parametrize(
    ("query", "matrix"), [(ROWS, "rows"), (CAPPED, "rows"), (OUTER, "outer_products"), (COUNTS, "counts")]
)
def test_the_release_is_near_the_truth_with_honest_errors_and_a_report(tmp_path, query, matrix):
    loaded = prepare(tmp_path, query, records(query))
    plan, outcome = run(loaded)
    group = zarr.open_group(outcome.path, mode="r")
    ratio = (group[matrix][...] - truth(query)) / group[f"{matrix}_standard_deviation"][...]
    assert ratio.shape == truth(query).shape
    assert np.max(np.abs(ratio)) < 7  # seven standard deviations
    if ratio.size > 1000:
        assert 0.9 < np.std(ratio) < 1.1  # 1,600 draws: four standard errors are 0.07
    spent = Ledger(loaded.ledger_url).budget("people")
    assert spent.spent_mu == pytest.approx(plan.charge.mu)
    report = make_report(plan, Ledger(plan.loaded.ledger_url), outcome)
    assert "svg" in report.path.read_text()
    assert len(support.estimates(report)) == ratio.shape[1]


@pytest.mark.parametrize("query", [ROWS, CAPPED, OUTER, COUNTS])
def test_blocks_do_not_change_a_bit(tmp_path, query):
    digests = set()
    loaded = prepare(tmp_path, query, records(query))
    from blockveil.engine.answers.graph import exact_graph
    from blockveil.engine.answers.layout import banded, grid, grouped, summed
    from blockveil.engine.answers.work import GrowthKind
    from blockveil.engine.noise.discrete_gaussian import NoiseKey
    from blockveil.pipeline.data.datasets import open_records

    key = NoiseKey(bytes(32))
    for block_rows, ranges in ((50, [(0, 400)]), (7, [(0, 49), (49, 301), (301, 400)]), (400, [(0, 200), (200, 400)])):
        plan = make_plan(config(tmp_path, query, block_rows=block_rows), NIGHT)
        compute = ThreadCompute(2)
        data = open_records(loaded)
        work = plan.answer.work(400)
        if work.kind is GrowthKind.RECORDS:
            cut = banded(ranges, work.shape[1])
        else:
            tiles = (
                grid(work.shape, work.symmetric, work.lead, block_rows)
                if work.kind is GrowthKind.PRODUCTS
                else work.tiles
            )
            cut = summed(tiles, grouped(tiles, 2), ranges)
        graph = exact_graph(data.array, plan.question.query, cut, block_rows, f"blocks-{block_rows}")
        held = compute.hold(graph, lambda _: None)
        compute.install("blocks", key)
        released = support.whole(compute, held, cut, plan, "blocks", f"blocks-{block_rows}")
        compute.forget("blocks")
        digests.add(released.tobytes())
    assert len(digests) == 1


@pytest.mark.parametrize(
    "mechanism",
    [
        'kind = "laplace"\noptimise_for = "absolute-error"',
        'kind = "k-norm"',
        'kind = "auto"\nminimise = "total"',
        'kind = "auto"\nminimise = { x1 = 1.0, x2 = 2.0, x3 = 1.0, x4 = 1.0 }',
        'kind = "mvg-exact"\nallocation = { kind = "binary", important = ["x1"], share = 0.4 }',
        'kind = "mvg"\ntheorem = 2\nzeta = "square-root"\nallocation = { kind = "uniform" }',
        'kind = "imgm"\nshape = { x1 = 1.0, x2 = 1.0, x3 = 2.0, x4 = 1.5 }',
    ],
)
@pytest.mark.usefixtures("pictures_in_words")
def test_every_kind_of_mechanism_is_released_at_the_loss_that_it_has(tmp_path, mechanism):
    loaded = prepare(tmp_path, ROWS, mechanism=mechanism)
    plan, outcome = run(loaded)
    group = zarr.open_group(outcome.path, mode="r")
    ratio = (group["rows"][...] - VALUES) / group["rows_standard_deviation"][...]
    assert 0.85 < np.std(ratio) < 1.15  # 1,600 draws; Laplace's four standard errors are 0.11
    assert group.attrs["mechanism"]["mechanism"] == plan.mechanism.name
    spent = Ledger(loaded.ledger_url).budget("people").spent
    assert spent.mu == pytest.approx(plan.charge.mu, rel=1e-6)
    assert spent.pure_epsilon == pytest.approx(plan.charge.epsilon, rel=1e-6)
    assert spent.epsilon(1e-6) <= 8.0 * (1 + 1e-9)
    assert len(support.estimates(make_report(plan, Ledger(plan.loaded.ledger_url), outcome))) == ratio.shape[1]


@pytest.mark.usefixtures("pictures_in_words")
def test_the_table_of_auto_is_in_plan_ledger_and_release_and_its_choice_is_the_least(tmp_path):
    loaded = prepare(tmp_path, OUTER, mechanism='kind = "auto"\nminimise = "spectral"')
    plan, outcome = run(loaded)
    table = plan.public["calibration"]["compared"]
    errors = [row["error"] for row in table if row["error"] is not None]
    assert errors == sorted(errors)
    assert table[0]["mechanism"] == plan.mechanism.name
    assert zarr.open_group(outcome.path, mode="r").attrs["mechanism"]["compared"] == table
    entry = Ledger(loaded.ledger_url).history()[1]
    assert entry.payload["spec"]["calibration"]["compared"] == table
    assert "Mechanisms compared" in make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text()


def test_the_rows_query_needs_replace_one(tmp_path):
    support.write_records(tmp_path, VALUES)
    with pytest.raises(ConfigError, match="replace-one"):
        make_plan(config(tmp_path, ROWS, neighbours="add-remove"), NIGHT)


def test_features_of_both_factors_have_names_of_their_own(tmp_path):
    with pytest.raises(ConfigError, match='two features are named "a1"'):
        config(tmp_path, OUTER.replace('name = "b"', 'name = "a1"'))


def test_a_missing_value_is_refused_by_every_query_and_costs_nothing(tmp_path):
    values = VALUES.copy()
    values[7, 3] = np.nan
    for query in (ROWS, OUTER):
        folder = tmp_path / str(len(query))
        folder.mkdir()
        loaded = prepare(folder, query, values)
        with pytest.raises(DataError, match="missing or infinite"):
            run(loaded)
        assert Ledger(loaded.ledger_url).budget("people").spent.loss == 0


def test_a_count_writes_a_feature_out(tmp_path):
    names = config(tmp_path, ROWS).config.query.columns
    assert names == ("x1", "x2", "x3", "x4")
    with pytest.raises(ConfigError, match="count"):
        config(tmp_path, ROWS.replace("count = 4", "count = 0"))


def test_columns_of_codes_are_counted_by_code_and_other_values_are_refused(tmp_path):
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 4, (400, 2)).astype(float)
    query = (
        re.sub(r"(lower|upper) = .*\n", "", COUNTS).replace("cells = 9", "cells = 4").replace("cells = 7", "cells = 3")
    )
    query = query.replace('"drop"', '"clip"')
    loaded = prepare(tmp_path, query, codes, mechanism='kind = "discrete-laplace"')
    _, outcome = run(loaded)
    group = zarr.open_group(outcome.path, mode="r")
    exact = np.zeros((4, 3))
    np.add.at(exact, (codes[:, 0].astype(int), np.minimum(codes[:, 1].astype(int), 2)), 1)
    assert np.all(group["counts"][...] == np.rint(group["counts"][...]))
    assert np.max(np.abs(group["counts"][...] - exact)) < 30 / 8.0 * 2
    assert list(group["axis_1"][...]) == ["0", "1", "2", "3"]
    codes[3, 0] = 0.5
    support.write_records(tmp_path, codes)
    with pytest.raises(DataError, match="not a whole number"):
        run_release(make_plan(loaded, date(2026, 11, 21)), ThreadCompute(2), "test", lambda *_: None)
    with pytest.raises(ConfigError, match="go together"):
        config(tmp_path, COUNTS.replace("lower = -0.5\n", "", 1))


def test_whole_counts_are_not_negative_and_a_pure_release_says_so(tmp_path):
    mechanism = 'kind = "laplace"\noptimise_for = "absolute-error"'
    loaded = prepare(tmp_path, COUNTS, records(COUNTS), mechanism=mechanism, neighbours="add-remove", epsilon=0.5)
    plan, outcome = run(loaded)
    group = zarr.open_group(outcome.path, mode="r")
    assert group["counts_integer"][...].min() >= 0
    assert plan.charge.mu == 0.0
    assert group.attrs["guarantee"]["loss"]["epsilon"] == pytest.approx(0.5)
    assert Ledger(loaded.ledger_url).budget("people").spent_epsilon == pytest.approx(0.5)
    assert group["counts_standard_deviation"][0, 0] == pytest.approx(np.sqrt(2) / 0.5, rel=1e-4)


def test_what_is_given_by_feature_makes_no_sense_for_cells(tmp_path):
    mechanism = 'kind = "shaped-gaussian"\noptimise_for = { latitude = 1.0, longitude = 2.0 }'
    with pytest.raises(ConfigError, match="all cells of a grid count the same"):
        make_plan(config(tmp_path, COUNTS, mechanism=mechanism), NIGHT)
