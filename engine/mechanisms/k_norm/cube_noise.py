"""Secure noise whose probability falls with the largest entry of a row, as a pure function of (key, row, column).

The law of a row of d whole numbers z is ``P(z) ~ exp(-max |z_i| / t)``. Since ``exp(-k / t) = (1 - q) sum of q^m over m
>= k`` for ``q = exp(-1 / t)``, it is a mixture: draw m with probability proportional to ``(2 m + 1)^d q^m``, then d
whole numbers, each uniform from -m to m. The radius m is drawn as the sum of d + 1 geometric variables of ratio q,
which has ``P(m) ~ (m + 1) ... (m + d) q^m``, and is accepted with probability ``prod (2 m + 1) / (2 m + 2 i)`` over i
from 1 to d. No factor exceeds one, and the product of both is the wanted weight. At the released scale of a million
steps a radius is rejected about once in ``2^20 / d`` draws.

======== =========================================== ====================
lane     words of 64 bits                            their ties
======== =========================================== ====================
40 to 42 digits of a radius, d + 1 for each row      44 to 46
48       two for each entry: the uniform number
49       two for each row: whether it is accepted
======== =========================================== ====================

Digits of geometric variables are those of :mod:`.discrete_laplace`. The second byte of the lane counts how often a row
was rejected, up to 255; at the released scale fewer than one row in ``2^3000`` comes that far, and keeps its radius.

Distance from the law, for a row of at most 64 entries: digits err by ``2^-118`` each, 195 of them; a uniform number
``floor(u n / 2^128)`` from 128 bits u has probabilities within ``2^-128`` of ``1 / n``, so that it errs by at most ``n
/ 2^128 <= 2^-96``; the acceptance errs by ``2^-128``; a radius of ``2^31`` or more, which is cut, has probability below
``2^-1000``, as it is 31 times the mean of the sum. In all, a row is within ``d 2^-95``.

Privacy: rows whose entries differ by at most k have probabilities within ``exp(k / t)``, for the largest of ``|z_i +
k_i|`` differs from that of ``|z_i|`` by at most k.

**Source**: Hardt and Talwar, 2010, section 4 (the K-norm mechanism), in whole numbers; the sampler is derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.mechanisms.k_norm.joint_entries import CubeEntry
from blockveil.engine.noise.discrete_gaussian import TILE, NoiseKey
from blockveil.engine.noise.discrete_laplace import LARGEST_SCALE, digit_thresholds, invert, powers
from blockveil.engine.noise.gaussian_table import Words

MOST_ENTRIES = 64
"""Most entries of a row."""

_DIGITS, _TIES, _UNIFORM, _ACCEPT = 40, 4, 48, 49
_TRIES = 256
_LARGEST_RADIUS = 2**31 - 1
_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)

_Lanes = Callable[[int, int], Words]
"""Words of a lane: its number, and how many."""


@dataclass(frozen=True)
class CubeNoise:
    """Noise of rows, ``P(z) ~ exp(-max |z_i| / scale)``.

    Attributes
    ----------
    entries
        d, the entries of a row, from 1 to 64. Columns beyond them are those of further rows, with noise of their own.
    scale
        t, from 1 to ``2**20``; released noise has the largest, which stands for continuous noise.
    """

    norm: ClassVar[str] = "the largest entry"
    entries: int
    scale: int = LARGEST_SCALE

    def __post_init__(self) -> None:
        """Refuse rows and scales for which the distance from the law is not proven."""
        if not 1 <= self.entries <= MOST_ENTRIES:
            raise CalibrationError(
                f"a row has {self.entries} entries; noise by the largest is for 1 to {MOST_ENTRIES}; choose laplace"
            )
        if not 1 <= self.scale <= LARGEST_SCALE:
            raise CalibrationError(
                f"the scale is {self.scale}; it must lie between 1 and {LARGEST_SCALE}; choose it so"
            )

    @property
    def label(self) -> str:
        """Public name."""
        return f"K-norm of rate 1/{self.scale}, largest of {self.entries} entries, version 1"

    @property
    def standard_deviation(self) -> float:
        """Of an entry: ``E m (m + 1) / 3``, with m + 1/2 nearly a gamma variable of d + 1 and t (rounded up)."""
        d, t = self.entries, self.scale
        return sqrt((d + 1) * (d + 2) / 3.0) * t * (1.0 + 2.0**-50)

    @property
    def privacy_scale(self) -> float:
        """Scale, rounded down: rows that differ by at most k steps in each entry cost at most k over it."""
        return self.scale * (1.0 - 2.0**-52)

    @property
    def tails(self) -> CubeEntry:
        """Law of one entry, in its standard deviations."""
        return CubeEntry(self.entries)

    def length(self, change: NDArray[np.int64]) -> float:
        """Norm of a difference of two releases, in grid steps: rows have noise of their own, whose losses add up."""
        return float(np.sum(np.max(np.abs(change), axis=1)))

    @property
    def total_variation_per_draw(self) -> float:
        """Bound of the distance between one drawn entry's share of a row and the law."""
        return 2.0**-95

    def draw(
        self, key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int], symmetric: bool
    ) -> NDArray[np.int64]:
        """Noise of a block of a matrix; the same entries in whatever block.

        Parameters
        ----------
        key
            Key of the release.
        rows, columns
            Half-open ranges, below 2**32.
        symmetric
            Must be False: a symmetric matrix has no rows of its own.

        Returns
        -------
        Shape (rows, columns), int64.

        Raises
        ------
        ValueError
            A range is empty, negative or too large, or the matrix is symmetric.
        """
        if symmetric:
            raise ValueError("noise by the largest entry is for rows; a symmetric matrix needs another law")
        for low, high in (rows, columns):
            if not 0 <= low < high <= 2**32:
                raise ValueError(
                    f"the range {low}:{high} is not inside 0:2**32, or it is empty; give a half-open range"
                )
        first, end = columns[0] // self.entries, -(-columns[1] // self.entries)
        inner = slice(columns[0] - first * self.entries, columns[1] - first * self.entries)
        block = np.empty((rows[1] - rows[0], columns[1] - columns[0]), dtype=np.int64)
        for tile in range(rows[0] // TILE, -(-rows[1] // TILE)):
            start, stop = max(rows[0], tile * TILE), min(rows[1], (tile + 1) * TILE)
            strip = np.hstack([self._rows(key, tile, group, stop - tile * TILE) for group in range(first, end)])
            block[start - rows[0] : stop - rows[0]] = strip[start - tile * TILE :, inner]
        return block

    def _rows(self, key: NoiseKey, tile: int, group: int, height: int) -> NDArray[np.int64]:
        """The first rows of a tile, shape (height, d)."""
        points = np.empty((height, self.entries), dtype=np.int64)
        pending = np.arange(height)
        for tries in range(_TRIES):

            def words(lane: int, count: int, tries: int = tries) -> Words:
                counter = bytes(2) + bytes((lane, tries)) + tile.to_bytes(4) + group.to_bytes(4) + bytes(4)
                return np.frombuffer(key.stream(counter, 8 * count), dtype="<u8").astype(np.uint64, copy=False)

            radius = self._radii(words, height)
            pairs = words(_UNIFORM, 2 * height * self.entries).reshape(height, self.entries, 2)
            sizes = np.broadcast_to(2 * radius[:, None] + np.uint64(1), points.shape)
            candidates = (
                scaled_down(pairs[:, :, 0], pairs[:, :, 1], sizes).astype(np.int64) - radius.astype(np.int64)[:, None]
            )
            points[pending] = candidates[pending]
            pending = pending[~self._accepted(words(_ACCEPT, 2 * height).reshape(height, 2)[pending], radius[pending])]
            if pending.size == 0:
                break
        return points

    def _radii(self, words: _Lanes, height: int) -> Words:
        """Sums of d + 1 geometric variables, cut below 2**31, shape (height,)."""
        count = height * (self.entries + 1)
        sums = np.zeros(count, dtype=np.int64)
        for digit, power in enumerate(powers(self.scale)):
            high, low = digit_thresholds(self.scale, power)
            lane = _DIGITS + digit
            sums += power * invert(high, low, words(lane, count), partial(words, lane + _TIES, count))
        radius: Words = np.minimum(sums.reshape(height, -1).sum(axis=1), _LARGEST_RADIUS).astype(np.uint64)
        return radius

    def _accepted(self, pairs: Words, radius: Words) -> NDArray[np.bool_]:
        """Whether u / 2**128 is below ``prod (2 m + 1) / (2 m + 2 i)`` for a pair of words, high and low, of u."""
        # 1 - prod <= sum of (2 i - 1) / (2 m + 2 i) <= d^2 / (2 m + 2), and u < (h + 1) 2^64: sure where
        # (2^64 - 1 - h) (2 m + 2) >= 2^64 d^2. Dropping 32 bits of the first factor only makes that harder.
        beyond = (~pairs[:, 0] >> _HALF) * (2 * radius + np.uint64(2))
        acceptance: NDArray[np.bool_] = beyond >= np.uint64(self.entries**2 << 32)
        for place in np.flatnonzero(~acceptance):
            acceptance[place] = self._accepts((int(pairs[place, 0]) << 64) + int(pairs[place, 1]), int(radius[place]))
        return acceptance

    def _accepts(self, bits: int, radius: int) -> bool:
        rivals, weight = 1, 1 << 128
        for i in range(1, self.entries + 1):
            rivals, weight = rivals * (2 * radius + 2 * i), weight * (2 * radius + 1)
        return bits * rivals < weight


def scaled_down(high: Words, low: Words, limit: Words) -> Words:
    """``floor((high 2^64 + low) limit / 2^128)`` in whole numbers: uniform below the limit for uniform words.

    Parameters
    ----------
    high, low
        Leading and trailing 64 bits, any shape.
    limit
        Positive and below 2**32, the same shape.

    Returns
    -------
    uint64, the same shape, below the limit.
    """
    # limit < 2^32, so that no product of it with 32 bits and no sum with a carry of 32 bits leaves 64 bits.
    carry = _top(low, limit)
    product = high * limit
    return _top(high, limit) + (product + carry < product)


def _top(word: Words, limit: Words) -> Words:
    """``floor(word limit / 2^64)``."""
    quotient: Words = ((word >> _HALF) * limit + ((word & _LOW) * limit >> _HALF)) >> _HALF
    return quotient
