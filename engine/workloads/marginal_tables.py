"""Marginal tables of counts over chosen axes, and the residuals of which all of them are made.

A record lies in one cell along each of d axes of ``n_i`` cells. A table over a set T of axes holds the number of
records in each cell of their product. Write ``P_A`` for the map that subtracts the mean along each axis in A, and
``u_A = P_A (table over A)`` for the residual of A: what the table over A tells beyond the tables over fewer axes. Then

``table over T = sum over A within T of  u_A (x) (1 / n_j, ..., 1 / n_j) for each j in T without A``,

residuals of different sets are orthogonal in every table, and no residual follows from the others. Tables that are made
of one set of residuals agree with each other wherever they share axes.

The sets that matter are those within a declared table; there are ``2^k`` of them for a table of k axes, and the empty
one, whose residual is the number of records, is always among them.

**Source**: Xiao, He, Zhang and Kifer, 2023 (ResidualPlanner), section 4; Darroch and Speed, 1983, for the residuals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.workloads.ordered_axes import MOST_ORDERED
from blockveil.engine.workloads.workload import Numbers

Axes = tuple[int, ...]
"""Positions of axes, ascending."""

Residuals = Mapping[Axes, NDArray[np.float64]]
"""Residual of each set of axes, an axis of the array each."""

MOST_SETS = 2**15
"""Most sets of axes within the tables of one release."""

MOST_CELLS = 2**22
"""Most cells of the tables of one release together, and most entries of a measurement of their residuals."""


@dataclass(frozen=True)
class MarginalTables:
    """Which tables are asked for; their cells follow each other, table by table, in C order.

    Attributes
    ----------
    sizes
        Cells along each axis, at least two.
    tables
        Axes of each table: ascending, at least one, no table twice.
    ordered
        Axes along which ranges of cells are asked for (:mod:`.ordered_axes`), ascending, each in a table.
    """

    sizes: tuple[int, ...]
    tables: tuple[Axes, ...]
    ordered: Axes = ()

    def __post_init__(self) -> None:
        """Refuse tables that do not exist."""
        if not self.sizes or min(self.sizes) < 2:
            raise CalibrationError(f"cells along the axes are {self.sizes}; an axis has at least two; leave it out")
        axes = set(range(len(self.sizes)))
        if not self.tables or any(not t or not axes >= set(t) or list(t) != sorted(set(t)) for t in self.tables):
            raise CalibrationError("each table has at least one axis, in ascending order; name the axes of each table")
        if len(set(self.tables)) < len(self.tables):
            raise CalibrationError("a table is asked for twice; name it once")
        if list(self.ordered) != sorted(set(self.ordered) & {axis for table in self.tables for axis in table}):
            raise CalibrationError("an ordered axis is in no table, or named twice; name axes of tables, each once")
        if any(self.sizes[axis] > MOST_ORDERED for axis in self.ordered):
            raise CalibrationError(
                f"an ordered axis has more than {MOST_ORDERED} cells; declare wider cells, or do not order it"
            )
        if sum(2 ** len(table) for table in self.tables) > 16 * MOST_SETS or len(self.sets) > MOST_SETS:
            raise CalibrationError(f"the tables have more than {MOST_SETS} sets of axes; ask for fewer or smaller ones")
        if max(self.cells, self.entries) > MOST_CELLS:
            raise CalibrationError(
                f"the tables have {max(self.cells, self.entries)} cells; they have at most {MOST_CELLS} together; "
                "ask for fewer tables, or declare wider cells"
            )

    @cached_property
    def sets(self) -> tuple[Axes, ...]:
        """All sets of axes within a table, smaller ones first; the empty one leads."""
        within = {axes for table in self.tables for k in range(len(table) + 1) for axes in combinations(table, k)}
        return tuple(sorted(within, key=lambda axes: (len(axes), axes)))

    @cached_property
    def above(self) -> dict[Axes, tuple[Axes, ...]]:
        """Tables that each set of axes lies within."""
        above: dict[Axes, list[Axes]] = {axes: [] for axes in self.sets}
        for table in self.tables:
            for k in range(len(table) + 1):
                for axes in combinations(table, k):
                    above[axes].append(table)
        return {axes: tuple(tables) for axes, tables in above.items()}

    @property
    def cells(self) -> int:
        """Cells of all tables together."""
        return sum(self.size(table) for table in self.tables)

    @property
    def cells_of_each(self) -> NDArray[np.float64]:
        """Cells of each table, shape (tables,)."""
        return np.array([float(self.size(table)) for table in self.tables])

    @property
    def entries(self) -> int:
        """Entries of all residuals together."""
        return sum(self.size(axes) for axes in self.sets)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where the cells of each table are."""
        ends = list(accumulate(self.size(table) for table in self.tables))
        return tuple(slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True))

    def shape(self, axes: Axes) -> tuple[int, ...]:
        """Cells along some axes."""
        return tuple(self.sizes[axis] for axis in axes)

    def size(self, axes: Axes) -> int:
        """Cells of the table over some axes; one for none."""
        return prod(self.shape(axes))

    def others(self, table: Axes, axes: Axes) -> int:
        """Cells of a table for each cell of the table over fewer axes: those that are summed into one."""
        return self.size(table) // self.size(axes)

    def apart(self, flat: Numbers) -> list[Numbers]:
        """Tables from their cells in one row, each with an axis for each of its axes."""
        return [flat[place].reshape(self.shape(table)) for table, place in zip(self.tables, self.places, strict=True)]

    def summed(self, values: Numbers, table: Axes, axes: Axes) -> Numbers:
        """A table summed to one over fewer axes."""
        sums: Numbers = np.sum(values, axis=tuple(k for k, axis in enumerate(table) if axis not in axes))
        return np.asarray(sums, dtype=values.dtype)

    def made_of(self, residuals: Residuals) -> NDArray[np.float64]:
        """Cells of all tables in one row, from the residuals of all sets."""
        return np.concatenate([self._table(table, residuals).ravel() for table in self.tables])

    def projected(self, tables: Sequence[NDArray[np.float64]]) -> dict[Axes, NDArray[np.float64]]:
        """Residuals of the tables that agree and are nearest, in Euclidean distance over all cells.

        For tables that agree, these are their residuals.
        """
        own = dict(zip(self.tables, tables, strict=True))
        residuals = {}
        for axes in self.sets:
            # The map L of one residual to all tables has L'L = sum over tables of 1 / others, times the identity.
            weight = sum(1.0 / self.others(table, axes) for table in self.above[axes])
            residuals[axes] = self.sums(own, axes) / weight
        return residuals

    def sums(self, tables: Mapping[Axes, NDArray[np.float64]], axes: Axes) -> NDArray[np.float64]:
        """``L'`` of some tables for the map L of the residual of a set to all tables."""
        total = np.zeros(self.shape(axes))
        for table in self.above[axes]:
            if table in tables:
                total += self.summed(tables[table], table, axes) / self.others(table, axes)
        return centred(total)

    def _table(self, table: Axes, residuals: Residuals) -> NDArray[np.float64]:
        total = np.zeros(self.shape(table))
        for k in range(len(table) + 1):
            for axes in combinations(table, k):
                spread = tuple(self.sizes[axis] if axis in axes else 1 for axis in table)
                total += residuals[axes].reshape(spread) / self.others(table, axes)
        return total


def centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """``P_A``: values less their means along each axis."""
    for axis in range(values.ndim):
        values = values - np.mean(values, axis=axis, keepdims=True)
    return values
