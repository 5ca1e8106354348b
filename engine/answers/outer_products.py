"""The exact sum of outer products ``sum a b'`` of quantised records, as for gradients of a linear layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gram import IntegerFactor, RowSource, each_tile_sum
from blockveil.engine.answers.layout import Tile
from blockveil.engine.records.quantiser import Quantiser


@dataclass(frozen=True, eq=False)
class OuterProductsQuery:
    """A record is a row whose first columns are a and whose other columns are b.

    Attributes
    ----------
    left, right
        Clip and quantisation of a and of b, with the same largest integer.
    """

    left: Quantiser
    right: Quantiser

    def __post_init__(self) -> None:
        """Refuse factors whose products would have two scales."""
        if self.left.largest != self.right.largest:
            raise ValueError("both factors must be quantised to the same number of bits")

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of the sum over a range of rows, exact."""
        return list(self.each(source, start, stop, chunk_rows, tiles))

    def each(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> Iterator[NDArray[np.int64]]:
        """The same tiles, one after the other."""
        p, q = self.left.coordinates.dimension, self.right.coordinates.dimension
        left, right = IntegerFactor(self.left, (0, p)), IntegerFactor(self.right, (p, p + q))
        return each_tile_sum(source, start, stop, left, right, chunk_rows, tiles)
