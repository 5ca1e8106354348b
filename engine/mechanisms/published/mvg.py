"""The matrix-variate Gaussian (MVG) mechanism: published calibrations, their exact loss, and exact calibrations.

Noise has variance ``1 / (row precision i * column precision j)`` in entry (i, j), along chosen orthogonal directions;
the published theorems bound the product of the precisions' Euclidean norms by a limit R. They are valid but loose by
factors of 70 to 10^10 in standard deviation, so a design states its exact loss, and that is what a ledger charges. The
exact designs instead spend the exact budget ``sum c_i^2 / variance_i = mu^2`` of a box ``|d_i| <= c_i``.

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
from blockveil.engine.guarantees.guarantee import GaussianDP, Neighbours
from blockveil.engine.mechanisms.published.mvg_limits import PrecisionLimit, Theorem, checked_positive
from blockveil.engine.records.geometry import Body, Matrix, Vector
from blockveil.engine.sensitivity.second_moment import second_moment_sensitivity

_UP = 1.0 + 2.0**-49
"""Covers a correctly rounded sum of products and a root, about five units in the last place."""

_DOWN = 1.0 - 2.0**-47
"""More than twice the margin above, so that the loss of a design, rounded up, stays within what it was to spend."""


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
    def column_variances(self) -> Vector:
        """Eigenvalues of the column covariance; infinite where a direction is not released."""
        return _inverse(self.column_precisions)

    @property
    def released(self) -> NDArray[np.bool_]:
        """Which entries, in the design's directions, are released at all; shape (m, n)."""
        return np.multiply.outer(self.row_precisions, self.column_precisions) > 0

    @property
    def expected_loss(self) -> float:
        """Expected squared error of all entries together, infinite where a direction is not released."""
        return float(np.sum(self.row_variances) * np.sum(self.column_variances))

    @property
    def expected_loss_symmetrised(self) -> float:
        """The same after averaging with the transpose, for a symmetric answer and equal covariances."""
        variances = self._equal_sides()
        return float((np.sum(1.0 / variances) ** 2 + np.sum(variances**-2.0)) / 2.0) if np.all(variances) else math.inf

    def satisfies(self, limit: PrecisionLimit) -> bool:
        """Whether the published condition holds."""
        norms = np.linalg.norm(self.row_precisions) * np.linalg.norm(self.column_precisions)
        # The limit is below R by twice this margin, which covers the roundings of the norms.
        return bool(norms <= limit.limit * (1.0 + 5e-14))

    def ball_loss(self, sensitivity: float) -> GaussianDP:
        """Exact loss if all that is known is a Frobenius bound of the differences; rounded up."""
        checked_positive("sensitivity", sensitivity)
        # Largest eigenvalue of the Kronecker product of the precisions, reached by a rank-one difference.
        largest = math.sqrt(float(np.max(self.row_precisions))) * math.sqrt(float(np.max(self.column_precisions)))
        return GaussianDP(sensitivity * largest * _UP)

    def box_loss(self, half_widths: Vector) -> GaussianDP:
        """Exact loss if one column of the answer changes, by at most ``half_widths`` along the row directions.

        For directions that are not the axes of the box, see :func:`half_widths_along`. Rounded up.
        """
        _check_half_widths(half_widths, self.row_precisions.size)
        # The supremum over a box of a sum of squares with weights is at a corner, whichever.
        squared = math.fsum(half_widths**2 * self.row_precisions) * float(np.max(self.column_precisions))
        return GaussianDP(math.sqrt(squared) * _UP)

    def second_moment_loss(self, bounds: Vector, divisor: int, neighbours: Neighbours) -> GaussianDP:
        """Loss for ``X'X / divisor`` with records ``|x_i| <= bounds_i`` and equal covariances; rounded up.

        Exact for add-remove, and for replace-one where the released weights split evenly; else an upper bound. The
        divisor is a public number, not the count of the records at hand.
        """
        precisions = self._equal_sides()
        _check_half_widths(bounds, precisions.size)
        weights = (bounds**2 * precisions)[precisions > 0]
        # Both bound the distance; the second is smaller where the weights cannot split evenly.
        simple = _kappa(neighbours) * math.fsum(weights)
        distance = min(simple, second_moment_sensitivity(Body.CUBE, weights, neighbours).bound)
        return GaussianDP(distance / _count(divisor) * _UP)

    def _equal_sides(self) -> Vector:
        if not np.array_equal(self.row_precisions, self.column_precisions):
            raise CalibrationError("row and column precisions differ; this needs them equal; use one allocation")
        return self.row_precisions


