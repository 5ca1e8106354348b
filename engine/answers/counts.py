"""Exact counts of records over one or more columns, by public edges or public integer codes.

Each record is one row of the source and counts in at most one cell. That is the whole privacy argument: one row added
or removed changes one cell by one, one row replaced changes two. A person who may own several rows is outside it; bound
the rows of a person before counting, or state the guarantee a row.

A cell is a function of the record alone, counts are int64 sums, so the result is the same bits for every chunking.

A grid of any number of axes is counted as a matrix: its cells in C order, with the leading axes along the rows and the
others along the columns (:func:`unfolded`). Where in a matrix a cell lies changes no sensitivity.

========== =============== =======================
relation   L1              L2
========== =============== =======================
add-remove 1               1
replace    2               sqrt(2)
========== =============== =======================

**Source**: the histogram query of Dwork, McSherry, Nissim and Smith, 2006, Example 3; MVG (CCS 2018) section 4 and
R1SMG ("Less is more") use counts over an 89 x 89 grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import progress
from blockveil.engine.answers.gram import RowSource, read_again
from blockveil.engine.answers.layout import Tile, split
from blockveil.engine.answers.value_cells import NOWHERE, Axis, CountError, Missing, Outside
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.quantiser import NotFiniteError
from blockveil.engine.sensitivity.second_moment import Sensitivity

_PIECE_ROWS = 2**18
"""Rows that are coded at once: a few megabytes, so that they stay in a processor's cache."""

_ROUND_UP = 1.0 + 1e-13


Range = tuple[int, int]


def unfolded(grid: Sequence[int]) -> tuple[int, int]:
    """Shape of the matrix that holds the cells of a grid in C order; see :func:`.layout.split`.

    Parameters
    ----------
    grid
        Cells along each axis.
    """
    place = split(grid)
    return prod(grid[:place]), prod(grid[place:])


@dataclass(frozen=True, eq=False)
class CountQuery:
    """Counts over the product of public axes.

    Attributes
    ----------
    axes
        Public cells of each counted column, at least one.
    outside
        What becomes of a record outside the grid.
    missing
        What becomes of a record with a missing or infinite value.
    features
        Which columns of the source are counted, in the order of the axes; the first ones where none are given.
    """

    axes: tuple[Axis, ...]
    outside: Outside
    missing: Missing
    features: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a grid without axes, or with other axes than columns."""
        if not self.axes or (self.features and len(self.features) != len(self.axes)):
            raise CountError("a grid has at least one axis, and a column of the records for each; name as many of both")

    @property
    def grid(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(axis.cells for axis in self.axes)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix of all cells; see :func:`unfolded`."""
        return unfolded(self.grid)

    def changing(self, neighbours: Neighbours) -> int:
        """Largest number of cells that differ between neighbours; each by one."""
        # One cell alone: a replaced record can at most enter or leave it.
        return 1 if neighbours is Neighbours.ADD_REMOVE or self.shape == (1, 1) else 2

    def l1(self, neighbours: Neighbours) -> Sensitivity:
        """L1 sensitivity, in records."""
        value = float(self.changing(neighbours))
        return Sensitivity(value, value)

    def l2(self, neighbours: Neighbours) -> Sensitivity:
        """L2 sensitivity, in records."""
        value = sqrt(self.changing(neighbours))
        return Sensitivity(value if value == 1.0 else value * _ROUND_UP, value)

    def cells(self, records: NDArray[Any]) -> NDArray[np.int64]:
        """Flat cell of each record, shape (n,), int64, in C order of the grid; dropped records are left out.

        Raises
        ------
        NotFiniteError
            A value is missing or infinite and the policy is to refuse.
        CountError
            A code is not an integer.
        """
        flat, inside = np.zeros(records.shape[0], dtype=np.int64), np.ones(records.shape[0], dtype=bool)
        for axis, codes in zip(self.axes, self.codes(records), strict=True):
            flat *= axis.cells
            flat += codes
            inside &= codes >= 0
        return flat if bool(np.all(inside)) else flat[inside]

    def codes(self, records: NDArray[Any]) -> Iterator[NDArray[np.int64]]:
        """Cell of each record along each axis, shape (n,) each, int64, -1 for none; raises as :meth:`cells`."""
        columns = [records[:, feature] for feature in self.features or range(len(self.axes))]
        if self.missing is Missing.REFUSE and records.dtype.kind == "f":
            for column in columns:
                if column.size and not (np.isfinite(column.min()) and np.isfinite(column.max())):
                    raise NotFiniteError
        for axis, column in zip(self.axes, columns, strict=True):
            yield axis.codes(column, self.outside)

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of :func:`partial_counts`; memory for these tiles alone.

        Tiles have the same range of rows, or ranges that share no row; likewise of columns.
        """
        within = _Within(tiles, self.shape)
        _count_all(source, start, stop, self, chunk_rows, within.counts, within.places)
        return within.tiles()


class _Within:
    """Counts of some tiles, one after the other, and where in them a cell is."""

    def __init__(self, tiles: Sequence[Tile], shape: tuple[int, int]) -> None:
        self._tiles, self._columns, self._whole = tiles, shape[1], [tile.shape for tile in tiles] == [shape]
        self._rows, self._across = sorted({t.rows for t in tiles}), sorted({t.columns for t in tiles})
        self._starts = np.full((len(self._rows), len(self._across)), NOWHERE, dtype=np.int64)
        total = 0
        for tile in tiles:
            self._starts[self._rows.index(tile.rows), self._across.index(tile.columns)] = total
            total += tile.entries
        self.counts = np.zeros(total, dtype=np.int64)

    def places(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions in the counts of flat cells; those of other tiles are left out."""
        if self._whole:
            return cells
        low, high = self._rows[0][0] * self._columns, self._rows[-1][1] * self._columns
        row, column = np.divmod(cells[(cells >= low) & (cells < high)], self._columns)
        (tile_row, row, _), (tile_column, column, width) = _found(self._rows, row), _found(self._across, column)
        start = self._starts[tile_row, tile_column]
        inside = (start >= 0) & (row >= 0) & (column >= 0)
        return (start + row * width + column)[inside]

    def tiles(self) -> list[NDArray[np.int64]]:
        """Counts by tile."""
        ends = np.cumsum([tile.entries for tile in self._tiles])
        parts = np.split(self.counts, ends[:-1])
        return [part.reshape(tile.shape) for part, tile in zip(parts, self._tiles, strict=True)]


