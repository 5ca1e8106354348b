"""The records themselves, clipped and quantised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import progress
from blockveil.engine.answers.gram import RowSource, read_again
from blockveil.engine.answers.layout import Tile
from blockveil.engine.records.quantiser import Quantiser


@dataclass(frozen=True, eq=False)
class RowsQuery:
    """The identity query.

    Attributes
    ----------
    quantiser
        Clip and quantisation of a record.
    """

    quantiser: Quantiser

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Integers of a range of rows, which is the one tile, shape (rows, features)."""
        (tile,) = tiles
        if tile.rows != (start, stop):
            raise ValueError("a part of the rows query is a tile of its own")
        integers = np.empty(tile.shape, dtype=np.int64)
        for first in range(start, stop, chunk_rows):
            last = min(first + chunk_rows, stop)
            chunk = read_again(partial(source.__getitem__, slice(first, last)))
            integers[first - start : last - start] = self.quantiser.quantise(chunk)
            progress.advance((last - start) / (stop - start))
        return [integers]
