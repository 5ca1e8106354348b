"""Rounding to few integers without a bias: where in a step a value is rounded up differs from record to record.

Rounded to nearest, records that share a value are all rounded the same way, and the errors of a sum add up. Here
``k = rint(v + w)`` with w in (-1/2, 1/2) given by the record's start s, a hash of all its values, and by the feature
j: ``w = (((s + j) c mod N) + 1/2) / N - 1/2``. Over all N starts each feature meets each of N evenly spaced places
once, as c is odd, so that rounding up is as frequent as it should be. Integers still depend on the record alone, which
is all that a sensitivity needs; nothing here is secret or drawn.

The start is the upper 12 bits of ``sum m_j u_j mod 2^32`` with u the steps of the clipped record in whole 256ths. Two
records differ by less than 2^17 in any u, so by an odd number times at most 2^16; for random m the upper 12 bits of the
difference of their sums are then uniform. The m are fixed numbers, so that this is what to expect and no proof.

**Source**: Thorup, High speed hashing for integers and strings, 2015, for multiply-shift of vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

PLACES = 2**12
"""N. Places are exact in single precision beside integers of at most 2**8."""

BESIDE = np.float32(1.5 * 2**15)
"""A number next to which the last bit of single precision is a 256th."""

_TURN = 2531
"""c, odd and near N times the golden section, so that neighbouring features are rounded at places far apart."""


@dataclass(frozen=True, eq=False)
class Dither:
    """Places in a step at which the features of records are rounded up.

    Attributes
    ----------
    features
        Features of a record, whose values all decide its start.
    first
        Number of the feature in the first column of what is rounded.
    """

    features: int
    first: int = 0

    def words(self, steps: NDArray[Any]) -> NDArray[np.uint32]:
        """What tells records apart: their values in 256ths of a step, and a constant, modulo 2**32."""
        return (np.asarray(steps, dtype=np.float32) + BESIDE).view(np.uint32)

    def starts(self, steps: NDArray[Any]) -> NDArray[np.intp]:
        """Start of each record, shape (n,), from whole clipped records in steps, shape (n, features)."""
        hashes: NDArray[np.uint32] = np.einsum("ij,j->i", self.words(steps), self.multipliers)
        return _upper(hashes)

    def starts_of_entries(
        self,
        steps: NDArray[Any],
        zeros: NDArray[Any],
        columns: NDArray[np.int64],
        borders: NDArray[np.int64],
    ) -> NDArray[np.intp]:
        """The same of records given by their values other than zero.

        Parameters
        ----------
        steps, columns
            Values in steps and their columns, record by record, shape (entries,).
        zeros
            A record of zeros in steps, shape (features,).
        borders
            First entry of each record and the end of the last, shape (n + 1,).
        """
        base = self.words(zeros)
        terms = (self.words(steps) - base[columns]) * self.multipliers[columns]
        # Sums wrap around modulo 2**32, as the hash does; so do their differences.
        sums = np.concatenate([np.zeros(1, np.uint32), np.cumsum(terms, dtype=np.uint32)])
        return _upper(sums[borders[1:]] - sums[borders[:-1]] + np.sum(base * self.multipliers, dtype=np.uint32))

    def places(self, starts: NDArray[np.intp], columns: NDArray[np.int64]) -> NDArray[np.float32]:
        """Places of single values: of a record with this start, in this column."""
        places: NDArray[np.float32] = self.all_places[starts + columns]
        return places

    def move(self, values: NDArray[np.floating], starts: NDArray[np.intp]) -> None:
        """Add to values in steps, shape (n, columns), their places, in place."""
        values += self._windows[starts, : values.shape[1]]

    def part(self, first: int) -> Dither:
        """The same for columns from this feature on."""
        return Dither(self.features, first)

    def __reduce__(self) -> tuple[type[Dither], tuple[int, int]]:
        """Travel between processes without what follows from the numbers."""
        return type(self), (self.features, self.first)

    @cached_property
    def multipliers(self) -> NDArray[np.uint32]:
        """A number for each feature, by the finaliser of MurmurHash3 in 32 bits."""
        mixed = np.arange(1, self.features + 1, dtype=np.uint32)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
        return mixed

    @cached_property
    def all_places(self) -> NDArray[np.float32]:
        """Place of each sum of a start and the number of a column."""
        turned = np.arange(self.first, PLACES + self.features, dtype=np.int64) * _TURN % PLACES
        return ((turned + 0.5) / PLACES - 0.5).astype(np.float32)

    @cached_property
    def _windows(self) -> NDArray[np.float32]:
        """Places of every start, a row each."""
        return np.lib.stride_tricks.sliding_window_view(self.all_places, self.features - self.first)[:PLACES]


def _upper(hashes: NDArray[np.uint32]) -> NDArray[np.intp]:
    return (hashes >> np.uint32(32 - PLACES.bit_length() + 1)).astype(np.intp)
