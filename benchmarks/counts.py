"""Exact counts of a large grid on a Dask cluster of this machine: cut to fit the memory of a worker, against uncut.

In one run, on the same store and workers, medians of interleaved repeats:

* whole  each task holds all cells of the grid
* cut    tiles of the grid, as a release of this memory bound counts them

``python -m benchmarks.counts [CELLS_ALONG_AN_AXIS [ROWS [WORKERS [GIB_A_WORKER [REPEATS]]]]]``
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

from benchmarks import machine
from benchmarks.covariance import cluster_of, make_store, open_store, peak_memory, seconds
from blockveil.engine.answers.cost import Cut, Machine, choose
from blockveil.engine.answers.counts import CountQuery
from blockveil.engine.answers.graph import exact_graph
from blockveil.engine.answers.value_cells import Edges, Missing, Outside
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.flows.cluster.clusters import DistributedCompute

UNBOUNDED = 2**40
CHUNK_ROWS = 2**20


def count(client: Client, store: Any, query: CountQuery, cut: Cut) -> None:
    """Exact counts, as a release computes them."""
    graph = exact_graph(store, query, cut.layout(store.shape[0], CHUNK_ROWS), CHUNK_ROWS, f"b{time.time()}")
    DistributedCompute(client).hold(graph, lambda _: None)


def compare(cells: int, rows: int, workers: int, memory: float, repeats: int) -> None:
    """Measure one size and print its lines."""
    edges = Edges(np.linspace(-4.0, 4.0, cells + 1))
    query = CountQuery((edges, edges), Outside.CLIP, Missing.REFUSE)
    work = Work(GrowthKind.CELLS, rows, 2, query.shape, grid=query.grid)
    chunk = 16 * CHUNK_ROWS
    cuts = {
        "cut": choose(work, Machine(workers, 1, int(memory * 2**30)), chunk),
        "whole": choose(replace(work, grid=()), Machine(workers, 1, UNBOUNDED), chunk),
    }
    times: dict[str, list[float]] = {name: [] for name in cuts}
    peaks = dict.fromkeys(cuts, 0.0)
    with tempfile.TemporaryDirectory() as folder, cluster_of(workers) as client:
        make_store(Path(folder) / "x", rows, 2)
        store = open_store(Path(folder) / "x")
        for _ in range(repeats):
            for name, cut in cuts.items():
                with peak_memory(client) as growth:
                    times[name].append(seconds(lambda cut=cut: count(client, store, query, cut)))  # type: ignore[misc]
                peaks[name] = max(peaks[name], growth[0])
    print(f"{rows:,} records in {cells:,} x {cells:,} cells ({8 * cells**2 / 2**30:.3g} GiB), {workers} workers")
    for name, cut in cuts.items():
        print(
            f"  {name}: {statistics.median(times[name]):.2f} s, {peaks[name]:.2f} GiB a worker, "
            f"{cut.peak_bytes / 2**30:.2f} planned with its libraries; {cut.explain()}"
        )
    ratio = statistics.median(a / b for a, b in zip(times["whole"], times["cut"], strict=True))
    print(f"  times as fast as with all cells in each task: {ratio:.2f}")


if __name__ == "__main__":
    machine.begin(1)
    given = [float(word) for word in sys.argv[1:]] + [8192, 20_000_000, 3, 0.75, 3][len(sys.argv) - 1 :]
    compare(int(given[0]), int(given[1]), int(given[2]), given[3], int(given[4]))
