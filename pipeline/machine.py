"""How fast this machine is, in about a second: the rates of the cost model, measured with all of its cores at work."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import scipy.sparse
from scipy.linalg.blas import dsyrk
from threadpoolctl import threadpool_limits

from engine import store
from engine.cost import NOMINAL, Rates
from engine.fixedpoint import Quantiser
from engine.geometry import Box
from engine.noise import GRID_TWO_LEVEL, NoiseKey

_SECONDS = 0.15
"""For each rate."""

_ROWS, _FEATURES = 1000, 1000


def measure(slots: int) -> Rates:
    """Rates of one core while as many work as there are task slots here; how fast workers exchange sums is nominal.

    Parameters
    ----------
    slots
        Tasks at once; at most the cores of this machine are used.
    """
    busy = max(1, min(slots, os.cpu_count() or 1))
    box = Box(np.full(_FEATURES, -3.0), np.full(_FEATURES, 3.0), np.zeros(_FEATURES))
    quantiser = Quantiser(box.coordinates(), 32767, False, None)
    records = np.random.default_rng(0).standard_normal((_ROWS, _FEATURES)).astype(np.float32)
    integers = quantiser.quantise(records)
    values, side = records.size, (0, 512)
    few = (np.random.default_rng(0).random((_ROWS, _FEATURES)) < 0.01).astype(np.int64)
    sparse = scipy.sparse.csr_array(few)
    pairs = float(np.sum(np.diff(sparse.indptr).astype(np.float64) ** 2))
    key = NoiseKey(bytes(32))
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1, user_api="blas"):
        group = store.create_group(Path(folder) / "rates.zarr", {})
        store.write_array(group, "records", records, ("record", "feature"))
        targets = [store.create_array(group, f"w{i}", records.shape, np.float64, ("r", "c")) for i in range(busy)]
        stored = group["records"]

        def write(thread: int) -> None:
            targets[thread][...] = integers

        return Rates(
            flops=_rate(_ROWS * _FEATURES * (_FEATURES + 1.0), busy, lambda _: dsyrk(1.0, integers.T)),
            # Rates of reading count a value as eight bytes, whatever its stored type.
            read=_rate(8.0 * values, busy, lambda _: np.asarray(stored[...])),  # type: ignore[index]
            quantise=_rate(values, busy, lambda _: quantiser.quantise(records)),
            move=NOMINAL.move,
            noise=_rate(
                512.0 * 512.0,
                busy,
                lambda _: GRID_TWO_LEVEL.draw(key, side, side, symmetric=False),
            ),
            write=_rate(8.0 * values, busy, write),
            pairs=_rate(pairs, busy, lambda _: (sparse.T.tocsr() @ sparse).tocoo()),
        )


def _rate(amount: float, busy: int, work: Callable[[int], object]) -> float:
    """Amount a second of one thread among several that do the same."""

    def repeat(thread: int) -> float:
        work(thread)  # the first call warms up
        start, count = time.perf_counter(), 0
        while (passed := time.perf_counter() - start) < _SECONDS or count == 0:
            work(thread)
            count += 1
        return count * amount / passed

    with ThreadPoolExecutor(busy) as pool:
        return float(np.mean(list(pool.map(repeat, range(busy)))))
