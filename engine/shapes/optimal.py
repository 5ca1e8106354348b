"""Least Gaussian noise for structured sets of answer changes: the closed forms, each with the loss that it has.

Write D for the set of changes ``f(x) - f(x')``, K for the covariance of the noise. A release is private exactly at
``mu = sup over D of |K^-1/2 d|``, so only the convex symmetric hull of D matters. For each set below the covariance is
the one of least ``tr(W K)`` at a given mu.

=================== ================================================== =========================================
set                 covariance                                         remark
=================== ================================================== =========================================
ellipsoid E         ``E / mu^2``                                       least for every W at once
box c               ``K_ii = c_i S / (mu^2 sqrt(w_i))``                ``S = sum c_j sqrt(w_j)``, K diagonal
box and ball        precision ``max(sqrt(w_i) / c_i, 1 / t)``          ``sum min(c_i, t sqrt(w_i))^2 = C^2``, scaled
one-sided box       ``((q + sqrt q)/4 I + (sqrt q + 1)/4 11') / mu^2`` [0, 1]^q under add-remove
outer products      ``E_a (x) E_b / mu^2``                             a' E_a^-1 a <= 1, b' E_b^-1 b <= 1
rows in a ball      two variances: trace direction and traceless part  second moment under add-remove
two ellipsoids      ``(E1 + W^-1/2 [W^1/2 (E2 - E1) W^1/2]_+ W^-1/2)`` their union, over mu^2
=================== ================================================== =========================================

Other sets, as finite lists of points, are solved numerically with a certificate:
:mod:`.duality`. Whole designs, with their loss, errors and the isotropic noise beside them:
:mod:`.closed_forms`.

**Source**: Nikolov, Talwar and Zhang, 2016; Edmonds, Nikolov and Ullman, 2020; Joseph and Yu, 2023 (elliptic noise);
Lebeda, 2024 (one-sided box); the rules for outer products and covariances are derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import GaussianDP, Neighbours
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.sensitivity.differences import BoxDifferences, BoxWithBall, SparseBox, water_level

_UP = 1.0 + 2.0**-44
"""Variances end this much on the private side; four times what a loss of :mod:`.differences` is rounded
up.
"""


@dataclass(frozen=True)
class TwoVariances:
    """Noise on symmetric matrices: one variance along the identity, another on the traceless part.

    Attributes
    ----------
    trace, traceless
        Variances in coordinates that keep the Frobenius geometry.
    total
        Expected squared Frobenius error.
    isotropic_total
        The same with one variance for all.
    mu
        Exact loss of these variances, rounded up; at most what was asked for.
    """

    trace: float
    traceless: float
    total: float
    isotropic_total: float
    mu: float


def box_variances(half_widths: Vector, importance: Vector, mu: float) -> Vector:
    """Variances of least weighted total for ``|d_i| <= c_i``; shape (n,).

    Parameters
    ----------
    half_widths
        Largest changes c, positive, shape (n,).
    importance
        Weights w, positive, shape (n,).
    mu
        Loss to spend, positive.

    Raises
    ------
    CalibrationError
        A parameter is not positive and finite.
    """
    c, w = _positive("half width", half_widths), _positive("importance", importance)
    root = np.sqrt(w)
    found: Vector = c * (float(np.sum(c * root)) * _UP / _loss(mu) ** 2) / root
    return found


def box_loss(half_widths: Vector, variances: Vector) -> GaussianDP:
    """Exact loss of diagonal noise on a box: ``mu^2 = sum c_i^2 / K_ii``, rounded up."""
    return GaussianDP(BoxDifferences(half_widths).mu(variances).bound)


def box_with_ball_loss(half_widths: Vector, radius: float, variances: Vector) -> GaussianDP:
    """Exact loss of diagonal noise on ``|d_i| <= c_i, |d| <= C``: a fractional knapsack, rounded up."""
    return GaussianDP(BoxWithBall(half_widths, radius).mu(variances).bound)


def sparse_box_loss(half_widths: Vector, nonzero: int, variances: Vector) -> GaussianDP:
    """Exact loss of diagonal noise where at most so many entries change: the largest ``c_i^2 / K_ii``; rounded up."""
    return GaussianDP(SparseBox(half_widths, nonzero).mu(variances).bound)


def box_with_ball_variances(half_widths: Vector, radius: float, importance: Vector, mu: float) -> Vector:
    """Noise of least weighted total on a box within a ball, scaled to its exact loss; shape (n,).

    By duality the least total is ``(sum sqrt(w_i y_i))^2 / mu^2`` at the worst squares ``y <= c^2, sum y <= C^2``. That
    is concave in y, so ``y_i = min(c_i^2, w_i t^2)`` with a level t that fills the ball, and the precisions are
    proportional to ``sqrt(w_i / y_i) = max(sqrt(w_i) / c_i, 1 / t)``: noise does not follow the widest features, on
    which the ball is felt. No covariance, diagonal or not, has a smaller total: signs may be mixed, so that the dual's
    moment ``diag(y)`` is one of the set.
    """
    c, w = _positive("half width", half_widths), _positive("importance", importance)
    precisions = np.maximum(np.sqrt(w) / c, 1.0 / water_level(c, w, radius))
    loss = box_with_ball_loss(c, radius, 1.0 / precisions).mu
    found: Vector = (loss / _loss(mu)) ** 2 * _UP / precisions
    return found


def ellipsoid_loss(shape: Matrix, covariance: Matrix) -> GaussianDP:
    """Exact loss of any Gaussian noise on ``d' E^-1 d <= 1``: root of the largest eigenvalue of ``K^-1/2 E K^-1/2``.

    Rounded up by what rounding can do to it at the condition of K, taken after scaling its diagonal to ones.

    Raises
    ------
    CalibrationError
        K is so flat that its loss cannot be known.
    """
    deviations = np.sqrt(np.diagonal(covariance))
    scale = np.outer(deviations, deviations)
    values, vectors = np.linalg.eigh(covariance / scale)
    condition = float(values[-1] / values[0]) if values[0] > 0 else math.inf
    if not condition <= 1e9:
        raise CalibrationError(
            f"the covariance has condition {condition:.1e}; at most 1e9 can be checked; raise its floor"
        )
    whitening = vectors / np.sqrt(values)
    largest = float(np.linalg.eigvalsh(whitening.T @ (shape / scale) @ whitening)[-1])
    # Each factor errs by a few n 2**-53 of its norm, which K^-1 magnifies by its condition.
    return GaussianDP(math.sqrt(largest * (1.0 + 2.0**-46 * values.size * condition)))


def ellipsoid_covariance(shape: Matrix, mu: float) -> Matrix:
    """``E / mu^2``: the least covariance, in every sense, for ``d' E^-1 d <= 1``; shape (n, n)."""
    return _private(shape, mu, shape)


