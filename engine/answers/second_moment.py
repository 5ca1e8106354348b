"""The exact second moment ``sum v v'`` of quantised records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gram import IntegerFactor, RowSource, each_tile_sum, given_up
from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.sparse import entry_sums
from blockveil.engine.records.quantiser import Quantiser


@dataclass(frozen=True, eq=False)
class SecondMomentQuery:
    """See :func:`.gram.each_tile_sum` and :func:`.sparse.entry_sums`, whose answers are the
    same bits.

    Attributes
    ----------
    quantiser
        Clip and quantisation of a record.
    by_entries
        Whether only values other than zero are multiplied.
    """

    quantiser: Quantiser
    by_entries: bool = False

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of the second moment of a range of rows, exact."""
        return list(self.each(source, start, stop, chunk_rows, tiles))

    def each(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> Iterator[NDArray[np.int64]]:
        """The same tiles, one after the other."""
        if self.by_entries:
            return given_up(entry_sums(source, start, stop, self.quantiser, chunk_rows, tiles))
        factor = IntegerFactor(self.quantiser, (0, self.quantiser.coordinates.dimension))
        return each_tile_sum(source, start, stop, factor, None, chunk_rows, tiles)
