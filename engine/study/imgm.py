"""The improved matrix Gaussian mechanism: exact loss of noise ``U1 N U2'`` when only a Frobenius bound is known.

Noise ``U1 N U2'`` with standard normal N has row covariance ``U1 U1'`` and column covariance ``U2 U2'``. For one
difference D of neighbouring answers its loss is Gaussian with ``mu = |U1^-1 D U2^-T|_F``. Over the ball ``|D|_F <= s``
the supremum is ``s / (least singular value of U1 times that of U2)``, reached by a difference of rank one. With B the
largest mu of an (epsilon, delta), the condition ``product of least singular values >= s / B`` is therefore necessary
and sufficient, and the isotropic pair is optimal whatever error matters: any other pair that passes has covariance at
least ``(s/B)^2 I`` in the Loewner order, so it costs more in every direction.

A factor is a square matrix, or a vector that stands for the diagonal of one. Privacy is judged on the factors that
draw the noise, so a factorisation of a covariance need not be exact.

**Source**: IMGM (Improved Matrix Gaussian Mechanism), Lemma 3, Theorems 1, 2, 4 and Appendix B; Balle and Wang, 2018.
"""

from __future__ import annotations

import math

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_log_delta, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, GaussianDP
from blockveil.engine.records.geometry import Matrix, Vector

Factor = Matrix | Vector

_UP = 1.0 + 2.0**-47
"""Covers the roundings of two products and a quotient."""


def mahalanobis(left: Factor, right: Factor, difference: Matrix) -> float:
    """``|U1^-1 D U2^-T|_F``: the mu of one known difference of answers; no margin is added.

    Parameters
    ----------
    left, right
        Factors U1, shape (m, m) or (m,), and U2, shape (n, n) or (n,).
    difference
        D, shape (m, n), float64.

    Raises
    ------
    CalibrationError
        A factor is not square and invertible, or does not fit the difference.

    **Source**: IMGM Lemma 1.
    """
    if difference.ndim != 2 or difference.shape != (left.shape[0], right.shape[0]):
        raise CalibrationError(f"the difference has shape {difference.shape}; it must be rows of U1 by rows of U2")
    for factor in (left, right):
        least_singular_value(factor)  # refuses what cannot be inverted
    return float(np.linalg.norm(_solve(right, _solve(left, difference).T)))


def least_singular_value(factor: Factor) -> float:
    """Lower bound of a factor's smallest singular value; exact for diagonal ones.

    Raises
    ------
    CalibrationError
        The factor is not square and finite, or cannot be distinguished from a singular one.
    """
    least = float(_singular_values(factor)[0])
    if not least > 0:
        raise CalibrationError("a factor is singular up to rounding; noise is needed in every direction; enlarge it")
    return least


def ball_loss(sensitivity: float, left: Factor, right: Factor) -> GaussianDP:
    """Exact loss of a pair when all that is known is a Frobenius bound, rounded up.

    Parameters
    ----------
    sensitivity
        Radius s of the ball of differences, positive.
    left, right
        Factors U1 and U2 that draw the noise.

    Raises
    ------
    CalibrationError
        A factor is not square and invertible, or the sensitivity is not positive and finite.

    **Source**: IMGM Theorem 2.
    """
    _positive("sensitivity", sensitivity)
    # sup over the ball is reached by a rank-one difference along both least singular directions, so this is exact.
    return GaussianDP(sensitivity / least_singular_value(left) / least_singular_value(right) * _UP)


def required_product(sensitivity: float, epsilon: float, delta: float, steps: int) -> float:
    """Least product of the factors' least singular values, for each of several equal steps; rounded up.

    Parameters
    ----------
    sensitivity
        Of one step, Frobenius norm, positive.
    epsilon, delta
        Loss of all steps together.
    steps
        Number T of releases with this noise, at least 1; later ones may depend on earlier ones.

    Raises
    ------
    CalibrationError
        A parameter is out of range.

    **Source**: IMGM Theorem 4; Theorem 2 for one step.
    """
    _positive("sensitivity", sensitivity)
    ApproxDP(epsilon, delta)
    if steps < 1:
        raise CalibrationError(f"steps is {steps}; there must be at least one release; give their number")
    return sensitivity * math.sqrt(steps) / gaussian_mu(epsilon, delta) * _UP


def renyi_divergence(loss: GaussianDP, order: float) -> float:
    """``order mu^2 / 2``, exact for Gaussian noise, rounded up.

    Raises
    ------
    CalibrationError
        The order is not above 1 and finite.

    **Source**: Mironov, 2017, Proposition 7; corrects IMGM Appendix B.
    """
    _order(order)
    return order * loss.rho * (1.0 + 2.0**-51)


def published_renyi_bound(epsilon: float, delta: float, order: float) -> float:
    """The value of IMGM equation (52), not to be used: a valid bound, but thousands of times too large.

    Its derivation drops the logarithm, takes a power of the loss and writes B for its square. It stays above
    :func:`renyi_divergence` only because ``e^x > x``. Infinite where it exceeds the largest float.

    Parameters
    ----------
    epsilon, delta
        The loss whose root B enters.
    order
        Above 1.

    **Source**: IMGM Appendix B, equation (52), as printed.
    """
    _order(order)
    mu = gaussian_mu(epsilon, delta)
    # One Newton step from the private side to the root itself: this value promises nothing, and it magnifies errors.
    error = gaussian_log_delta(mu, epsilon) - math.log(delta)
    slope = mu * math.exp(-0.5 * (mu / 2.0 - epsilon / mu) ** 2 - math.log(delta)) / math.sqrt(2.0 * math.pi)
    mu -= mu * error / slope if slope > 0 else 0.0
    exponent = mu * (order * order + order) / 2.0
    return math.inf if exponent > 700.0 else (2.0 * order + 1.0) * mu / (2.0 * (order - 1.0)) * math.exp(exponent)


def _singular_values(factor: Factor) -> Vector:
    """Lower bounds of a factor's singular values, the least first; exact for diagonal factors."""
    array = np.asarray(factor, dtype=np.float64)
    if array.size == 0 or array.ndim not in (1, 2) or array.shape[0] != array.shape[-1] or not np.isfinite(array).all():
        raise CalibrationError(f"a factor has shape {array.shape}; it must be a finite square matrix or its diagonal")
    diagonal = array if array.ndim == 1 else np.diagonal(array)
    if array.ndim == 1 or np.count_nonzero(array) == np.count_nonzero(diagonal):
        return np.sort(np.abs(diagonal))
    values = np.linalg.svd(array, compute_uv=False)[::-1]
    # LAPACK errs by a modest multiple of the order times the unit roundoff times the largest singular value.
    lower: Vector = values - 8.0 * array.shape[0] * 2.0**-52 * values[-1]
    return lower


def _solve(factor: Factor, values: Matrix) -> Matrix:
    solved = values / factor[:, None] if factor.ndim == 1 else np.linalg.solve(factor, values)
    return np.asarray(solved, dtype=np.float64)


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise CalibrationError(f"{name} is {value}; it must be finite and positive; state it explicitly")


def _order(order: float) -> None:
    if not (math.isfinite(order) and order > 1):
        raise CalibrationError(f"order is {order}; a Renyi divergence here needs a finite order above 1; give one")
