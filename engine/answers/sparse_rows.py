"""Records that are stored as their values other than zero, row by row (CSR), read like an array of rows and columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gram import read_again
from blockveil.engine.answers.sparse import Entries, dense


class MalformedRowsError(ValueError):
    """Stored entries are not rows in order: positions that fall, or columns that repeat or lie outside."""


class SparseRows:
    """Compressed rows.

    Parameters
    ----------
    data, indices
        Values other than zero and their columns, in any order within a row, shape (entries,): NumPy or Zarr arrays.
    indptr
        First entry of each row and the end of the last, shape (rows + 1,).
    columns
        Number of columns.
    """

    ndim = 2

    def __init__(self, data: Any, indices: Any, indptr: Any, columns: int) -> None:
        self._data, self._indices, self._indptr = data, indices, indptr
        self.shape: tuple[int, ...] = (int(indptr.shape[0]) - 1, columns)

    def __repr__(self) -> str:
        """Show nothing."""
        return "SparseRows()"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a value."""
        value_type: np.dtype[Any] = np.dtype(self._data.dtype)
        return value_type

    @property
    def chunks(self) -> tuple[int, int]:
        """A row is the smallest part that can be read."""
        return 1, self.shape[1]

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Rows, or a block of rows and columns, written out; both are slices without steps."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        start, stop, step = rows.indices(self.shape[0])
        if step != 1:
            raise IndexError("rows are read one after the other")
        borders = self._borders(start, max(start, stop))
        block = dense(*self._read(borders), self.shape[1])
        return block[:, columns]

    def entry_blocks(self, start: int, stop: int, most: int) -> Iterator[Entries]:
        """See :class:`.sparse.EntrySource`.

        Raises
        ------
        MalformedRowsError
            The entries are no rows in order.
        """
        borders = self._borders(start, stop)
        first = 0
        while first < stop - start:
            last = max(first + 1, int(np.searchsorted(borders, borders[first] + most, side="right")) - 1)
            yield self._read(borders[first : last + 1])
            first = last

    def _borders(self, start: int, stop: int) -> NDArray[np.int64]:
        borders = read_again(partial(self._indptr.__getitem__, slice(start, stop + 1))).astype(np.int64)
        if np.any(np.diff(borders) < 0) or borders[0] < 0 or borders[-1] > self._data.shape[0]:
            raise MalformedRowsError("the borders of rows fall, or lie outside of the entries")
        return borders

    def _read(self, borders: NDArray[np.int64]) -> Entries:
        entries = slice(int(borders[0]), int(borders[-1]))
        columns = read_again(partial(self._indices.__getitem__, entries)).astype(np.int64)
        values = read_again(partial(self._data.__getitem__, entries))
        inside = borders - borders[0]
        begins = inside[(inside > 0) & (inside < columns.size)] - 1

        def climbs() -> bool:
            steps = np.diff(columns) > 0
            steps[begins] = True  # a new row begins anywhere
            return bool(steps.all())

        if not climbs():  # other tools slice and multiply without sorting
            order = np.lexsort((columns, np.repeat(np.arange(inside.size - 1), np.diff(inside))))
            columns, values = columns[order], values[order]
        if not climbs() or (columns.size and not 0 <= columns.min() <= columns.max() < self.shape[1]):
            raise MalformedRowsError("columns of a row repeat, or lie outside of the table")
        return columns, values, inside
