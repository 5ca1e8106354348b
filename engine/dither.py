"""Rounding to few integers without a bias: where in a step a value is rounded up differs from record to record.

Rounded to nearest, records that share a value are all rounded the same way, and the errors of a sum add up. Here
``k = rint(v + w)`` with w in (-1/2, 1/2) given by the record's start s, a hash of all its values, and by the feature
j: ``w = (((s + j) c mod N) + 1/2) / N - 1/2``. Over all N starts each feature meets each of N evenly spaced places
once, as c is odd, so that rounding up is as frequent as it should be. Integers still depend on the record alone, which
is all that a sensitivity needs; nothing here is secret or drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

PLACES = 2**12
"""N. Places are exact in single precision beside integers of at most 2**8."""

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

    def starts(self, records: NDArray[np.generic]) -> NDArray[np.intp]:
        """Start of each record, shape (n,), from whole records, shape (n, features), any real dtype.

        Values that are the same in single precision count as the same, so that starts do not depend on the dtype
        of values that it holds.
        """
        with np.errstate(over="ignore"):  # huge values count as infinite
            words = np.ascontiguousarray(records, dtype=np.float32).view(np.uint32)
        # A multilinear hash modulo 2**32, whose upper bits are the well mixed ones.
        hashes: NDArray[np.uint32] = np.einsum("ij,j->i", words, self._multipliers)
        return (hashes >> np.uint32(32 - PLACES.bit_length() + 1)).astype(np.intp)

    def move(self, values: NDArray[np.floating], starts: NDArray[np.intp]) -> None:
        """Add to values in steps, shape (n, columns), the places of their records, in place."""
        values += self._windows[starts, : values.shape[1]]

    def part(self, first: int) -> Dither:
        """The same for columns from this feature on."""
        return Dither(self.features, first)

    @cached_property
    def _multipliers(self) -> NDArray[np.uint32]:
        """An odd number for each feature, by the finaliser of MurmurHash3 in 32 bits."""
        mixed = np.arange(1, self.features + 1, dtype=np.uint32)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
        return mixed | np.uint32(1)

    @cached_property
    def _windows(self) -> NDArray[np.float32]:
        """Places of every start, a row each, for the features from the first one on."""
        turned = np.arange(self.first, PLACES + self.features, dtype=np.int64) * _TURN % PLACES
        places = ((turned + 0.5) / PLACES - 0.5).astype(np.float32)
        return np.lib.stride_tricks.sliding_window_view(places, self.features - self.first)[:PLACES]


def rounding_of_sums(rows: int, largest: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Error of a sum, in coordinates, of records in a cube that are rounded at places of their own.

    Parameters
    ----------
    rows
        Number of records, at most, no two of them alike.
    largest
        K, the integer that stands for coordinate one.

    Returns
    -------
    Largest mean and largest standard deviation over starts, of a sum of products of two coordinates and of a sum of
    one. Records that are alike are rounded alike: of r equal records the deviation is the root of r larger.
    """
    step, apart = 1.0 / largest, 1.0 / PLACES
    # A value a share a of a step above an integer is rounded up at a share p of N even places: |p - a| <= 1 / (2 N).
    of_value = rows * step * apart / 2.0, np.sqrt(rows) * step / 2.0
    # In steps, errors e and f have squares of mean a (1 - a) + |p - a| <= 1/4 + 1/(2 N), which bounds the mean of e f,
    # and |e f| <= 1; v and w are at most one: v f + w e + e f.
    mean = rows * (step * apart + step**2 * (0.25 + apart / 2.0))
    return (mean, np.sqrt(rows) * (step * np.sqrt(1.0 + 2.0 * apart) + step**2)), of_value
