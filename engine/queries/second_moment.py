"""The exact second moment ``sum v v'`` of quantised records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine import gram
from engine.fixedpoint import Quantiser


@dataclass(frozen=True, eq=False)
class SecondMomentQuery:
    """See :func:`engine.gram.partial_gram`.

    Attributes
    ----------
    quantiser
        Clip and quantisation of a record.
    """

    quantiser: Quantiser

    def partial(self, source: gram.RowSource, start: int, stop: int, chunk_rows: int) -> NDArray[np.int64]:
        """Second moment of a range of rows, shape (width, width), symmetric."""
        return gram.partial_gram(source, start, stop, self.quantiser, chunk_rows)

    def combine(self, parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Sum."""
        return gram.add(parts)
