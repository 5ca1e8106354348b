"""Marginal tables of counts, as a mechanism sees them; see :mod:`.problems`.

A record lies in one cell of each table. Adding or removing it changes one cell of each table by one; replacing it at
most two of each. With noise of the size ``r_T`` in table T at least,

``L2^2 = c sum over tables of 1 / r_T^2`` and ``L1 = c sum over tables of 1 / r_T``, c = 1, or 2 under replace-one.

Both are attained where noise has one size within a table: under replace-one by two records that differ along every
axis, which exist because each axis has at least two cells.

**Source**: Dwork, McSherry, Nissim and Smith, 2006, Example 3, once for each table.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread
from blockveil.engine.workloads.marginal_tables import MarginalTables

_ROUND_UP = 1.0 + 1e-13


@dataclass(frozen=True, eq=False)
class Marginals:
    """Number of records in each cell of some tables; each record is counted in one cell of every table, or in none.

    Attributes
    ----------
    tables
        Which tables.
    neighbours, rows_at_most
        As for :class:`SecondMoment`.
    """

    query: ClassVar[str] = "marginals"
    whole_numbers: ClassVar[bool] = True
    one_cell_of_each_table: ClassVar[bool] = True
    tables: MarginalTables
    neighbours: Neighbours
    rows_at_most: int

    @property
    def shape(self) -> tuple[int, int]:
        """One row of the cells of all tables."""
        return 1, self.tables.cells

    @property
    def cells(self) -> tuple[int, int]:
        """The same."""
        return self.shape

    @property
    def symmetric(self) -> bool:
        """No."""
        return False

    @property
    def units(self) -> tuple[Vector, Vector]:
        """Records."""
        return np.ones(1), np.ones(self.tables.cells)

    @property
    def scaling(self) -> Scaling:
        """Counts are integers as they are."""
        return Scaling(1, self.rows_at_most)

    @property
    def ranges_asked(self) -> MarginalTables | None:
        """The tables, where axes are ordered: along these ranges of cells are asked for."""
        return self.tables if self.tables.ordered else None

    @property
    def _changing(self) -> int:
        """Cells of one table that one record changes, each by one."""
        return 1 if self.neighbours is Neighbours.ADD_REMOVE else 2

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Noise by cell."""
        if (rows.size, columns.size) != self.shape:
            raise ValueError("the noise of tables is given by cell")
        return Spread(rows, columns, False, self._changing * len(self.tables.tables))

    def l2(self, spread: Spread) -> Sensitivity:
        """Root of the sum over tables."""
        least, largest = self._sizes(spread)
        bound, attained = (sqrt(self._changing * float(np.sum(sizes**-2.0))) for sizes in (least, largest))
        return Sensitivity(bound * _ROUND_UP, attained)

    def l1(self, spread: Spread) -> Sensitivity:
        """Sum over tables."""
        least, largest = self._sizes(spread)
        bound, attained = (self._changing * float(np.sum(1.0 / sizes)) for sizes in (least, largest))
        return Sensitivity(bound * _ROUND_UP, attained)

    def _sizes(self, spread: Spread) -> tuple[Vector, Vector]:
        """Least and largest size of the noise in each table."""
        sizes = float(spread.rows[0]) * spread.columns
        starts = [place.start for place in self.tables.places]
        return np.minimum.reduceat(sizes, starts), np.maximum.reduceat(sizes, starts)

    def largest_norm(self) -> float:
        """All records in one cell of every table."""
        return self.rows_at_most * sqrt(len(self.tables.tables))
