"""How far one entry of K-norm noise goes: its law, in units of its standard deviation.

K-norm noise has a density ``~ exp(-|z|_K)``, which is log-concave, so that sums of it have the bound of sums of Laplace
noise (:mod:`.bands`). One entry is known exactly, in units of the scale, of d entries:

* by the largest entry, it is uniform between -r and r for r of a gamma law of d + 1: beyond a with probability ``Q(d +
  1, a) - a Q(d, a) / d``, Q being the upper incomplete gamma function over the whole one;
* by the length, its characteristic function is ``(1 + t^2)^(-(d + 1) / 2)``: a difference of two variables of a gamma
  law of (d + 1) / 2, as an entry of a vector of length r along a direction of no preference, r of a gamma law of d.

**Source**: Cai, Fan and Jiang, 2013 (entries of random directions).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import betaincc, gammaincc

from blockveil.engine.estimates.bands import CONFIDENCE, Tails

_LABEL = re.compile(r"K-norm of rate \d+/\d+, (largest|length) of (\d+) entries, version 1")


@dataclass(frozen=True)
class CubeEntry:
    """One of a given number of entries of a row whose noise falls with the largest of them."""

    entries: int
    words: str = "K-norm noise"

    @property
    def deviation(self) -> float:
        """Standard deviation, in units of the scale."""
        return math.sqrt((self.entries + 1) * (self.entries + 2) / 3.0)

    def band(self, count: int) -> float:
        """A union bound; exact for one entry."""
        return _where(lambda size: self.beyond(size)[0], (1.0 - CONFIDENCE) / count)

    def beyond(self, size: float) -> tuple[float, float]:
        """Exact."""
        d, a = self.entries, size * self.deviation
        probability = max(0.0, float(gammaincc(d + 1, a)) - a / d * float(gammaincc(d, a)))
        return probability, probability


@dataclass(frozen=True)
class BallEntry:
    """One of a given number of entries, at least two, of an answer whose noise falls with its length."""

    entries: int
    words: str = "K-norm noise"

    def band(self, count: int) -> float:
        """A union bound; exact for one entry."""
        return _where(lambda size: self.beyond(size)[0], (1.0 - CONFIDENCE) / count)

    def beyond(self, size: float) -> tuple[float, float]:
        """Exact, by an integral over the length."""
        from scipy.integrate import quad  # for this law alone

        d, a = self.entries, size * math.sqrt(self.entries + 1.0)

        def beyond_at(r: float) -> float:
            outside = float(betaincc(0.5, (d - 1) / 2.0, min(1.0, (a / r) ** 2)))
            return outside * math.exp((d - 1) * math.log(r) - r - math.lgamma(d))

        probability = float(quad(beyond_at, a, a + 60.0 + 4.0 * d, epsabs=0.0, epsrel=1e-9, limit=200)[0]) if a else 1.0
        return probability, probability


def _where(share: Callable[[float], float], rare: float) -> float:
    """Size at which a falling share is rare."""
    from scipy.optimize import brentq

    return float(brentq(lambda size: share(size) - rare, 1e-9, 10.0 + 2.0 * math.log(2.0 / rare)))


def entry_of(label: str) -> Tails:
    """Law of an entry by the public name of the noise; a ValueError for another name."""
    name = _LABEL.fullmatch(label)
    if name is None:
        raise ValueError(label)
    return (CubeEntry if name[1] == "largest" else BallEntry)(int(name[2]))
