"""Exact counts of records in the cells of a public grid over two columns.

Each record is one row and counts in at most one cell, so one record changes one cell by one, and a replaced record two.
A cell is a function of the record alone: an edge belongs to the cell above it, the last edge to the last cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine import gram
from engine.fixedpoint import NotFiniteError
from engine.geometry import Vector


@dataclass(frozen=True, eq=False)
class CountsQuery:
    """Counts over two columns.

    Attributes
    ----------
    rows, columns
        Public edges along the first and the second column of a record, increasing, raw units.
    clip
        Whether a record outside the grid counts in the nearest cell; else it is not counted.
    drop_missing
        Whether a record with a missing or infinite value is not counted; else it is refused.
    """

    rows: Vector
    columns: Vector
    clip: bool
    drop_missing: bool

    def __post_init__(self) -> None:
        """Refuse edges that make no cells."""
        for edges in (self.rows, self.columns):
            if edges.size < 2 or not np.all(np.isfinite(edges)) or np.any(np.diff(edges) <= 0):
                raise ValueError("edges must be finite and increase; give lower below upper, and fewer cells if narrow")

    @property
    def shape(self) -> tuple[int, int]:
        """Number of cells along each axis."""
        return self.rows.size - 1, self.columns.size - 1

    def partial(self, source: gram.RowSource, start: int, stop: int, chunk_rows: int) -> NDArray[np.int64]:
        """Counts of a range of rows, shape (cells, cells), int64."""
        m, n = self.shape
        total = np.zeros(m * n, dtype=np.int64)
        for first in range(start, stop, chunk_rows):
            chunk = np.asarray(source[first : min(first + chunk_rows, stop)]).astype(np.float64)
            finite = np.isfinite(chunk).all(axis=1)
            if not self.drop_missing and not finite.all():
                raise NotFiniteError
            row, inside_row = self._cells(chunk[:, 0], self.rows)
            column, inside_column = self._cells(chunk[:, 1], self.columns)
            kept = finite if self.clip else finite & inside_row & inside_column
            total += np.bincount((row * n + column)[kept], minlength=m * n)
        return total.reshape(m, n)

    def combine(self, parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Sum."""
        return gram.add(parts)

    @staticmethod
    def _cells(values: NDArray[np.float64], edges: Vector) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Nearest cell of each value, and whether it lies in the grid at all; a missing value has cell zero."""
        found = np.searchsorted(edges, np.where(np.isnan(values), edges[0], values), side="right") - 1
        inside = (values >= edges[0]) & (values <= edges[-1])
        return np.clip(found, 0, edges.size - 2), inside
