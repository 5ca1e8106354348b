"""Exact counts of the values of every column in public bins: all histograms from one pass over the records.

Each value falls in exactly one bin of a histogram, whatever it is; a missing or infinite one in none, or in a bin of
its own, as is declared. So a row that is added or removed changes one bin of each of the d histograms by one, and a row
that is replaced at most two, also where several of them are of one column (columns of the records that none is of
change nothing):

========== =================== =====================
relation   L1                  L2
========== =================== =====================
add-remove d                   sqrt(d)
replace    2 d                 sqrt(2 d)
========== =================== =====================

Bins are functions of public numbers, the bin of a value is one of the value alone, and counts are int64 sums: the
result is the same bits for every chunking and every order of the rows.

Bins are closed on the side that is away from zero, or above, because a bound that is taken from them is one that values
may attain: a share of exactly 1 falls in the bin from 0.5 to 1.

**Source**: the histogram query of Dwork, McSherry, Nissim and Smith, 2006, Example 3, once for each column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import progress
from blockveil.engine.answers.counts import count_cells
from blockveil.engine.answers.gram import RowSource, read_again
from blockveil.engine.answers.layout import Tile
from blockveil.engine.records.geometry import Vector
from blockveil.engine.records.quantiser import NotFiniteError

_PIECE_VALUES = 2**15
"""Values that are binned at once: a megabyte with what is computed from them, so that they stay in a cache."""

_MAGNITUDE = np.int64(2**63 - 1)
"""Bits of a float64 without its sign."""

LEAST_POWER, GREATEST_POWER = -1000, 1000
"""Powers of two that are borders of bins lie between these."""


MOST_DIGITS = 20
"""Binary digits by which values are counted: two million bins."""


class MissingValue(StrEnum):
    """What becomes of a missing or infinite value."""

    REFUSE = "refuse"
    """The whole count is refused."""

    DROP = "drop"
    """It falls in no bin of its column; the other values of its row do."""

    COUNT = "count"
    """It falls in a bin of its own, the last one."""


class ColumnBins(Protocol):
    """Public bins that hold every finite number exactly once."""

    @property
    def size(self) -> int:
        """Number of bins."""

    @property
    def borders(self) -> tuple[Vector, Vector]:
        """Lower and upper end of each bin, ascending, shape (size,) each."""

    def places(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Bin of each value, shape of ``values``; of one that is not finite, any of them."""


