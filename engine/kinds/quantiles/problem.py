"""Balances of the cells of every column, as a mechanism sees them; see :mod:`.problems` and :mod:`.balance_matrix`.

A value is in at most one of the n cells of its column, so a record adds one column of the matrix B of each of the d
columns to the answer, and beside it w to the number of values of that column where this number is measured. With b and
w in integers, let ``g = |b|^2`` be the squared length of every column of B and h the largest squared distance of two.

* **Add-remove**: a record with a value in each column changes the answer most: by ``g + w^2`` in each, in square; a
  missing value changes nothing.
* **Replace-one**: a value that leaves one cell for another changes ``B x`` by the difference of two columns of B, and
  no number of values; one that becomes missing, or is missing no longer, ``g + w^2``. The larger of h and that where
  values may be missing, and h alone elsewhere, where the number of values is that of the records and public.

Squares add up over the columns of the records, in which values are in any cells independently of each other: both
bounds are attained. In L1 ``|b|_1 + w`` stands for ``g + w^2``, exactly; under replace-one twice that is an upper
bound.

**Source**: Li, Hay, Rastogi, Miklau and McGregor, 2010, Proposition 3, for one column; the sums are derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt, ldexp, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.quantiles.balance_matrix import BITS, BalanceStrategy
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread

_ROUND_UP = 1.0 + 1e-13

_LEAST_TAIL = 0.05
"""For medians alone, whose ranks need no number of values: it is published all the same."""


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Measured balances of each column in a row, and behind them its number of values where that is not public.

    Attributes
    ----------
    sizes
        Cells of each column, at least two; rows of fewer cells than others have entries that stay zero.
    neighbours, rows_at_most
        As for :class:`SecondMoment`.
    complete
        Whether no value is missing: records with one are refused.
    tail
        Largest distance of a probability from 1/2, 0 to 1/2.
    """

    query: ClassVar[str] = "quantiles"
    sizes: tuple[int, ...]
    neighbours: Neighbours
    rows_at_most: int
    complete: bool
    tail: float

    @cached_property
    def columns(self) -> tuple[BalanceStrategy, ...]:
        """Matrix of each column; the same integers for the sensitivity and wherever records are counted."""
        matrices = {size: BalanceStrategy(size) for size in self.sizes}
        return tuple(matrices[size] for size in self.sizes)

    @property
    def counted(self) -> bool:
        """Whether the number of values is measured: it is public where all records have one and their number is."""
        return not (self.complete and self.neighbours is Neighbours.REPLACE_ONE)

    @property
    def weight(self) -> int:
        """Weight of the number of values, times ``2**BITS``; zero where it is public."""
        if not self.counted:
            return 0
        if self.neighbours is Neighbours.REPLACE_ONE:
            # h exceeds g, so that the count costs nothing up to here.
            return isqrt(min(column.squared_distance - column.squared_length for column in self.columns))
        # A rank at probability p has a variance of g + (1/2 - p)^2 / (w^2 k), where k columns have the same number of
        # values, at a squared sensitivity of g + w^2 in each: the product is least for this w.
        alike = len(self.sizes) if self.complete else 1
        return ceil(ldexp(sqrt(max(self.tail, _LEAST_TAIL) / sqrt(alike)), BITS))

    @property
    def shape(self) -> tuple[int, int]:
        """Columns of the records, and the largest number of cells with the number of values behind."""
        return len(self.sizes), max(self.sizes) + self.counted

    @property
    def symmetric(self) -> bool:
        """No."""
        return False

    @property
    def units(self) -> tuple[Vector, Vector]:
        """Records."""
        return np.ones(self.shape[0]), np.ones(self.shape[1])

    @property
    def scaling(self) -> Scaling:
        """Coefficients are multiples of ``2**-BITS``."""
        largest = max(int(np.max(np.abs(column.kernel))) for column in self.columns)
        return Scaling(1 << BITS, self.rows_at_most * max(largest, self.weight))

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Noise by column of the records and by place."""
        if (rows.size, columns.size) != self.shape:
            raise ValueError("the noise of quantiles is given by column of the records and by cell")
        return Spread(rows, columns, False, sum(self.sizes) + self.counted * len(self.sizes))

    def l2(self, spread: Spread) -> Sensitivity:
        """Root of the sum over columns, exact for noise of one size."""
        root = ldexp(sqrt(sum(map(self._square, self.columns))), -BITS)
        return Sensitivity(root / spread.least * _ROUND_UP, root / _largest(spread))

    def _square(self, column: BalanceStrategy) -> int:
        """Largest square of what one record changes in a column, times ``4**BITS``; see the module."""
        one = column.squared_length + self.weight**2
        if self.neighbours is Neighbours.ADD_REMOVE:
            return one
        return column.squared_distance if self.complete else max(column.squared_distance, one)

    def l1(self, spread: Spread) -> Sensitivity:
        """Sum over columns."""
        one = ldexp(sum(column.sum_of_sizes + self.weight for column in self.columns), -BITS)
        if self.neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(one / spread.least * _ROUND_UP, one / _largest(spread))
        # |a - b|_1 <= |a|_1 + |b|_1; and it is at least |a - b|_2.
        return Sensitivity(2.0 * one / spread.least * _ROUND_UP, self.l2(spread).attained)

    def largest_norm(self) -> float:
        """All values of each column in one cell."""
        squares = sum(column.squared_length + self.weight**2 for column in self.columns)
        return self.rows_at_most * ldexp(sqrt(squares), -BITS)

    def answers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact answer times ``2**BITS``, int64, shape ``shape``.

        Parameters
        ----------
        counts
            Values in each cell, shape (columns, largest number of cells).
        """
        values = np.zeros(self.shape, dtype=np.int64)
        for row, column in enumerate(self.columns):
            size = column.cells
            values[row, :size] = column.answers(counts[row, :size])
            if self.counted:
                values[row, -1] = self.weight * int(np.sum(counts[row, :size]))
        return values


def _largest(spread: Spread) -> float:
    return float(np.max(spread.rows)) * float(np.max(spread.columns))
