"""Secure discrete noise against NumPy's ``standard_normal``, one thread, interleaved, in the same run.

Prints the median ratio (1: as fast as the generator that is not secure). ``python -m benchmarks.noise``
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from engine.noise import GRID_THREE_LEVEL, GRID_TWO_LEVEL, NoiseKey, noise_block

SIDE, REPEATS = 2048, 7


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Print one line a grid."""
    key, rng, size = NoiseKey.derive(bytes(32), b"benchmark"), np.random.default_rng(0), (0, SIDE)
    for grid in (GRID_TWO_LEVEL, GRID_THREE_LEVEL):
        timed = [
            (
                seconds(lambda: noise_block(key, size, size, grid=grid, symmetric=False)),  # noqa: B023
                seconds(lambda: rng.standard_normal((SIDE, SIDE))),
            )
            for _ in range(REPEATS)
        ]
        rates = [SIDE * SIDE / statistics.median(column) / 1e6 for column in zip(*timed, strict=True)]
        ratio = statistics.median(peer / ours for ours, peer in timed)
        print(f"{grid.label}: {rates[0]:6.1f} M/s   standard_normal {rates[1]:6.1f} M/s   ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
