"""How fast this machine is, in about a second: the rates of the cost model."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from scipy.linalg.blas import dsyrk
from threadpoolctl import threadpool_limits
from zarr.codecs import Crc32cCodec

from blockveil.engine.answers import eight_bit
from blockveil.engine.answers.byte_sums import Bytes
from blockveil.engine.answers.half_sums import Halves
from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.rates import NOMINAL, SINGLE, Rates
from blockveil.engine.noise.discrete_gaussian import GRID_TWO_LEVEL, NoiseKey
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.pipeline.data import zarr_arrays

_SECONDS = 0.15
"""Time that the measurement of each rate takes."""

_ROWS, _FEATURES = 1000, 1000


def measure(slots: int) -> Rates:
    """Rates of one core; how fast workers exchange sums is nominal.

    Writing is measured while as many cores work as there are task slots here. The rest is measured on one: workers are
    processes, and here threads would wait for each other's interpreter.

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
        group = zarr_arrays.create_group(Path(folder) / "rates.zarr", {})
        stored = group.create_array("records", data=records, chunks=records.shape, compressors=(Crc32cCodec(),))
        targets = [zarr_arrays.create_array(group, f"w{i}", records.shape, np.float64, ("r", "c")) for i in range(busy)]
        sums = np.zeros((_FEATURES, _FEATURES), order="F")

        def write(thread: int) -> None:
            targets[thread][...] = integers

        def multiply(_: int) -> None:
            dsyrk(1.0, integers.T, beta=1.0, c=sums, lower=1, overwrite_c=1)

        flops = _rate(_ROWS * _FEATURES * (_FEATURES + 1.0), 1, multiply)
        narrow, halves = _rates_in_bytes(flops)
        return Rates(
            flops=flops,
            narrow=narrow,
            halves=halves,
            # Rates of reading count a value as eight bytes, whatever its stored type.
            read=_rate(8.0 * values, 1, lambda _: np.asarray(stored[...])),
            quantise=_rate(values, 1, lambda _: quantiser.quantise_by_steps(records, integers)),
            move=NOMINAL.move,
            noise=_rate(
                512.0 * 512.0,
                1,
                lambda _: GRID_TWO_LEVEL.draw(key, side, side, symmetric=False),
            ),
            write=_rate(8.0 * values, busy, write),
            pairs=_rate(pairs, 1, lambda _: (sparse.T.tocsr() @ sparse).tocoo()),
        )


@cache
def products() -> eight_bit.Choice:
    """What multiplies integers of eight bits here."""
    with threadpool_limits(1, user_api="blas"):
        return eight_bit.choose(time.perf_counter)


def _rates_in_bytes(flops: float) -> tuple[float, float]:
    """Rates of products of integers of eight bits and by halves of them; those of BLAS where it computes them."""
    choice = products()
    if choice.product is None:
        return SINGLE * flops, flops
    narrow = _rate_of_way(Bytes(choice.product, eight_bit.LARGEST))
    return narrow, _rate_of_way(Halves(choice.product)) if choice.halves else flops


def _rate_of_way(how: Bytes | Halves) -> float:
    """Useful operations of a product in eight bits."""
    rows, everything = eight_bit.PIECE, (0, _FEATURES)
    panel: Any = how.panel(rows, _FEATURES, left=True)
    total: Any = how.tile_sum(Tile(everything, everything), half=True)
    panel.put(np.ones((rows, _FEATURES), how.dtype), 0)

    def multiply(_: int) -> None:
        panel.ready(rows)
        total.add(panel, panel, rows)

    return _rate(rows * _FEATURES * (_FEATURES + 1.0), 1, multiply)


def _rate(amount: float, busy: int, work: Callable[[int], object]) -> float:
    """Amount a second of one thread among several that do the same."""

    def repeat(thread: int) -> float:
        work(thread)  # the first call warms up
        start, count = time.perf_counter(), 0
        while (seconds := time.perf_counter() - start) < _SECONDS or count == 0:
            work(thread)
            count += 1
        return count * amount / seconds

    with ThreadPoolExecutor(busy) as pool:
        return float(np.mean(list(pool.map(repeat, range(busy)))))
