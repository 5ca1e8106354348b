"""Records turned to integers by compiled code against NumPy, and both against ``standard_normal``, in the same run.

One thread, records in memory, interleaved; integers of both ways are compared. Prints nanoseconds a value, the median
ratio of pairs (above 1: compiled is faster), and how long compiling or loading took.

``python -m benchmarks.quantise``
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import machine
from blockveil.engine.records import one_pass
from blockveil.engine.records.dither import Dither
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.flows.base import compiled

REPEATS, VALUES = 7, 4 * 2**20


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(kernels: one_pass.Kernels, dtype: type, features: int, dithered: bool) -> None:
    """Print one line: 8 bits at places of their own in single precision, or 16 bits to nearest in double."""
    rng = np.random.default_rng(0)
    records = (rng.standard_normal((VALUES // features, features)) * 1.5).astype(dtype)
    box = Box(np.full(features, -3.0), np.full(features, 3.0), np.zeros(features))
    largest, dither = (127, Dither(features)) if dithered else (32767, None)
    quantiser = Quantiser(box.coordinates(), largest, False, None, dither=dither)
    found = [np.empty(records.shape, np.float32 if dithered else np.float64) for _ in range(2)]

    def run(ours: bool) -> float:
        one_pass.use(kernels if ours else None)
        return seconds(lambda: quantiser.quantise_by_steps(records, found[ours]))

    timed = [(run(False), run(True), seconds(lambda: rng.standard_normal(records.shape))) for _ in range(REPEATS + 1)]
    if not np.array_equal(*found):
        raise SystemExit("the integers differ")
    numpy, ours, normal = (statistics.median(column) / records.size * 1e9 for column in zip(*timed[1:], strict=True))
    ratio = statistics.median(a / b for a, b, _ in timed[1:])
    what = "8 bits, own places" if dithered else "16 bits, nearest"
    print(
        f"{np.dtype(dtype).name:>8} x {features:<5} {what:<18} numpy {numpy:5.2f} ns   compiled {ours:5.2f} ns   "
        f"ratio {ratio:4.2f}   standard_normal {normal:5.2f} ns"
    )


def main() -> None:
    """Compare for types of records and numbers of features."""
    taken = seconds(compiled.prepare)
    kernels = compiled.prepare().records
    if kernels is None:
        raise SystemExit('nothing is compiled; pip install "blockveil[fast]"')
    print(f"compiled or loaded in {taken:.2f} s")
    with threadpool_limits(1, user_api="blas"):
        for features in (50, 2000):
            for dtype in (np.float64, np.float32, np.float16, np.int8, np.int32):
                for dithered in (True, False):
                    compare(kernels, dtype, features, dithered)


if __name__ == "__main__":
    machine.begin(1)
    main()
