"""The law of the sampler's table, and its distance from the discrete Gaussian, from the published constants alone.

The constants are those of the documentation: S = 2048, levels 1, 1087 and 1,180,000, and 127 bits. Each weight
``exp(-k^2 / (2 S^2))`` is enclosed between two integers over 2**320; nothing of the product is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from tests.oracles.enclosures import exponential, pi

WIDTH, LEVELS, BITS = 2048, (1, 1087, 1_180_000), 127
_PLACES = 320
_LAST = 40_000


@cache
def weights(width: int = WIDTH) -> tuple[list[int], list[int]]:
    """Lower and upper ends of ``rho(0), rho(1), ...`` over 2**320, up to a magnitude far beyond the table."""
    one = 1 << _PLACES
    root = exponential(Fraction(-1, 2 * width * width))
    ends = []
    for up, first in ((0, root.least), (1, root.most)):
        factor = int(first * one) + up
        square = ((factor * factor) >> _PLACES) + up
        found, weight = [one], one
        for _ in range(_LAST):
            weight = ((weight * factor) >> _PLACES) + up
            factor = ((factor * square) >> _PLACES) + up
            found.append(weight)
        ends.append(found)
    return ends[0], ends[1]


@cache
def _total(width: int) -> tuple[int, int]:
    """Ends of the sum over all integers; beyond the last weight a geometric series whose ratio is below a half."""
    low, high = weights(width)
    tail = 2 * WIDTH * WIDTH * (high[-1] + 1)
    return low[0] + 2 * sum(low[1:]), high[0] + 2 * sum(high[1:]) + tail


def entries_that_are_wrong(entries: Sequence[int], width: int = WIDTH) -> list[int]:
    """Places of a table of cumulative probabilities that are not the true ones, rounded to the nearest of 127 bits."""
    (low, high), (least, most) = weights(width), _total(width)
    wrong, below, above = [], 0, 0
    for place, entry in enumerate(entries):
        below += low[place] * (1 if place == 0 else 2)
        above += high[place] * (1 if place == 0 else 2)
        # 2^127 F - 1/2 <= entry <= 2^127 F + 1/2, F being enclosed by below / most and above / least.
        if not ((above << BITS + 1) >= (2 * entry - 1) * least and (below << BITS + 1) <= (2 * entry + 1) * most):
            wrong.append(place)
    return wrong


@cache
def table_distance(entries: tuple[int, ...]) -> Fraction:
    """Upper bound of the total variation between the law of a table and the discrete Gaussian."""
    (low, high), (least, most) = weights(), _total(WIDTH)
    scale = 1 << BITS
    borders = [0, *entries, scale]
    total = Fraction(0)
    for place in range(len(borders) - 1):
        mass = Fraction(borders[place + 1] - borders[place], scale)
        double = 1 if place == 0 else 2
        total += max(abs(mass - Fraction(double * low[place], most)), abs(mass - Fraction(double * high[place], least)))
    beyond = 2 * sum(high[len(borders) - 1 :]) + 2 * WIDTH * WIDTH * (high[-1] + 1)
    return (total + Fraction(beyond, least)) / 2


def convolution_error(inner: int, step: int) -> Fraction:
    """Upper bound by which a Gaussian sum over shifted integers varies, relatively, where a level is added.

    Parameters
    ----------
    inner
        Variance of the levels before, over S squared.
    step
        Weight of the level.

    With ``w^2 = S^2 inner / (inner + step^2)`` Poisson's formula gives ``2 sum_m exp(-2 pi^2 w^2 m^2)``.
    """
    w_squared = Fraction(WIDTH * WIDTH * inner, inner + step * step)
    rational_pi = Fraction(333, 106)  # below pi, which is checked
    if not rational_pi < pi().least:
        raise ArithmeticError("333/106 is not below pi")
    first = exponential(-2 * rational_pi**2 * w_squared).most
    return 2 * first / (1 - first**3)


def draw_distance(entries: tuple[int, ...], levels: int) -> Fraction:
    """Upper bound of the distance of one draw from the discrete Gaussian of the same variance.

    Tables of independent levels add up; a law whose weights are within a factor ``1 +- e`` of another's is within
    ``2 e`` of it (e below 1/4).
    """
    total, inner = levels * table_distance(entries), 1
    for step in LEVELS[1:levels]:
        total += 2 * convolution_error(inner, step)
        inner += step * step
    return total


def variance(levels: int) -> int:
    """Variance of a draw, exact."""
    return WIDTH * WIDTH * sum(step * step for step in LEVELS[:levels])
