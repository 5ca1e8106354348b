"""What shortening to a learned ellipsoid adds to errors that a release states, from what it states of each variance.

A variance l_i is taken of feature i and a share p of the records is shortened. Of covariances that is
``sqrt(l_i l_j) min(1, (0.2^2 + (1.1 r_ij)^2)^0.5)`` with the released correlation r, of variances ``l_i``, of means
``0.33 sqrt(l_i p)``. All of it is computed by rows, so that a matrix may be larger than memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockveil.pipeline.verification.checked_arrays import DEVIATION, CheckedArrays, slabs
from blockveil.pipeline.verification.stated_grid import Values

_ANY, _OF_CORRELATION, _OF_MEANS = 0.2, 1.1, 0.33
_TAKEN = "clipped_variance"


class ShortenedErrors:
    """Errors by shortening of one release; all of them zero where its shape was declared, and of totals those of means.

    Parameters
    ----------
    check
        Arrays of the release.
    origin
        Point about which its records have moments, shape (d,).

    Raises
    ------
    OtherArray
        What is taken of a variance is no variance.
    KeyError
        The release does not state what they follow from.
    """

    def __init__(self, check: CheckedArrays, origin: Values) -> None:
        self._check, self._there = check, _TAKEN in check.arrays
        self._variances, self.means = np.zeros(origin.size), np.zeros(origin.size)
        if not self._there:
            return
        self._variances = check.read(_TAKEN, origin.shape)
        check.require(_TAKEN, bool(np.all(np.isfinite(self._variances) & (self._variances >= 0.0))))
        learned = check.stated["learned"]
        share = float(learned["clipped_share"]) + float(learned["clipped_share_standard_deviation"])
        self.means = _OF_MEANS * np.sqrt(self._variances * share)
        if "covariance" not in check.arrays:
            return
        self._matrix = check.of("covariance", (origin.size, origin.size))
        released = diagonal(self._matrix)
        self._size = np.maximum(released, np.maximum(self._variances, np.finfo(np.float64).tiny))
        self._shift = np.abs(check.read("mean", origin.shape) - origin)
        count, deviation = (float(check.read(name, ())) for name in ("count", f"count{DEVIATION}"))
        self._divisor = max(count, deviation, 1.0)

    def covariances(self, part: slice) -> Values:
        """Of some rows of the covariance, shape (rows, d)."""
        if not self._there:
            return np.zeros((part.stop - part.start, self.means.size))
        block = np.asarray(self._matrix[part], np.float64)
        share = np.sqrt(_ANY**2 + (_OF_CORRELATION * block) ** 2 / np.outer(self._size[part], self._size))
        rows = np.arange(part.start, part.stop)
        share[rows - part.start, rows] = 1.0
        errors: Values = np.sqrt(np.outer(self._variances[part], self._variances)) * np.minimum(1.0, share)
        return errors

    def moments(self, part: slice) -> Values:
        """Of some rows of the second moment about the origin, shape (rows, d)."""
        covariances = self.covariances(part)
        if not self._there:
            return covariances
        shift_terms = np.outer(self._shift[part], self.means) + np.outer(self.means[part], self._shift)
        moments: Values = (covariances + shift_terms) * self._divisor
        return moments


def diagonal(matrix: Any) -> Values:
    """Diagonal of a square array, shape (d,), read in parts."""
    length = int(matrix.shape[0])
    return np.concatenate([np.diagonal(np.asarray(matrix[part, part], np.float64)) for (part,) in slabs((length,) * 2)])
