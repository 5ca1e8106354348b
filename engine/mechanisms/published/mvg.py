"""The matrix-variate Gaussian (MVG) mechanism: the published calibrations.

Noise has variance ``1 / (row precision i * column precision j)`` in entry (i, j), along chosen orthogonal directions;
the published theorems bound the product of the precisions' Euclidean norms by a limit R. They are valid but loose by
factors of 70 to 10^10 in standard deviation, so that a ledger charges the exact loss of the noise (:mod:`.problems`).

Precision zero means infinite variance: the direction is not released. Allocations, directions, gamma, sensitivity and
bounds must be public or paid for; so must signal variances, which the paper takes from the records themselves.

**Source**: MVG (CCS 2018), theorems numbered as in its full version; Balle and Wang, 2018, for the exact loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.mechanisms.published.mvg_limits import PrecisionLimit, Theorem
from blockveil.engine.records.geometry import Vector


@dataclass(frozen=True, eq=False)
class MatrixNoise:
    """A design: precisions (inverse variances) of the row and of the column covariance along their directions.

    Attributes
    ----------
    row_precisions, column_precisions
        Shapes (m,) and (n,), not negative, finite; zero means that the direction is not released.
    """

    row_precisions: Vector
    column_precisions: Vector

    def __post_init__(self) -> None:
        """Refuse precisions that are negative, not finite or all zero."""
        for values in (self.row_precisions, self.column_precisions):
            if values.ndim != 1 or not np.all(np.isfinite(values)) or np.any(values < 0) or not np.any(values > 0):
                raise CalibrationError("precisions must be finite, none negative and not all zero; correct the design")

    @property
    def row_variances(self) -> Vector:
        """Eigenvalues of the row covariance; infinite where a direction is not released."""
        return _inverse(self.row_precisions)

    @property
    def released(self) -> NDArray[np.bool_]:
        """Which entries, in the design's directions, are released at all; shape (m, n)."""
        return np.multiply.outer(self.row_precisions, self.column_precisions) > 0


def unimodal(limit: PrecisionLimit, allocation: Vector, columns: int) -> MatrixNoise:
    """Algorithm 1: row variance ``1 / sqrt(theta_i P)`` with ``P = R^2 / n``, the same for all columns.

    Parameters
    ----------
    limit
        Of Theorem 2.
    allocation
        Theta, shape (m,), not negative, sum at most 1; zero is a direction that is not released.
    columns
        Number n of columns.

    **Source**: MVG (CCS 2018), Algorithm 1 and Theorem 4 of the short version.
    """
    if limit.theorem is not Theorem.GENERAL:
        raise CalibrationError("the limit is that of Theorem 3; Algorithm 1 needs unequal sides; use Theorem 2")
    return MatrixNoise(limit.limit * np.sqrt(_allocation(allocation) / _count(columns)), np.ones(columns))


def equimodal(limit: PrecisionLimit, allocation: Vector) -> MatrixNoise:
    """Algorithm 2: variance ``1 / sqrt(theta_i P)`` on both sides with ``P = R``; a square answer.

    Parameters as in :func:`unimodal`; the limit may be of either theorem.

    **Source**: MVG (CCS 2018), Algorithm 2.
    """
    precisions = math.sqrt(limit.limit) * np.sqrt(_allocation(allocation))
    return MatrixNoise(precisions, precisions)


def _allocation(allocation: Vector) -> Vector:
    total = math.fsum(allocation)
    if not np.all(np.isfinite(allocation)) or np.any(allocation < 0) or not 0 < total <= 1.0 + 1e-9:
        raise CalibrationError(f"the allocation sums to {total}; shares are not negative and sum to at most 1; rescale")
    return allocation / max(total, 1.0)


def _inverse(precisions: Vector) -> Vector:
    variances = np.full(precisions.shape, math.inf)
    np.divide(1.0, precisions, out=variances, where=precisions > 0)
    return variances


def _count(count: int) -> int:
    if count < 1:
        raise CalibrationError(f"a count is {count}; it must be at least 1; state it")
    return count
