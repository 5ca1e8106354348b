"""Whole designs of least Gaussian noise for sets of answer differences: noise, exact loss, errors, and the comparison.

A design is made for the largest loss mu that a guarantee allows (:func:`.calibration.gaussian_mu`), a
public importance w_i of each squared error, and a set of :mod:`.differences`. Its noise is scaled so
that the loss, computed from the noise as it is in floating point and rounded up, is at most mu.

**Source**: as in :mod:`.optimal`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Body, Matrix, Vector
from blockveil.engine.sensitivity.differences import (
    BoxDifferences,
    BoxWithBall,
    Differences,
    EllipsoidDifferences,
    HalfBox,
    OuterProductDifferences,
)
from blockveil.engine.sensitivity.second_moment import second_moment_sensitivity
from blockveil.engine.shapes import optimal

_UP = 1.0 + 2.0**-44


@dataclass(frozen=True, eq=False)
class ShapeDesign:
    """Gaussian noise for a set of differences, beside isotropic noise of the same loss.

    Attributes
    ----------
    covariance
        Variances of independent noise, shape (n,), or a covariance, shape (n, n). For a symmetric answer, variances of
        its entries, shape (m, m): entry (j, i) repeats (i, j), and those with ``i <= j`` are independent.
    mu
        Loss, rounded up; at most what was asked for.
    total, weighted_total
        Expected squared error over all entries, plain and weighted by importance, in squared units of the answer.
    isotropic_variance
        Variance of each entry of isotropic noise, which needs only the largest Euclidean norm; for a symmetric answer
        that of the diagonal, and half of it elsewhere.
    isotropic_total, isotropic_weighted_total
        Its errors.
    """

    covariance: Vector | Matrix
    mu: float
    total: float
    weighted_total: float
    isotropic_variance: float
    isotropic_total: float
    isotropic_weighted_total: float

    @property
    def saving(self) -> float:
        """Weighted error over that of isotropic noise."""
        return self.weighted_total / self.isotropic_weighted_total


def isotropic_design(differences: Differences, importance: Vector, mu: float) -> ShapeDesign:
    """Noise of the same variance on all entries: ``(l2 / mu)^2``, the best for a ball and for a histogram."""
    return _independent(differences, np.ones(differences.dimension), importance, mu)


def box_design(box: BoxDifferences, importance: Vector, mu: float) -> ShapeDesign:
    """Independent noise on a box, ``K_ii = c_i S / (mu^2 sqrt(w_i))``; least of all covariances."""
    return _independent(box, optimal.box_variances(box.half_widths, importance, mu), importance, mu)


def box_with_ball_design(differences: BoxWithBall, importance: Vector, mu: float) -> ShapeDesign:
    """Independent noise on a box within a ball; least of all covariances (see
    :mod:`.optimal`).
    """
    c, radius = differences.half_widths, differences.radius
    return _independent(differences, optimal.box_with_ball_variances(c, radius, importance, mu), importance, mu)


def ellipsoid_design(ellipsoid: EllipsoidDifferences, importance: Vector, mu: float) -> ShapeDesign:
    """``E / mu^2``, the least covariance for every importance at once."""
    shape = ellipsoid.shape
    if shape.ndim == 1:
        return _independent(ellipsoid, shape, importance, mu)
    covariance = optimal.ellipsoid_covariance(shape, mu)
    return _correlated(covariance, ellipsoid.l2, importance, mu)


def one_sided_box_design(box: HalfBox, importance: Vector, mu: float) -> ShapeDesign:
    """Correlated noise for a non-negative record that comes or goes, or independent noise where that is less.

    With C the half widths on a diagonal, ``C K_1 C`` for the unit box has the loss of ``K_1``. It is nearly optimal for
    ``w_i c_i^2`` all equal; for very unequal ones :func:`box_design` wins and is returned.
    """
    independent = box_design(box, importance, mu)
    q, c = box.dimension, box.half_widths
    largest = optimal.one_sided_box_loss(q, mu).mu
    covariance = optimal.one_sided_box_covariance(q, mu) * ((largest / mu) ** 2 * _UP) * np.outer(c, c)
    correlated = _correlated(covariance, box.l2, importance, mu)
    return correlated if correlated.weighted_total < independent.weighted_total else independent


def outer_product_design(differences: OuterProductDifferences, importance: Matrix, mu: float) -> ShapeDesign:
    """Independent noise on ``a b'``; importance of shape (p, q), covariance of shape (p q,).

    With ``s_ij`` the largest absolute entry, ``K_ij`` is proportional to ``s_ij / sqrt(w_ij)`` times the sum of
    ``s sqrt(w)`` along each axis whose factor is a box: the whole sum for two boxes; for two ellipsoids or balls none,
    so that ``K_ij`` is proportional to ``E_a,i E_b,j``. That is least of all covariances: with random signs, and with
    random axes of ellipsoids, the moments of the set include the diagonal one that proves it by duality.
    """
    reach, together = differences.reach()
    root = np.sqrt(_weights(importance, differences.dimension)).reshape(reach.shape)
    # Each column (row) of a box with an ellipsoid is a box of its own, and only the worst of them counts.
    sums = np.sum(reach * root, axis=together, keepdims=True) if together else reach * root
    variances = (reach * sums / root).ravel()
    return _independent(differences, variances, importance.ravel(), mu)


def union_design(
    first: EllipsoidDifferences, second: EllipsoidDifferences, importance: Vector, mu: float
) -> ShapeDesign:
    """Least weighted noise for records of two kinds, each with its ellipsoid."""
    one, two = (each.shape if each.shape.ndim == 2 else np.diag(each.shape) for each in (first, second))
    covariance = optimal.union_covariance(one, two, importance, mu)
    return _correlated(covariance, max(first.l2, second.l2), importance, mu)


def ellipsoid_second_moment_design(
    squared_axes: Vector, importance: Vector, mu: float, neighbours: Neighbours
) -> ShapeDesign:
    """``sum x x'`` of rows with ``x' E^-1 x <= 1``, E diagonal: noise ``kappa E^1/2 G E^1/2 / mu``, G symmetric.

    Whitened moments ``E^-1/2 x x' E^-1/2`` are those of the unit ball, so kappa is their sensitivity: 1, or sqrt 2
    under replace-one. G has variance 1 on the diagonal and 1/2 elsewhere, which is isotropic in Frobenius geometry.

    Parameters
    ----------
    squared_axes
        Diagonal of E, shape (m,), positive, squared raw units. Public, and enforced by clipping in that norm.
    importance
        Of features, shape (m,): an error at (i, j) counts ``w_i w_j``. The noise does not depend on it.
    mu
        Loss to spend, positive.
    neighbours
        Neighbouring relation.
    """
    axes = EllipsoidDifferences(squared_axes).shape
    kappa = second_moment_sensitivity(Body.BALL, np.ones(axes.size), neighbours).bound
    even = second_moment_sensitivity(Body.BALL, axes, neighbours).bound
    return _symmetric(axes, kappa, even, importance, mu)


def box_second_moment_design(
    half_widths: Vector, importance: Vector, mu: float, neighbours: Neighbours, body: Body
) -> ShapeDesign:
    """``sum x x'`` of rows with ``|x_i| <= c_i``: the ellipsoid ``E_i = c_i S / sqrt(w_i)``, which holds the box.

    ``S = sum c_j sqrt(w_j)``. In whitened coordinates the squared widths ``c_i^2 / E_i`` sum to one, and the exact
    sensitivity of the cube or half cube with these weights replaces that of the ball around it.

    Parameters
    ----------
    half_widths
        c, shape (m,), positive, raw units; enforced by clipping.
    importance
        Of features, shape (m,): an error at (i, j) counts ``w_i w_j``.
    mu
        Loss to spend, positive.
    neighbours
        Neighbouring relation.
    body
        ``CUBE`` for ``[-c, c]``, ``HALF_CUBE`` for ``[0, c]``.
    """
    if body is Body.BALL:
        raise CalibrationError("the body is a ball; feature bounds make a cube or a half cube; state which")
    axes = optimal.box_variances(half_widths, importance, 1.0)
    kappa = second_moment_sensitivity(body, half_widths**2 / axes, neighbours).bound
    even = second_moment_sensitivity(body, half_widths**2, neighbours).bound
    return _symmetric(axes, kappa, even, importance, mu)


def _symmetric(axes: Vector, kappa: float, even: float, importance: Vector, mu: float) -> ShapeDesign:
    weights = _weights(importance, axes.size)
    scale = 0.5 * (1.0 + np.eye(axes.size))
    variances = np.outer(axes, axes) * scale * (kappa / _loss(mu)) ** 2 * _UP
    each = (even / mu) ** 2 * _UP
    both = np.outer(weights, weights)
    totals = (float(np.sum(v)) for v in (variances, both * variances, each * scale, both * each * scale))
    total, weighted, isotropic, isotropic_weighted = totals
    # Variances are above kappa^2 E_i E_j / mu^2 by more than they were rounded, so mu is an upper bound.
    return ShapeDesign(variances, mu, total, weighted, each, isotropic, isotropic_weighted)


def _independent(differences: Differences, relative: Vector, importance: Vector, mu: float) -> ShapeDesign:
    """Independent noise in these proportions, scaled to the loss."""
    scale = (differences.mu(relative).bound / _loss(mu)) ** 2 * _UP
    variances = relative * scale
    # The same rounding up entered the scale, so that the loss of the scaled noise is at most mu.
    return _compared(variances, variances, differences.mu(variances).bound, differences.l2, importance, mu)


def _correlated(covariance: Matrix, l2: float, importance: Vector, mu: float) -> ShapeDesign:
    return _compared(covariance, np.diagonal(covariance), mu, l2, importance, mu)


def _compared(
    covariance: Vector | Matrix, variances: Vector, found: float, l2: float, importance: Vector, mu: float
) -> ShapeDesign:
    weights = _weights(importance, variances.size)
    each = (l2 / _loss(mu)) ** 2 * _UP
    total, weighted = float(np.sum(variances)), float(np.sum(weights * variances))
    return ShapeDesign(covariance, found, total, weighted, each, each * variances.size, each * float(np.sum(weights)))


def _weights(importance: Vector | Matrix, size: int) -> Vector:
    weights = np.asarray(importance, dtype=np.float64).ravel()
    if weights.size != size or not np.all(np.isfinite(weights)) or np.any(weights <= 0):
        raise CalibrationError(f"importances must be positive and finite, {size} of them; give one for each entry")
    return weights


def _loss(mu: float) -> float:
    if not (math.isfinite(mu) and mu > 0):
        raise CalibrationError(f"mu is {mu}; it must be finite and positive; calibrate it from epsilon and delta")
    return mu
