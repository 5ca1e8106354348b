"""Rounding to many integers without a bias: where in a step a value is rounded up differs from content to content.

As in :mod:`.dither`, in double precision and at finer places, for integers of up to 31 bits. ``k = rint(v + w)`` with w
in (-1/2, 1/2) given by the record's start s, a hash of all its values, and by the feature j:
``w = (floor((s + j c mod 2^32) / 2^12) + 1/2) / 2^20 - 1/2``, c odd. Over all starts each feature meets each of
N = 2^20 evenly spaced places equally often. Integers depend on the record alone, never on its place among others, which
is all that a sensitivity needs; nothing here is secret or drawn.

The start is the upper half of a mixed ``sum m_j u_j mod 2^64``, u the lower 32 bits of the steps of the clipped record
in whole parts of a step, and m fixed odd numbers of 32 bits. Records of one content have one start; that starts of
different contents are as good as independent is what to expect of the mixing and no proof.

**Source**: Thorup, High speed hashing for integers and strings, 2015, for multiply-shift of vectors; Steele, Lea and
Flood, Fast splittable pseudorandom number generators, 2014, for the mixing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

PLACE_BITS = 20
"""N is 2**20. Places are odd multiples of 2**-21 and exact in double precision beside integers below 2**31."""

STARTS = 2**32

SHIFT = 32 - PLACE_BITS

LEAST_PLACE = 2.0 ** -(PLACE_BITS + 1) - 0.5

TILT = 2.0**-PLACE_BITS
"""A value a share a of a step above an integer is rounded up at a share p of starts, ``|p - a| <= 2**-20``.

Even places are off by 2**-21 at most, and what double precision adds to a value of 2**31 steps is less than that too.
"""

GOLDEN = 0x9E3779B1
"""c, odd and near 2**32 times the golden section, so that neighbouring features are rounded at places far apart."""

FACTORS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
LOW_WORD = 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class FineDither:
    """Places in a step at which the features of records are rounded up; see :class:`.dither.Dither`.

    Attributes
    ----------
    features
        Features of a record, whose values all decide its start.
    largest
        K, the integer that stands for coordinate one.
    first
        Number of the feature in the first column of what is rounded.
    """

    features: int
    largest: int
    first: int = 0

    @property
    def beside(self) -> float:
        """A number next to which the last bit of double precision is what tells contents apart: a 256th of a step.

        A whole step where 256ths of K would not fit in 32 bits.
        """
        return 1.5 * 2.0 ** (52 - (8 if self.largest < 2**22 else 0))

    def words(self, steps: NDArray[Any]) -> NDArray[np.uint64]:
        """What tells contents apart: values in parts of a step, modulo 2**32."""
        words = (np.asarray(steps, dtype=np.float64) + self.beside).view(np.uint64)
        words &= np.uint64(LOW_WORD)
        return words

    def starts(self, steps: NDArray[Any]) -> NDArray[np.int64]:
        """Start of each record, shape (n,), from whole clipped records in steps, shape (n, features)."""
        words = self.words(steps)
        words *= self.multipliers
        return _mixed(words.sum(axis=1, dtype=np.uint64))

    def starts_of_entries(
        self,
        steps: NDArray[Any],
        zeros: NDArray[Any],
        columns: NDArray[np.int64],
        borders: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """The same of records given by their values other than zero; parameters as for :class:`.dither.Dither`."""
        base = self.words(zeros)
        terms = (self.words(steps) - base[columns]) * self.multipliers[columns]
        # Sums wrap around modulo 2**64, as the hash does; so do their differences.
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        return _mixed(sums[borders[1:]] - sums[borders[:-1]] + np.sum(base * self.multipliers, dtype=np.uint64))

    def places(self, starts: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Places of single values: of a record with this start, in this column."""
        return _places(starts.astype(np.uint32) + self.turns[columns])

    def move(self, values: NDArray[np.float64], starts: NDArray[np.int64]) -> None:
        """Add to values in steps, shape (n, columns), their places, in place."""
        values += _places(starts.astype(np.uint32)[:, None] + self.turns[: values.shape[1]])

    def part(self, first: int) -> FineDither:
        """The same for columns from this feature on."""
        return FineDither(self.features, self.largest, first)

    def __reduce__(self) -> tuple[type[FineDither], tuple[int, int, int]]:
        """Travel between processes without what follows from the numbers."""
        return type(self), (self.features, self.largest, self.first)

    @cached_property
    def multipliers(self) -> NDArray[np.uint64]:
        """An odd number of 32 bits for each feature."""
        counted = np.arange(1, self.features + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (_mixed(counted).astype(np.uint64)) | np.uint64(1)

    @cached_property
    def turns(self) -> NDArray[np.uint32]:
        """What each column adds to a start, from the first column on."""
        return (np.arange(self.first, self.features, dtype=np.uint64) * np.uint64(GOLDEN)).astype(np.uint32)


def _places(turned: NDArray[np.uint32]) -> NDArray[np.float64]:
    turned >>= np.uint32(SHIFT)
    places = turned.astype(np.float64)
    places *= 2.0**-PLACE_BITS
    places += LEAST_PLACE
    return places


def _mixed(sums: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Upper half of mixed numbers."""
    words = (sums ^ (sums >> np.uint64(30))) * np.uint64(FACTORS[0])
    words = (words ^ (words >> np.uint64(27))) * np.uint64(FACTORS[1])
    return (words >> np.uint64(32)).astype(np.int64)
