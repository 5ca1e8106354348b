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
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import erfinv

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_log_delta, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, GaussianDP, compose
from blockveil.engine.records.geometry import Matrix, Vector

Factor = Matrix | Vector

_MU_UP = 1.0 + 2.0**-47
"""Covers the roundings of two products and a quotient."""

_NOISE_UP = 1.0 + 2.0**-44
"""Above :data:`_MU_UP`, so that noise which meets a requirement returned here also passes the check."""


class PairTooSmall(CalibrationError):
    """The noise of a covariance pair is too small for the asked loss."""


@dataclass(frozen=True, eq=False)
class ImgmStep:
    """One of several releases with matrix Gaussian noise.

    Attributes
    ----------
    sensitivity
        Largest Frobenius distance of this step's answer between neighbours.
    left, right
        Factors U1 (m x m or m numbers) and U2 (n x n or n numbers) of its noise.
    """

    sensitivity: float
    left: Factor
    right: Factor


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
        The factor is not square and finite, or cannot be told from a singular one.
    """
    least = float(_singular_values(factor)[0])
    if not least > 0:
        raise CalibrationError("a factor is singular up to rounding; noise is needed in every direction; enlarge it")
    return least


def factor_of(covariance: Factor) -> Factor:
    """A factor U of a covariance ``U U'``: Cholesky's, or the roots of a diagonal given as a vector.

    Raises
    ------
    CalibrationError
        The covariance is not symmetric positive definite.
    """
    if covariance.ndim == 1 and covariance.size and np.all(np.isfinite(covariance)) and np.all(covariance > 0):
        return np.sqrt(covariance)
    symmetric = covariance.ndim == 2 and np.array_equal(covariance, covariance.T)
    try:
        if symmetric and np.all(np.isfinite(covariance)):
            return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:
        pass
    raise CalibrationError("a covariance is not symmetric positive definite; average it with its transpose, enlarge it")


def ball_loss(sensitivity: float, left: Factor, right: Factor) -> GaussianDP:
    """Exact loss of a pair when all that is known is a Frobenius bound, rounded up.

    Parameters
    ----------
    sensitivity
        Radius s of the ball of differences, positive.
    left, right
        Factors U1 and U2; for covariances take :func:`factor_of` and draw with those factors.

    Raises
    ------
    CalibrationError
        A factor is not square and invertible, or the sensitivity is not positive and finite.

    **Source**: IMGM Theorem 2.
    """
    _positive("sensitivity", sensitivity)
    # sup over the ball is reached by a rank-one difference along both least singular directions, so this is exact.
    return GaussianDP(sensitivity / least_singular_value(left) / least_singular_value(right) * _MU_UP)


def check_pair(sensitivity: float, left: Factor, right: Factor, epsilon: float, delta: float) -> GaussianDP:
    """Exact loss of a pair, which must be within an (epsilon, delta).

    Parameters
    ----------
    sensitivity, left, right
        As in :func:`ball_loss`.
    epsilon, delta
        The asked loss; epsilon positive, delta in (0, 1).

    Returns
    -------
    The loss to charge; at most the asked one.

    Raises
    ------
    PairTooSmall
        The product of least singular values is below ``sensitivity / B``.
    CalibrationError
        A parameter is out of range.

    **Source**: IMGM Theorem 2, necessary and sufficient.
    """
    loss, needed = ball_loss(sensitivity, left, right), required_product(sensitivity, epsilon, delta, 1)
    # mu <= B is the theorem's condition; a larger mu is not private at this loss, so this refuses nothing that holds.
    if loss.mu > gaussian_mu(epsilon, delta):
        product = least_singular_value(left) * least_singular_value(right)
        raise PairTooSmall(
            f"the least singular values of the factors multiply to {product}; at epsilon {epsilon}, delta {delta} and "
            f"sensitivity {sensitivity} they must reach {needed}; multiply either factor by {needed / product}"
        )
    return loss


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
    return sensitivity * math.sqrt(steps) / gaussian_mu(epsilon, delta) * _NOISE_UP


def required_least_singular_value(
    sensitivity: float, epsilon: float, delta: float, other_least_singular_value: float, steps: int
) -> float:
    """Least singular value that one factor needs, given that of the other; rounded up.

    Parameters, and what is raised, as in :func:`required_product`.
    """
    _positive("the other factor's least singular value", other_least_singular_value)
    return required_product(sensitivity, epsilon, delta, steps) / other_least_singular_value


def optimal_pair(
    shape: tuple[int, int], sensitivity: float, epsilon: float, delta: float, steps: int
) -> tuple[Vector, Vector]:
    """Diagonals of the optimal pair: the identity, and ``sensitivity sqrt(steps) / B`` times the identity.

    Optimal for every positive semidefinite weighting of the error, because every pair that passes has a covariance at
    least as large in the Loewner order. Directional noise is waste unless more than a Frobenius bound is known.

    Parameters
    ----------
    shape
        Rows m and columns n of the answer.
    sensitivity, epsilon, delta, steps
        As in :func:`required_product`.

    **Source**: IMGM Algorithm 1, equation (13).
    """
    deviation = required_product(sensitivity, epsilon, delta, steps)
    return np.ones(shape[0]), np.full(shape[1], deviation)


def composed_loss(steps: Iterable[ImgmStep]) -> GaussianDP:
    """Exact loss of several releases with different noise, also adaptively chosen; rounded up.

    The steps are (epsilon, delta)-private together exactly when ``sum (s_t / product_t)^2 <= B^2``.

    Raises
    ------
    CalibrationError
        There is no step, or one is out of range.

    **Source**: IMGM Theorem 4, extended to unequal steps by Dong, Roth and Su, 2022.
    """
    return compose(ball_loss(step.sensitivity, step.left, step.right) for step in steps)


def singular_value_bound(left: Factor, right: Factor, singular_values: Vector) -> float:
    """Upper bound of :func:`mahalanobis` over all differences with given singular values; reached by some.

    Parameters
    ----------
    left, right
        Factors U1 and U2.
    singular_values
        Of the difference, not negative, at most min(m, n) numbers.

    **Source**: IMGM Theorem 1.
    """
    for factor in (left, right):
        least_singular_value(factor)  # refuses what cannot be inverted
    # The largest values of the difference against the least of the factors: Theorem 1's pairing is the worst one.
    terms = np.sort(singular_values)[::-1]
    for factor in (left, right):
        terms = terms / _singular_values(factor)[: terms.size]
    return float(np.linalg.norm(terms)) * _MU_UP


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


def largest_mu_at_epsilon_zero(delta: float) -> float:
    """``2 Phi^-1((1 + delta) / 2)``: the largest mu whose total variation is delta; rounded down.

    Where IMGM Algorithm 2 divides zero by zero.

    Raises
    ------
    CalibrationError
        delta is not in (0, 1).

    **Source**: Balle and Wang, 2018, Theorem 8 at epsilon 0.
    """
    if not 0.0 < delta < 1.0:
        raise CalibrationError(f"delta is {delta}; it must lie between 0 and 1; state it explicitly")
    return 2.0 * math.sqrt(2.0) * float(erfinv(delta)) * (1.0 - 2.0**-46)


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