@dataclass(frozen=True)
class PowerBins:
    """Bins between powers of two, of either sign, and one for zero alone.

    ``x < -2^b``, ``[-2^b, -2^(b-1))``, ..., ``[-2^a, 0)``, ``0``, ``(0, 2^a]``, ``(2^a, 2^(a+1)]``, ..., ``x > 2^b``.

    Attributes
    ----------
    least, greatest
        Exponents a and b, a at most b.
    """

    least: int
    greatest: int

    def __post_init__(self) -> None:
        """Refuse exponents that are no borders of numbers."""
        if not LEAST_POWER <= self.least <= self.greatest <= GREATEST_POWER:
            raise ValueError(
                f"bins from 2^{self.least} to 2^{self.greatest} do not exist; exponents ascend from {LEAST_POWER} to "
                f"{GREATEST_POWER}"
            )

    @property
    def _of_a_sign(self) -> int:
        return self.greatest - self.least + 2

    @property
    def size(self) -> int:
        """Number of bins: those of each sign, and zero."""
        return 2 * self._of_a_sign + 1

    @property
    def borders(self) -> tuple[Vector, Vector]:
        """See :class:`ColumnBins`."""
        powers = np.ldexp(1.0, np.arange(self.least, self.greatest + 1))
        above, below = np.append(powers, np.inf), np.append(0.0, powers)
        return np.concatenate([-above[::-1], [0.0], below]), np.concatenate([-below[::-1], [0.0], above]) + 0.0

    def places(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Bin of each value, from its sign and exponent: no border is compared with, and no arithmetic rounds."""
        bits = np.ascontiguousarray(values).view(np.int64)
        # The float64 just below a magnitude has an exponent that puts a power of two at the upper end of its bin.
        # Zero has none below: its key is that of no number.
        keys = bits & _MAGNITUDE
        keys -= 1
        keys >>= 52
        keys &= 0x7FF
        signs = bits >> 63
        signs &= 0x800
        keys |= signs
        return np.take(_power_table(self), keys, out=signs, mode="clip")


@cache
def _power_table(bins: PowerBins) -> NDArray[np.intp]:
    """Bin by sign (the bit of 2048) and exponent; both keys of 2047 are zero's."""
    # A float64 of biased exponent e lies in [2^(e - 1023), 2^(e - 1022)): the next one above is at most 2^(e - 1022).
    exponents = np.arange(2047) - 1022
    size = np.clip(exponents - bins.least, 0, bins.greatest - bins.least + 1)
    zero = bins.greatest - bins.least + 2
    table = np.concatenate([zero + 1 + size, [zero], zero - 1 - size, [zero]]).astype(np.intp)
    table.setflags(write=False)
    return table


@dataclass(frozen=True)
class EdgeBins:
    """Bins between declared edges ``x < e_0``, ``[e_0, e_1]``, ``(e_1, e_2]``, ..., ``x > e_n``.

    Attributes
    ----------
    edges
        Public, finite, strictly increasing, at least two numbers, raw units.
    """

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse edges that do not cut."""
        values = np.asarray(self.edges, dtype=np.float64)
        if values.ndim != 1 or values.size < 2 or not np.all(np.isfinite(values)) or np.any(np.diff(values) <= 0):
            raise ValueError("edges must be at least two finite numbers that increase strictly; sort and deduplicate")

    @property
    def size(self) -> int:
        """Number of bins: those between edges, and one beyond each end."""
        return len(self.edges) + 1

    @property
    def borders(self) -> tuple[Vector, Vector]:
        """See :class:`ColumnBins`."""
        edges = np.asarray(self.edges, dtype=np.float64)
        return np.append(-np.inf, edges), np.append(edges, np.inf)

    def places(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Bin of each value."""
        edges = np.asarray(self.edges, dtype=np.float64)
        bins = np.searchsorted(edges, values, side="left")
        bins[values == edges[0]] = 1
        return bins


@dataclass(frozen=True)
class DigitBins:
    """Bins by the leading binary digits of a value of either sign, and one for zero alone: where in its octave it lies.

    A value x falls in that bin of ``(1, 1 + 2^-b]``, ..., ``(2 - 2^-b, 2]``, ``(2, 2 + 2^(1 - b)]``, ...,
    ``(4 - 2^(1 - b), 4]`` which holds ``|x| 4^k`` for a whole number k. Numbers below 2^-1022 are in any of them.

    Attributes
    ----------
    digits
        Digits b behind the leading one, 1 to 20.
    """

    digits: int

    def __post_init__(self) -> None:
        """Refuse more digits than memory has room for."""
        if not 1 <= self.digits <= MOST_DIGITS:
            raise ValueError(f"there are no bins by {self.digits} digits; 1 to {MOST_DIGITS} are counted")

    @property
    def size(self) -> int:
        """Number of bins: those of two octaves, and zero."""
        return 2 ** (self.digits + 1) + 1

    @property
    def borders(self) -> tuple[Vector, Vector]:
        """Ends of the bins of ``|x| 4^k``, exact, shape (size,) each; zero comes first, from 0 to 0."""
        octave = 1.0 + np.arange(2**self.digits) / 2**self.digits
        lower = np.concatenate([octave, 2.0 * octave])
        return np.append(0.0, lower), np.concatenate([[0.0], lower[1:], [4.0]])

    def places(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Bin of each value, from its bits: no arithmetic rounds."""
        bits = np.ascontiguousarray(values).view(np.int64) & _MAGNITUDE
        # The float64 just below a magnitude, so that bins are closed away from zero. Its exponent has an odd bias: the
        # lowest bit is set where the magnitude lies in (1, 2] times an even power of two.
        keys = ((bits - 1) >> (52 - self.digits)) & (2 ** (self.digits + 1) - 1)
        return np.where(bits == 0, 0, (keys ^ 2**self.digits) + 1).astype(np.intp)


@dataclass(frozen=True)
class HistogramQuery:
    """A histogram of each column, as a matrix: a row for each histogram, and its bins along it.

    Rows of fewer bins than others end in places where nothing is counted; the last place of each row is that of missing
    values where these are counted.

    Attributes
    ----------
    bins
        Bins of each histogram, in the order of their columns.
    missing
        What becomes of a missing or infinite value.
    at
        Place in the records of each histogram's column, ascending, where there are other columns besides, or several
        histograms of one; None where each column has one.
    """

    bins: tuple[ColumnBins, ...]
    missing: MissingValue
    at: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse a query of nothing, and places that are not those of its columns."""
        if not self.bins:
            raise ValueError("there are no columns to count; declare at least one")
        # The sensitivity counts histograms and not columns, so that one column may have several.
        if self.at is not None and (len(self.at) != len(self.bins) or sorted(self.at) != list(self.at)):
            raise ValueError("each histogram is of a column of the records, in ascending order")

    @property
    def _counts_missing(self) -> int:
        return int(self.missing is MissingValue.COUNT)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of places where a value may fall in each histogram."""
        return tuple(each.size + self._counts_missing for each in self.bins)

    @property
    def shape(self) -> tuple[int, int]:
        """Histograms, and the largest number of places."""
        return len(self.bins), max(self.sizes)

    def borders(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper end of each bin, shape :attr:`shape`; NaN where there is none."""
        lower, upper = np.full(self.shape, np.nan), np.full(self.shape, np.nan)
        for row, each in enumerate(self.bins):
            lower[row, : each.size], upper[row, : each.size] = each.borders
        return lower, upper

    @cached_property
    def _columns_of_bins(self) -> list[tuple[ColumnBins, NDArray[np.intp]]]:
        """Each kind of bins, and the histograms that have it."""
        groups: dict[ColumnBins, list[int]] = {}
        for column, each in enumerate(self.bins):
            groups.setdefault(each, []).append(column)
        return [(each, np.array(columns, dtype=np.intp)) for each, columns in groups.items()]

    def cells(self, records: NDArray[Any]) -> NDArray[np.intp]:
        """Places of all values of some records in the flattened matrix, in any order; those in no bin are left out.

        Parameters
        ----------
        records
            Shape (n, columns), any real dtype.

        Raises
        ------
        NotFiniteError
            A value is missing or infinite and the policy is to refuse.
        """
        width, parts = self.shape[1], list[NDArray[np.intp]]()
        if self.at is not None:
            records = records[:, list(self.at)]
        for bins, columns in self._columns_of_bins:
            part = records if columns.size == len(self.bins) else records[:, columns]
            values = np.ascontiguousarray(part, dtype=np.float64)
            places, there = bins.places(values), np.isfinite(values)
            whole = bool(there.all())
            if not whole and self.missing is MissingValue.REFUSE:
                raise NotFiniteError
            if not whole and self.missing is MissingValue.COUNT:
                places[~there] = width - 1
            places += columns * width
            parts.append(places[there] if not whole and self.missing is MissingValue.DROP else places.ravel())
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of :func:`column_histograms`."""
        whole = column_histograms(source, start, stop, self, chunk_rows)
        return [whole[slice(*tile.rows), slice(*tile.columns)] for tile in tiles]


def column_histograms(
    source: RowSource, start: int, stop: int, query: HistogramQuery, chunk_rows: int
) -> NDArray[np.int64]:
    """Histograms of the values in rows ``start <= row < stop``.

    Parameters
    ----------
    source
        Records, shape (n, columns), any real dtype.
    start, stop
        Row range.
    query
        Bins and policy.
    chunk_rows
        Rows to read at once; a multiple of the store's chunk reads each chunk once.

    Returns
    -------
    Shape ``query.shape``, int64: exact, and independent of ``chunk_rows`` and of the order of rows.

    Raises
    ------
    NotFiniteError
        See :meth:`HistogramQuery.cells`.
    """
    columns, width = query.shape
    total = np.zeros(columns * width, dtype=np.int64)
    piece = max(1, _PIECE_VALUES // columns)
    for first in range(start, stop, chunk_rows):
        last = min(first + chunk_rows, stop)
        chunk = read_again(partial(source.__getitem__, slice(first, last)))
        for offset in range(0, chunk.shape[0], piece):
            count_cells(total, query.cells(chunk[offset : offset + piece]))
        progress.advance((last - start) / (stop - start))
    return total.reshape(query.shape)
