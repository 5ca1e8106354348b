"""Exact counts of records in tables over chosen axes, all from one pass over the records.

Each record counts in one cell of every table, or, where it lies outside the grid or lacks a value, in none of any: the
tables are marginals of one grid, which is never built. A cell is a function of the record alone and counts are int64
sums, so the result is the same bits for every chunking and every order of the rows.

**Source**: the histogram query of Dwork, McSherry, Nissim and Smith, 2006, Example 3, once for each table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import progress
from blockveil.engine.answers.counts import CountQuery, count_cells
from blockveil.engine.answers.gram import RowSource, read_again
from blockveil.engine.answers.layout import Tile
from blockveil.engine.workloads.marginal_tables import MarginalTables

_PIECE_ROWS = 2**15
"""Rows that are coded at once, whose codes along all axes stay in a processor's cache."""


@dataclass(frozen=True, eq=False)
class TablesQuery:
    """Counts in the cells of some tables, in one row.

    Attributes
    ----------
    grid
        Axes, and what becomes of records outside them or without a value.
    tables
        Which tables over these axes.
    """

    grid: CountQuery
    tables: MarginalTables

    @property
    def shape(self) -> tuple[int, int]:
        """One row of the cells of all tables."""
        return 1, self.tables.cells

    def count(self, total: NDArray[np.int64], records: NDArray[Any]) -> None:
        """Add the records to the cells of all tables, shape (cells,), in place.

        Raises
        ------
        NotFiniteError, CountError
            See :meth:`.counts.CountQuery.cells`.
        """
        codes = list(self.grid.codes(records))
        inside = np.ones(records.shape[0], dtype=bool)
        for each in codes:
            inside &= each >= 0
        if not bool(np.all(inside)):
            codes = [each[inside] for each in codes]
        for table, place in zip(self.tables.tables, self.tables.places, strict=True):
            cells = codes[table[0]]
            for axis in table[1:]:
                cells = cells * self.tables.sizes[axis] + codes[axis]
            count_cells(total[place], cells)

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of :func:`table_counts`."""
        whole = table_counts(source, start, stop, self, chunk_rows)
        return [whole[slice(*tile.rows), slice(*tile.columns)] for tile in tiles]


def table_counts(source: RowSource, start: int, stop: int, query: TablesQuery, chunk_rows: int) -> NDArray[np.int64]:
    """Counts of the records in rows ``start <= row < stop`` in the cells of all tables.

    Parameters
    ----------
    source
        Records, shape (n, columns), any real dtype.
    start, stop
        Row range.
    query
        Axes and tables.
    chunk_rows
        Rows to read at once; a multiple of the store's chunk reads each chunk once.

    Returns
    -------
    Shape ``query.shape``, int64: exact, and independent of ``chunk_rows`` and of the order of rows.

    Raises
    ------
    NotFiniteError, CountError
        See :meth:`.counts.CountQuery.cells`.
    """
    total = np.zeros(query.tables.cells, dtype=np.int64)
    for first in range(start, stop, chunk_rows):
        last = min(first + chunk_rows, stop)
        chunk = read_again(partial(source.__getitem__, slice(first, last)))
        for offset in range(0, chunk.shape[0], _PIECE_ROWS):
            query.count(total, chunk[offset : offset + _PIECE_ROWS])
        progress.advance((last - start) / (stop - start))
    return total[None, :]
