"""Certified composition of a series of events by privacy loss distributions.

Each event's profile is put on a grid of losses so that its delta is nowhere lowered ("connect the dots"), equal events
are convolved with themselves at once, groups with each other. ``dp-accounting`` does both. What floating point may have
taken away is bounded and added again:

* the grid's profile is recomputed from its masses in extended precision, and where it lies below the event's own, the
  largest difference counts for each of the steps;
* a convolution by fast Fourier transforms of length N of masses p errs by at most
  ``sqrt(N) (n b sqrt(N) |p|_2 + (b + 8 n u) |x|_2)`` in total mass, ``b = 7 u log2(N)``, n the power, x the result.

**This is not a filter.** The series (kinds, numbers, parameters) must be fixed before its first step; what a step asks
may depend on earlier answers, because a profile bounds the step for every question that it could ask.

**Source**: Doroshenko et al., 2022, Algorithm 1 (discretisation); Zhu, Dong and Wang, 2022, Theorem 10 (dominating
pairs compose, also adaptively, once fixed); Higham, 2002, Theorem 24.2 (error of the transform).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from blockveil.engine.guarantees import profiles
from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.events import Event, FixedSizeGaussian, GaussianMixture, PoissonGaussian, Series
from blockveil.engine.guarantees.guarantee import ZCDP, ApproxDP, GaussianDP, PureDP
from blockveil.engine.guarantees.profiles import Floats, Profile

INTERVAL = 1e-4
"""Least distance of losses on the grid, in units of epsilon. A coarser one costs accuracy, never the bound."""

_SPREAD, _SINGLE = 2**22, 2**17
"""Points of the grid over which the losses of a series, and of one step, may spread before it is made coarser."""

_FARTHEST = 5000.0
"""Largest range of losses, in units of epsilon: the exponential of it is a number in extended precision."""

_TAIL = 1e-18
"""Delta beyond the grid of one step; it counts as a loss without bound."""

_CUT = 1e-15
"""Mass that one self-composition may move to a loss without bound."""

_AT_ONCE = 256
"""Largest power that is taken in one round."""

_UNIT = 2.0**-53
_LONGEST = 2**23


class Curve:
    """Delta of masses on a grid of losses, summed in extended precision and raised by what that loses.

    Parameters
    ----------
    masses
        Distribution of the loss, of ``dp-accounting``.
    lost
        What floating point may have taken from delta before.
    """

    def __init__(self, masses: Any, lost: float = 0.0) -> None:
        dense = masses.to_dense_pmf()
        self._interval, self._lowest, self._count = dense._discretization, dense._lower_loss, dense.size
        losses = np.arange(self._count, dtype=np.longdouble) * self._interval
        parts = np.asarray(dense._probs, dtype=np.longdouble)
        zero = np.zeros(1, dtype=np.longdouble)
        self._above = np.concatenate([np.cumsum(parts[::-1])[::-1], zero])
        self._scaled = np.concatenate([np.cumsum((parts * np.exp(-losses))[::-1])[::-1], zero])
        self._always = float(dense._infinity_mass) + lost

    def __call__(self, epsilon: Floats) -> Floats:
        """Upper bounds of delta, shape of ``epsilon``."""
        start = self._lowest * self._interval
        epsilon = np.minimum(epsilon, start + self._count * self._interval)
        first = np.clip(np.floor(epsilon / self._interval).astype(np.int64) - self._lowest + 1, 0, self._count)
        weights = np.exp(np.asarray(epsilon, dtype=np.longdouble) - start)
        deltas = np.asarray(self._above[first] - weights * self._scaled[first], dtype=np.float64)
        # Each suffix sum of count terms errs by at most count units of its precision; terms may be of either sign.
        unit = 4.0 * self._count * float(np.finfo(np.longdouble).eps)
        slip = unit * (np.abs(np.asarray(self._above[first], dtype=np.float64)) + 1e-6)
        return np.asarray(np.maximum(deltas, 0.0) + slip + self._always)


@dataclass(frozen=True, eq=False)
class Composed:
    """Losses of a whole series, both directions of neighbours.

    Attributes
    ----------
    parts
        For each direction delta as a function of epsilon.
    failure
        Probability of a loss without bound beside.
    """

    parts: tuple[Curve, ...]
    failure: float

    def delta(self, epsilon: float) -> float:
        """Upper bound of delta at an epsilon of at least 0."""
        delta = float(self.profile(np.array([epsilon]))[0])
        return min(1.0, (delta + self.failure) * (1.0 + 1e-12))

    def epsilon(self, delta: float) -> float:
        """Upper bound of the least epsilon at a delta; infinite where the bound never gets below it."""
        low, high = 0.0, 1.0
        if self.delta(0.0) <= delta:
            return 0.0
        while self.delta(high) > delta:
            low, high = high, 2.0 * high
            if high > 1e6:
                return math.inf
        while high - low > 1e-9 * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
            low, high = min(low, high), max(low, high)
        return high

    def profile(self, epsilon: Floats) -> Floats:
        """Upper bound of delta at ascending epsilons of at least 0, larger of both directions, without the failure."""
        deltas = np.max([part(epsilon) for part in self.parts], axis=0)
        return np.asarray(np.minimum(1.0, deltas))


def compose(series: Series) -> Composed:
    """Compose a series that is fixed before its first step.

    Parameters
    ----------
    series
        Steps; equal events are grouped, all Gaussian ones are one.

    Raises
    ------
    CalibrationError
        An event has no loss distribution (zero-concentrated privacy), or the losses do not fit a grid.
    """
    counts: Counter[Event] = Counter()
    for step in series:
        counts[step.event] += step.count
    failure = squares = 0.0
    groups: list[tuple[Event, int]] = []
    for event, count in counts.items():
        match event:
            case GaussianDP(mu):
                squares += count * mu * mu * (1.0 + 8 * _UNIT)
            case ApproxDP(epsilon, delta):
                failure += count * delta * (1.0 + 8 * _UNIT)
                groups.append((PureDP(epsilon), count))
            case ZCDP():
                raise CalibrationError("zero-concentrated privacy fixes no loss distribution; book it on its own")
            case _:
                groups.append((event, count))
    if squares:
        groups.append((GaussianDP(math.sqrt(squares) * (1.0 + 8 * _UNIT)), 1))
    interval = _interval(groups)
    parts = tuple(_direction(groups, direction, interval) for direction in (profiles.removed, profiles.added))
    return Composed(parts, failure)


def _interval(groups: list[tuple[Event, int]]) -> float:
    """Distance of losses on the grid: as fine as its size allows, a power of two times the least."""
    coarse, spread, widest = 100 * INTERVAL, 0.0, 0.0
    for event, count in groups:
        reach = max(_reach(_profile(event, direction), coarse) for direction in (profiles.removed, profiles.added))
        widest = max(widest, reach * coarse)
        # The losses of many steps spread by the root of their number, a few of one step's far tails wide.
        spread += 2.0 * reach * coarse * math.sqrt(count)
    ideal = max(spread / _SPREAD, widest / _SINGLE, INTERVAL)
    return float(INTERVAL * 2.0 ** math.ceil(math.log2(ideal / INTERVAL)))


def _direction(groups: list[tuple[Event, int]], direction: Callable[[Any], Profile], interval: float) -> Curve:
    from dp_accounting.pld import pld_pmf  # imported only where it is needed: it loads slowly

    whole: Any = None
    lost = 0.0
    for event, count in groups:
        single, shortfall = _grid(event, direction, interval)
        lost += count * shortfall
        powered, rounded = _power(single, count)
        lost += rounded
        if whole is None:
            whole = powered
        else:
            result = pld_pmf.compose_pmfs(whole.to_dense_pmf(), powered.to_dense_pmf())
            lost += _roundoff(whole, result, 1) + _roundoff(powered, result, 1)
            whole = result
        if whole.size * interval > _FARTHEST:
            raise CalibrationError("the losses of this series spread beyond any useful epsilon; give more noise")
        if whole.size > _LONGEST:
            raise CalibrationError(f"the losses need a grid of {whole.size} points; give fewer steps or more noise")
    return Curve(whole, lost * (1.0 + 1e-9))


def _power(single: Any, count: int) -> tuple[Any, float]:
    """Masses of a given number of equal steps, and what floating point may have taken."""
    from dp_accounting.pld import pld_pmf

    if count == 1:
        return single, 0.0
    if count <= _AT_ONCE:
        powered = single.to_dense_pmf().self_compose(count, _CUT)
        return powered, _roundoff(single, powered, count)
    # The library bounds the range of a power well only where a step is about as wide: so in two rounds, and a rest.
    inner = math.isqrt(count)
    outer, rest = divmod(count, inner)
    part, lost_in_part = _power(single, inner)
    powered, lost = _power(part, outer)
    lost += outer * lost_in_part
    if rest:
        remaining, lost_in_rest = _power(single, rest)
        whole = pld_pmf.compose_pmfs(powered.to_dense_pmf(), remaining.to_dense_pmf())
        lost += lost_in_rest + _roundoff(powered, whole, 1) + _roundoff(remaining, whole, 1)
        powered = whole
    return powered, lost


@lru_cache(maxsize=64)
def _grid(event: Event, direction: Callable[[Any], Profile], interval: float) -> tuple[Any, float]:
    """Masses on the grid, and how far their delta may lie below the event's."""
    from dp_accounting.pld import pld_pmf

    profile = _profile(event, direction)
    upper = _reach(profile, interval)
    lower = -_reach(_profile(event, _opposite(direction)), interval)
    points = np.arange(lower, upper + 1)
    losses = np.asarray(points * interval, dtype=np.float64)
    deltas = np.minimum.accumulate(np.clip(profile(losses), 0.0, 1.0))
    masses = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, lower, upper, deltas).to_dense_pmf()
    grid_deltas = Curve(masses)(losses)
    # Below the grid delta is at most 1, and the masses, which end at the lowest loss, give 1 - e^eps there at least.
    missing = max(0.0, 1.0 - float(np.sum(masses._probs, dtype=np.longdouble)) - masses._infinity_mass)
    return masses, max(0.0, float(np.max(deltas - grid_deltas))) + missing + 16 * _UNIT


