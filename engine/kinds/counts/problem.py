"""Counts of records in a public grid, as a mechanism sees them; see :mod:`.problems`."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread
from blockveil.engine.workloads.workload import Workload

_ROUND_UP = 1.0 + 1e-13


@dataclass(frozen=True, eq=False)
class Counts:
    """Number of records in each cell of a public grid; each record counts in at most one cell.

    Attributes
    ----------
    cells
        Shape of the answer: of a grid of more than two axes, the matrix that holds its cells.
    neighbours, rows_at_most
        As for :class:`SecondMoment`.
    workload
        Sums of cells that are asked for besides the cells; empty for none.
    axes
        Axes of the grid.
    """

    query: ClassVar[str] = "counts"
    whole_numbers: ClassVar[bool] = True
    one_cell: ClassVar[bool] = True
    cells: tuple[int, int]
    neighbours: Neighbours
    rows_at_most: int
    workload: Workload = ()
    axes: int = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answer."""
        return self.cells

    @property
    def symmetric(self) -> bool:
        """No."""
        return False

    @property
    def units(self) -> tuple[Vector, Vector]:
        """Records."""
        return np.ones(self.cells[0]), np.ones(self.cells[1])

    @property
    def scaling(self) -> Scaling:
        """Counts are integers as they are."""
        return Scaling(1, self.rows_at_most)

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Noise by row and by column; two cells change at most."""
        if (rows.size, columns.size) != self.cells:
            raise ValueError("the noise of counts is given by row and by column")
        return Spread(rows, columns, False, self._changing)

    @property
    def _changing(self) -> int:
        return 1 if self.neighbours is Neighbours.ADD_REMOVE else min(2, self.cells[0] * self.cells[1])

    def l2(self, spread: Spread) -> Sensitivity:
        """One record leaves a cell, and under replace-one another enters one."""
        return self._bound(spread, sqrt(self._changing))

    def l1(self, spread: Spread) -> Sensitivity:
        """One record leaves a cell, and under replace-one another enters one."""
        return self._bound(spread, float(self._changing))

    def _bound(self, spread: Spread, factor: float) -> Sensitivity:
        even = float(np.ptp(spread.rows)) == 0.0 and float(np.ptp(spread.columns)) == 0.0
        value = factor / spread.least
        return Sensitivity(value * _ROUND_UP, value if even or factor == 1.0 else 1.0 / spread.least)

    def root_bound(self, rows: Vector, columns: Vector) -> float | None:
        """See :mod:`.root_bounds`; None where no bound is known."""
        cells = rows.size * columns.size
        if self.neighbours is Neighbours.ADD_REMOVE or cells == 1:
            return float(np.sum(rows)) * float(np.sum(columns)) / sqrt(cells)
        even = float(np.ptp(rows)) == 0.0 and float(np.ptp(columns)) == 0.0
        # The mean of (e_i - e_j)(e_i - e_j)' is 2 / (N - 1) on vectors of sum zero.
        return sqrt(2.0 * (cells - 1.0)) * float(rows[0] * columns[0]) if even else None

    def largest_norm(self) -> float:
        """All records in one cell."""
        return float(self.rows_at_most)
