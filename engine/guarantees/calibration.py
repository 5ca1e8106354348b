"""The analytic Gaussian: loss of Gaussian noise, and the least noise for a loss, without cancellation.

Gaussian noise whose standard deviation is ``sensitivity / mu`` is (epsilon, delta)-private exactly when

    delta >= Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu).

With ``x = eps/mu, h = mu/2, a = h - x, s = h + x`` one has ``e^eps phi(s) = phi(a)``, which turns the difference into
one of three forms without cancellation. The difference ``a`` itself can cancel, so it and its square come from exact
rational arithmetic. The derivative of delta by mu is ``phi(a)`` exactly, so Newton's method on logarithms converges in
a few steps.

**Source**: Balle and Wang, 2018, Theorem 8; IMGM Theorem 2 states the same for matrices. The usual double-precision
algorithm errs, at some parameters on the unsafe side. Here every function that promises privacy ends a relative
:data:`SAFETY` of delta on the private side, and returns only what it has checked.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import erfcx, exprel, log_ndtr, ndtr

SAFETY = 3e-13
"""Relative margin of delta towards more privacy.

A logarithm near -709, that of the least normal delta, carries three roundings of 6e-14 and log(delta) a fourth:
2.4e-13. Where delta is ordinary, as 1e-10, the error is below 2e-14.
"""

_ROUNDING = 2e-13
"""Relative margin of a returned epsilon or mu; covers that decimal inputs such as 0.1 are not exact floats."""

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_2 = math.sqrt(2.0)
_LEAST = 5e-324
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_EDGES = np.array([0.0, 0.05, 0.2, 0.5, 1.0])
_HALVES = np.diff(_EDGES)[:, None] / 2.0
_POINTS = _EDGES[:-1, None] + _HALVES * (_NODES[None, :] + 1.0)
_POINT_WEIGHTS = _HALVES * _WEIGHTS[None, :]


class CalibrationError(ValueError):
    """A parameter is outside the range for which a calibration exists."""


class CannotCalibrate(ValueError):
    """The asked guarantee cannot be met: the message names the value, the rule and the remedy."""


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Natural logarithm of the smallest delta at an epsilon: the best value, without a safety margin.

    Parameters
    ----------
    mu
        Sensitivity over standard deviation, positive.
    epsilon
        Loss, not negative.

    Returns
    -------
    ``ln delta``, at most 0; its error is below ``1.7e-13`` where delta is a normal float, and below ``1e-15`` of the
    logarithm where it is not. Minus infinity where the logarithm itself exceeds the largest float.

    Raises
    ------
    CalibrationError
        A parameter is not finite or out of range.
    """
    _check_mu(mu)
    _check_epsilon(epsilon)
    exact = Fraction(mu) / 2 - Fraction(epsilon) / Fraction(mu)
    a, half_square = _float(exact), _float(exact * exact / 2)
    if a < 0 and math.isinf(half_square):
        return -math.inf
    h, x = mu / 2.0, epsilon / mu
    if h <= max(x, 1.0) / 4.0:
        return -half_square + (_log_integral(mu, a) - _LOG_SQRT_2PI)
    # phi(a) times the Mills ratio of s; neither overflows.
    mills = 0.5 * float(erfcx((h + x) / _SQRT_2))
    if a > 0:
        return float(log_ndtr(a)) + math.log1p(-math.exp(-half_square) * mills / float(ndtr(a)))
    return -half_square + math.log(0.5 * float(erfcx(-a / _SQRT_2)) - mills)


def _log_integral(mu: float, a: float) -> float:
    """``ln int_0^inf (1 - exp(-mu t)) exp(a t - t^2/2) dt``: a positive integrand, by Gauss-Legendre on four pieces.

    Called with ``a <= 1/4`` only, and with ``-a >= 3 mu / 2`` where mu exceeds 1/2.
    """
    # The integrand decays at least like exp(a t - t^2/2): past t = reach it holds less than 1e-19 of the integral.
    reach = min(12.0 + mu, 60.0 / -a) if a < 0 else 12.0 + mu
    t = reach * _POINTS
    # 1 - exp(-mu t) = mu t exprel(-mu t); mu and reach stay outside, so that nothing underflows.
    values = _POINTS * exprel(-mu * t) * np.exp(a * t - 0.5 * t * t)
    return math.log(float(np.sum(values * _POINT_WEIGHTS))) + math.log(mu) + 2.0 * math.log(reach)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Upper bound of delta at an epsilon: the best value, raised by the relative margin :data:`SAFETY`.

    Parameters, and what is raised, as in :func:`gaussian_log_delta`. At least the exact value, and at most it times
    ``1 + 1e-12`` where it is a normal float; never 0, since Gaussian noise never has delta 0; at most 1.
    """
    # The two least floats cover the rounding of a delta that is not a normal float.
    return min(1.0, math.exp(gaussian_log_delta(mu, epsilon)) * (1.0 + SAFETY) + 2.0 * _LEAST)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Upper bound of the smallest epsilon at a delta.

    Parameters
    ----------
    mu
        Sensitivity over standard deviation, positive.
    delta
        In (0, 1).

    Returns
    -------
    An epsilon at which even :func:`gaussian_delta` is at most delta, and within a relative 1e-12 of the least such
    one; 0 where delta alone suffices, infinity where no float is known to suffice.

    Raises
    ------
    CalibrationError
        delta is not in (0, 1), or mu is not positive and finite.
    """
    _check_mu(mu)
    _check_delta(delta)
    return _least_epsilon(mu, delta)


