"""Exact second moment of sparse records: only values other than zero multiplied, against all, in the same run.

Values other than zero are read from a Zarr array of whole rows, whose zeros are compressed, and from stored entries;
all values from the array of rows. One BLAS thread; all must give the same bits. Prints medians and the ratios of
interleaved runs (above 1: values other than zero alone are faster), and which of the two the cost model chooses.
``python -m benchmarks.sparse [ROWS FEATURES DENSITY]``
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import machine
from benchmarks.gram import REPEATS, seconds
from blockveil.engine.answers.gram import IntegerFactor, tile_sums
from blockveil.engine.answers.layout import grid
from blockveil.engine.answers.sparse import entry_sums
from blockveil.engine.answers.sparse_rows import SparseRows
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.pipeline.data import zarr_arrays
from blockveil.pipeline.data.ingest.sparse_files import CHUNK_ENTRIES

CHUNK_BYTES = 32 * 2**20


def main() -> None:
    """Compare at the size given on the command line, or at several default sizes."""
    words = sys.argv[1:]
    given = [(int(words[0]), int(words[1]), float(words[2]))] if words else None
    for rows, features, density in given or [
        (10_000, 4_000, 0.001),
        (10_000, 4_000, 0.01),
        (10_000, 4_000, 0.05),
        (2_000, 20_000, 0.005),
    ]:
        rng = np.random.default_rng(0)
        chunk_rows = max(1, CHUNK_BYTES // (8 * features))
        box = Box(np.zeros(features), np.ones(features), np.full(features, 0.5))
        quantiser = Quantiser(box.coordinates(), 32767, True, None)
        width = quantiser.width
        tiles = grid((width, width), True, 1)
        factor = IntegerFactor(quantiser, (0, features))
        with tempfile.TemporaryDirectory() as folder, threadpool_limits(1, user_api="blas"):
            group = zarr_arrays.create_group(Path(folder) / "x.zarr", {})
            array = zarr_arrays.create_array(group, "records", (rows, features), np.uint8, ("record", "feature"))
            columns, borders = list[np.ndarray](), [np.zeros(1, np.int64)]
            for first in range(0, rows, 1024):
                shape = (min(1024, rows - first), features)
                found = rng.random(shape, dtype=np.float32) < density
                array[first : first + shape[0]] = found.astype(np.uint8)
                columns.append(np.nonzero(found)[1].astype(np.int32))
                borders.append(borders[-1][-1] + np.cumsum(np.count_nonzero(found, axis=1)))
            indices = np.concatenate(columns)
            stored = {
                "indices": indices,
                "data": np.ones(indices.size, np.uint8),
                "indptr": np.concatenate(borders),
            }
            parts = {}
            for name, values in stored.items():
                parts[name] = group.create_array(name, shape=values.shape, chunks=(CHUNK_ENTRIES,), dtype=values.dtype)
                parts[name][...] = values
            listed = SparseRows(parts["data"], parts["indices"], parts["indptr"], features)

            def entries() -> list[np.ndarray]:
                return entry_sums(listed, 0, rows, quantiser, chunk_rows, tiles)  # noqa: B023

            def sparse() -> list[np.ndarray]:
                return entry_sums(array, 0, rows, quantiser, chunk_rows, tiles)  # noqa: B023

            def whole() -> list[np.ndarray]:
                return tile_sums(array, 0, rows, factor, None, chunk_rows, tiles)  # noqa: B023

            for found_sums in zip(entries(), sparse(), whole(), strict=True):
                if not all(np.array_equal(found_sums[0], other) for other in found_sums[1:]):
                    raise SystemExit("the answers differ")
            timed = [(seconds(entries), seconds(sparse), seconds(whole)) for _ in range(REPEATS)]
        medians = [statistics.median(column) for column in zip(*timed, strict=True)]
        ratios = [statistics.median(run[2] / run[which] for run in timed) for which in (0, 1)]
        chosen = Work(
            GrowthKind.PRODUCTS, rows, features, (width, width), symmetric=True, lead=1, density=density
        ).sparse
        print(f"{rows:>7} x {features:<6} {100 * density:.1f} % other than zero")
        for name, median, ratio in zip(("entries", "rows"), medians[:2], ratios, strict=True):
            print(f"    from {name:<8} {median:7.2f} s   all {medians[2]:7.2f} s   ratio {ratio:6.2f}")
        print(f"    the cost model multiplies {'values other than zero' if chosen else 'all'}")


if __name__ == "__main__":
    machine.begin(1)
    main()
