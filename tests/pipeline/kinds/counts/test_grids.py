"""Counts over more than two columns, released end to end: an axis each, true errors, the same bits, clear refusals."""

import json
from datetime import date

import numpy as np
import pytest
import xarray
import zarr

from blockveil.engine.answers.graph import exact_graph
from blockveil.engine.answers.layout import summed
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import make_report, write_comparison
from tests.house import support

NIGHT = date(2026, 11, 20)
AGES = [0, 18, 40, 65, 80, 120]
QUERY = """kind = "counts"
rows_at_most = 5000
missing = "drop"
outside = "clip"
axes = [
  {{ name = "age", edges = {ages} }},
  {{ name = "dose (mg)", lower = 0, upper = 1, cells = 8 }},
  {{ name = "ward", cells = 3 }},{more}
]
"""
MECHANISMS = {
    "gaussian": 'kind = "gaussian"',
    "laplace": 'kind = "laplace"\noptimise_for = "absolute-error"',
    "discrete-laplace": 'kind = "discrete-laplace"',
    "auto": 'kind = "auto"\nminimise = "total"',
}
RNG = np.random.default_rng(7)
VALUES = np.column_stack([RNG.uniform(-5, 130, 2000), RNG.beta(2, 3, 2000), RNG.integers(0, 3, 2000)])
VALUES[5, 0] = np.nan
EXACT = np.histogramdd(
    np.clip(np.delete(VALUES, 5, 0), [0, 0, 0], [120, 1, 2]), [AGES, np.linspace(0, 1, 9), np.arange(4)]
)[0]


def config(
    folder,
    mechanism='kind = "gaussian"',
    *,
    neighbours="add-remove",
    query=QUERY,
    block_rows=50,
    more="",
    extra="",
    memory=4,
):
    text = support.CONFIG.format(kind="rows", epsilon=4.0, neighbours=neighbours, cluster='kind = "threads"')
    start, end = text.index("[query]"), text.index("[privacy]")
    text = text[:start] + "[query]\n" + query.format(ages=AGES, more=more) + extra + "\n" + text[end:]
    text = text.replace("block_rows = 50", f"block_rows = {block_rows}\nmemory_gib = {memory}")
    start, end = text.index("[mechanism]"), text.index("[compute]")
    path = folder / "people.toml"
    path.write_text(text[:start] + "[mechanism]\n" + mechanism + "\n" + text[end:])
    return load_config(path)


def run(loaded, night=NIGHT):
    plan = make_plan(loaded, night)
    return plan, run_release(plan, ThreadCompute(2), "test", lambda *_: None)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_cells_have_an_axis_each_and_honest_errors(tmp_path, mechanism, neighbours):
    support.write_records(tmp_path, VALUES)
    loaded = config(tmp_path, MECHANISMS[mechanism], neighbours=neighbours)
    support.set_budget(loaded, 40.0)
    plan, outcome = run(loaded)
    group = zarr.open_group(outcome.path, mode="r")
    assert group["counts"].metadata.dimension_names == ("age", "dose (mg)", "ward")
    ratio = (group["counts"][...] - EXACT) / group["counts_standard_deviation"][...]
    assert ratio.shape == EXACT.shape
    # Keys are fresh: 120 Laplace variables of deviation one pass 18 with probability 1e-9.
    assert np.max(np.abs(ratio)) < 18
    assert np.std(ratio) > 0.4
    for number, others in ((1, (1, 2)), (2, (0, 2)), (3, (0, 1))):
        assert np.allclose(group[f"marginal_{number}"][...], group["counts"][...].sum(axis=others))
        ratio = (group[f"marginal_{number}"][...] - EXACT.sum(axis=others)) / group[
            f"marginal_{number}_standard_deviation"
        ][...]
        assert np.max(np.abs(ratio)) < 18
    spent = Ledger(plan.loaded.ledger_url).budget("people").spent
    assert spent.epsilon(1e-6) <= 4.0 * (1 + 1e-9)


