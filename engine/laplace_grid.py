"""Secure discrete Laplace noise as a pure function of (key, row, column).

The law on the integers is ``P(k) ~ exp(-|k| / t)`` with ``t = 2**20``. It is the difference of two independent
geometric variables of ratio ``q = exp(-1/t)``, and a geometric variable is ``t a + 1024 b + c`` with independent a
(geometric, ratio 1/e) and b, c (geometric of ratios ``q**1024`` and q, cut to 0..1023), because powers factor.
Each of the six is inverted through a 128-bit cumulative table: no rejection, no floating point.

Lanes 16 to 21 of the cipher's counter (:mod:`engine.noise`) hold the words: 16, 17, 18 for a, b, c of both variables,
19, 20, 21 for ties of the leading 64 bits. Lanes of the Gaussian are 0 to 3, so the two never share a word.

Distance from the law: a is cut at 90, which loses ``exp(-90) < 2**-129``; rounding each of at most 1,023 thresholds to
128 bits moves less than ``2**-118`` in all. Six such draws are within ``2**-115``.

Privacy: neighbours whose exact answers differ by d grid steps in an entry have probabilities within ``exp(d / t)``.

**Source**: Dwork, McSherry, Nissim and Smith, 2006; Ghosh, Roughgarden and Sundararajan, 2009 (two-sided geometric).
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from engine.gaussian_table import Words
from engine.noise import TILE, NoiseKey, tiled

SCALE = 2**20
"""Scale t of the noise, in grid steps."""

_DIGIT = 1024
_LARGEST_HEAD = 90
_LANES = 16
_ENTRIES = TILE * TILE
_GUIDE_BITS = 16


@dataclass(frozen=True)
class LaplaceGrid:
    """Law of the noise, in grid steps: discrete Laplace of scale ``2**20``."""

    @property
    def label(self) -> str:
        """Public name."""
        return f"discrete Laplace of scale {SCALE}"

    @property
    def standard_deviation(self) -> float:
        """Root of ``2 q / (1 - q)**2 = 1 / (2 sinh(1 / 2t)**2)``."""
        return math.sqrt(0.5) / math.sinh(0.5 / SCALE)

    @property
    def privacy_scale(self) -> float:
        """Scale t: neighbours d steps apart cost exactly d / t."""
        return float(SCALE)

    @property
    def total_variation_per_draw(self) -> float:
        """Bound of the distance of one drawn entry from the law."""
        return 2.0**-115

    def draw(
        self, key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int], symmetric: bool
    ) -> NDArray[np.int64]:
        """Noise of a block, int64, as :func:`engine.noise.noise_block`."""
        return tiled(lambda row, column: _draw(key, row, column), rows, columns, symmetric)


LAPLACE_GRID = LaplaceGrid()


def _draw(key: NoiseKey, row: int, column: int) -> NDArray[np.int64]:
    """All entries of a tile, shape (128, 128)."""
    total = np.zeros(2 * _ENTRIES, dtype=np.int64)
    for level, (weight, ratio) in enumerate(((SCALE, "1"), (_DIGIT, "1024"), (1, str(SCALE)))):
        total += weight * _digits(key, level, row, column, ratio)
    pairs = total.reshape(_ENTRIES, 2)
    return (pairs[:, 0] - pairs[:, 1]).reshape(TILE, TILE)


def _digits(key: NoiseKey, level: int, row: int, column: int, inverse_rate: str) -> NDArray[np.int64]:
    high, low = thresholds(inverse_rate)
    words = _words(key, _LANES + level, row, column)
    found = _guide(inverse_rate)[(words >> np.uint64(64 - _GUIDE_BITS)).astype(np.int64)]
    found += (high[found] <= words) & (found < high.size - 1)
    # A guide cell holds one threshold at most, but for the last cells of the head: a few words in a million.
    rest = np.flatnonzero((high[found] <= words) & (found < high.size - 1))
    found[rest] = np.searchsorted(high[:-1], words[rest], side="right")
    ties = np.flatnonzero((found > 0) & (high[np.maximum(found, 1) - 1] == words))
    if ties.size:
        second = _words(key, _LANES + 3 + level, row, column)
        found[ties] -= second[ties] < low[found[ties] - 1]
    return found


@cache
def _guide(inverse_rate: str) -> NDArray[np.int64]:
    """Number of thresholds at or below the first word of each cell of leading bits."""
    high, _ = thresholds(inverse_rate)
    cells = np.arange(2**_GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - _GUIDE_BITS)
    return np.searchsorted(high[:-1], cells, side="right").astype(np.int64)


def _words(key: NoiseKey, lane: int, row: int, column: int) -> Words:
    counter = bytes((0, 0, lane, 0)) + row.to_bytes(4) + column.to_bytes(4) + bytes(4)
    return np.frombuffer(key.stream(counter, 16 * _ENTRIES), dtype="<u8").astype(np.uint64, copy=False)


@cache
def thresholds(inverse_rate: str) -> tuple[Words, Words]:
    """Cumulative probabilities of a cut geometric variable, as the high and the low 64 of 128 bits.

    Parameters
    ----------
    inverse_rate
        The ratio is ``exp(-1 / inverse_rate)``; "1" for the head, which is cut at 90, else cut to 0..1023.

    Returns
    -------
    Thresholds of the values 1, 2, ..., and a sentinel: the value is the number of thresholds, the sentinel not
    counted, that the 128 random bits reach.
    """
    values = _LARGEST_HEAD if inverse_rate == "1" else _DIGIT
    with decimal.localcontext() as context:
        context.prec = 80
        ratio = (-1 / decimal.Decimal(inverse_rate)).exp()
        whole = 1 - ratio**values
        exact = [min(int((1 - ratio**k) / whole * 2**128), 2**128 - 1) for k in range(1, values)]
    exact.append(2**128 - 1)  # a sentinel beyond the largest value, reached with probability 2**-128
    high = np.array([value >> 64 for value in exact], dtype=np.uint64)
    low = np.array([value & (2**64 - 1) for value in exact], dtype=np.uint64)
    for words in (high, low):
        words.setflags(write=False)
    return high, low
