"""The exact sum of outer products ``sum a b'`` of quantised records, as for gradients of a linear layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine import gram
from engine.fixedpoint import Quantiser

_PIECE_BYTES = 32 * 2**20


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

    def partial(self, source: gram.RowSource, start: int, stop: int, chunk_rows: int) -> NDArray[np.int64]:
        """Sum over a range of rows, shape (p, q), exact."""
        p, q = self.left.width, self.right.width
        total = np.zeros((p, q), dtype=np.int64)
        rows = max(1, min(self.left.exact_rows, _PIECE_BYTES // (8 * (p + q))))
        for first in range(start, stop, chunk_rows):
            chunk = np.asarray(source[first : min(first + chunk_rows, stop)])
            for offset in range(0, chunk.shape[0], rows):
                piece = chunk[offset : offset + rows]
                a, b = self.left.quantise(piece[:, :p]), self.right.quantise(piece[:, p:])
                # Exact: every partial sum is an integer of at most rows * K**2 <= 2**53.
                total += (a.T @ b).astype(np.int64)
        return total

    def combine(self, parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Sum."""
        return gram.add(parts)
