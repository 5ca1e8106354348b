"""Expected squared error over squared sensitivity, as the R1SMG paper compares mechanisms, and as it is.

Nothing here is a guarantee of R1SMG, whose claim is false.

**Source**: R1SMG ("Less is more"), Theorems 4 to 7; MVG (CCS 2018); Balle and Wang, 2018, Theorem 8.
"""

from __future__ import annotations

import math

from scipy.special import ndtri

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.published.mvg_limits import harmonic_number, root_harmonic_number


def classic_constant(entries: int, epsilon: float, delta: float) -> float:
    """C_C: expected squared error of the classic Gaussian over squared sensitivity, ``2 ln(1.25/delta) M/epsilon^2``.

    **Source**: R1SMG Theorem 4; the mechanism itself needs epsilon < 1.
    """
    ApproxDP(epsilon, delta)
    return 2.0 * (math.log(1.25) - math.log(delta)) / epsilon**2 * _count("entries", entries)


def analytic_constant(entries: int, epsilon: float, delta: float) -> float:
    """Expected squared error of the analytic Gaussian over squared sensitivity: ``M / B^2``, exact.

    **Source**: Balle and Wang, 2018, Theorem 8.
    """
    return _count("entries", entries) / gaussian_mu(epsilon, delta) ** 2


def analytic_constant_upper_bound(entries: int, epsilon: float, delta: float) -> float:
    """C_A, ``(Phi^-1(delta)^2 + epsilon) M / epsilon^2``: an upper bound of :func:`analytic_constant`.

    Published as a lower bound, which is false: at epsilon 1 and delta 1e-5 it is 19.19 an entry against 13.92. With
    ``z = |Phi^-1(delta)|`` and ``s^2 = z^2 + epsilon`` it is the noise ``mu = epsilon / s``, for which ``mu/2 -
    epsilon/mu = -(epsilon + 2 z^2) / (2 s) <= -z``; so that noise is private, and more than needed.

    **Source**: R1SMG Theorem 4, direction corrected.
    """
    ApproxDP(epsilon, delta)
    return (float(ndtri(delta)) ** 2 + epsilon) / epsilon**2 * _count("entries", entries)


def mvg_constant_lower_bound(rank: int, entries: int, epsilon: float) -> float:
    """C_M, ``(5/4 H_r + 1/4 H_{r,1/2}) MN / (2 epsilon)``: a very loose lower bound for published MVG noise.

    **Source**: R1SMG Theorem 4.
    """
    _positive("epsilon", epsilon)
    harmonic = 1.25 * harmonic_number(_count("rank", rank)) + 0.25 * root_harmonic_number(rank)
    return harmonic / (2.0 * epsilon) * _count("entries", entries)


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise CalibrationError(f"{name} is {value}; it must be finite and positive; state it explicitly")


def _count(name: str, value: int) -> int:
    if value < 1:
        raise CalibrationError(f"{name} is {value}; it must be at least 1; give the number")
    return value
