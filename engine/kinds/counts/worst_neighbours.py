"""Counts in six cells and along a line of eight, and records in other cells."""

from __future__ import annotations

import numpy as np

from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.sensitivity.small_cases import ADD, REPLACE, ROWS, SmallCase
from blockveil.engine.workloads.workload import AllRange, Kronecker, Total

RANGES = (Kronecker(Total(1), AllRange(8)),)


def worst_neighbours() -> list[SmallCase]:
    """Return a record in one cell against none, and against one in another; of cells alone and of ranges."""
    cell, other = np.zeros((2, 3)), np.zeros((2, 3))
    cell[0, 0] = other[1, 2] = 1.0
    line = np.eye(8)[:, None, :]
    return [
        SmallCase("counts", Counts((2, 3), ADD, ROWS), [(cell, np.zeros((2, 3)))]),
        SmallCase("counts", Counts((2, 3), REPLACE, ROWS), [(cell, other)]),
        SmallCase("counts", Counts((1, 8), ADD, ROWS, RANGES), [(line[0], np.zeros((1, 8)))]),
        SmallCase("counts", Counts((1, 8), REPLACE, ROWS, RANGES), [(line[0], line[7])]),
    ]