def test_a_reader_finds_dimensions_names_edges_and_a_report_and_compares_two_nights(tmp_path):
    support.write_records(tmp_path, VALUES)
    loaded = config(tmp_path)
    support.set_budget(loaded, 40.0)
    plan, outcome = run(loaded)
    with xarray.open_zarr(outcome.path, consolidated=False) as found:
        assert found["counts"].sum("age").shape == (8, 3)
        assert found["axis_1_edges"].values.tolist() == AGES
        assert found["axis_3"].values.tolist() == ["0", "1", "2"]
        assert found["counts_integer"].dtype == np.int64
    assert outcome is not None
    made = make_report(plan, Ledger(plan.loaded.ledger_url), outcome)
    told = json.loads(made.data.read_text())["estimates"]
    assert len(told) == 24
    assert told[1]["column"] == "0 to 0.125, 1"
    assert "80 to 120" in made.data.read_text()
    _, second = run(loaded, date(2026, 11, 21))
    comparison, _, _ = write_comparison(second.path, outcome.path)
    assert [change.what for change in comparison.numbers["marginal_3"]] == ["0", "1", "2"]


def test_blocks_do_not_change_a_bit(tmp_path):
    support.write_records(tmp_path, VALUES)
    digests = set()
    for block_rows, ranges in ((50, [(0, 2000)]), (7, [(0, 49), (49, 301), (301, 2000)])):
        loaded = config(tmp_path, block_rows=block_rows)
        plan, compute, name = make_plan(loaded, NIGHT), ThreadCompute(2), f"blocks-{block_rows}"
        cut = summed(plan.answer.work(2000).tiles, ((0,),), ranges)
        exact = exact_graph(open_records(loaded).array, plan.question.query, cut, block_rows, name)
        held = compute.hold(exact, lambda _: None)
        compute.install("blocks", NoiseKey(bytes(32)))
        released = support.whole(compute, held, cut, plan, "blocks", name)
        compute.forget("blocks")
        digests.add((released.tobytes(), plan.answer.arrays(released, 2000)["counts"][0].tobytes()))
    assert len(digests) == 1


def test_a_unit_of_several_rows_is_charged_for_all_of_them(tmp_path):
    loaded = config(tmp_path)
    one = make_plan(loaded, NIGHT)
    several = make_plan(load_config(tmp_path / "people.toml", {"privacy.rows_per_unit": "4"}), NIGHT)
    deviation = [float(plan.design.standard_deviations((0, 1), (0, 1))[0, 0]) for plan in (one, several)]
    assert several.charge.mu == pytest.approx(one.charge.mu, rel=1e-3)
    assert deviation[1] == pytest.approx(4 * deviation[0], rel=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mechanism": 'kind = "matrix-mechanism"'}, "one or two axes, and this one has 3"),
        ({"mechanism": 'kind = "hierarchical"\nnoise = "laplace"'}, "one or two axes, and this one has 3"),
        ({"mechanism": 'kind = "dawa"'}, "one or two axes, and this grid has 3"),
        ({"extra": 'workload = "marginals"'}, "given for 3 axes"),
        ({"more": '{ name = "age", cells = 2 }'}, 'two features are named "age"'),
        ({"more": '{ name = "day" }'}, "no cells"),
        ({"more": '{ name = "day", cells = 2, edges = [0, 1] }'}, "them and more"),
        ({"more": '{ name = "day", lower = 0, upper = 1, edges = [0, 1] }'}, "them and more"),
        ({"more": '{ name = "day", edges = [0, 2, 1] }'}, "increase strictly"),
        ({"more": '{ name = "day", edges = [0] }'}, "edges"),
        ({"more": '{ name = "day", edges = [0, nan] }'}, "edges"),
        ({"more": '{ name = "a", cells = 1_000_000 }, { name = "b", cells = 1_000_000 }'}, "at most 268435456 cells"),
        ({"more": '{ name = "a", cells = 2_000_000 }'}, "cells"),
        (
            {"more": '{ name = "a", cells = 1_000_000 }', "memory": 0.5},
            "a worker would need about .* memory_gib is 0.5",
        ),
        ({"query": QUERY[: QUERY.index("axes")] + "axes = []\n"}, "axes"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_words(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        make_plan(config(tmp_path, **settings), NIGHT)
