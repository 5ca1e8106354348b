"""A grid that no task could hold is counted, noised and published tile by tile: the same bits, within the memory."""

import math

import numpy as np
import pytest
import xarray
import zarr

import blockveil.engine.answers.cost
import blockveil.engine.answers.work
from benchmarks.covariance import cluster_of, peak_memory
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.cluster.distributed_compute import DistributedCompute
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.publishing import find_published
from blockveil.pipeline.report import make_report
from blockveil.pipeline.report.facts import Facts
from tests.house import support
from tests.pipeline.releases.test_release import NIGHT

CONFIG = """
[release]
dataset = "people"
name = "cells"
[data]
store = "records.zarr"
[query]
kind = "counts"
rows_at_most = {rows}
missing = "refuse"
outside = "drop"
axes = [{axes}]
{workload}
[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "replace-one"
unit = "a row"
[mechanism]
{mechanism}
[compute]
memory_gib = {memory}
block_rows = 1000
[cluster]
{cluster}
[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""
CLUSTERS = {"threads": 'kind = "threads"', "alone": 'kind = "local"\nworkers = 1\nthreads_per_worker = 1'}


def prepare(folder, grid, rows=3000, memory=4.0, mechanism='kind = "gaussian"', workload="", cluster="threads"):
    folder.mkdir(exist_ok=True)
    records = np.random.default_rng(5).integers(-1, np.array(grid) + 1, (rows, len(grid)))
    support.write_records(folder, records, chunks=(1000, len(grid)))
    axes = ", ".join(f'{{ name = "axis {i}", cells = {cells} }}' for i, cells in enumerate(grid))
    (folder / "cells.toml").write_text(
        CONFIG.format(
            rows=rows, axes=axes, memory=memory, mechanism=mechanism, workload=workload, cluster=CLUSTERS[cluster]
        )
    )
    loaded = load_config(folder / "cells.toml")
    support.set_budget(loaded)
    return loaded, records


def released(loaded, monkeypatch, compute=None):
    """Plan, arrays and attributes of a release whose key is known, and its outcome."""
    plan = make_plan(loaded, NIGHT)
    with monkeypatch.context() as patch:
        patch.setattr(NoiseKey, "derive", classmethod(lambda cls, *_: cls(bytes(32))))
        outcome = run_release(plan, compute or ThreadCompute(2), "test", lambda *_: None)
    assert find_published(loaded.output_root, plan.release_id) is not None
    group = zarr.open_group(outcome.path, mode="r")
    return plan, {name: array[...] for name, array in group.arrays()}, dict(group.attrs), outcome


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grid", "mechanism"),
    [((90, 70), "gaussian"), ((5, 40, 30), "gaussian"), ((4, 6, 5, 50), "discrete-laplace"), ((7000,), "gaussian")],
)
def test_tiles_of_a_grid_hold_the_bits_of_the_whole(tmp_path, monkeypatch, grid, mechanism):
    kind = f'kind = "{mechanism}"'
    plan, whole, attributes, _ = released(prepare(tmp_path / "whole", grid, mechanism=kind)[0], monkeypatch)
    assert len(plan.answer.work(3000).tiles) == 1
    monkeypatch.setattr("blockveil.engine.answers.layout.TILE_SIDE", 32)
    monkeypatch.setattr("blockveil.engine.answers.layout.TILE", 8)
    found = []
    for whole_entries, groups in ((2**24, 1), (100, 1), (100, 2)):
        monkeypatch.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", whole_entries)
        monkeypatch.setattr(blockveil.engine.answers.cost, "_candidates", lambda *_, groups=groups: iter([(groups, 2)]))
        loaded, _ = prepare(tmp_path / f"{whole_entries}-{groups}", grid, mechanism=kind)
        plan, arrays, again, outcome = released(loaded, monkeypatch)
        assert plan.answer.work(3000).blocked == (whole_entries == 100)
        assert len(plan.answer.work(3000).tiles) > 1
        assert set(arrays) == set(whole)
        for name, values in arrays.items():
            same = (
                np.allclose(values, whole[name], rtol=1e-14) if "along" in name else np.array_equal(values, whole[name])
            )
            assert same, name
        assert {key for key in attributes if attributes[key] != again[key]} <= {"ledger", "output_digest", "error"}
        assert (
            again["error"]["post_processed_frobenius_norm_bound"]
            == attributes["error"]["post_processed_frobenius_norm_bound"]
        )
        found.append(arrays)
    for name, values in found[1].items():  # the digest of a release does not depend on groups, ranges or threads
        assert np.array_equal(values, found[2][name]), name
    with xarray.open_zarr(outcome.path, consolidated=False) as stored:
        assert stored["counts"].shape == grid


def test_a_report_of_many_columns_reads_the_same_numbers_with_more_axes_along_the_rows(tmp_path, monkeypatch):
    loaded, _ = prepare(tmp_path, (6, 9, 20))
    plan, arrays, _, outcome = released(loaded, monkeypatch)
    wide = Facts(open_release(outcome.path))
    monkeypatch.setattr("blockveil.pipeline.report.matrix._MOST_COLUMNS", 100)
    assert len(support.estimates(make_report(plan, Ledger(plan.loaded.ledger_url), outcome))) == 20
    square = Facts(open_release(outcome.path))
    assert (wide.matrix.shape, square.matrix.shape) == ((6, 180), (54, 20))
    assert np.array_equal(square.matrix.value((5, 50), (3, 17)), arrays["counts"].reshape(54, 20)[5:50, 3:17])
    found = [(facts.scan.entries, facts.scan.strongest, facts) for facts in (wide, square)]
    assert found[0][0] == found[1][0]
    assert wide.scan.beyond_two == square.scan.beyond_two
    places = [[", ".join(facts.where(entry).split(" and ")) for entry in strongest] for _, strongest, facts in found]
    assert places[0] == places[1]


@pytest.mark.slow
def test_a_grid_that_no_worker_could_hold_is_released_within_their_memory(tmp_path):
    grid, rows, memory = (24, 840, 841), 100_000, 0.42
    loaded, records = prepare(tmp_path, grid, rows, memory, cluster="alone")
    plan = make_plan(loaded, NIGHT)
    assert plan.answer.work(rows).blocked
    counted = 8 * math.prod(grid)
    with cluster_of(1) as client:
        client.run(make_plan, loaded, NIGHT)  # a worker has imported what it needs
        with peak_memory(client) as growth:
            outcome = run_release(plan, DistributedCompute(client), "test", lambda *_: None)
    allowed = memory * 2**30 - blockveil.engine.answers.cost._BASE_BYTES
    assert counted < growth[0] * 2**30 < allowed < 2 * counted  # the answer itself, and no second copy of it
    group = zarr.open_group(outcome.path, mode="r")
    kept = records[np.all((records >= 0) & (records < np.array(grid)), axis=1)]
    kept = kept[kept[:, 0] == 7]
    exact = np.zeros(grid[1:])
    np.add.at(exact, tuple(kept[:, 1:].T), 1.0)
    ratio = (group["counts"][7] - exact) / group["counts_standard_deviation"][7]
    assert np.max(np.abs(ratio)) < 10
    assert abs(np.std(ratio) - 1.0) < 0.01
    assert group["marginal_1"][7] == pytest.approx(group["counts"][7].sum())


@pytest.mark.parametrize(
    ("cells", "memory", "settings"),
    [
        (2500, 0.6, {"workload": 'workload = "marginals"'}),
        (510, 0.35, {"mechanism": 'kind = "dawa"'}),
    ],
)
def test_what_needs_all_cells_in_one_task_says_so_where_they_do_not_fit(tmp_path, cells, memory, settings):
    with pytest.raises(ConfigError, match=r"needs all cells in one task: a worker would need about .* memory_gib is"):
        make_plan(prepare(tmp_path, (cells, cells), memory=memory, **settings)[0], NIGHT)
    assert make_plan(prepare(tmp_path, (cells, cells), memory=memory)[0], NIGHT)
