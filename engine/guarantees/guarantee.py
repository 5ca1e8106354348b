"""What a release promises: neighbouring relation, loss, and conversions between ways of stating a loss.

A conversion that is not exact, and every rounding, makes the stated loss larger, never smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_delta, gaussian_epsilon

# Covers a few roundings to nearest, of 2**-53 each.
_ROUND_UP = 1.0 + 2.0**-50


class Neighbours(StrEnum):
    """Which data sets must be hard to distinguish."""

    ADD_REMOVE = "add-remove"
    """One row is present in one and absent in the other; the number of rows is private."""

    REPLACE_ONE = "replace-one"
    """One row differs in content; the number of rows is public."""


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise CalibrationError(f"{name} is {value}; it must be finite and positive; state it explicitly")


def _probability(value: float) -> None:
    if not 0.0 < value < 1.0:
        raise CalibrationError(f"delta is {value}; it must lie between 0 and 1; state it explicitly")


def _half_square(value: float) -> float:
    """Half the square, rounded up; positive even where the square is below the least float."""
    return math.nextafter(0.5 * value * value * _ROUND_UP, math.inf)


@dataclass(frozen=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy.

    Attributes
    ----------
    epsilon
        Positive, finite.
    delta
        In (0, 1).
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Refuse parameters that promise nothing or cannot be met."""
        _positive("epsilon", self.epsilon)
        _probability(self.delta)


@dataclass(frozen=True)
class ZCDP:
    """Zero-concentrated differential privacy: the Renyi divergence of any order alpha > 1 is at most ``rho alpha``.

    **Source**: Bun and Steinke, 2016, Definition 1.1.

    Attributes
    ----------
    rho
        Positive, finite.
    """

    rho: float

    def __post_init__(self) -> None:
        """Refuse a rho that promises nothing."""
        _positive("rho", self.rho)

    def to_approx(self, delta: float) -> ApproxDP:
        """An (epsilon, delta) that follows, rounded up; not the least epsilon of the mechanism, which rho does not fix.

        Raises
        ------
        CalibrationError
            delta is not in (0, 1), or no finite epsilon follows.

        **Source**: Canonne, Kamath and Steinke, 2020, Proposition 12, at an order that is nearly the best one.
        """
        _probability(delta)
        log_delta = math.log(delta)
        # Every order gives a true bound, so the search need not be exact. It runs on ln(alpha - 1), and at its centre
        # the bound is already below rho + 2 sqrt(rho ln(1/delta)).
        centre = 0.5 * (math.log(-log_delta) - math.log(self.rho))
        bound = min(_epsilon_at_order(self.rho, log_delta, math.exp(centre + k / 64.0)) for k in range(-192, 193))
        # An ApproxDP states a positive epsilon; the bound is negative where delta alone is enough.
        return ApproxDP(max(bound, 1e-15), delta)


def _epsilon_at_order(rho: float, log_delta: float, excess: float) -> float:
    """Epsilon that the divergence of order ``1 + excess`` proves, rounded up."""
    # ln(1 - 1/alpha) = -ln(1 + 1/excess)
    gain = math.log1p(1.0 / excess) + math.log1p(excess) / excess
    cost = rho * (1.0 + excess) - log_delta / excess
    # The margin is relative to what is subtracted from, so that cancellation cannot consume it.
    return cost - gain + 2.0**-48 * (cost + gain)


@dataclass(frozen=True)
class PureDP:
    """Epsilon-differential privacy, without a delta.

    Attributes
    ----------
    epsilon
        Positive, finite.
    """

    epsilon: float

    def __post_init__(self) -> None:
        """Refuse an epsilon that promises nothing."""
        _positive("epsilon", self.epsilon)

    def to_zcdp(self) -> ZCDP:
        """``rho = epsilon^2 / 2``, rounded up. **Source**: Bun and Steinke, 2016, Proposition 1.4.

        >>> round(PureDP(0.5).to_zcdp().rho, 6)
        0.125
        """
        return ZCDP(_half_square(self.epsilon))