def _found(ranges: list[Range], places: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Which of some ascending ranges a place lies in, how far from its start, and how long it is; -1 if in none."""
    starts, ends = np.array(ranges, dtype=np.int64).T
    number = np.searchsorted(starts, places, side="right") - 1
    inside = places - starts[number]
    length = (ends - starts)[number]
    inside[(number < 0) | (inside >= length)] = NOWHERE
    return number, inside, length


def partial_counts(source: RowSource, start: int, stop: int, query: CountQuery, chunk_rows: int) -> NDArray[np.int64]:
    """Counts of rows ``start <= row < stop``.

    Parameters
    ----------
    source
        Records, shape (n, d), any real dtype.
    start, stop
        Row range.
    query
        Grid and policies.
    chunk_rows
        Rows to read at once; a multiple of the store's chunk reads each chunk once.

    Returns
    -------
    Shape ``query.shape``, int64, the cells in C order: exact, and independent of ``chunk_rows`` and of the order of
    rows.

    Raises
    ------
    NotFiniteError, CountError
        See :meth:`CountQuery.cells`.
    """
    rows, columns = query.shape
    (counts,) = query.partial(source, start, stop, chunk_rows, [Tile((0, rows), (0, columns))])
    return counts


def _count_all(
    source: RowSource,
    start: int,
    stop: int,
    query: CountQuery,
    chunk_rows: int,
    total: NDArray[np.int64],
    places: Callable[[NDArray[np.int64]], NDArray[np.int64]],
) -> None:
    for first in range(start, stop, chunk_rows):
        last = min(first + chunk_rows, stop)
        chunk = read_again(partial(source.__getitem__, slice(first, last)))
        for offset in range(0, chunk.shape[0], _PIECE_ROWS):
            count_cells(total, places(query.cells(chunk[offset : offset + _PIECE_ROWS])))
        progress.advance((last - start) / (stop - start))


def count_cells(total: NDArray[np.int64], cells: NDArray[np.intp]) -> None:
    """Add one to a total for each of some flat cells.

    Parameters
    ----------
    total
        Counts so far, one axis; changed in place.
    cells
        Positions in it, in any order and with repetitions.
    """
    if 4 * cells.size >= total.size:
        total += np.bincount(cells, minlength=total.size)
    else:  # few records on a large grid: touch only their cells
        np.add.at(total, cells, 1)
