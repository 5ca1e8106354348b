"""How far noise alone takes entries from the truth: bands that hold many of them at once, and shares beyond a size.

A band is a number of standard deviations that all k noises stay within with probability 0.95, so that an entry beyond
it is wrong in at most 5 of 100 releases *whichever of the entries are noise alone*, be it none, some or all of them.
Each law bounds the probability of one noise; k of them are held at once

* for Gaussian noise with each at ``1 - 0.95^(1/k)``: exact for independent ones, and safe however they are correlated
  (Sidak);
* for all other laws with each at ``0.05 / k``: a union bound, safe however they depend on each other.

A sum of independent Laplace variables of scales a_i with ``sum a_i^2 = v``, half its variance, has at ``x / sqrt(v)`` a
moment generating function that is the product of ``1 / (1 - x^2 a_i^2 / v)``, at most ``1 / (1 - x^2)``, since
``-ln(1 - x^2 s)`` is convex in s and zero at zero. So it exceeds ``u sqrt(v)`` with probability at most
``exp(-x u) / (1 - x^2)`` for any x below one. Noise that is Gaussian given its variance, and at most as spread as
that, has the same bound. On whole numbers at rate p, ``cosh(z) - 1 <= (z^2 / 2) (cosh(p) - 1) / (p^2 / 2)`` for
``z <= p``, so that variances count for more by the last factor.

Where entries get their noise together with a log-concave density, every linear function x of it has one (Prekopa).
Then ``E x^(2 j) / (2 j)!`` is at most ``(E x^2 / 2)^j`` (Borell), so that sums of it have the same bound.

The *length* of noise of several entries, in units of its root mean square, is the root of a mean Q of squares x^2 of
unit variables with weights that add up to one. Beyond 1.54, no such mean of Gaussian variables is more likely than a
single square, so that lengths have the band of entries; lengths that depend on each other do, too. For any law, ``Q >
c`` has a probability of at most ``E (Q - t)+ / (c - t)``, and the mean is at most ``E (x^2 - t)+`` by convexity. For a
Laplace law the last is ``e^-u (u + 1)`` at ``t = u^2 / 2``, and the best u makes ``e^-u`` the probability wanted.

**Source**: Sidak, 1967; Chernoff, 1952; Cai, Fan and Jiang, 2013 (entries of random directions); Prekopa, 1973, and
Borell, 1973 (log-concave densities); Szekely and Bakirov, 2003 (quadratic forms); Royen, 2014 (dependent lengths).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from scipy.special import betainc, betaincinv, ndtr, ndtri

CONFIDENCE = 0.95
"""Probability with which bands and bounds hold."""


class Tails(Protocol):
    """Law of one noise in units of its standard deviation."""

    @property
    def words(self) -> str:
        """What the noise is called."""

    def band(self, count: int) -> float:
        """Standard deviations that hold a given number of noises of this law at once with probability 0.95."""

    def beyond(self, size: float) -> tuple[float, float]:
        """Bounds of the probability that one noise is further than ``size`` standard deviations from zero."""


@dataclass(frozen=True)
class GaussianNoise:
    """Gaussian noise, however correlated."""

    words: str = "Gaussian noise"

    def band(self, count: int) -> float:
        """Sidak's: exact for independent noises."""
        return float(-ndtri(-math.expm1(math.log(CONFIDENCE) / count) / 2.0))

    def beyond(self, size: float) -> tuple[float, float]:
        """Exact."""
        probability = 2.0 * float(ndtr(-size))
        return probability, probability


@dataclass(frozen=True)
class LaplaceNoise:
    """Noise on whole numbers with ``P(k)`` in proportion to ``exp(-rate |k|)``."""

    rate: Fraction
    words: str = "Laplace noise"

    @property
    def deviation(self) -> float:
        """Standard deviation, in whole numbers."""
        return math.sqrt(0.5) / math.sinh(float(self.rate) / 2.0)

    def band(self, count: int) -> float:
        """Half a step below the least whole number that is rare enough."""
        rare = (1.0 - CONFIDENCE) / count
        # P(|k| >= m) = 2 q^m / (1 + q) for q = exp(-rate).
        steps = math.log(2.0 / (rare * (1.0 + math.exp(-float(self.rate))))) / float(self.rate)
        return (max(1, math.ceil(steps)) - 0.5) / self.deviation

    def beyond(self, size: float) -> tuple[float, float]:
        """Exact."""
        least = math.floor(size * self.deviation) + 1
        probability = 2.0 * math.exp(-float(self.rate) * least) / (1.0 + math.exp(-float(self.rate)))
        return probability, probability


@dataclass(frozen=True)
class LaplaceSums:
    """Sums of independent Laplace noises, or noise that is Gaussian of a random variance that is at most as spread."""

    rate: Fraction = Fraction(0)
    words: str = "sums of Laplace noise"

    def band(self, count: int) -> float:
        """Chernoff's bound at the best exponent."""
        rare = (1.0 - CONFIDENCE) / count

        def excess(u: float) -> float:
            x = (math.sqrt(1.0 + u * u) - 1.0) / u  # the least of the bound
            return math.log(2.0 / rare) - x * u - math.log1p(-x * x)

        rate = float(self.rate)
        whole = math.sinh(rate / 2.0) / (rate / 2.0) if rate else 1.0
        # u = sqrt(2) standard deviations; the bound falls with u, and is below any share at this end.
        from scipy.optimize import brentq  # a quarter of the time that a plan takes to start, for this law alone

        return float(brentq(excess, 1e-3, 10.0 + 2.0 * math.log(2.0 / rare))) / math.sqrt(2.0) * whole

    def beyond(self, size: float) -> tuple[float, float]:
        """Between that of a Gaussian and that of one Laplace noise; for sizes of about two."""
        low, high = GaussianNoise().beyond(size)[0], math.exp(-math.sqrt(2.0) * size)
        return min(low, high), max(low, high)


@dataclass(frozen=True)
class RandomDirection:
    """Entries of a unit vector of any direction, in a given number of dimensions, at least two."""

    dimension: int
    words: str = "directions drawn at random"

    def band(self, count: int) -> float:
        """Exact for one entry."""
        rare = (1.0 - CONFIDENCE) / count
        # The square of an entry has a beta distribution.
        return math.sqrt(self.dimension * float(betaincinv(0.5, (self.dimension - 1) / 2.0, 1.0 - rare)))

    def beyond(self, size: float) -> tuple[float, float]:
        """Exact."""
        square = min(1.0, size * size / self.dimension)
        probability = 1.0 - float(betainc(0.5, (self.dimension - 1) / 2.0, square))
        return probability, probability


def length_band(count: int, *, laplace: bool) -> float:
    """How many times its root mean square none of a number of noises is long, with probability 0.95.

    Parameters
    ----------
    count
        How many there are, each of any number of entries of any sizes.
    laplace
        Whether entries may be independent Laplace variables; else they are Gaussian.
    """
    if not laplace:
        return GaussianNoise().band(count)
    u = math.log(count / (1.0 - CONFIDENCE))
    return math.sqrt(u * u / 2.0 + u + 1.0)