def _profile(event: Event, direction: Callable[[Any], Profile]) -> Profile:
    if isinstance(event, PureDP):
        epsilon = event.epsilon
        return lambda points: profiles.pure_profile(epsilon, points)
    if not isinstance(event, GaussianDP | PoissonGaussian | FixedSizeGaussian | GaussianMixture):
        raise CalibrationError(f"{type(event).__name__} has no loss distribution")
    return direction(event)


def _opposite(direction: Callable[[Any], Profile]) -> Callable[[Any], Profile]:
    return profiles.added if direction is profiles.removed else profiles.removed


def _reach(profile: Profile, interval: float) -> int:
    """Grid point beyond which delta is below the tail."""
    low, high = 0, 16
    while float(profile(np.array([high * interval]))[0]) > _TAIL:
        low, high = high, 2 * high
        if high > _LONGEST:
            raise CalibrationError("one step's loss does not fit the grid; give more noise")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if float(profile(np.array([middle * interval]))[0]) > _TAIL else (low, middle)
    return high


def _roundoff(single: Any, result: Any, power: int) -> float:
    """Total mass that a convolution's floating point may misplace; see the module's text."""
    length = 2.0 * max(single.size, result.size)
    shake = 7.0 * _UNIT * math.log2(length)
    norm = float(np.linalg.norm(single.to_dense_pmf()._probs))
    outcome = float(np.linalg.norm(result.to_dense_pmf()._probs))
    root = math.sqrt(length)
    return (power * shake * root * norm + (shake + 8.0 * power * _UNIT) * root * outcome) * 1.01