def one_sided_box_covariance(features: int, mu: float) -> Matrix:
    """Correlated noise for changes in [0, 1]^q (add-remove); its power is nearly a quarter of independent noise's.

    With ``K = (a I + b 11') / mu^2`` a vertex with k ones has ``d' K^-1 d = mu^2 (k - k^2 b / (a + q b)) / a``, at most
    ``mu^2`` and equal to it at ``k = (q + sqrt q)/2``; see :func:`one_sided_box_loss` for what whole numbers leave.
    """
    root = math.sqrt(features)
    found: Matrix = (features + root) / 4.0 * np.eye(features) + (root + 1.0) / 4.0
    # The condition of K is 1 + sqrt q, which magnifies the rounding of its entries.
    return found * ((1.0 + 2.0**-46 * (8.0 + root)) / _loss(mu) ** 2)


def one_sided_box_loss(features: int, mu: float) -> GaussianDP:
    """Exact loss of :func:`one_sided_box_covariance`, below mu where ``(q + sqrt q)/2`` is no whole number; rounded up.

    A convex function is largest at a vertex of [0, 1]^q, and on those it depends on the number of ones only.
    """
    root, ones = math.sqrt(features), np.arange(features + 1.0)
    # b / (a + q b) = 1 / (sqrt q (sqrt q + 1)), and a = sqrt q (sqrt q + 1) / 4
    largest = 4.0 * float(np.max(ones * (features + root - ones))) / (features + root) ** 2
    return GaussianDP(min(1.0, math.sqrt(largest) * (1.0 + 2.0**-48)) * _loss(mu))


