"""One Gaussian loss above any other: what lets all kinds of events share one filter.

A release whose profile satisfies ``delta(eps) <= f + (1 - f) D_mu(eps)`` for all eps, in both directions, is a
post-processing of: with probability f everything, else one unit Gaussian at 0 or at mu. Such releases compose like the
Gaussians they are under, and the f add up.

**Source**: Blackwell's theorem, in Dong, Roth and Su, 2022, Theorem 2.10; Kairouz, Oh and Viswanath, 2015, Theorem 3.4
(the case of (epsilon, delta)); pure losses: the trade-off function of randomised response touches that of a Gaussian
where both errors are equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri_exp

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_epsilon
from blockveil.engine.guarantees.composition import Composed, compose
from blockveil.engine.guarantees.events import Series, Step
from blockveil.engine.guarantees.guarantee import ZCDP, ApproxDP, GaussianDP, PureDP
from blockveil.engine.guarantees.profiles import Floats, Profile, gaussian_profile, zcdp_profile

_POINTS = 6000
_UP = 1.0 + 1e-9
"""Relative margin of mu, in mu squared units 2e-9: covers the roundings of special functions."""


@dataclass(frozen=True)
class Dominating:
    """A Gaussian loss, and a probability of failure, that are no better than a release.

    Attributes
    ----------
    mu
        Gaussian loss.
    failure
        Probability of a loss without bound; an upper bound.
    """

    mu: float
    failure: float


def pure_mu(epsilon: float) -> float:
    """Least mu whose Gaussian is no more private than any pure loss epsilon, rounded up.

    It is ``-2 quantile(1 / (1 + e^epsilon))``.
    """
    return float(-2.0 * ndtri_exp(-float(np.logaddexp(0.0, epsilon)))) * _UP + 1e-15


@lru_cache(maxsize=4096)
def dominating(series: Series) -> Dominating:
    """A Gaussian loss and a failure above a series that is fixed before its first step.

    Pure, approximate, Gaussian and zero-concentrated events are taken one by one; everything that samples records is
    composed by its loss distributions first.

    Raises
    ------
    CalibrationError
        The losses do not fit a grid, or no Gaussian of mu below 100 lies above them.
    """
    squares, failure = 0.0, 0.0
    sampled = []
    for step in series:
        match step.event:
            case GaussianDP(mu):
                squares += step.count * mu * mu
            case PureDP(epsilon):
                squares += step.count * pure_mu(epsilon) ** 2
            case ApproxDP(epsilon, delta):
                squares += step.count * pure_mu(epsilon) ** 2
                failure += step.count * delta
            case ZCDP(rho):
                part = _zcdp(rho * step.count * _UP)
                squares, failure = squares + part.mu**2, failure + part.failure
            case _:
                sampled.append(step)
    if sampled:
        part = _sampled(tuple(sampled))
        squares, failure = squares + part.mu**2, failure + part.failure
    if failure >= 1.0:
        raise CalibrationError("the deltas of this series add up to one or more; it promises nothing")
    return Dominating(math.sqrt(squares) * _UP, failure * _UP)


@lru_cache(maxsize=1024)
def _zcdp(rho: float) -> Dominating:
    # The bound's tail falls like exp(-eps^2 / (4 rho)), as that of a Gaussian; beyond the reach it is below 1e-30.
    reach = rho + 2.0 * math.sqrt(rho * 75.0)
    return _above(lambda points: zcdp_profile(rho, points), reach, math.sqrt(2.0 * rho))


@lru_cache(maxsize=256)
def _sampled(series: Series) -> Dominating:
    composed = compose(series)
    floor = float(composed.profile(np.array([1e6]))[0])
    # Twice the floor: the profile meets it only at infinity. What is below it is rounding anyway.
    level = 2.0 * floor + 1e-20
    low, high = 0.0, 1.0
    while float(composed.profile(np.array([high]))[0]) > level:
        low, high = high, 2.0 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(composed.profile(np.array([middle]))[0]) > level else (low, middle)
    return _above(composed.profile, high, 1e-6)


def _above(profile: Profile, reach: float, least: float) -> Dominating:
    """Least mu whose Gaussian, with the profile's value at ``reach`` as failure, lies above a profile."""
    points = reach * np.linspace(0.0, 1.0, _POINTS) ** 1.5
    values = profile(points)
    failure = float(values[-1]) * _UP
    # Between two points the profile is at most its value at the left, and the Gaussian's at least its at the right.
    targets = np.maximum((values[:-1] - failure) / (1.0 - failure), 0.0) * (1.0 + 1e-12)

    def lies_above(mu: float) -> bool:
        return bool(np.all(_lower_gaussian(mu, points[1:]) >= targets))

    low, high = least, max(2.0 * least, 0.1)
    while not lies_above(high):
        low, high = high, 2.0 * high
        if high > 100.0:
            raise CalibrationError("no Gaussian of mu below 100 is above this loss; give more noise or fewer steps")
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if lies_above(middle) else (middle, high)
    return Dominating(high, failure)


def _lower_gaussian(mu: float, points: Floats) -> Floats:
    """Lower bound of a Gaussian's delta: the upper one is within a relative 1e-6 of the truth, and 1e-14 of one."""
    return np.maximum(gaussian_profile(mu, points) * (1.0 - 1e-6) - 1e-14 * (points < mu * mu / 2.0), 0.0)


def fixed_epsilon(series: Series, delta: float) -> float:
    """Upper bound of the least epsilon of a series that is fixed in advance, at a delta: the best of several bounds."""
    above = dominating(series)
    bounds = [gaussian_epsilon(above.mu, delta - above.failure) if above.failure < delta else math.inf]
    if not all(isinstance(step.event, GaussianDP) for step in series):
        bounds.append(_composed(series).epsilon(delta))
    rho = _total_rho(series)
    if rho is not None:
        bounds.append(ZCDP(rho).to_approx(delta).epsilon)
    return min(bounds)


def fixed_delta(series: Series, epsilon: float) -> float:
    """Upper bound of the least delta of a series that is fixed in advance, at an epsilon."""
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise CalibrationError(f"epsilon is {epsilon}; it must be finite and not negative")
    bounds = [_composed(series).delta(epsilon)]
    rho = _total_rho(series)
    if rho is not None:
        bounds.append(float(zcdp_profile(rho, np.array([epsilon]))[0]))
    return min(bounds)


def _composed(series: Series) -> Composed:
    """The composition, with zero-concentrated events as the Gaussians above them."""
    steps = []
    for step in series:
        if isinstance(step.event, ZCDP):
            above = _zcdp(step.event.rho * step.count * _UP)
            steps.append(Step(GaussianDP(above.mu)))
            steps.append(Step(ApproxDP(1e-15, above.failure)))
        else:
            steps.append(step)
    return compose(tuple(steps))


def _total_rho(series: Series) -> float | None:
    """Rho of a series whose events all have one, rounded up."""
    total = 0.0
    for step in series:
        match step.event:
            case ZCDP(rho):
                total += step.count * rho
            case GaussianDP() | PureDP():
                total += step.count * step.event.to_zcdp().rho
            case _:
                return None
    return total * _UP
