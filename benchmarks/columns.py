"""Exact totals and histograms of every column from Zarr, against NumPy and ``dask.array`` over the same store.

In one process and one thread, in the same run, medians of interleaved repeats:

* totals      count and integer sums of clipped, quantised columns, against clip and sum in float64
* histograms  all columns in bins between powers of two, against ``np.histogram`` of each between the same borders

NumPy reads a chunk at a time; ``dask.array`` does the same work on each block, without threads. Prints the ratios of
interleaved runs (above 1: the exact one is faster). ``python -m benchmarks.columns [ROWS FEATURES]``
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import machine
from benchmarks.covariance import CHUNK_BYTES, make_store, open_store
from benchmarks.gram import REPEATS, seconds
from blockveil.engine.answers.column_bins import HistogramQuery, MissingValue, PowerBins
from blockveil.engine.answers.layout import Tile
from blockveil.engine.kinds.totals.record_sums import RecordSumsQuery
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser

SIZES = ((1_000_000, 50), (200_000, 500))
BINS = PowerBins(-10, 10)
LARGEST = 2**15 - 1
Work = Callable[[], np.ndarray]


def totals_of(block: np.ndarray) -> np.ndarray:
    """Sums of clipped columns, shape (1, features)."""
    return np.clip(block, -1.0, 1.0).sum(axis=0, dtype=np.float64, keepdims=True)


def half_open() -> np.ndarray:
    """Edges between which ``np.histogram`` counts the same values: above zero, bins are closed above."""
    lower, zero = BINS.borders[0], BINS.size // 2
    return np.concatenate([lower[: zero + 1], np.nextafter(lower[zero + 1 :], np.inf), [np.inf]])


def histograms_of(block: np.ndarray) -> np.ndarray:
    """Histograms of columns in the same bins, shape (1, features, bins)."""
    return np.stack([np.histogram(column, half_open())[0] for column in block.T])[None]


def by_numpy(store: Any, rows_at_once: int, of_block: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Sum over chunks that are read one after the other."""
    blocks = (store[first : first + rows_at_once] for first in range(0, store.shape[0], rows_at_once))
    return sum(of_block(np.asarray(block)) for block in blocks)[0]


def by_dask(store: Any, of_block: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """The same by ``dask.array``."""
    records = da.from_zarr(store)
    more = {"new_axis": 2} if len(shape) == 2 else {}
    chunks = ((1,) * records.numblocks[0], *((length,) for length in shape))
    parts = records.map_blocks(of_block, chunks=chunks, dtype=float, **more)
    return parts.sum(axis=0).compute(scheduler="synchronous")


def works(store: Any, rows_at_once: int) -> dict[str, dict[str, Work]]:
    """What is compared, by query."""
    rows, features = store.shape
    box = Box(-np.ones(features), np.ones(features), np.zeros(features))
    totals = RecordSumsQuery(Quantiser(box.coordinates(), LARGEST, True, None))
    histograms = HistogramQuery((BINS,) * features, MissingValue.REFUSE)
    all_totals, all_bins = Tile((0, 1), (0, features + 1)), Tile((0, features), (0, BINS.size))
    return {
        "totals": {
            "exact": lambda: totals.partial(store, 0, rows, rows_at_once, [all_totals])[0],
            "numpy": lambda: by_numpy(store, rows_at_once, totals_of),
            "dask.array": lambda: by_dask(store, totals_of, (features,)),
        },
        "histograms": {
            "exact": lambda: histograms.partial(store, 0, rows, rows_at_once, [all_bins])[0],
            "numpy": lambda: by_numpy(store, rows_at_once, histograms_of),
            "dask.array": lambda: by_dask(store, histograms_of, (features, BINS.size)),
        },
    }


def check(query: str, found: dict[str, np.ndarray], rows: int) -> None:
    """Stop where the answers are not of the same numbers."""
    if query == "totals":
        exact = found["exact"][0, 1:] / LARGEST  # each record is rounded by at most half a step
        right = all(np.abs(found[peer] - exact).max() <= rows / LARGEST for peer in ("numpy", "dask.array"))
    else:
        right = all(np.array_equal(found[peer], found["exact"]) for peer in ("numpy", "dask.array"))
    if not right:
        raise SystemExit(f"the {query} differ")


def compare(rows: int, features: int) -> None:
    """Measure one size and print its lines."""
    rows_at_once = max(1, min(rows, CHUNK_BYTES // (4 * features)))
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        make_store(Path(folder) / "x", rows, features)
        store = open_store(Path(folder) / "x")
        for query, asked in works(store, rows_at_once).items():
            check(query, {name: work() for name, work in asked.items()}, rows)
            timed = [{name: seconds(work) for name, work in asked.items()} for _ in range(REPEATS)]
            own = statistics.median(run["exact"] for run in timed)
            print(
                f"{rows:>9,} x {features:<5} {query:<10} {own:7.3f} s, {1e9 * own / (rows * features):5.2f} ns a value"
            )
            for peer in ("numpy", "dask.array"):
                ratio = statistics.median(run[peer] / run["exact"] for run in timed)
                print(f"    against {peer:<10} ratio {ratio:.2f}")


if __name__ == "__main__":
    machine.begin(1)
    given = [int(word) for word in sys.argv[1:]]
    for size in [(given[0], given[1])] if given else SIZES:
        compare(*size)
