"""What R1SMG noise really gives: its privacy profile and the least noise that would keep a claim.

The law of the noise is spherically symmetric with density falling in the radius, so that the worst neighbours are
exactly one sensitivity apart and delta grows with the distance. Everything depends on M and on the *relative deviation*
``s = sqrt(sigma_star) / sensitivity`` only; the integral is
:func:`.r1smg_integral.log_delta`.

Given the size z of its normal variable the noise is, for large M, a Gaussian with standard deviation ``s |z| /
sqrt(M)`` an entry, and everybody sees which: it is small with probability proportional to it. Hence delta falls only
like 1/s, and the closed forms for many entries:

=============================== =====================================================================
``delta(0)``                    ``(2/pi) int_0^a K0(x) dx``, ``a = sqrt(M) / (2 s)``
``delta(epsilon)``, small       ``sqrt(M) / (pi s) e^(epsilon/2) K0(epsilon/2)``
epsilon at a small delta        ``(M - 1) ln(sqrt(2/pi) / (s delta))``
``sigma_star`` that keeps it    ``M (e^(epsilon/2) K0(epsilon/2) / (pi delta))^2`` squared sensitivities
=============================== =====================================================================

**Source**: derived here; Ji and Li, "Less is More", Theorem 5, claims the contrary.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq
from scipy.special import k0e

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_log_delta, gaussian_mu
from blockveil.engine.study.r1smg_integral import log_delta

ACCURACY = 1e-9
"""Relative error of delta that is allowed for; what is seen is below 1e-12."""


def true_log_delta(entries: int, relative_deviation: float, epsilon: float) -> float:
    """Natural logarithm of the smallest delta at an epsilon, also where delta is below the least float.

    Parameters, and what is raised, as in :func:`true_delta`. Its error is below :data:`ACCURACY`, or a relative 1e-12
    where that is more.
    """
    check_setting(entries, relative_deviation)
    if not 0 <= epsilon <= 1e15:
        raise CalibrationError(f"epsilon is {epsilon}; it must lie between 0 and 1e15; give a loss in this range")
    if entries == 1:
        return gaussian_log_delta(1.0 / relative_deviation, epsilon)
    return log_delta(entries, relative_deviation, epsilon)


def true_delta(entries: int, relative_deviation: float, epsilon: float) -> float:
    """Smallest delta at an epsilon: the best value, without a safety margin.

    Parameters
    ----------
    entries
        M, at least 1; one entry is the scalar Gaussian.
    relative_deviation
        ``s = sqrt(sigma_star) / sensitivity``, positive.
    epsilon
        Between 0 and 1e15.

    Returns
    -------
    delta in [0, 1], to a relative :data:`ACCURACY`; 0 where it is below the least float.

    Raises
    ------
    CalibrationError
        A parameter is out of range.
    """
    return min(1.0, math.exp(true_log_delta(entries, relative_deviation, epsilon)))


def true_epsilon(entries: int, relative_deviation: float, delta: float) -> float:
    """Upper bound of the smallest epsilon at a delta: even delta raised by :data:`ACCURACY` is kept there.

    Parameters
    ----------
    entries, relative_deviation
        As in :func:`true_delta`.
    delta
        In (0, 1).

    Returns
    -------
    0 where delta is at least the total variation.

    Raises
    ------
    CalibrationError
        A parameter is out of range.
    """
    target = _target(delta)

    def excess(epsilon: float) -> float:
        return true_log_delta(entries, relative_deviation, epsilon) - target

    guess = true_epsilon_law(entries, relative_deviation, delta)
    low, high = 0.99 * guess, max(1.01 * guess, 1.0)
    if excess(low) <= 0:
        if excess(0.0) <= 0:
            return 0.0
        while excess(low) <= 0:
            low, high = 0.5 * low, low
    while excess(high) > 0:
        low, high = high, 2.0 * high
    return _kept(excess, float(brentq(excess, low, high, xtol=1e-300, rtol=1e-12)))


def correct_variance(entries: int, epsilon: float, delta: float) -> float:
    """Least ``sigma_star`` that keeps a claim, in units of the squared sensitivity; on the private side.

    It exists, and is of no use: it exceeds the whole error of the analytic Gaussian wherever delta is small.

    Parameters
    ----------
    entries
        M, at least 1.
    epsilon
        Not negative.
    delta
        In (0, 1).

    Returns
    -------
    A value at which even delta raised by :data:`ACCURACY` is kept, within a relative 1e-8 of the least one.

    Raises
    ------
    CalibrationError
        A parameter is out of range.
    """
    target = _target(delta)
    check_setting(entries, 1.0)
    if entries == 1:
        mu = gaussian_mu(epsilon, delta)
        return 1.0 / (mu * mu) * (1.0 + 1e-15)

    def excess(log_deviation: float) -> float:
        return true_log_delta(entries, math.sqrt(_exponential(2.0 * log_deviation)), epsilon) - target

    start = 0.5 * _log_variance_law(entries, max(epsilon, delta), delta)
    if epsilon > entries:
        small_noise = 0.5 * math.log(2.0 / math.pi) - math.log(delta) - epsilon / (entries - 1)
        start = max(small_noise, -0.5 * math.log(2.0 * epsilon))
    sign, step = (1.0 if excess(start) > 0 else -1.0), 0.02
    other = start + sign * step
    while excess(other) * sign > 0:
        step *= 2.0
        start, other = other, other + sign * step
    root = float(brentq(excess, min(start, other), max(start, other), xtol=1e-12, rtol=1e-14))
    return _kept(lambda variance: excess(0.5 * math.log(variance)), _exponential(2.0 * root))


def true_epsilon_law(entries: int, relative_deviation: float, delta: float) -> float:
    """Limit of :func:`true_epsilon` for small delta; an approximation, not a bound; 0 where it would be negative."""
    check_setting(entries, relative_deviation)
    _target(delta)
    return max(0.0, (entries - 1) * (0.5 * math.log(2.0 / math.pi) - math.log(relative_deviation) - math.log(delta)))


def _log_variance_law(entries: int, epsilon: float, delta: float) -> float:
    return math.log(entries) + 2.0 * (math.log(float(k0e(epsilon / 2.0))) - math.log(math.pi) - math.log(delta))


def _exponential(log_variance: float) -> float:
    if not abs(log_variance) < 460.0:
        raise CalibrationError(f"the variance is e^{log_variance:.0f}, beyond 1e+-200; give another epsilon or delta")
    return math.exp(log_variance)


def _kept(excess: Callable[[float], float], found: float) -> float:
    """The root, moved up until it is known to be on the private side."""
    step = 1e-13
    while excess(found) > 0:
        found, step = found * (1.0 + step), 2.0 * step
    return found


def _target(delta: float) -> float:
    if not 0.0 < delta < 1.0:
        raise CalibrationError(f"delta is {delta}; it must lie between 0 and 1; give a small probability")
    return math.log(delta) - ACCURACY


def check_setting(entries: int, relative_deviation: float) -> None:
    """Refuse an answer without entries, and a relative deviation that could overflow."""
    if entries < 1:
        raise CalibrationError(f"the answer has {entries} entries; it must have at least 1; correct its shape")
    # Within these, no intermediate result overflows.
    if not 1e-100 <= relative_deviation <= 1e100:
        raise CalibrationError(
            f"the relative deviation is {relative_deviation}; it must lie between 1e-100 and 1e100; "
            "give the root of sigma_star over the sensitivity"
        )