@dataclass(frozen=True)
class GaussianDP:
    """Neighbours are as hard to distinguish as two unit Gaussians whose means differ by mu.

    >>> round(GaussianDP(0.25).epsilon(delta=1e-6), 3)
    1.061

    **Source**: Dong, Roth and Su, 2022; IMGM Theorem 4 is the composition rule for equal steps.

    Attributes
    ----------
    mu
        Positive, finite.
    """

    mu: float

    def __post_init__(self) -> None:
        """Refuse a mu that promises nothing."""
        _positive("mu", self.mu)

    def delta(self, epsilon: float) -> float:
        """Smallest delta at an epsilon, rounded up."""
        return gaussian_delta(self.mu, epsilon)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at a delta, rounded up."""
        return gaussian_epsilon(self.mu, delta)

    @property
    def rho(self) -> float:
        """Parameter of zero-concentrated differential privacy, ``mu^2 / 2``, rounded up."""
        return _half_square(self.mu)

    def to_zcdp(self) -> ZCDP:
        """What follows for every order; prefer :meth:`epsilon` for a statement, it is exact."""
        return ZCDP(self.rho)


@dataclass(frozen=True)
class Loss:
    """What one release costs: a Gaussian part, a pure part, the distance of its samplers from their laws, and failure.

    Parts of different kinds compose: against an attacker who sees everything, the pure parts multiply a probability by
    at most ``e^(sum of epsilons)``, the Gaussian parts are as one Gaussian, distances add up. So everything together
    is ``(epsilon, gaussian_delta(mu, epsilon - pure) + (1 + e^epsilon) total_variation)``-private: replace first the
    Gaussian steps by their neighbours' (which adds delta), then the pure steps (which only multiplies). A failure is a
    loss without bound with that probability, beside all this: it adds to delta once.

    Attributes
    ----------
    mu
        Gaussian-DP parameter, not negative.
    epsilon
        Pure differential privacy of the remaining draws, not negative.
    total_variation
        Distance of the samplers from their laws, in [0, 1); an (epsilon, delta) event without further structure is
        booked as its epsilon here and its delta as a distance.
    failure
        Probability of a loss without bound, in [0, 1), as the dominating Gaussian of sampled steps has beside it.

    **Source**: Dong, Roth and Su, 2022 (composition of Gaussian losses); Dwork and Roth, 2014, Theorem 3.16.
    """

    mu: float
    epsilon: float
    total_variation: float
    failure: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a loss that cannot be booked."""
        finite = math.isfinite(self.mu) and math.isfinite(self.epsilon)
        if not (finite and self.mu >= 0 and self.epsilon >= 0 and self.mu + self.epsilon > 0):
            raise CalibrationError("a loss needs finite parts, none negative and not all zero; calibrate it first")
        if not 0 <= self.total_variation < 1:
            raise CalibrationError(f"total variation is {self.total_variation}; it must lie in [0, 1)")
        if not 0 <= self.failure < 1:
            raise CalibrationError(f"the probability of failure is {self.failure}; it must lie in [0, 1)")

    @property
    def plain(self) -> dict[str, float]:
        """Its parts by name; a failure only where there is one, so that others are written as ever."""
        parts = {"mu": self.mu, "epsilon": self.epsilon, "total_variation": self.total_variation}
        return parts | ({"failure": self.failure} if self.failure else {})

    def delta(self, epsilon: float) -> float:
        """Delta at an epsilon, rounded up; 1 where epsilon is below the pure part."""
        if epsilon < self.epsilon:
            return 1.0
        gaussian = gaussian_delta(self.mu, (epsilon - self.epsilon) * (1.0 - 2.0**-52)) if self.mu else 0.0
        sampler = (1.0 + math.exp(min(epsilon, 700.0))) * self.total_variation
        return min(1.0, (gaussian + sampler + self.failure) * (1.0 + 1e-12))


def compose(losses: Iterable[GaussianDP]) -> GaussianDP:
    """Loss of all releases together, also when later ones are chosen in view of earlier ones: mu squared adds up.

    Rounded up.

    >>> round(compose([GaussianDP(0.3), GaussianDP(0.4)]).mu, 6)
    0.5

    Raises
    ------
    CalibrationError
        There is nothing to compose, or the sum exceeds the largest float.
    """
    # hypot neither overflows nor underflows inside and is within a rounding or two; the margin makes it an upper bound.
    norm = math.hypot(*(loss.mu for loss in losses))
    return GaussianDP(math.nextafter(norm * _ROUND_UP, math.inf) if norm > 0 else norm)
