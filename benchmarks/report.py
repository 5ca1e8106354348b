"""Memory and time of the report of a large second moment: ``python -m benchmarks.report [FEATURES]`` (20,000).

Writes a made-up release of two matrices into a temporary folder, then makes its report in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from benchmarks import machine
from blockveil.pipeline.data import content, zarr_arrays

SIDE = 1024
LOSS = {"mu": 0.2, "epsilon": 0.0, "total_variation": 0.0}
ATTRIBUTES = {
    "title": "Made up", "matrix": "second_moment", "logical_date": "2026-11-20", "release_id": "made/up/2026-11-20",
    "query": {}, "plan_digest": "0" * 64, "ledger": {"sequence": 1, "row_hash": "0" * 64}, "software": {},
    "guarantee": {
        "epsilon": 1.0, "delta": 1e-6, "neighbours": "add-remove", "privacy_unit": "one row", "sentence": "Made up.",
        "loss": LOSS,
    },
    "mechanism": {
        "mechanism": "gaussian", "sensitivity": 1.0, "sensitivity_exact": True, "scale": 1.0, "grid": "2 levels",
    },
}  # fmt: skip


def write(path: Path, d: int) -> None:
    """Five directions in noise of standard deviation one on the diagonal and the root of a half beside it."""
    source = np.random.default_rng(0)
    factors = 3.0 * source.standard_normal((d, 5))
    group = zarr_arrays.create_group(path, {})
    value, deviation = (
        group.create_array(
            name,
            shape=(d, d),
            chunks=(SIDE, SIDE),
            dtype="<f8",
            fill_value=float("nan"),
            compressors=(ZstdCodec(level=1), Crc32cCodec()),
            dimension_names=("feature", "feature_"),
        )
        for name in ("second_moment", "second_moment_standard_deviation")
    )
    for top in range(0, d, SIDE):
        rows = slice(top, min(top + SIDE, d))
        for left in range(top, d, SIDE):
            columns = slice(left, min(left + SIDE, d))
            block = source.standard_normal((rows.stop - top, columns.stop - left)) * np.sqrt(0.5)
            block += factors[rows] @ factors[columns].T
            value[rows, columns] = np.triu(block) + np.triu(block, 1).T if left == top else block
            if left != top:
                value[columns, rows] = block.T
        band = np.full((rows.stop - top, d), np.sqrt(0.5))
        band[np.arange(band.shape[0]), np.arange(top, rows.stop)] = 1.0
        deviation[rows] = band
    arrays = {name: content.Labelled.of(array) for name, array in group.arrays()}
    digest = content.content_digest(arrays, ATTRIBUTES)
    zarr.open_group(path, mode="a").attrs.update({**ATTRIBUTES, "output_digest": digest})


def make(path: Path, answer: multiprocessing.Queue) -> None:
    """Make the report; tells seconds, a bound of the peak in GiB (the parent's counts too), and the spectrum."""
    from blockveil.pipeline.report import write_report

    began = time.perf_counter()
    lines = write_report(path).lines
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    answer.put((time.perf_counter() - began, peak, dict(lines)["Spectrum"]))


if __name__ == "__main__":
    machine.begin()
    features = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "made-up.zarr", features)
        context = multiprocessing.get_context("spawn")
        answers = context.Queue()
        process = context.Process(target=make, args=(Path(folder) / "made-up.zarr", answers))
        process.start()
        seconds, peak, spectrum = answers.get()
        process.join()
    size = 8 * features**2 / 2**30
    print(f"{features:,} features: {seconds:.0f} s; at most {peak:.2f} GiB at its peak, libraries included")
    print(f"that is {peak / size:.2f} of one matrix of {size:.2f} GiB, of which the release holds two")
    print(spectrum)