def unimodal(limit: PrecisionLimit, allocation: Vector, columns: int) -> MatrixNoise:
    """Algorithm 1: row variance ``1 / sqrt(theta_i P)`` with ``P = R^2 / n``, columns alike.

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


def exact_box(half_widths: Vector, allocation: Vector, mu: float, columns: int) -> MatrixNoise:
    """Algorithm 1 with the exact budget: row variance ``c_i^2 / (theta_i mu^2)``; one column changes, in a box.

    Parameters
    ----------
    half_widths
        Largest change c_i along each row direction, positive, shape (m,).
    allocation
        Shares theta of the squared budget, sum at most 1.
    mu
        Loss to spend; for an (epsilon, delta) take :func:`.calibration.gaussian_mu`.
    columns
        Number of columns of the answer.

    **Source**: corrects MVG (CCS 2018), Algorithm 1, by Balle and Wang, 2018, Theorem 8.
    """
    checked_positive("mu", mu)
    _check_half_widths(half_widths, allocation.size)
    # sum c_i^2 p_i = mu^2 sum theta <= mu^2 is the exact condition.
    return MatrixNoise(_allocation(allocation) * (mu / half_widths) ** 2 * _DOWN, np.ones(_count(columns)))


def exact_second_moment(
    bounds: Vector, allocation: Vector, mu: float, divisor: int, neighbours: Neighbours
) -> MatrixNoise:
    """Algorithm 2 with the exact budget, for ``X'X / divisor``: variance ``c_i^2 / (theta_i b)`` on both sides.

    ``b = divisor mu / kappa`` with kappa 1 (add-remove) or the root of two (replace-one). Parameters as in
    :func:`exact_box`; bounds are ``|x_i| <= c_i`` of one record, and the divisor is a public number.

    **Source**: corrects MVG (CCS 2018), Algorithm 2, by Balle and Wang, 2018, Theorem 8.
    """
    checked_positive("mu", mu)
    _check_half_widths(bounds, allocation.size)
    # x' Sigma^-1 x <= sum c_i^2 p_i, and two such rank-one terms are at most kappa of them apart.
    precisions = _allocation(allocation) * (_count(divisor) * mu / _kappa(neighbours)) / bounds**2 * _DOWN
    return MatrixNoise(precisions, precisions)


def half_widths_along(directions: Matrix, half_widths: Vector) -> Vector:
    """Largest change along each direction (columns of an orthogonal matrix) within a box; rounded up.

    The box in these directions contains the given one, so what is charged for it is an upper bound.

    Raises
    ------
    CalibrationError
        The bounds are not positive, or the directions not orthogonal to one part in a million.
    """
    m = directions.shape[0]
    _check_half_widths(half_widths, m)
    rounding = m * m * 2.0**-52
    defect = float(np.linalg.norm(directions.T @ directions - np.eye(m))) + rounding
    if not defect < 1e-6:
        raise CalibrationError(f"the directions are {defect} from orthogonal; they need unit vectors; orthonormalise")
    widths: Vector = np.abs(directions).T @ half_widths
    # Coordinates of d are W^-1 d, and |W^-1 d - W'd| <= |(W'W)^-1 - 1| |W'd|, where W'W - 1 is within the defect.
    bound: Vector = widths * (1.0 + rounding) + defect / (1.0 - defect) * float(np.linalg.norm(widths))
    return bound


def _kappa(neighbours: Neighbours) -> float:
    """Largest distance of two rank-one terms over the larger one."""
    return 1.0 if neighbours is Neighbours.ADD_REMOVE else math.sqrt(2.0)


def _allocation(allocation: Vector) -> Vector:
    total = math.fsum(allocation)
    if not np.all(np.isfinite(allocation)) or np.any(allocation < 0) or not 0 < total <= 1.0 + 1e-9:
        raise CalibrationError(f"the allocation sums to {total}; shares are not negative and sum to at most 1; rescale")
    return allocation / max(total, 1.0)


def _inverse(precisions: Vector) -> Vector:
    variances = np.full(precisions.shape, math.inf)
    np.divide(1.0, precisions, out=variances, where=precisions > 0)
    return variances


def _check_half_widths(half_widths: Vector, size: int) -> None:
    if half_widths.shape != (size,) or not np.all(np.isfinite(half_widths)) or np.any(half_widths <= 0):
        raise CalibrationError("bounds must be positive and finite, one for each direction; state them")


def _count(count: int) -> int:
    if count < 1:
        raise CalibrationError(f"a count is {count}; it must be at least 1; state it")
    return count
