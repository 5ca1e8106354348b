"""Numbers between two whole multiples of 2**-1200: every operation rounds its ends outwards, so the truth lies between.

There is no float, no library of special functions and no code of the product in here: sums, products, quotients and
roots of Python's integers, and the series of the exponential, of pi and of the normal law with their remainders.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import isqrt

PLACES = 1200
_ONE = 1 << PLACES


@dataclass(frozen=True)
class Enclosure:
    """All numbers from ``low`` to ``high``, in units of 2**-PLACES."""

    low: int
    high: int

    @classmethod
    def of(cls, value: Fraction | int) -> Enclosure:
        """Enclosure of a fraction."""
        exact = Fraction(value)
        return cls(exact.numerator * _ONE // exact.denominator, -(-exact.numerator * _ONE // exact.denominator))

    def __add__(self, other: Enclosure) -> Enclosure:
        return Enclosure(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Enclosure) -> Enclosure:
        return Enclosure(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Enclosure) -> Enclosure:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Enclosure(min(ends) >> PLACES, -(-max(ends) >> PLACES))

    def __truediv__(self, other: Enclosure) -> Enclosure:
        if other.low <= 0:
            raise ZeroDivisionError("divisors are positive here")
        ends = [(a * _ONE, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Enclosure(min(a // b for a, b in ends), max(-(-a // b) for a, b in ends))

    def root(self) -> Enclosure:
        """Square root."""
        return Enclosure(isqrt(self.low * _ONE), isqrt(self.high * _ONE) + 1)

    @property
    def least(self) -> Fraction:
        """Its lower end."""
        return Fraction(self.low, _ONE)

    @property
    def most(self) -> Fraction:
        """Its upper end."""
        return Fraction(self.high, _ONE)


def _alternating(terms: list[Fraction]) -> Enclosure:
    """Sum of an alternating series whose terms fall from the last but one on: between two partial sums."""
    total = sum(terms[:-1], Fraction(0))
    ends = sorted((total, total + terms[-1]))
    return Enclosure(Enclosure.of(ends[0]).low, Enclosure.of(ends[1]).high)


def _arctangent(inverse: int) -> Enclosure:
    count = PLACES // (inverse.bit_length() - 1) // 2 + 4
    return _alternating([Fraction((-1) ** n, (2 * n + 1) * inverse ** (2 * n + 1)) for n in range(count)])


@cache
def pi() -> Enclosure:
    """Machin's formula, 1706: 16 arctan(1/5) - 4 arctan(1/239)."""
    return Enclosure.of(16) * _arctangent(5) - Enclosure.of(4) * _arctangent(239)


@cache
def exponential(x: Fraction) -> Enclosure:
    """``e^x``: the series at ``x / 2^k`` below 2^-8, whose rest is below its last term, squared k times."""
    halvings = max(0, (abs(x).numerator // x.denominator).bit_length()) + 9
    small, term, total = Enclosure.of(x / 2**halvings), Enclosure.of(1), Enclosure.of(1)
    for n in range(1, PLACES // 8 + 8):
        term = term * small / Enclosure.of(n)
        total = total + term
    rest = abs(term.low) + abs(term.high) + 1
    total = Enclosure(total.low - rest, total.high + rest)
    for _ in range(halvings):
        total = total * total
    return total


def normal(x: Enclosure) -> Enclosure:
    """``Phi(x)`` for ``|x| <= 25``, by the series of all positive terms: 1/2 + phi(x) (x + x^3/3 + x^5/15 + ...).

    **Source**: Marsaglia, 2004. Two terms have the ratio ``x^2 / (2n + 1)``. The series is left where that is below a
    half, so that the rest is below the last term.
    """
    low, high = _normal(x.least), _normal(x.most)
    return Enclosure(low.low, high.high)


def _normal(x: Fraction) -> Enclosure:
    if abs(x) > 25:
        raise ValueError("the series is for arguments up to 25")
    if x < 0:
        return Enclosure.of(1) - _normal(-x)
    at = Enclosure.of(x)
    square, term, total, n = at * at, at, at, 0
    while term.high > 1 or 2 * x * x > 2 * n + 1:
        n += 1
        term = term * square / Enclosure.of(2 * n + 1)
        total = total + term
    total = Enclosure(total.low, total.high + term.high + 1)
    # The exponential of -x^2 / 2 at the enclosed square: it falls, so its ends change places.
    upper, lower = exponential(-square.least / 2), exponential(-square.most / 2)
    density = Enclosure(lower.low, upper.high) / (Enclosure.of(2) * pi()).root()
    return Enclosure.of(Fraction(1, 2)) + density * total


def gaussian_profile(mu: Enclosure, epsilon: Fraction) -> Enclosure:
    """Least delta of a Gaussian loss: ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``.

    **Source**: Balle and Wang, 2018, Theorem 8.
    """
    half, ratio = mu / Enclosure.of(2), Enclosure.of(epsilon) / mu
    return normal(half - ratio) - exponential(epsilon) * normal(Enclosure.of(0) - half - ratio)
