"""Workloads of counts are released end to end by every mechanism: true errors, the same bits, the stated charge."""

from datetime import date

import numpy as np
import pytest
import zarr

from blockveil.engine.answers import layout
from blockveil.engine.answers.graph import exact_graph
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.workloads.kronecker import rows_of
from blockveil.engine.workloads.workload import AllRange, Identity, Prefix, Total
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import make_report
from tests.house import support

pytestmark = pytest.mark.usefixtures("pictures_in_words")
NIGHT = date(2026, 11, 20)
TABLE = """kind = "counts"
rows_at_most = 5000
missing = "drop"
outside = "drop"
workload = {workload}
[[query.axes]]
name = "latitude"
lower = 0
upper = 1
cells = {rows}
[[query.axes]]
name = "longitude"
lower = 0
upper = 1
cells = {columns}
"""
LINE = """kind = "counts"
rows_at_most = 5000
missing = "drop"
outside = "drop"
workload = {workload}
[[query.axes]]
name = "age"
lower = 0
upper = 1
cells = {columns}
"""
MECHANISMS = {
    "gaussian": 'kind = "gaussian"',
    "discrete-laplace": 'kind = "discrete-laplace"',
    "matrix-mechanism": 'kind = "matrix-mechanism"',
    "hierarchical": 'kind = "hierarchical"\nnoise = "gaussian"',
    "binary hierarchy": 'kind = "hierarchical"\nnoise = "gaussian"\nbranching = 2',
    "laplace hierarchy": 'kind = "hierarchical"\nnoise = "laplace"\nbranching = 3',
}
RNG = np.random.default_rng(6)
VALUES = RNG.beta(2, 3, (3000, 2)) * 1.1


def config(folder, query, mechanism, *, neighbours="add-remove", epsilon=2.0, block_rows=50, **shape):
    text = support.CONFIG.format(kind="rows", epsilon=epsilon, neighbours=neighbours, cluster='kind = "threads"')
    start, end = text.index("[query]"), text.index("[privacy]")
    text = text[:start] + "[query]\n" + query.format(**{"rows": 1, **shape}) + "\n" + text[end:]
    text = text.replace("block_rows = 50", f"block_rows = {block_rows}")
    start, end = text.index("[mechanism]"), text.index("[compute]")
    text = text[:start] + "[mechanism]\n" + mechanism + "\n" + text[end:]
    path = folder / "people.toml"
    path.write_text(text)
    return load_config(path)


def release(folder, query, mechanism, **settings):
    values = VALUES[:, :1] if query is LINE else VALUES
    support.write_records(folder, values)
    loaded = config(folder, query, mechanism, **settings)
    support.set_budget(loaded, 40.0)
    plan = make_plan(loaded, NIGHT)
    return plan, run_release(plan, ThreadCompute(2), "test", lambda *_: None)


def truth(rows, columns):
    values = VALUES if rows > 1 else np.column_stack([np.full(len(VALUES), 0.5), VALUES[:, 0]])
    return np.histogram2d(*values.T, [np.linspace(0, 1, n + 1) for n in (rows, columns)])[0]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_cells_and_answers_are_near_the_truth_with_honest_errors_and_a_report(tmp_path, mechanism, neighbours):
    shape = {"rows": 5, "columns": 6, "workload": '"ranges"'}
    plan, outcome = release(tmp_path, TABLE, MECHANISMS[mechanism], neighbours=neighbours, **shape)
    group = zarr.open_group(outcome.path, mode="r")
    exact, left, right = truth(5, 6), rows_of(AllRange(5)), rows_of(AllRange(6))
    for name, value in (("counts", exact), ("workload_1", left @ exact @ right.T)):
        found = group["counts" if name == "counts" else "workload_1_answers"][...]
        ratio = (found - value) / group[f"{name}_standard_deviation"][...]
        assert ratio.shape == value.shape
        # Keys are fresh: 345 values pass with probability 1 - 1e-9; Laplace noise has heavier tails.
        assert np.max(np.abs(ratio)) < (20 if "laplace" in mechanism else 7.5)
    assert np.allclose(group["workload_1_answers"][...], left @ group["counts"][...] @ right.T)
    assert group["workload_1_rows"][...][-1].tolist() == [4, 5]
    stated = group.attrs["mechanism"]["workload"]
    assert stated["answers"] == 15 * 21
    assert stated["expected_squared_error"] == pytest.approx(np.sum(group["workload_1_standard_deviation"][...] ** 2))
    assert group.attrs["error"]["expected_squared_error"] == pytest.approx(
        np.sum(group["counts_standard_deviation"][...] ** 2), rel=1e-3
    )
    if plan.design.strategy is not None:
        assert group.attrs["mechanism"]["strategy"] == plan.design.strategy.facts()
        assert group["strategy_answers"].shape == group["strategy_standard_deviation"].shape
    spent = Ledger(plan.loaded.ledger_url).budget("people").spent
    assert spent.mu == pytest.approx(plan.charge.mu, rel=1e-6)
    assert spent.pure_epsilon == pytest.approx(plan.charge.epsilon, rel=1e-6)
    assert spent.epsilon(1e-6) <= 2.0 * (1 + 1e-9)
    assert "workload answer" in dict(describe(plan, None))["Expected error"]
    assert "Heat map" in make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text()


