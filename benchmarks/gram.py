"""Exact integer Gram matrix from Zarr against plain float64 ``X.T @ X`` from the same store, in the same run.

Both read the same chunks and use one BLAS thread, whatever the environment says. Prints the median of interleaved pairs
and their ratio (above 1: the exact one is faster). ``python -m benchmarks.gram [ROWS FEATURES]``
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from benchmarks import machine
from blockveil.engine.answers.gram import partial_gram
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser

REPEATS = 5


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def plain(store: zarr.Array, rows_at_once: int) -> np.ndarray:
    """Float64 Gram matrix with the clip that any private release needs."""
    total = np.zeros((store.shape[1], store.shape[1]))
    for first in range(0, store.shape[0], rows_at_once):
        block = np.asarray(store[first : first + rows_at_once]).astype(np.float64)
        np.clip(block, -1.0, 1.0, out=block)
        total += block.T @ block
    return total


def main() -> None:
    """Compare at the sizes given on the command line, or at two default sizes."""
    given = [int(word) for word in sys.argv[1:]]
    for rows, features in [(given[0], given[1])] if given else [(60_000, 500), (20_000, 2_000)]:
        chunk_rows = max(1, 2**24 // (8 * features))
        with tempfile.TemporaryDirectory() as folder:
            store = zarr.create_array(
                Path(folder) / "x",
                shape=(rows, features),
                chunks=(chunk_rows, features),
                dtype="f8",
                compressors=[ZstdCodec(level=1), Crc32cCodec()],
            )
            store[:] = np.random.default_rng(0).uniform(-1.2, 1.2, (rows, features)).round(3)
            box = Box(-np.ones(features), np.ones(features), np.zeros(features))
            quantiser = Quantiser(box.coordinates(), 32767, False, None)
            timed = [
                (
                    seconds(lambda: partial_gram(store, 0, rows, quantiser, chunk_rows)),  # noqa: B023
                    seconds(lambda: plain(store, chunk_rows)),  # noqa: B023
                )
                for _ in range(REPEATS)
            ]
        exact, floats = (statistics.median(column) for column in zip(*timed, strict=True))
        ratio = statistics.median(b / a for a, b in timed)
        print(f"{rows:>8} x {features:<5} exact {exact:7.3f} s   plain floats {floats:7.3f} s   ratio {ratio:.2f}")


if __name__ == "__main__":
    machine.begin(1)
    main()
