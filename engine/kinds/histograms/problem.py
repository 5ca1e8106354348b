"""Histograms of all columns of the records, as a mechanism sees them; see :mod:`.problems`.

The value of a record in a column is in at most one bin of that column. A record that is added or removed changes one
entry in each row of the answer by one, at most. A record that is replaced changes two, one up and one down, in each row
that has two bins; or one, where a missing value is counted in no bin. With noise of relative size ``r_i`` in row i and
of size c at least along it,

``L2^2 = sum changes_i / (r_i c)^2`` and ``L1 = sum changes_i / (r_i c)``, where ``changes_i`` is 1, or 2 under
replace-one.

Both are attained by records that are in other bins than any of their neighbour's values, in every column.

**Source**: Dwork, McSherry, Nissim and Smith, 2006, Example 3, once for each column; the sums are derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread
from blockveil.engine.workloads.bin_places import places_of

_ROUND_UP = 1.0 + 1e-13


@dataclass(frozen=True, eq=False)
class Histograms:
    """Number of values in each public bin of every column; each value is in at most one bin.

    Attributes
    ----------
    sizes
        Bins of each column, at least one; rows of fewer bins than others have entries that stay zero.
    neighbours, rows_at_most
        As for :class:`SecondMoment`.
    last
        Whether the last bin of each column, that of missing values, is the last entry of its row; else bins lead.
    """

    query: ClassVar[str] = "column-histograms"
    whole_numbers: ClassVar[bool] = True
    one_bin_of_each_column: ClassVar[bool] = True
    sizes: tuple[int, ...]
    neighbours: Neighbours
    rows_at_most: int
    last: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Columns of the records, and the largest number of bins."""
        return len(self.sizes), max(self.sizes)

    @property
    def cells(self) -> tuple[int, int]:
        """The same."""
        return self.shape

    @property
    def there(self) -> NDArray[np.bool_]:
        """Where a column has a bin; elsewhere nothing is counted."""
        return places_of(self.sizes, self.last)

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
        """Counts are integers as they are."""
        return Scaling(1, self.rows_at_most)

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Noise by column of the records and by bin."""
        if (rows.size, columns.size) != self.shape:
            raise ValueError("the noise of histograms is given by column of the records and by bin")
        return Spread(rows, columns, False, int(np.sum(self._changes)))

    @cached_property
    def _changes(self) -> Vector:
        """Entries of each row that one record changes, at most."""
        most = 1 if self.neighbours is Neighbours.ADD_REMOVE else 2
        # A row of one bin cannot change in two.
        return np.minimum(np.asarray(self.sizes, dtype=np.float64), most)

    def l2(self, spread: Spread) -> Sensitivity:
        """Root of the sum over columns."""
        return self._bound(spread, sqrt(float(np.sum(self._changes / spread.rows**2))))

    def l1(self, spread: Spread) -> Sensitivity:
        """Sum over columns."""
        return self._bound(spread, float(np.sum(self._changes / spread.rows)))

    def _bound(self, spread: Spread, by_rows: float) -> Sensitivity:
        # Each entry that changes has noise of at least the least size along its row, and at most of the largest.
        bound, attained = by_rows / float(np.min(spread.columns)), by_rows / float(np.max(spread.columns))
        return Sensitivity(bound * _ROUND_UP, attained)

    def largest_norm(self) -> float:
        """All values of each column in one bin."""
        return self.rows_at_most * sqrt(len(self.sizes))
