"""The delta of a loss, recomputed in long decimal arithmetic from the formula alone.

Nothing here shares code with the calibration that a release was made with. ``Phi`` is summed from its power series with
as many digits as cancel, so that at least 30 digits of the result are right; no library's special function is trusted.

**Source**: Balle and Wang, 2018, theorem 5 (privacy profile of a Gaussian loss); Dong, Roth and Su, 2022, corollary 1.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

_DIGITS = 40

LARGEST_TAIL = 60.0
"""Deviations beyond which a tail is called zero: it is below 1e-780."""


def delta_of(mu: float, pure: float, distance: float, epsilon: float) -> Decimal:
    """Least delta of a loss at an epsilon: ``delta_G(mu, epsilon - pure) + (1 + e^epsilon) distance``.

    Parameters
    ----------
    mu
        Gaussian part, not negative.
    pure
        Pure part, not negative.
    distance
        Distance of the samplers from their laws.
    epsilon
        Where delta is asked for; 1 is returned below ``pure``.
    """
    if epsilon < pure:
        return Decimal(1)
    with localcontext() as context:
        context.prec = _DIGITS
        rest = Decimal(epsilon) - Decimal(pure)
        sampled = (1 + Decimal(epsilon).exp()) * Decimal(distance)
        return (_profile(Decimal(mu), rest) if mu > 0 else Decimal(0)) + sampled


def _profile(mu: Decimal, epsilon: Decimal) -> Decimal:
    """``Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)``."""
    above, below = _lower_tail(mu / 2 - epsilon / mu), _lower_tail(-mu / 2 - epsilon / mu)
    # Both terms may agree in many digits: tails carry twice the digits of the result.
    with localcontext() as context:
        context.prec = 2 * _DIGITS
        return above - epsilon.exp() * below


def _lower_tail(x: Decimal) -> Decimal:
    """``Phi(x)`` of the standard normal law, with 80 digits behind its first one."""
    if x > 0:
        with localcontext() as context:
            context.prec = 2 * _DIGITS
            return 1 - _lower_tail(-x)
    if x < -LARGEST_TAIL:
        return Decimal(0)
    with localcontext() as context:
        # Terms grow to e^(x^2 / 2), and the tail is as small as its inverse: both take digits away.
        context.prec = 2 * _DIGITS + 10 + int(x * x)
        term, total, n = x, x, 0
        smallest = Decimal(10) ** -context.prec
        while abs(term) > smallest:
            n += 1
            # x - x^3 / (2 3) + x^5 / (2^2 2! 5) - ...
            term *= -x * x / (2 * n)
            total += term / (2 * n + 1)
        return Decimal(1) / 2 + total / (2 * _pi(context.prec)).sqrt()


def _pi(digits: int) -> Decimal:
    """Pi by the arithmetic-geometric mean (Brent, 1976; Salamin, 1976)."""
    with localcontext() as context:
        context.prec = digits + 10
        a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal(1) / 4, 1
        for _ in range(digits.bit_length() + 1):
            a, b, t, p = (a + b) / 2, (a * b).sqrt(), t - p * ((a - b) / 2) ** 2, 2 * p
        return (a + b) ** 2 / (4 * t)
