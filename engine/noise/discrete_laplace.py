"""Secure discrete Laplace noise of any rational rate, as a pure function of (key, row, column).

The law on the integers is ``P(k) = (1 - q) / (1 + q) q^|k|`` with ``q = exp(-p / t)``, p and t whole numbers, t at most
``2**20``. It is drawn as zero with probability ``(1 - q) / (1 + q)``, else as a fair sign times ``1 + floor(x / p)``,
where x is geometric of ratio ``r = exp(-1 / t)``: ``P(floor(x / p) = k) = r^(p k) (1 - r^p)``, so zero is not counted
twice and the law is exactly two-sided. A geometric variable is ``x = a w + b`` for any w, with a geometric of ratio
``r^w`` and b geometric of ratio r cut to 0..w-1, independent, because powers factor; hence x is drawn as digits to the
base 1024, the leading one unbounded. Each digit is inverted through a table of 128-bit cumulative probabilities, on
words of 64 random bits with 64 further bits for ties: no rejection, no floating point.

======== ================================ ====================
lane     words of 64 bits, one an entry   their ties
======== ================================ ====================
24       zero or not (63 bits), and sign  28
25 to 27 digits, least first              29 to 31
======== ================================ ====================

Lanes of the Gaussian are 0 to 3, so that the two never share a word, nor with any other lane below 24.

Distance from the law: a threshold is rounded down by less than ``2**-128``, so a table of at most 1,024 values is
within ``2**-118`` in total variation; the leading digit is cut where at most ``2**-130`` lies beyond; zero is decided
within ``2**-127``. Three digits and the zero together are within ``2**-116``; what is computed from them is no further.

Privacy: answers in whole numbers that differ by d in L1 have probabilities within ``exp(d p / t)``.

**Source**: Ghosh, Roughgarden and Sundararajan, 2009 (two-sided geometric); Canonne, Kamath and Steinke, 2020,
Algorithm 2 (dividing a geometric variable by p).
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.noise.discrete_gaussian import TILE, NoiseKey, side_by_side, tiled, words_of
from blockveil.engine.noise.gaussian_table import Words

LARGEST_SCALE = 2**20
"""Largest denominator t of a rate."""

BASE = 1024
"""Base of the digits."""

TOTAL_VARIATION_PER_DRAW = 2.0**-115
"""Bound of the distance between one drawn entry and the law."""

_LANES = 24
_TIES = 4
_LARGEST_RATE = 64
_CUT_BITS = 130
_GUIDE_BITS = 16
_GUIDED = 8
"""Tables from this size on have a guide."""


@dataclass(frozen=True)
class DiscreteLaplace:
    """Discrete Laplace law of rate ``numerator / scale`` on the integers.

    Attributes
    ----------
    numerator
        p, positive.
    scale
        t, from 1 to ``2**20``; the rate p / t is at most 64.
    """

    norm: ClassVar[str] = "L1"
    numerator: int
    scale: int

    def __post_init__(self) -> None:
        """Refuse rates without a table."""
        if not 1 <= self.scale <= LARGEST_SCALE:
            raise CalibrationError(
                f"the scale is {self.scale}; it must lie between 1 and {LARGEST_SCALE}; answer on a coarser grid"
            )
        if not 1 <= self.numerator <= _LARGEST_RATE * self.scale:
            raise CalibrationError(
                f"the rate is {self.numerator}/{self.scale}; it must be positive and at most {_LARGEST_RATE}; lower it"
            )

    @classmethod
    def at_most(cls, rate: Fraction) -> DiscreteLaplace:
        """Law of the largest rate with a denominator up to ``2**20`` that does not exceed the given one.

        Raises
        ------
        CalibrationError
            No such rate is positive, or it exceeds 64.
        """
        fraction = _largest_fraction(rate, LARGEST_SCALE)
        if fraction <= 0:
            raise CalibrationError(
                f"the rate is {float(rate):g}; the least one is 1/{LARGEST_SCALE}; answer on a coarser grid"
            )
        return cls(fraction.numerator, fraction.denominator)

    @property
    def rate(self) -> Fraction:
        """Loss p / t for each whole number by which answers differ, exact."""
        return Fraction(self.numerator, self.scale)

    @property
    def label(self) -> str:
        """Public name."""
        return f"discrete Laplace of rate {self.numerator}/{self.scale}"

    @property
    def variance(self) -> float:
        """``2 q / (1 - q)^2 = 1 / (2 sinh(p / 2t)^2)``."""
        return 0.5 / math.sinh(self.numerator / self.scale / 2.0) ** 2

    @property
    def standard_deviation(self) -> float:
        """Root of the variance."""
        return math.sqrt(0.5) / math.sinh(self.numerator / self.scale / 2.0)

    @property
    def privacy_scale(self) -> float:
        """Scale t / p, rounded down: neighbours d steps apart cost at most d over it."""
        return self.scale / self.numerator * (1.0 - 2.0**-52)

    @property
    def total_variation_per_draw(self) -> float:
        """Bound of the distance between one drawn entry and the law."""
        return TOTAL_VARIATION_PER_DRAW

    def draw(
        self,
        key: NoiseKey,
        rows: tuple[int, int],
        columns: tuple[int, int],
        symmetric: bool,
        stream: int = 0,
    ) -> NDArray[np.int64]:
        """Noise of a block of a matrix; the same entries in whatever block.

        Parameters
        ----------
        key
            Key of the release.
        rows, columns
            Half-open ranges, below 2**32.
        symmetric
            Whether entry (i, j) is entry (min, max).
        stream
            Number of an independent matrix under the same key, below 2**16.

        Returns
        -------
        Shape (rows, columns), int64.

        Raises
        ------
        ValueError
            A range is empty, negative or too large, or the stream is.
        """
        if not 0 <= stream < 2**16:
            raise ValueError(f"stream is {stream}; it must lie between 0 and 65535")
        return tiled(partial(self._rows, key, stream), rows, columns, symmetric)

    def _rows(self, key: NoiseKey, stream: int, row: int, tiles: range, rows: range) -> NDArray[np.int64]:
        """Rows of some tiles side by side."""
        entries = len(tiles) * len(rows) * TILE

        def words(lane: int) -> Words:
            return words_of(key, stream.to_bytes(2) + bytes((lane, 0)), (row, tiles), rows, 1)

        magnitude = np.zeros(entries, dtype=np.int64)
        for digit, power in enumerate(powers(self.scale), start=1):
            high, low = digit_thresholds(self.scale, power)
            lane = _LANES + digit
            magnitude += power * invert(high, low, words(lane), partial(words, lane + _TIES))
        magnitude //= self.numerator
        magnitude += 1
        first = words(_LANES)
        signs = 1 - 2 * (first & np.uint64(1)).astype(np.int64)
        high, low = zero_threshold(self.numerator, self.scale)
        # Reaching the threshold of zero means a value other than zero.
        other = invert(high, low, first >> np.uint64(1), partial(words, _LANES + _TIES))
        return side_by_side(signs * magnitude * other, tiles, rows)


LAPLACE_GRID = DiscreteLaplace(1, LARGEST_SCALE)
"""Fine grid that stands for continuous Laplace noise: a million steps to the scale."""


def invert(high: Words, low: Words, words: Words, more: Callable[[], Words]) -> NDArray[np.int64]:
    """How many thresholds a number of 128 bits reaches, for each of n numbers.

    Parameters
    ----------
    high, low
        Thresholds in ascending order, their leading and trailing 64 bits, shape (k,).
    words
        Leading 64 bits of the numbers, shape (n,).
    more
        Gives their trailing 64 bits, shape (n,); called only for ties.

    Returns
    -------
    Shape (n,), int64, from 0 to k.
    """
    counts = _leading(high, words)
    places = np.flatnonzero((counts > 0) & (high[np.maximum(counts, 1) - 1] == words))
    trailing = more() if places.size else words
    for place in places:
        count, word = int(counts[place]), words[place]
        # Several of the last thresholds may share their leading bits.
        while count > 0 and high[count - 1] == word and low[count - 1] > trailing[place]:
            count -= 1
        counts[place] = count
    return counts


def _leading(high: Words, words: Words) -> NDArray[np.int64]:
    """``np.searchsorted(high, words, side="right")``, by a guide over leading bits where it pays."""
    if high.size < _GUIDED:
        return np.searchsorted(high, words, side="right").astype(np.int64, copy=False)
    guide, padded = _guide(high.tobytes())
    counts = guide[(words >> np.uint64(64 - _GUIDE_BITS)).view(np.int64)]
    counts += (padded[counts] <= words) & (counts < high.size)
    # A cell of the guide rarely holds more than one threshold; those words are searched.
    rest = np.flatnonzero((padded[counts] <= words) & (counts < high.size))
    counts[rest] = np.searchsorted(high, words[rest], side="right")
    return counts


@lru_cache(maxsize=32)
def _guide(thresholds: bytes) -> tuple[NDArray[np.int64], Words]:
    """How many thresholds the first word of each cell reaches; the thresholds and one more beyond them."""
    high = np.frombuffer(thresholds, dtype=np.uint64)
    cells = np.arange(2**_GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - _GUIDE_BITS)
    return np.searchsorted(high, cells, side="right").astype(np.int64), np.append(high, np.uint64(2**64 - 1))


def powers(scale: int) -> tuple[int, ...]:
    """Weights of the digits for a scale, least first; the leading digit has at most 722 values."""
    if scale <= 8:
        return (1,)
    return (1, BASE) if scale <= 8 * BASE else (1, BASE, BASE**2)


@cache
def digit_thresholds(scale: int, power: int) -> tuple[Words, Words]:
    """Cumulative probabilities of a digit: that it is below 1, 2, ..., as the high and low 64 of 128 bits.

    Parameters
    ----------
    scale
        t.
    power
        Weight of the digit, one of :func:`powers`: its ratio is ``exp(-power / t)``.
    """
    leading = power == powers(scale)[-1]
    with decimal.localcontext() as context:
        context.prec = 90
        rate = decimal.Decimal(power) / scale
        # The last value of the leading digit also stands for all beyond, of probability at most 2**-130 in all.
        values = math.ceil(_CUT_BITS * decimal.Decimal(2).ln() / rate) + 1 if leading else BASE
        ratio = (-rate).exp()
        whole = decimal.Decimal(1) if leading else 1 - ratio**values
        return _split([int((1 - ratio**k) / whole * 2**128) for k in range(1, values)])


@cache
def zero_threshold(numerator: int, scale: int) -> tuple[Words, Words]:
    """Probability of zero, as the high 63 and the low 64 of 127 bits."""
    with decimal.localcontext() as context:
        context.prec = 90
        ratio = (-decimal.Decimal(numerator) / scale).exp()
        return _split([int((1 - ratio) / (1 + ratio) * 2**127)])


def _split(values: list[int]) -> tuple[Words, Words]:
    high = np.array([value >> 64 for value in values], dtype=np.uint64)
    low = np.array([value & (2**64 - 1) for value in values], dtype=np.uint64)
    for words in (high, low):
        words.setflags(write=False)
    return high, low


def _largest_fraction(value: Fraction, largest: int) -> Fraction:
    """Largest fraction not above a value whose denominator is not above a limit: Farey neighbours by Stern and Brocot.

    ``low <= value < high`` are neighbours throughout, so no fraction between them has a smaller denominator than the
    sum of theirs.
    """
    whole = math.floor(value)
    low, high = (whole, 1), (whole + 1, 1)
    while low[1] + high[1] <= largest:
        # As many steps at once as keep the mediant on the same side: both counts are floors of exact fractions.
        gap_low = value.numerator * low[1] - low[0] * value.denominator
        gap_high = high[0] * value.denominator - value.numerator * high[1]
        if gap_low >= gap_high:
            steps = min(gap_low // gap_high, (largest - low[1]) // high[1])
            low = (low[0] + steps * high[0], low[1] + steps * high[1])
        else:
            # high stays strictly above the value.
            most = (gap_high - 1) // gap_low if gap_low else largest
            steps = min(most, (largest - high[1]) // low[1])
            high = (high[0] + steps * low[0], high[1] + steps * low[1])
        if gap_low == 0:
            break
    return Fraction(*low)
