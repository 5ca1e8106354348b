"""Least total variance of a covariance's products for any Gaussian noise that knows count and sums no worse than given.

What is asked of a covariance is the noise of its products, but the noise of the count and of the sums is paid for by
the same loss, and without a limit on it no bound says much. So let the count have at most the variance v_0, and sums at
most v_i. For prices ``a, b >= 0`` of these, W the weights of all entries with ``a`` for the count and ``b u_i^2`` for
sums, u the units of features, and any distribution over changes with ``C = E d d'`` (:mod:`.gaussian_bound`),

``sum over products of W K >= (tr (W^1/2 C W^1/2)^1/2)^2 / mu^2 - a v_0 - b sum u_i^2 v_i``.

In a cube signs are equally likely, so that sums, entries off the diagonal, and the count with the diagonal are blocks
of C. With A the root of the trace but for the sums', ``b^1/2 s`` for that of the sums, and S the sum of ``u_i^2 v_i``,
the best b is ``(A s / (S - s^2))^2``, which leaves ``A^2 S / (S - s^2)``. Distributions and a are searched; each proves
a bound. Where a record is replaced the count is public. Two records of signs at all ends differ in j of d features; or
in a few, while each other feature is at an end in one of them alone.

**Source**: as for :mod:`.gaussian_bound`; derived here.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Matrix, Vector

_DOWN = 1.0 - 1e-9
_SHARES = tuple(float(share) for share in np.linspace(0.0, 1.0, 9))
_PRICES = (0.0, *(2.0**power for power in range(-14, 1, 2)))
_STEPS = (1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125)
_EXACT = 48


def least_products(neighbours: Neighbours, units: Vector, count: float, sums: Vector) -> float | None:
    """Total variance of products at a loss of one; over mu squared at a loss of mu.

    Parameters
    ----------
    neighbours
        Neighbouring relation of a covariance of records that reach both ends of a cube.
    units
        Raw units of each feature times the root of its importance, shape (d,).
    count, sums
        Largest variances of the count and of the sums, times mu squared; sums in coordinates, shape (d,).

    Returns
    -------
    None where no bound is known: for one feature. None is known in balls, in boxes of one sign or uneven about their
    origin either.
    """
    d = units.size
    if d < 2:
        return None
    pairs = (float(np.sum(units)) ** 2 - float(np.sum(units**2))) / 2.0
    # Orthonormal coordinates: entries beside the diagonal times sqrt(2).
    of_sums = 2.0 * float(np.sum(units**2 * sums))
    if neighbours is Neighbours.REPLACE_ONE:
        bound = _replaced(units, of_sums)
    else:
        numbers = sorted({max(1, round(d * share)) for share in (0.25, 0.5, 0.7, 0.85, 1.0)})
        bound = max(_added(units, pairs, count, of_sums, k) for k in numbers)
    return bound * _DOWN if bound > 0.0 else None


def _replaced(units: Vector, of_sums: float) -> float:
    """Of pairs of signs at all ends that differ in j features, or in some share of the cases of another kind."""
    d = units.size
    signs = {j: _moments(d, j, 0, 0) for j in sorted({round(d * share / 64.0) for share in range(32, 65)})}

    def proven(j: int, other: Vector, share: float) -> float:
        return _of_pairs(units, of_sums, (1.0 - share) * signs[j] + share * other)

    best, j = max((proven(j, _moments(d, min(j + 1, d), 0, 0), share), j) for j in signs for share in _SHARES)
    # Or some features differ, and all others are ends of one of the two records alone.
    kinds = {(few, first, d - few - first) for few in (0, 1, 2, 3) for first in (d - few, (d - few) // 2) if few < d}
    near = [number for number in signs if abs(number - j) <= 1]
    others = [(number, _moments(d, *kind)) for number in near for kind in sorted(kinds)]
    return max(best, *(proven(*each, share / 16.0) for each in others for share in range(1, 16)))


def _moments(d: int, other: int, first: int, second: int) -> Vector:
    """Mean squares of a sum, a product, a square, and the mean product of two squares; in any order, with any signs.

    Parameters
    ----------
    d
        Number of features.
    other, first, second
        At how many both records are at ends, not the same; and the first or the second alone. At others both are at
        the same end, or at none where some are of one record alone.
    """
    single, apart = first + second, first - second
    same = 0 if single else d - other
    # Of D = yy' - zz': |y|^4 + |z|^4 - 2 (y'z)^2, of which the squares are the part of the diagonal.
    whole = (same + other + first) ** 2.0 + (same + other + second) ** 2.0 - 2.0 * (same - other) ** 2.0
    orders = d * (d - 1.0)
    return np.array([(4.0 * other + single) / d, (whole - single) / orders, single / d, (apart**2 - single) / orders])


def _of_pairs(units: Vector, of_sums: float, moments: Vector) -> float:
    """For mean squares as :func:`_moments` has them."""
    of_sum, beside, square, together = (float(part) for part in moments)
    pairs = (float(np.sum(units)) ** 2 - float(np.sum(units**2))) / 2.0
    alone = _trace_of_root(units**2, square, together, 0.0) if square > 0.0 else 0.0
    return _with_sums(sqrt(2.0 * beside) * pairs + alone, sqrt(2.0 * of_sum) * float(np.sum(units)), of_sums)


def _added(units: Vector, pairs: float, count: float, of_sums: float, k: int) -> float:
    """Of sign vectors of all features in some share of the cases, else of k of them: the best of shares and prices."""
    largest = (sqrt(2.0) * pairs) ** 2 / count

    def proven(share: float, price: float) -> float:
        return _priced(units, pairs, count, of_sums, k, share, price * largest)

    best, share, price = max((proven(share, price), share, price) for share in _SHARES for price in _PRICES)
    for step in _STEPS:
        nearby = [(min(max(share + move, 0.0), 1.0), price) for move in (-step / 8.0, step / 8.0)]
        nearby += [(share, price * 2.0**move) for move in (-step, step)]
        best, share, price = max([(best, share, price), *((proven(*each), *each) for each in nearby)])
    return best


def _priced(units: Vector, pairs: float, count: float, of_sums: float, k: int, share: float, price: float) -> float:
    """For one share of the cases, and one price of the count."""
    d = units.size
    one = share + (1.0 - share) * k / d
    two = share + (1.0 - share) * k * (k - 1.0) / (d * (d - 1.0))
    beside, sums = sqrt(2.0 * two) * pairs, sqrt(2.0 * one) * float(np.sum(units))
    alone = _trace_of_root(units**2, one, two, price)
    return _with_sums(beside + alone, sums, of_sums) - price * count


def _with_sums(root: float, sums: float, of_sums: float) -> float:
    """The best price of the sums; a price of one of them is not needed where their noise could not be less."""
    remainder = of_sums - sums**2
    return root**2 * of_sums / remainder if remainder > 1e-6 * of_sums else root**2


def _trace_of_root(squares: Vector, one: float, two: float, price: float) -> float:
    """Of the block of the count and the diagonal."""
    if np.ptp(squares) == 0.0:  # one block of two, and alone all other numbers of the diagonal
        d, q = squares.size, float(squares[0])
        together = q**2 * (one - two + d * two)
        rest = sqrt(max(price * (together - (one * q) ** 2 * d), 0.0))
        return sqrt(price + max(together, 0.0) + 2.0 * rest) + (d - 1.0) * q * sqrt(max(one - two, 0.0))
    if squares.size > _EXACT:  # the trace of a root is at least the root of the trace
        return sqrt(price + one * float(np.sum(squares**2)))
    block: Matrix = np.empty((squares.size + 1, squares.size + 1))
    block[0, 0] = price
    block[0, 1:] = block[1:, 0] = sqrt(price) * one * squares
    block[1:, 1:] = (one - two) * np.diag(squares**2) + two * np.outer(squares, squares)
    return float(np.sum(np.sqrt(np.maximum(np.linalg.eigvalsh(block), 0.0))))