# Every budget is asked for the same few losses again and again.
@lru_cache(maxsize=4096)
def _least_epsilon(mu: float, delta: float) -> float:
    def suffices(epsilon: float) -> bool:
        return math.isinf(epsilon) or gaussian_delta(mu, epsilon) <= delta

    if suffices(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not suffices(high):
        low, high = high, 2.0 * high
    # Only an epsilon that suffices becomes the upper end, which is returned.
    while math.isfinite(high) and high - low > 5e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high * (1.0 + _ROUNDING)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Lower bound of the largest mu of an (epsilon, delta): the ``B`` of the analytic Gaussian.

    >>> round(gaussian_mu(epsilon=1.0, delta=1e-6), 4)
    0.2367

    Parameters
    ----------
    epsilon
        Loss, not negative.
    delta
        In (0, 1).

    Returns
    -------
    At most the exact root, so that even :func:`gaussian_delta` is at most delta; at least the root times
    ``1 - 1e-12`` where delta is a normal float of at most one half.

    Raises
    ------
    CalibrationError
        A parameter is out of range, or no float is a positive mu of this loss.
    """
    _check_epsilon(epsilon)
    _check_delta(delta)
    mu = _largest_mu(epsilon, delta)
    if mu == 0:
        raise CalibrationError(f"delta is {delta}; it leaves no mu above the least float; give a larger one")
    return mu


@lru_cache(maxsize=4096)
def _largest_mu(epsilon: float, delta: float) -> float:
    """Largest mu, or 0 where it is below all floats."""
    mu = _solve_mu(epsilon, math.log(delta) - SAFETY) * (1.0 - _ROUNDING)
    step = _ROUNDING
    # delta grows with mu; what is returned has been checked to keep even the upper bound of delta.
    while mu > 0 and gaussian_delta(mu, epsilon) > delta:
        mu, step = min(mu * (1.0 - step), math.nextafter(mu, 0.0)), min(1.0, 2.0 * step)
    return mu


def _solve_mu(epsilon: float, target: float) -> float:
    """The mu at which ln delta is the target, up to the rounding of either; Newton's method, kept inside a bracket."""
    # delta <= 2 Phi(mu/2) - 1 <= mu / sqrt(2 pi) bounds the root from below.
    low, high = max(math.exp(target + _LOG_SQRT_2PI) * (1.0 - 1e-9), _LEAST), math.inf
    mu = max(low, epsilon / (_SQRT_2 * math.sqrt(epsilon - target)))
    for _ in range(100):
        log_delta = gaussian_log_delta(mu, epsilon)
        error, slope = log_delta - target, _slope(mu, epsilon, log_delta)
        # Closer than this, rounding decides the sign of the error.
        if abs(error) <= max(2.0**-48 * max(1.0, slope), 2.0**-52 * -target):
            break
        low, high = (low, mu) if error > 0 else (mu, high)
        newton = mu * math.exp(max(-700.0, min(700.0, -error / slope)))
        if low < newton < min(high, 1e3 * mu):
            mu = newton
        else:
            mu = 2.0 * mu if math.isinf(high) else math.sqrt(low) * math.sqrt(high)
    return mu


def _slope(mu: float, epsilon: float, log_delta: float) -> float:
    """``d ln(delta) / d ln(mu) = mu phi(a) / delta``, kept between the smallest and largest useful floats."""
    a = mu / 2.0 - epsilon / mu
    return math.exp(max(-700.0, min(700.0, math.log(mu) - 0.5 * a * a - _LOG_SQRT_2PI - log_delta)))


def _float(value: Fraction) -> float:
    """Nearest float, infinite beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _check_mu(mu: float) -> None:
    if not (math.isfinite(mu) and mu > 0):
        raise CalibrationError(f"mu is {mu}; it must be finite and positive; give sensitivity over standard deviation")


def _check_epsilon(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise CalibrationError(f"epsilon is {epsilon}; it must be finite and not negative; give a loss of at least 0")


def _check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise CalibrationError(
            f"delta is {delta}; it must lie between 0 and 1, both excluded; give a small probability"
        )