@pytest.mark.parametrize("mechanism", ["matrix-mechanism", "binary hierarchy"])
def test_blocks_do_not_change_a_bit(tmp_path, mechanism):
    support.write_records(tmp_path, VALUES)
    digests = set()
    for block_rows, ranges in ((50, [(0, 3000)]), (7, [(0, 49), (49, 301), (301, 3000)])):
        shape = {"rows": 4, "columns": 9, "workload": '"ranges"'}
        loaded = config(tmp_path, TABLE, MECHANISMS[mechanism], block_rows=block_rows, **shape)
        plan, compute = make_plan(loaded, NIGHT), ThreadCompute(2)
        tiles, name = plan.answer.work(3000).tiles, f"blocks-{block_rows}"
        cut = layout.summed(tiles, layout.grouped(tiles, 1), ranges)
        exact = exact_graph(open_records(loaded).array, plan.question.query, cut, block_rows, name)
        held = compute.hold(exact, lambda _: None)
        compute.install("blocks", NoiseKey(bytes(32)))
        released = support.whole(compute, held, cut, plan, "blocks", name)
        compute.forget("blocks")
        arrays = plan.answer.arrays(released, 3000)
        digests.add((released.tobytes(), arrays["counts"][0].tobytes()))
    assert len(digests) == 1


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_a_long_line_of_cells_is_released_by_a_tree(tmp_path, noise):
    mechanism = f'kind = "hierarchical"\nnoise = "{noise}"'
    _, outcome = release(tmp_path, LINE, mechanism, columns=2**16, workload='"ranges"')
    group = zarr.open_group(outcome.path, mode="r")
    exact = truth(1, 2**16)
    ratio = (group["counts"][...] - exact) / group["counts_standard_deviation"][...]
    # The mean square of 65,536 correlated counts is within some hundredths of one.
    assert 0.8 < np.mean(ratio**2) < 1.2
    assert "workload_1_answers" not in group, "two billion ranges are not published one by one"
    blocks = group["strategy_blocks"][...]
    assert blocks.shape == (group["strategy_answers"].size, 4)
    assert group["counts"].shape == (2**16,)
    assert group["counts"].metadata.dimension_names == ("age",)
    assert group.attrs["mechanism"]["workload"]["answers"] == 2**15 * (2**16 + 1)


def test_auto_takes_the_least_expected_error_of_the_workload_and_shows_the_others(tmp_path):
    shape = {"rows": 9, "columns": 7, "workload": '"prefixes"'}
    mechanism = 'kind = "auto"\nminimise = "workload"'
    plan, outcome = release(tmp_path, TABLE, mechanism, epsilon=0.8, **shape)
    table = plan.public["calibration"]["compared"]
    errors = {(row["mechanism"], row["parameters"].get("noise")): row["error"] for row in table}
    assert errors["matrix-mechanism", None] < errors["gaussian", None]
    assert table[0]["error"] == min(e for e in errors.values() if e is not None)
    assert table[0]["error"] == pytest.approx(plan.public["calibration"]["workload"]["expected_squared_error"])
    assert plan.mechanism.name == table[0]["mechanism"]
    assert zarr.open_group(outcome.path, mode="r").attrs["mechanism"]["compared"] == table
    page = make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text()
    assert "Mechanisms compared" in page
    assert "hierarchical" in page
    total = make_plan(config(tmp_path, TABLE, mechanism.replace("workload", "total"), **shape), NIGHT)
    assert total.mechanism.name == "discrete-laplace", "for single cells nothing beats noise on cells"


@pytest.mark.parametrize(
    ("workload", "kinds"),
    [
        ('"cells"', [(Identity, Identity)]),
        ('"cells-and-total"', [(Identity, Identity), (Total, Total)]),
        ('"marginals"', [(Identity, Total), (Total, Identity), (Total, Total)]),
        ('[ { rows = "ranges", columns = "prefixes", weight = 2.0 } ]', [(AllRange, Prefix)]),
    ],
)
def test_every_workload_is_answered(tmp_path, workload, kinds):
    shape = {"rows": 4, "columns": 5, "workload": workload}
    plan, outcome = release(tmp_path, TABLE, MECHANISMS["matrix-mechanism"], **shape)
    group = zarr.open_group(outcome.path, mode="r")
    expected = 0.0
    for number, (rows, columns) in enumerate(kinds, start=1):
        answers = rows_of(rows(4)) @ group["counts"][...] @ rows_of(columns(5)).T
        assert np.allclose(group[f"workload_{number}_answers"][...], answers)
        weight = 4.0 if "weight" in workload else 1.0
        expected += weight * np.sum(group[f"workload_{number}_standard_deviation"][...] ** 2)
    assert plan.public["calibration"]["workload"]["expected_squared_error"] == pytest.approx(expected)


