"""Leading directions of a large second moment: ``python -m benchmarks.leading [FEATURES] [K]`` (20,000 and 50).

Writes a made-up release with five directions in noise, as the benchmark of the report does, and finds its leading
directions in a process of its own. Beside it stands a plain reading of the matrix, which each of some ten passes needs,
and the processor time of that process, all threads together, which a busy machine hardly changes.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import machine
from benchmarks.report import write


def find(path: Path, k: int, answer: multiprocessing.Queue) -> None:
    """Find the directions; tells seconds, a bound of the peak in GiB (the parent's counts too), and what was found."""
    import blockveil as bv

    began, before = time.perf_counter(), time.process_time()
    release = bv.open(path)
    opened = time.perf_counter()
    checked = time.process_time()
    found = release.eigenpairs(k)
    ended, used = time.perf_counter(), time.process_time()
    matrix = release.opened.arrays["second_moment"]
    for top in range(0, matrix.shape[0], 1024):
        np.asarray(matrix[top : top + 1024])
    read = time.perf_counter() - ended
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    answer.put(
        (
            (opened - began, ended - opened, read),
            (checked - before, used - checked),
            peak,
            found.above_noise,
            float(found.errors[:5].max()),
        )
    )


if __name__ == "__main__":
    machine.begin()
    given = [int(word) for word in sys.argv[1:]]
    features, k = (*given, *(20_000, 50)[len(given) :])
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "made-up.zarr", features)
        context = multiprocessing.get_context("spawn")
        answers = context.Queue()
        process = context.Process(target=find, args=(Path(folder) / "made-up.zarr", k, answers))
        process.start()
        (opened, seconds, read), (checked, used), peak, above, error = answers.get()
        process.join()
    print(
        f"{features:,} features, {k} directions: {seconds:.0f} s, {seconds / read:.1f} times one reading of the matrix"
    )
    print(
        f"checked against its digest before in {opened:.0f} s; at most {peak:.2f} GiB at its peak, libraries included"
    )
    print(f"processor seconds: {used:.0f}, and {checked:.0f} to check its digest")
    print(f"{above} directions above the noise, where five were put; values within {error:.2g}")
