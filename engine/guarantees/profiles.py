"""Privacy profiles: delta as a function of epsilon, for arrays of epsilons, rounded up.

A profile here takes epsilons of either sign and covers one direction of neighbours; the other direction is
``delta'(-eps) = 1 - e^(-eps) (1 - delta(eps))``.

With ``D(eps)`` the Gaussian's profile and ``c(eps) = ln(1 + (e^eps - 1) / q)``:

* Poisson sampling, a record removed: ``q D(c(eps))`` above ``ln(1 - q)``, ``1 - e^eps`` below it;
  a record added: ``(1 - (1 - q) e^eps) D(-c(-eps))``, 0 where the first factor is not positive.
* A batch of fixed size, a record replaced: ``q D(c(eps))`` for ``eps >= 0`` in both directions.

**Source**: Balle, Barthe and Gaboardi, 2018, Theorems 8 and 9 (subsampling by couplings); Zhu, Dong and Wang, 2022,
Proposition 30 (removal and addition apart); Balle and Wang, 2018, Theorem 8 (Gaussian).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr

from blockveil.engine.guarantees.events import FixedSizeGaussian, GaussianMixture, PoissonGaussian
from blockveil.engine.guarantees.guarantee import GaussianDP

Floats = NDArray[np.float64]
Profile = Callable[[Floats], Floats]

_UP = 2.0**-50
_SQRT_2 = math.sqrt(2.0)


def gaussian_profile(mu: float, epsilon: Floats) -> Floats:
    """Delta of a Gaussian loss, any sign of epsilon, rounded up; shape of ``epsilon``.

    Within a relative 1e-8 of the truth, and never below it, for mu between 1e-6 and 1e3.
    """
    size = np.abs(epsilon)
    positive = _gaussian_positive(mu, size)
    # delta(-eps) = 1 - e^-eps (1 - delta(eps)); the rounding of this line is below 4 units of 2**-53
    mirrored = -np.expm1(-size) + np.exp(-size) * positive + _UP
    return np.minimum(1.0, np.where(epsilon < 0, mirrored, positive))


def _gaussian_positive(mu: float, epsilon: Floats) -> Floats:
    x, h = epsilon / mu, mu / 2.0
    a = h - x
    mills = 0.5 * erfcx((x + h) / _SQRT_2)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        density = np.exp(-0.5 * a * a)
        tail = density * (0.5 * erfcx(-np.minimum(a, 0.0) / _SQRT_2) - mills)
        centre = ndtr(a) - density * mills
    # Roundings: of a, times a in the exponent; of the difference of two erfcx, which cancel by about h / x.
    relative = 64.0 * 2.0**-53 * (4.0 + np.abs(a) * (x + h) + (x + 1.0) / h)
    return np.where(a < 0, np.maximum(tail, 0.0) * (1.0 + relative) + 1e-300, centre + 32.0 * 2.0**-53)


def _amplified(q: float, mu: float, epsilon: Floats) -> Floats:
    """``q D(ln(1 + (e^eps - 1) / q))`` for ``e^eps > 1 - q``; rounded up."""
    inner = np.log1p(np.expm1(epsilon) / q)
    # The inner epsilon is lowered by its rounding: delta falls with epsilon.
    slip = 16.0 * 2.0**-53 * (1.0 + np.abs(inner) + np.exp(-np.minimum(inner, 0.0)) / q)
    return q * gaussian_profile(mu, inner - slip) * (1.0 + _UP)


def removed(event: GaussianDP | PoissonGaussian | FixedSizeGaussian | GaussianMixture) -> Profile:
    """Profile with the larger data set (or either, where the relation is symmetric) first."""
    match event:
        case GaussianDP(mu):
            return lambda epsilon: gaussian_profile(mu, epsilon)
        case PoissonGaussian(q, noise):
            return lambda epsilon: _poisson_removed(q, 1.0 / noise * (1 + _UP), epsilon)
        case FixedSizeGaussian(q, noise):
            return _both_ways(lambda epsilon: _amplified(q, 1.0 / noise * (1 + _UP), epsilon))
        case GaussianMixture():
            return lambda epsilon: _mixture(event, epsilon, removed=True)


def added(event: GaussianDP | PoissonGaussian | FixedSizeGaussian | GaussianMixture) -> Profile:
    """Profile with the smaller data set first."""
    match event:
        case PoissonGaussian(q, noise):
            return lambda epsilon: _poisson_added(q, 1.0 / noise * (1 + _UP), epsilon)
        case GaussianMixture():
            return lambda epsilon: _mixture(event, epsilon, removed=False)
        case _:
            return removed(event)


def _both_ways(positive: Profile) -> Profile:
    """Profile of a symmetric relation from its part for epsilons that are not negative."""

    def profile(epsilon: Floats) -> Floats:
        size = np.abs(epsilon)
        delta = positive(size)
        return np.minimum(1.0, np.where(epsilon < 0, -np.expm1(-size) + np.exp(-size) * delta + _UP, delta))

    return profile


def _poisson_removed(q: float, mu: float, epsilon: Floats) -> Floats:
    if q == 1.0:
        return gaussian_profile(mu, epsilon)
    inside = epsilon > math.log1p(-q) + 1e-12
    # Below it the first law exceeds e^eps times the second everywhere, so the difference of all mass is the supremum;
    # up to the slip of 1e-12, 1 - e^eps still bounds delta there together with that slip.
    delta = _amplified(q, mu, np.where(inside, epsilon, 0.0))
    flat = -np.expm1(np.minimum(epsilon, 0.0))
    return np.minimum(1.0, np.where(inside, np.maximum(delta, flat), flat + 2e-12))


def _poisson_added(q: float, mu: float, epsilon: Floats) -> Floats:
    if q == 1.0:
        return gaussian_profile(mu, epsilon)
    weight = -np.expm1(np.minimum(epsilon + math.log1p(-q), 1.0))
    inside = weight > 0
    safe_epsilon = np.where(inside, epsilon, 0.0)
    inner = -np.log1p(np.expm1(-safe_epsilon) / q)
    slip = 16.0 * 2.0**-53 * (1.0 + np.abs(inner) + np.exp(np.maximum(inner, 0.0)) / q)
    delta = (np.maximum(weight, 0.0) * (1.0 + 1e-12) + 4.0 * _UP) * gaussian_profile(mu, inner - slip)
    return np.minimum(1.0, np.where(inside, np.maximum(delta, -np.expm1(np.minimum(epsilon, 0.0))), 1e-300))


def _mixture(event: GaussianMixture, epsilon: Floats, *, removed: bool) -> Floats:
    """Profile of a mixture of Gaussians against one at 0 (removed), or the other way round."""
    shifts = np.array(event.sensitivities)[:, None] / event.standard_deviation
    weights = np.array(event.probabilities)[:, None]
    threshold = epsilon if removed else -epsilon
    reach = 45.0 + float(shifts.max())
    low, high = np.full_like(epsilon, -reach), np.full_like(epsilon, reach)
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    for _ in range(60):
        middle = 0.5 * (low + high)
        # The loss of the mixture grows with x, so the best set is a half line that starts between low and high.
        above = np.logaddexp.reduce(logs + shifts * (middle - shifts / 2.0), axis=0) > threshold
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    slack = 1e-12 * (1.0 + np.abs(high))
    low, high = low - slack, high + slack
    # A larger set for the first law and a smaller one for the second bound the supremum from above.
    if removed:
        first = (weights * ndtr(shifts - low)).sum(axis=0)
        second = np.exp(epsilon + log_ndtr(-high))
    else:
        first = ndtr(high)
        second = np.exp(epsilon + np.logaddexp.reduce(logs + log_ndtr(low - shifts), axis=0))
    delta = (first - second) + (first + second) * 16.0 * 2.0**-53 * (4.0 + shifts.size)
    return np.asarray(np.clip(np.maximum(delta, -np.expm1(np.minimum(epsilon, 0.0))), 0.0, 1.0))


def pure_profile(epsilon_0: float, epsilon: Floats) -> Floats:
    """Largest delta of a pure loss at an epsilon of either sign."""
    # Randomised response: probabilities e^e0 / (1 + e^e0) and 1 / (1 + e^e0).
    inside = np.exp(np.minimum(epsilon_0, 700.0)) - np.exp(np.minimum(epsilon, 700.0))
    share = inside / (1.0 + math.exp(min(epsilon_0, 700.0))) * (1.0 + 4 * _UP) + 4 * _UP
    flat = -np.expm1(np.minimum(epsilon, 0.0))
    return np.where(epsilon >= epsilon_0, 0.0, np.where(epsilon <= -epsilon_0, flat, np.minimum(1.0, share)))


def zcdp_profile(rho: float, epsilon: Floats) -> Floats:
    """Delta that zero-concentrated privacy proves at epsilons that are not negative, rounded up.

    **Source**: Canonne, Kamath and Steinke, 2020, Proposition 12, over a grid of orders; Pinsker's inequality at 0.
    """
    excess = np.exp(np.linspace(-12.0, 12.0, 1500))[:, None]  # alpha - 1
    with np.errstate(over="ignore"):
        bound = excess * (rho * (1.0 + excess) - epsilon[None, :]) + excess * (np.log(excess) - np.log1p(excess))
        bound -= np.log1p(excess)
    best = np.exp(np.minimum(bound.min(axis=0), 0.0) * (1.0 - 1e-12)) * (1.0 + 1e-9)
    # Total variation, which bounds delta at every epsilon >= 0, is at most sqrt(KL / 2) <= sqrt(rho / 2).
    return np.asarray(np.minimum(np.minimum(best, 1.0), math.sqrt(rho / 2.0) * (1.0 + 1e-12)))