def test_chosen_intervals_are_answered_and_named(tmp_path):
    workload = '[ { rows = "cells", columns = { intervals = [[0, 2], [2, 5], [0, 5], [3, 4], [4, 5]] } } ]'
    plan, outcome = release(tmp_path, TABLE, MECHANISMS["binary hierarchy"], rows=4, columns=5, workload=workload)
    group = zarr.open_group(outcome.path, mode="r")
    assert group["workload_1_columns"][...].tolist() == [[0, 2], [2, 5], [0, 5], [3, 4], [4, 5]]
    assert np.allclose(group["workload_1_answers"][:, 1], group["counts"][:, 2:5].sum(axis=1))
    ratio = (group["workload_1_answers"][:, 2] - truth(4, 5).sum(axis=1)) / group["workload_1_standard_deviation"][:, 2]
    assert np.max(np.abs(ratio)) < 7
    assert plan.public["query"]["workload"][0]["columns"] == {"intervals": [[0, 2], [2, 5], [0, 5], [3, 4], [4, 5]]}


@pytest.mark.parametrize(
    ("mechanism", "shape", "message"),
    [
        (MECHANISMS["matrix-mechanism"], {"workload": '"lines"'}, "must be|one of"),
        (MECHANISMS["matrix-mechanism"], {"workload": "[]"}, "workload"),
        (MECHANISMS["matrix-mechanism"], {"workload": '[ { rows = "cells" } ]'}, "columns is not given"),
        (
            MECHANISMS["hierarchical"],
            {"workload": '[ { rows = "cells", columns = { intervals = [[3, 3]] } } ]'},
            "first below end",
        ),
        (
            MECHANISMS["hierarchical"],
            {"workload": '[ { rows = "cells", columns = { intervals = [[0, 99]] } } ]'},
            "within 0 to 6",
        ),
        (MECHANISMS["matrix-mechanism"], {"workload": '"ranges"', "columns": 1025}, "choose hierarchical"),
        (
            MECHANISMS["matrix-mechanism"],
            {"workload": '[ { rows = "total", columns = "cells" } ]'},
            "leaves some counts out",
        ),
        ('kind = "hierarchical"', {"workload": '"ranges"'}, "noise is not given"),
        (MECHANISMS["hierarchical"] + "\nbranching = 1", {"workload": '"ranges"'}, "branching"),
        (MECHANISMS["matrix-mechanism"], {"workload": '"ranges"', "rows": 1, "columns": 1}, "one cell"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_words(tmp_path, mechanism, shape, message):
    with pytest.raises(ConfigError, match=message):
        make_plan(config(tmp_path, TABLE, mechanism, **{"rows": 5, "columns": 6, **shape}), NIGHT)


def test_a_strategy_needs_a_declared_workload_and_so_does_its_error(tmp_path):
    query = TABLE.replace("workload = {workload}\n", "")
    least = 'kind = "auto"\nminimise = "workload"'
    for mechanism in (MECHANISMS["matrix-mechanism"], MECHANISMS["hierarchical"], least):
        with pytest.raises(ConfigError, match=r"declare query\.workload"):
            make_plan(config(tmp_path, query, mechanism, rows=5, columns=6), NIGHT)
    loaded = load_config(support.write_config(tmp_path), {"mechanism": "{ " + least.replace("\n", ", ") + " }"})
    with pytest.raises(ConfigError, match="no workload is declared"):
        make_plan(loaded, NIGHT)


def test_answers_that_could_leave_int64_are_planned_with_coarser_coefficients_or_refused(tmp_path):
    shape = {"rows": 5, "columns": 6, "workload": '"ranges"'}
    config(tmp_path, TABLE, MECHANISMS["matrix-mechanism"], **shape)
    many = {"query.rows_at_most": "1_000_000_000_000", "privacy.delta": "1e-15"}
    plan = make_plan(load_config(tmp_path / "people.toml", many), NIGHT)
    facts = plan.design.strategy.facts()
    assert facts["rows"]["bits"] < 12
    assert plan.design.strategy.largest << plan.design.shift <= 2**62


def test_a_grid_too_large_for_a_workload_is_refused_before_data_is_read(tmp_path):
    shape = {"rows": 2**13, "columns": 2**13, "workload": '"ranges"'}
    with pytest.raises(ConfigError, match="16777216 at most"):
        make_plan(config(tmp_path, TABLE, MECHANISMS["hierarchical"], **shape), NIGHT)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_buckets_are_released_with_the_deviations_of_their_noise_at_the_sum_of_two_pure_losses(tmp_path, neighbours):
    shape = {"rows": 5, "columns": 6, "workload": '"ranges"'}
    plan, outcome = release(tmp_path, TABLE, 'kind = "dawa"', neighbours=neighbours, epsilon=4.0, **shape)
    group = zarr.open_group(outcome.path, mode="r")
    buckets, exact = group["bucket"][...], truth(5, 6)
    sums = np.array([exact[buckets == b].sum() for b in range(buckets.max() + 1)])
    ratio = (group["bucket_counts"][...] - sums) / group["bucket_counts_standard_deviation"][...]
    assert np.max(np.abs(ratio)) < 20  # a Laplace variable exceeds that with probability 5e-13
    assert group["counts"][...].sum() == pytest.approx(group["bucket_counts"][...].sum())
    left, right = rows_of(AllRange(5)), rows_of(AllRange(6))
    assert np.allclose(group["workload_1_answers"][...], left @ group["counts"][...] @ right.T)
    whole = group["workload_1_standard_deviation"][...][4, 5]  # rows 0 to 5, columns 0 to 6: every bucket once
    assert whole == pytest.approx(np.sqrt(np.sum(group["bucket_counts_standard_deviation"][...] ** 2)))
    steps = group.attrs["mechanism"]["steps"]
    assert [step["step"] for step in steps] == ["partition", "buckets"]
    assert steps[0]["loss"] == pytest.approx(1.0, rel=0.01)
    spent = Ledger(plan.loaded.ledger_url).budget("people").spent
    assert spent.mu == 0
    assert sum(step["loss"] for step in steps) <= spent.pure_epsilon * (1 + 1e-12) <= 4.0 * (1 + 1e-11)
    assert "pure epsilon" in dict(describe(plan, None))["Partition"]
    assert "not in the standard deviations" in dict(describe(plan, None))["Expected error"]
    page = make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text()
    assert "Partition" in page
    assert "cells of one bucket differ" in page


def test_blocks_do_not_change_a_bucket(tmp_path):
    support.write_records(tmp_path, VALUES)
    digests = set()
    for block_rows, ranges in ((50, [(0, 3000)]), (7, [(0, 49), (49, 301), (301, 3000)])):
        loaded = config(tmp_path, TABLE, 'kind = "dawa"', block_rows=block_rows, rows=9, columns=15, workload='"cells"')
        plan, compute, name = make_plan(loaded, NIGHT), ThreadCompute(2), f"blocks-{block_rows}"
        tiles = plan.answer.work(3000).tiles
        cut = layout.summed(tiles, layout.grouped(tiles, 1), ranges)
        exact = exact_graph(open_records(loaded).array, plan.question.query, cut, block_rows, name)
        held = compute.hold(exact, lambda _: None)
        compute.install("blocks", NoiseKey(bytes(32)))
        digests.add(support.whole(compute, held, cut, plan, "blocks", name).tobytes())
        compute.forget("blocks")
    assert len(digests) == 1


def test_even_records_need_few_buckets_and_less_error_than_noise_on_cells(tmp_path):
    counts = np.random.default_rng(9).multinomial(3000, np.full(1024, 1 / 1024))[None, :]
    plans = [
        make_plan(config(tmp_path, LINE, f'kind = "{kind}"', columns=1024, workload='"cells"', epsilon=0.5), NIGHT)
        for kind in ("dawa", "discrete-laplace")
    ]
    key = NoiseKey(bytes(32))
    released = [plans[0].design.release(key, counts), counts + plans[1].design.grid.draw(key, (0, 1), (0, 1024), False)]
    found = [plan.answer.arrays(array, 3000) for plan, array in zip(plans, released, strict=True)]
    errors = [float(np.sum((arrays["counts"][0] - counts) ** 2)) for arrays in found]
    assert errors[0] < 0.6 * errors[1]
    assert found[0]["bucket_counts"][0].size < 300


def test_a_share_that_leaves_nothing_is_refused(tmp_path):
    shape = {"rows": 5, "columns": 6, "workload": '"ranges"'}
    for share in ("0", "1.0", '"half"'):
        with pytest.raises(ConfigError, match="partition_share"):
            config(tmp_path, TABLE, f'kind = "dawa"\npartition_share = {share}', **shape)
    with pytest.raises(ConfigError, match="choose hierarchical"):
        make_plan(config(tmp_path, LINE, 'kind = "dawa"', columns=2**19, workload='"cells"'), NIGHT)
