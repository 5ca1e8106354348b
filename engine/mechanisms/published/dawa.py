"""Data-aware counts (DAWA): a private partition of an ordered domain into buckets, then noisy bucket counts.

Step 1 chooses the partition of least noisy cost into intervals whose lengths are powers of two. The cost of a bucket of
L cells is its deviation ``sum |x_j - mean|`` plus a public penalty for the noise of step 2, rounded down to whole
units. Step 2 counts each bucket with noise; a bucket's count is spread evenly over its cells. Tables are laid out along
a Hilbert curve first.

Sensitivity of one bucket's deviation under add-remove: exactly ``2 - 2 / L``, below the published bound of 2 (one term
moves by at most 1 - 1/L, the L - 1 others by 1/L; attained where all cells are equal). In whole units: ``D``, rounded
up.

Loss of step 1: every candidate bucket, *also a single cell*, gets discrete Laplace noise of scale t, and ``epsilon =
2 D / t``, however many candidates there are. Proof: let B be the chosen partition, and b its bucket that holds the
changed cell. Lower the noise of b alone by 2 D. Against any partition that holds b too, B stands as before; against any
other, which holds exactly one changed bucket, B gains at least 2 D - D - D = 0. So B is chosen for the neighbour
as well: ties go to the lexicographically least lengths from the end, an order that does not depend on the data. The
shift costs ``2 D / t``. Noisy costs are not cut off at the penalty, as a cut could swallow the shift.

Verdict on the published guarantee: right for this algorithm. The authors' released program is not private as claimed:
it leaves single cells without noise, so that "all cells single" compares every bucket that holds a cell against a
fixed threshold, and each comparison leaks. At three cells and scale ``(2 - 1/L - 1/n) / epsilon`` its exact loss is
``12/7`` of the claimed epsilon; it grows with the number of candidates that hold a cell, to about n.

Under replace-one two cells change, so the loss is twice as much. Both steps together are in
:mod:`.buckets`.

**Source**: Li, Hay, Miklau and Wang, 2014, sections 3 and 4; step 2 is their identity. The exact sensitivity is derived
here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours

Draw = Callable[[tuple[int, int], tuple[int, int]], NDArray[np.int64]]
"""Secure discrete noise of a block, given half-open ranges of rows and columns: int64, every integer possible."""

_WINDOW_ENTRIES = 2**22
_MOST_WORK = 2**34
_LARGEST_COST = 2**62


@dataclass(frozen=True)
class Partitioner:
    """Step 1: a private partition of ``cells`` ordered cells.

    Attributes
    ----------
    cells
        Number of cells, n.
    longest
        Longest bucket, a power of two of at most n.
    unit
        Whole units of cost that stand for one record, a power of two; costs of lengths up to 2 unit are not rounded.
    penalty
        Cost of a bucket beside its deviation, in units, not negative. The published choice is unit / epsilon of step
        2; where that is far below the noise scale of step 1, buckets are chosen for lucky noise, and one near the
        scale serves better.
    neighbours
        Neighbouring relation; each record counts in one cell.
    """

    cells: int
    longest: int
    unit: int
    penalty: int
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be computed."""
        powers = all(value >= 1 and value & (value - 1) == 0 for value in (self.longest, self.unit))
        if not powers or self.longest > self.cells or self.unit > 2**20:
            raise CalibrationError(
                f"longest is {self.longest} and unit {self.unit} at {self.cells} cells; both are powers of two, the "
                "first at most the number of cells, the second at most 2**20"
            )
        if not 0 <= self.penalty <= 2**40:
            raise CalibrationError(f"penalty is {self.penalty}; it is a whole number of units from 0 to 2**40")
        if self.cells * self.longest > _MOST_WORK:
            raise CalibrationError("so many long buckets take too long; lower longest")

    @property
    def levels(self) -> int:
        """Number of lengths: 1, 2, 4, ..., longest."""
        return self.longest.bit_length()

    @property
    def sensitivity(self) -> int:
        """D: most that one record added or removed changes a bucket's cost, in units."""
        # Floors of numbers that are d apart are at most ceil(d) apart; d = (2 - 2 / longest) * unit.
        return -((2 - 2 * self.longest) * self.unit // self.longest)

    @property
    def records(self) -> int:
        """c: cells that change by one; a replaced record is one removed and one added."""
        return 1 if self.neighbours is Neighbours.ADD_REMOVE else 2

    def exact_loss(self, rate: Fraction) -> Fraction:
        """Pure loss of step 1 with discrete Laplace noise of this rate on every candidate's cost, ``2 D c rate``."""
        # A bucket of one cell alone never changes; the partition is then public, and any loss is true.
        return max(2 * self.sensitivity, 1) * self.records * rate

    def check_records(self, most: int) -> None:
        """Refuse so many records that a cost could leave int64; CalibrationError."""
        # The positive parts sum to L * records at most.
        if 2 * self.unit * self.longest * most > _LARGEST_COST:
            raise CalibrationError(
                f"costs of {most} records can exceed 2**62; lower rows_at_most or the number of cells"
            )

    def costs(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cost of the bucket of ``2**k`` cells from cell i on, in units: shape (levels, cells), int64.

        Buckets that would leave the domain cost nothing here and are never candidates.
        """
        _check_counts(counts, self.cells)
        self.check_records(int(np.sum(counts)))
        costs = np.zeros((self.levels, self.cells), dtype=np.int64)
        for level in range(self.levels):
            length = 2**level
            starts = self.cells - length + 1
            # sum |L x - S| is twice the sum of its positive parts; the deviation is that over L.
            costs[level, :starts] = 2 * self.unit * _positive_parts(counts, length) // length
            costs[level, :starts] += self.penalty
        return costs

    def gain(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
        """Largest gain of a partition against another between two neighbours, in units; ``2 D c`` at most."""
        gain = 0
        # A bucket far from every changed cell costs the same in both, and single cells always do.
        for begin, end in _near(np.flatnonzero(first != second), self):
            near = replace(self, cells=end - begin)
            difference = near.costs(first[begin:end]) - near.costs(second[begin:end])
            gain += _least(difference) + _least(-difference)
        return gain

    def partition(self, counts: NDArray[np.int64], draw: Draw) -> NDArray[np.int64]:
        """Private partition: increasing borders from 0 to ``cells``, int64; bucket i is ``borders[i]:borders[i + 1]``.

        Parameters
        ----------
        counts
            Shape (cells,), int64.
        draw
            Secure discrete Laplace noise of the scale that is charged; asked once for (levels, cells).
        """
        noise = draw((0, self.levels), (0, self.cells))
        if noise.dtype != np.int64 or noise.shape != (self.levels, self.cells):
            raise CalibrationError(f"noise must be int64 of shape {(self.levels, self.cells)}; give one a candidate")
        return least_cost_partition(self.costs(counts) + noise)


def least_cost_partition(costs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Partition of least total cost; among equals the one whose last bucket is shortest, then the one before it.

    Parameters
    ----------
    costs
        Shape (levels, cells), int64: entry (k, i) for the bucket of ``2**k`` cells from cell i on.

    Returns
    -------
    Borders, int64.
    """
    levels, cells = costs.shape
    rows = costs.tolist()  # Python integers cannot overflow
    best, length_of = [0] * (cells + 1), [0] * (cells + 1)
    for end in range(1, cells + 1):
        options = [
            (best[end - 2**level] + rows[level][end - 2**level], 2**level) for level in range(levels) if 2**level <= end
        ]
        best[end], length_of[end] = min(options)
    borders = [cells]
    while borders[-1] > 0:
        borders.append(borders[-1] - length_of[borders[-1]])
    return np.array(borders[::-1], dtype=np.int64)


def _near(changed: NDArray[np.intp], partitioner: Partitioner) -> list[tuple[int, int]]:
    """Stretches of cells that a bucket with a changed cell can reach, apart from each other."""
    stretches: list[tuple[int, int]] = []
    for cell in changed.tolist():
        begin, end = max(0, cell - partitioner.longest + 1), min(partitioner.cells, cell + partitioner.longest)
        if stretches and begin < stretches[-1][1]:
            begin = stretches.pop()[0]
        stretches.append((begin, end))
    return stretches


def _least(moved: NDArray[np.int64]) -> int:
    """How far the partition that moves down most moves, not below nothing."""
    borders = least_cost_partition(moved)
    levels = np.array([int(length).bit_length() - 1 for length in np.diff(borders)])
    return -int(np.sum(moved[levels, borders[:-1]]))


def bucket_counts(counts: NDArray[np.int64], borders: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exact count of each bucket, int64; one record changes one of them by one."""
    _check_counts(counts, int(borders[-1]))
    return np.add.reduceat(counts, borders[:-1])


def hilbert_order(shape: tuple[int, int]) -> NDArray[np.int64]:
    """Cells of a table along a Hilbert curve: flat C-order indices, shape (m * n,), int64; a public permutation."""
    m, n = shape
    if m < 1 or n < 1:
        raise CalibrationError(f"the table is {shape}; it needs at least one cell; give positive lengths")
    side = 1 << (min(m, n) - 1).bit_length()
    if max(m, n) > side:
        # Squares one after the other along the longer axis; a line of cells stays as it is.
        places = np.arange(m * n, dtype=np.int64).reshape(m, n)
        squares = [places[:, k : k + side] if n > m else places[k : k + side] for k in range(0, max(m, n), side)]
        return np.concatenate([square.ravel()[_curve(square.shape[0], square.shape[1], side)] for square in squares])
    return _curve(m, n, side)


def _curve(m: int, n: int, side: int) -> NDArray[np.int64]:
    """Part of a Hilbert curve over a square of ``side`` that lies in a table."""
    step = np.arange(side * side, dtype=np.int64)
    row, column, rest, size = np.zeros_like(step), np.zeros_like(step), step.copy(), 1
    while size < side:
        right = (rest // 2) & 1
        down = (rest ^ right) & 1
        flip = (down == 0) & (right == 1)
        row, column = np.where(flip, size - 1 - row, row), np.where(flip, size - 1 - column, column)
        row, column = np.where(down == 0, column, row), np.where(down == 0, row, column)
        row, column, rest, size = row + size * right, column + size * down, rest // 4, size * 2
    inside = (row < m) & (column < n)
    curve: NDArray[np.int64] = (row * n + column)[inside]
    return curve


def _positive_parts(counts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """``sum_j max(L x_j - S, 0)`` of each window of L cells, exact in int64."""
    windows = np.lib.stride_tricks.sliding_window_view(counts, length)
    sums = np.empty(windows.shape[0], dtype=np.int64)
    rows = max(1, _WINDOW_ENTRIES // length)
    for first in range(0, sums.size, rows):
        block = windows[first : first + rows]
        above = length * block - block.sum(axis=1, keepdims=True)
        np.sum(np.maximum(above, 0), axis=1, out=sums[first : first + rows])
    return sums


def _check_counts(counts: NDArray[np.int64], cells: int) -> None:
    if counts.shape != (cells,) or counts.dtype != np.int64:
        raise CalibrationError(f"counts must be int64 of shape ({cells},); lay a table out with hilbert_order first")
    if np.any(counts < 0):
        raise CalibrationError("a count is negative; exact counts of records are needed, not noisy ones")
