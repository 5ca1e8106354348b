"""MVG designs with their exact losses and errors, exact designs, and what Theorem 7 publishes, for comparison."""

from __future__ import annotations

import math

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import GaussianDP, Neighbours
from blockveil.engine.mechanisms.published import mvg
from blockveil.engine.mechanisms.published.mvg import _allocation, _count
from blockveil.engine.mechanisms.published.mvg_allocation import MaxPNR, _budget, _checked, exact_box_max_pnr
from blockveil.engine.mechanisms.published.mvg_limits import checked_positive
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.second_moment import second_moment_sensitivity

_UP, _DOWN = 1.0 + 2.0**-49, 1.0 - 2.0**-47


class MatrixNoise(mvg.MatrixNoise):
    """A design that also says what it costs and how far it errs."""

    @property
    def column_variances(self):
        """Eigenvalues of the column covariance."""
        with np.errstate(divide="ignore"):
            return 1.0 / self.column_precisions

    @property
    def expected_loss(self):
        """Expected squared error of all entries together, infinite where a direction is not released."""
        return float(np.sum(self.row_variances) * np.sum(self.column_variances))

    @property
    def expected_loss_symmetrised(self):
        """The same after averaging with the transpose, for a symmetric answer and equal covariances."""
        variances = self._equal_sides()
        return float((np.sum(1.0 / variances) ** 2 + np.sum(variances**-2.0)) / 2.0) if np.all(variances) else math.inf

    def satisfies(self, limit):
        """Whether the published condition holds."""
        norms = np.linalg.norm(self.row_precisions) * np.linalg.norm(self.column_precisions)
        # The limit is below R by twice this margin, which covers the roundings of the norms.
        return bool(norms <= limit.limit * (1.0 + 5e-14))

    def ball_loss(self, sensitivity):
        """Exact loss if all that is known is a Frobenius bound of the differences; rounded up."""
        # Largest eigenvalue of the Kronecker product of the precisions, reached by a rank-one difference.
        largest = math.sqrt(float(np.max(self.row_precisions))) * math.sqrt(float(np.max(self.column_precisions)))
        return GaussianDP(sensitivity * largest * _UP)

    def box_loss(self, half_widths):
        """Exact loss if one column of the answer changes, by at most ``half_widths`` along the row directions.

        For directions that are not the axes of the box, see :func:`half_widths_along`. Rounded up.
        """
        _check_half_widths(half_widths, self.row_precisions.size)
        # The supremum over a box of a sum of squares with weights is at a corner, whichever.
        squared = math.fsum(half_widths**2 * self.row_precisions) * float(np.max(self.column_precisions))
        return GaussianDP(math.sqrt(squared) * _UP)

    def second_moment_loss(self, bounds, divisor, neighbours):
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

    def _equal_sides(self):
        if not np.array_equal(self.row_precisions, self.column_precisions):
            raise CalibrationError("row and column precisions differ; this needs them equal; use one allocation")
        return self.row_precisions


def unimodal(limit, allocation, columns):
    """Algorithm 1 as the product has it."""
    found = mvg.unimodal(limit, allocation, columns)
    return MatrixNoise(found.row_precisions, found.column_precisions)


def equimodal(limit, allocation):
    """Algorithm 2 as the product has it."""
    found = mvg.equimodal(limit, allocation)
    return MatrixNoise(found.row_precisions, found.column_precisions)


def exact_box(half_widths, allocation, mu, columns):
    """Algorithm 1 with the exact budget: row variance ``c_i^2 / (theta_i mu^2)``; one column changes, in a box.

    **Source**: corrects MVG (CCS 2018), Algorithm 1, by Balle and Wang, 2018, Theorem 8.
    """
    checked_positive("mu", mu)
    _check_half_widths(half_widths, allocation.size)
    # sum c_i^2 p_i = mu^2 sum theta <= mu^2 is the exact condition.
    return MatrixNoise(_allocation(allocation) * (mu / half_widths) ** 2 * _DOWN, np.ones(_count(columns)))


def exact_second_moment(bounds, allocation, mu, divisor, neighbours):
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


def half_widths_along(directions, half_widths):
    """Largest change along each direction (columns of an orthogonal matrix) within a box; rounded up.

    The box in these directions contains the given one, so what is charged for it is an upper bound.

    """
    m = directions.shape[0]
    _check_half_widths(half_widths, m)
    rounding = m * m * 2.0**-52
    defect = float(np.linalg.norm(directions.T @ directions - np.eye(m))) + rounding
    if not defect < 1e-6:
        raise CalibrationError(f"the directions are {defect} from orthogonal; they need unit vectors; orthonormalise")
    widths = np.abs(directions).T @ half_widths
    # Coordinates of d are W^-1 d, and |W^-1 d - W'd| <= |(W'W)^-1 - 1| |W'd|, where W'W - 1 is within the defect.
    return widths * (1.0 + rounding) + defect / (1.0 - defect) * float(np.linalg.norm(widths))


def _kappa(neighbours):
    """Largest distance of two rank-one terms over the larger one."""
    return 1.0 if neighbours is Neighbours.ADD_REMOVE else math.sqrt(2.0)


def _check_half_widths(half_widths, size):
    if half_widths.shape != (size,) or not np.all(np.isfinite(half_widths)) or np.any(half_widths <= 0):
        raise CalibrationError("bounds must be positive and finite, one for each direction; state them")


def optimal_allocation(half_widths, weights):
    """Shares proportional to ``c_i sqrt(w_i)``: the least weighted error ``sum w_i variance_i`` in a box.

    The same shares minimise ``sum w_i w_j variance_i variance_j`` of a second moment before it is symmetrised.

    **Source**: Lagrange multipliers on ``sum c_i^2 / variance_i = mu^2``; no counterpart in the papers.
    """
    bounds = _checked("bound", half_widths, half_widths.size, positive=True)
    shares = bounds * np.sqrt(_checked("weight", weights, bounds.size))
    return shares / math.fsum(shares)


def published_max_pnr(signal_variances, budget):
    """Theorem 7 as published: ``precision_i = c - 1 / signal variance_i``, ``c = (budget + sum 1/variance) / mn``.

    **Source**: MVG (CCS 2018), Theorem 7 of the full version, equation (25).
    """
    inverse = 1.0 / _checked("signal variance", signal_variances, signal_variances.size, positive=True)
    level = (_budget(budget) + math.fsum(inverse)) / inverse.size
    precisions = level - inverse
    return MaxPNR(level, precisions, bool(np.all(precisions > 0)))


def max_pnr(signal_variances, budget):
    """Water-filling: the maximiser of Theorem 7's programme for any budget.

    Parameters as in :func:`published_max_pnr`; a signal variance may be zero. Spends at most the budget.

    **Source**: corrects MVG (CCS 2018), Theorem 7.
    """
    return exact_box_max_pnr(signal_variances, np.ones(signal_variances.size), budget)


def log_power_to_noise_ratio(signal_variances, precisions):
    """``sum ln(1 + signal variance_i * precision_i)``."""
    return math.fsum(np.log1p(signal_variances * precisions))


def trace_budget(limit, columns):
    """Sum of row precisions that the published condition allows, with identity column covariance: ``R / sqrt(n)``.

    The Euclidean norm is at most the sum, so this is safe; it is larger than :func:`published_trace_budget`.
    """
    return limit.limit / math.sqrt(columns) * _DOWN


def published_trace_budget(limit, columns):
    """The same by the paper's relaxation to sums on both sides: ``R / n``.

    **Source**: MVG (CCS 2018), Problem 2 of the full version.
    """
    return limit.limit / columns * _DOWN
