"""The exact number of records and the exact sum of each of their quantised columns.

A float sum of integers of at most K is exact while it stays below ``2**53``; a piece has so few rows that it does, and
pieces add up in int64. Sums over all records stay within ``rows_at_most K``, which a plan keeps below ``2**62``. So the
answer is the same bits for every cut of the rows. Of sparse records ``sum v = n c + sum s``, c the integers of a record
of zeros and s what a record's other values add to them (:mod:`.sparse`): all of it int64, and the same bits again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gram import RowSource, chunks
from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.sparse import EntrySource, entries_of
from blockveil.engine.records.quantiser import Quantiser

Integers = NDArray[np.int64]

_PIECE_BYTES = 16 * 2**20
"""Size of the quantised records that one call adds up."""


@dataclass(frozen=True, eq=False)
class RecordSumsQuery:
    """One row: ``K n`` first where the quantiser puts a constant in front, then the sum of each column.

    Attributes
    ----------
    quantiser
        Clip and quantisation of a record.
    """

    quantiser: Quantiser

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[Integers]:
        """Tiles of the sums over a range of rows, exact.

        Raises
        ------
        NotFiniteError
            See :meth:`.quantiser.Quantiser.quantise`.
        """
        if isinstance(source, EntrySource) and self.quantiser.by_entries:
            total = self._by_entries(source, start, stop, chunk_rows)
        else:
            total = self._by_rows(source, start, stop, chunk_rows)
        return [total[None, slice(*tile.columns)].copy() for tile in tiles]

    def _by_rows(self, source: RowSource, start: int, stop: int, chunk_rows: int) -> Integers:
        clip = self.quantiser
        total = np.zeros(clip.width, dtype=np.int64)
        # Exact: every partial sum is an integer of at most rows * K <= 2**52, for K < 2**31 and rows <= 2**21.
        rows = max(1, _PIECE_BYTES // (8 * clip.width))
        for chunk in chunks(source, start, stop, chunk_rows, (0, clip.coordinates.dimension)):
            for first in range(0, len(chunk), rows):
                total += clip.quantise(chunk[first : first + rows]).sum(axis=0).astype(np.int64)
        return total

    def _by_entries(self, source: RowSource, start: int, stop: int, chunk_rows: int) -> Integers:
        clip = self.quantiser
        total, count, dtype = np.zeros(clip.width, dtype=np.int64), 0, np.dtype(float)
        for columns, values, borders in entries_of(source, start, stop, chunk_rows, clip.coordinates.dimension):
            integers = clip.quantise_entries(values, columns, borders)
            np.add.at(total, columns + int(clip.augmented), integers)
            count, dtype = count + len(borders) - 1, values.dtype
        return total + count * clip.at_zero(dtype)
