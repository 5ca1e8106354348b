"""Exact second moment of sparse records: only values other than zero multiplied, against all, in the same run.

Both read the same Zarr array, whose zeros are compressed, with one BLAS thread, and must give the same bits. Prints the
median of interleaved pairs and their ratio (above 1: values other than zero alone are faster), and which of the two the
cost model chooses. ``python -m benchmarks.sparse [ROWS FEATURES DENSITY]``
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.gram import REPEATS, seconds
from engine import store
from engine.cost import Kind, Work
from engine.fixedpoint import Quantiser
from engine.geometry import Box
from engine.gram import Factor, tile_sums
from engine.layout import grid
from engine.sparse import entry_sums

CHUNK_BYTES = 32 * 2**20


def main() -> None:
    """Compare at the size given on the command line, or at several default sizes."""
    words = sys.argv[1:]
    given = [(int(words[0]), int(words[1]), float(words[2]))] if words else None
    for rows, features, density in given or [
        (20_000, 4_000, 0.001),
        (20_000, 4_000, 0.01),
        (20_000, 4_000, 0.1),
        (4_000, 20_000, 0.005),
    ]:
        rng = np.random.default_rng(0)
        chunk_rows = max(1, CHUNK_BYTES // (8 * features))
        box = Box(np.zeros(features), np.ones(features), np.full(features, 0.5))
        quantiser = Quantiser(box.coordinates(), 32767, True, None)
        width = quantiser.width
        tiles = grid((width, width), True, 1)
        factor = Factor(quantiser, (0, features))
        with tempfile.TemporaryDirectory() as folder, threadpool_limits(1, user_api="blas"):
            group = store.create_group(Path(folder) / "x.zarr", {})
            array = store.create_array(group, "records", (rows, features), np.uint8, ("record", "feature"))
            for first in range(0, rows, 1024):
                shape = (min(1024, rows - first), features)
                array[first : first + shape[0]] = (rng.random(shape, dtype=np.float32) < density).astype(np.uint8)

            def sparse() -> list[np.ndarray]:
                return entry_sums(array, 0, rows, quantiser, chunk_rows, tiles)  # noqa: B023

            def whole() -> list[np.ndarray]:
                return tile_sums(array, 0, rows, factor, None, chunk_rows, tiles)  # noqa: B023

            if not all(np.array_equal(a, b) for a, b in zip(sparse(), whole(), strict=True)):
                raise SystemExit("the two answers differ")
            timed = [(seconds(sparse), seconds(whole)) for _ in range(REPEATS)]
        few, all_values = (statistics.median(column) for column in zip(*timed, strict=True))
        ratio = statistics.median(b / a for a, b in timed)
        chosen = Work(Kind.PRODUCTS, rows, features, (width, width), symmetric=True, lead=1, density=density).sparse
        print(
            f"{rows:>7} x {features:<6} {100 * density:5.1f} % other than zero: {few:7.2f} s   all {all_values:7.2f} s"
            f"   ratio {ratio:6.2f}   the cost model multiplies {'values other than zero' if chosen else 'all'}"
        )


if __name__ == "__main__":
    main()