def outer_product_variances(left: Vector, right: Vector, mu: float) -> tuple[Vector, Vector]:
    """Row and column variances for changes ``a b'`` with ``a' E_a^-1 a <= 1`` and ``b' E_b^-1 b <= 1``, E diagonal.

    ``|Sigma^-1/2 a b' Psi^-1/2|_F = |E_a^-1/2 a| |E_b^-1/2 b| mu <= mu``. Replace-one doubles the change: halve mu.
    """
    return _positive("shape", left) * _UP, _positive("shape", right) / _loss(mu) ** 2 * _UP


def ball_second_moment(features: int, radius: float, mu: float) -> TwoVariances:
    """Noise of least total for ``sum x x'`` of rows in a ball under add-remove.

    ``x x'`` has squared part ``C^4 / m`` along the identity and ``C^4 (1 - 1/m)`` on the traceless part; Lagrange.
    The gain over one variance is below 5 %; under replace-one one variance is optimal.
    """
    if features < 1 or not radius > 0:
        raise CalibrationError(f"features is {features} and radius {radius}; both must be positive; state them")
    along, across = 1.0 / math.sqrt(features), math.sqrt(1.0 - 1.0 / features)
    traceless = features * (features + 1) / 2.0 - 1.0
    both = along + across * math.sqrt(traceless)
    unit = radius**4 * _UP / _loss(mu) ** 2
    each = across / math.sqrt(traceless) * both * unit if traceless else 0.0
    largest = math.hypot(along / math.sqrt(along * both * unit), across / math.sqrt(each) if traceless else 0.0)
    isotropic = features * (features + 1) / 2.0 * unit
    found_mu = largest * radius**2 * (1.0 + 2.0**-48)
    return TwoVariances(along * both * unit, each, both**2 * unit, isotropic, found_mu)


def ellipsoid_second_moment_total(squared_axes: Vector, mu: float, neighbours: Neighbours) -> tuple[float, float]:
    """Expected squared error of ``kappa E^1/2 G E^1/2 / mu`` for rows in an ellipsoid, and that of isotropic noise."""
    kappa = 1.0 if neighbours is Neighbours.ADD_REMOVE else 2.0  # squared
    axes, m = _positive("squared axis", squared_axes), squared_axes.size
    unit = kappa / _loss(mu) ** 2
    shaped = (float(np.sum(axes)) ** 2 + float(np.sum(axes**2))) / 2.0
    return shaped * unit, m * (m + 1) / 2.0 * float(np.max(axes)) ** 2 * unit


def box_ellipsoid(half_widths: Vector) -> Vector:
    """Squared semi-axes ``c_i sum(c)`` of the ellipsoid of least trace that holds the box ``|x_i| <= c_i``."""
    c = _positive("half width", half_widths)
    found: Vector = c * float(np.sum(c)) * _UP
    return found


FLOOR = 1e-3
"""Least eigenvalue that a shape follows, relative to the largest, unless another is asked for."""

LEAST_FLOOR = 1e-12
"""At it a shape is a millionth as wide as long, in weighted units; clipping could not follow a flatter one."""


