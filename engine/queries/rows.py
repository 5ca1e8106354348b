"""The records themselves, clipped and quantised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.fixedpoint import Quantiser
from engine.gram import RowSource


@dataclass(frozen=True, eq=False)
class RowsQuery:
    """The identity query.

    Attributes
    ----------
    quantiser
        Clip and quantisation of a record.
    """

    quantiser: Quantiser

    def partial(self, source: RowSource, start: int, stop: int, chunk_rows: int) -> NDArray[np.int64]:
        """Integers of a range of rows, shape (rows, features)."""
        integers = np.empty((stop - start, self.quantiser.width), dtype=np.int64)
        for first in range(start, stop, chunk_rows):
            last = min(first + chunk_rows, stop)
            integers[first - start : last - start] = self.quantiser.quantise(np.asarray(source[first:last]))
        return integers

    def combine(self, parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """One below the other."""
        return np.concatenate(parts)
