"""Exact sums over records that count by a whole-number weight, constant over ranges of rows.

Each range is summed as it is without weights, and multiplied afterwards: so every kind of query that is a sum over
records has a weighted form, by the same exact arithmetic. Weights may be split into digits of a few bits; there is a
sum for each digit then, which stays within the exact range where the weighted sum would not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import progress
from blockveil.engine.answers.gram import RowSource
from blockveil.engine.answers.graph import Query
from blockveil.engine.answers.layout import Tile


@dataclass(frozen=True, repr=False, eq=False)
class WeightedQuery:
    """A sum over records with weights; see :class:`.graph.Query`.

    Attributes
    ----------
    query
        The sum without weights.
    ends
        Where each range of rows ends, in order; a range may be empty. Private: a number of records.
    weights
        Of each range.
    digit_bits, digits
        Bits of a digit of a weight, and how many digits it has.
    """

    query: Query
    ends: tuple[int, ...]
    weights: tuple[int, ...]
    digit_bits: int
    digits: int

    def __repr__(self) -> str:
        """Show nothing: the ends are numbers of records."""
        return "WeightedQuery()"

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of the weighted sum of a range of rows; with several digits each has a leading axis, the least first.

        Exact: a weight's digit times the sum of a range is at most what the plan keeps within ``2**62``.
        """
        totals = [np.zeros((self.digits, *tile.shape), dtype=np.int64) for tile in tiles]
        for low, high, weight in self._ranges(start, stop):
            with progress.within((low - start) / (stop - start), (high - start) / (stop - start)):
                self._add(totals, self.query.partial(source, low, high, chunk_rows, tiles), weight)
        return [total if self.digits > 1 else total[0] for total in totals]

    def _add(self, totals: list[NDArray[np.int64]], parts: list[NDArray[np.int64]], weight: int) -> None:
        """Add the sums of one range, which nothing keeps afterwards: the next range needs their memory."""
        for total, part in zip(totals, parts, strict=True):
            for position in range(self.digits):
                digit = (weight >> (position * self.digit_bits)) & (2**self.digit_bits - 1)
                if digit:
                    total[position] += digit * part

    def _ranges(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Parts of a range of rows that have one weight each."""
        begin = 0
        for end, weight in zip(self.ends, self.weights, strict=True):
            low, high = max(begin, start), min(end, stop)
            if low < high:
                yield low, high, weight
            begin = end