def adapted_shape(covariance: Matrix, importance: Vector, floor: float = FLOOR) -> Matrix:
    """Shape E of least noise for records of this covariance, scaled so that ``tr(E^-1 S) = 1``.

    E is proportional to ``W^-1/2 (W^1/2 S W^1/2)^1/2 W^-1/2``, which is ``S^1/2`` for equal importances. Clipping to it
    cuts records beyond ``E^-1`` norm one, so scale it by the number of typical lengths to keep. The covariance must be
    public: from another source, or from a release that was paid for. Small and negative eigenvalues of
    ``W^1/2 S W^1/2``, which noise makes, are raised to a share of the largest: any share is private, and the best lies
    where the noise of the covariance does.

    Parameters
    ----------
    covariance
        Public covariance S of the records, shape (d, d), raw units squared.
    importance
        Weights w of squared errors, positive, shape (d,).
    floor
        That share, between 1e-12 and 1; a shape with floor 1 is as wide as long.

    Returns
    -------
    Symmetric positive definite, shape (d, d).

    Raises
    ------
    CalibrationError
        The covariance has no positive eigenvalue, or the floor or an importance is out of range.
    """
    root = np.sqrt(_positive("importance", importance))
    size, vectors = _roots(covariance, root, floor)
    shape = (vectors * size) @ vectors.T / np.outer(root, root)
    # tr(E^-1 S) = sum of lambda / sqrt(lambda) over the raised eigenvalues.
    found: Matrix = shape * float(np.sum(size))
    return (found + found.T) / 2.0


def adapted_ratio(covariance: Matrix, importance: Vector, floor: float = FLOOR) -> float:
    """Noise power of sums clipped to the adapted shape over that of sums clipped to a ball, for typical records.

    ``(tr (W^1/2 S W^1/2)^1/2)^2 / (tr W tr S)``, at most 1; about its square for second moments.
    """
    weights = _positive("importance", importance)
    size, vectors = _roots(covariance, np.sqrt(weights), floor)
    total = float(np.sum((vectors * size**2) * vectors / weights[:, None]))
    return float(np.sum(size)) ** 2 / (float(np.sum(weights)) * total)


def _roots(covariance: Matrix, root: Vector, floor: float) -> tuple[Vector, Matrix]:
    """Square roots of the raised eigenvalues of ``W^1/2 S W^1/2``, and its eigenvectors."""
    if not LEAST_FLOOR <= floor <= 1.0:
        raise CalibrationError(f"the floor is {floor:g}; it is a share of the largest eigenvalue; give 1e-12 to 1")
    values, vectors = np.linalg.eigh(np.outer(root, root) * (covariance + covariance.T) / 2.0)
    if not values[-1] > 0:
        raise CalibrationError("the covariance has no positive eigenvalue; its noise exceeds it; use a declared shape")
    return np.sqrt(np.maximum(values, floor * values[-1])), vectors


def union_covariance(first: Matrix, second: Matrix, importance: Vector, mu: float) -> Matrix:
    """Least weighted noise for the union of two ellipsoids: at least ``E1`` and at least ``E2``, over mu squared."""
    root = np.sqrt(_positive("importance", importance))
    scale = np.outer(root, root)
    values, vectors = np.linalg.eigh((second - first) * scale)
    excess = (vectors * np.maximum(values, 0.0)) @ vectors.T / scale
    return _private(first + excess, mu, first, second)


def _private(covariance: Matrix, mu: float, *shapes: Matrix) -> Matrix:
    """The covariance scaled so that its loss on each ellipsoid, rounding included, is at most mu."""
    symmetric = (covariance + covariance.T) / 2.0
    largest = max(ellipsoid_loss(shape, symmetric).mu for shape in shapes)
    found: Matrix = symmetric * ((largest / _loss(mu)) ** 2 * _UP)
    return found


def _positive(name: str, values: Vector) -> Vector:
    if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise CalibrationError(f"a {name} is not positive and finite; give one for each entry; declare bounds")
    return values


def _loss(mu: float) -> float:
    if not (math.isfinite(mu) and mu > 0):
        raise CalibrationError(f"mu is {mu}; it must be finite and positive; calibrate it from epsilon and delta")
    return mu
