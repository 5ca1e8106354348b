"""Distributions over changes of records of one sign, and of records in a box within a ball; see :mod:`.gaussian_bound`.

**One sign.** Records in {0, 1}^d with k ones at random places, k by some law; all features count equally. In
orthonormal coordinates the squares are x_i, and products 2^1/2 x_i x_j. Orders of the features leave their second
moment C as it is, so that it has three kinds of blocks, of which those of one kind are alike:

* what all have in common: ``sum x_i / d^1/2 = k / d^1/2`` and ``(2 / M)^1/2 k (k - 1) / 2`` of the M = d (d - 1) / 2
  products; one block of two;
* for z with ``sum z_i = 0`` and ``|z| = 1``, and Z the sum of z_i over the ones: ``sum z_i x_i = Z`` of the squares,
  and, as ``sum over i < j of (z_i + z_j)^2 = d - 2``, ``2^1/2 (k - 1) Z / (d - 2)^1/2`` of the products, where ``E Z^2
  = k (d - k) / (d (d - 1))`` for a given k; d - 1 blocks of two;
* the other d (d - 3) / 2 products, of one variance, which follows from that of all products, k (k - 1) for a given k.

Where a record is replaced the change is that from a record of zeros with probability a, else the difference of two such
records that are independent: ``C = (2 - a) E xx' - 2 (1 - a) E x E x'``, and E x is in the first block alone.

**Within a ball.** Records with sizes m_i and all signs, ``m_i <= 1`` and ``sum (share_i m_i)^2 <= 1``, with the largest
``sum units_i m_i``: ``share_i m_i = min(share_i, t units_i / share_i)`` for the level t that fills the ball. Products
beside the diagonal are uncorrelated, squares are all the same. In some share of the cases it is a record with k
features at their ends, at random places, k so few that any of them are within the ball.

Where a record is replaced, two of the first kind differ in the signs of half of the features, or two of the second kind
have no feature in common: then ``E D_ii^2 = 2 k / d``, ``E D_ii D_jj = -2 k / (d (d - 1))``, and ``E D_ij^2 = 2 k (k -
1) / (d (d - 1))``.

**Source**: derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Body, CappedBox, Matrix, Vector
from blockveil.engine.sensitivity.box_with_ball import water_level

_MOST = 256
_PARTS = tuple(float(part) for part in np.linspace(0.0, 1.0, 9))


def one_signed(features: int, neighbours: Neighbours) -> float:
    """Trace of the root of C for second moments of records of one sign, all features alike: the best law of k."""
    numbers = sorted({round(features * part / 10.0) for part in range(1, 11)} - {0})
    zeros = (1.0,) if neighbours is Neighbours.ADD_REMOVE else _PARTS
    laws = [((k, j), (share, 1.0 - share)) for k in numbers for j in numbers if j <= k for share in _PARTS]
    return max(_of_ones(features, *law, part) for law in laws for part in zeros)


def _of_ones(features: int, numbers: Sequence[int], shares: Sequence[float], zeros: float) -> float:
    d, k, law = features, np.array(numbers, dtype=np.float64), np.array(shares)
    both: Matrix = np.stack([k / sqrt(d), k * (k - 1.0) / sqrt(d * (d - 1.0))])
    common = (both * law) @ both.T
    spread, slope = law * k * (d - k) / (d * (d - 1.0)), (k - 1.0) * sqrt(2.0 / (d - 2.0)) if d > 2 else 0.0 * k
    apart = np.array([[np.sum(spread), spread @ slope], [spread @ slope, spread @ slope**2]])
    left = float(law @ (k * (k - 1.0))) - float(common[1, 1]) - (d - 1.0) * float(apart[1, 1])
    mean, twice = both @ law, 2.0 - zeros
    common = twice * common - 2.0 * (1.0 - zeros) * np.outer(mean, mean)
    # Of d (d - 3) / 2 equal variances the roots' sum is the root of their number times their sum.
    others = sqrt(max(left, 0.0) * d * (d - 3.0) / 2.0) if d > 3 else 0.0
    return _root(common) + sqrt(twice) * ((d - 1.0) * _root(apart) + others)


def _root(block: Matrix) -> float:
    """Trace of the root of a positive semi-definite matrix of two rows."""
    determinant = float(block[0, 0] * block[1, 1] - block[0, 1] ** 2)
    return sqrt(max(float(np.trace(block)), 0.0) + 2.0 * sqrt(max(determinant, 0.0)))


def within_ball(body: CappedBox, units: Vector, largest: int) -> Vector | None:
    """Sizes of records in whole numbers over ``largest``, times units, shape (d,); None for records of one sign."""
    if body.box is not Body.CUBE:
        return None
    shares = body.shares
    if float(np.sum(shares**2)) <= 1.0:
        return units.copy()
    weights = (units / shares) ** 2
    sizes = np.minimum(1.0, np.sqrt(weights) * water_level(shares, weights, 1.0) / shares)
    # Rounded towards zero, and one more for the rounding of a level.
    return np.asarray(units * np.maximum(np.floor(sizes * largest) - 1.0, 0.0) / largest)


def moments_within_ball(body: CappedBox, units: Vector, largest: int, neighbours: Neighbours) -> float | None:
    """Trace of the root of C for second moments of records in a box within a ball; None for records of one sign.

    Parameters
    ----------
    body
        A cube within a ball.
    units
        Raw units of each feature times the root of its importance, shape (d,), at least two.
    largest
        The integer that stands for coordinate one.
    neighbours
        Neighbouring relation.
    """
    weighted, d = within_ball(body, units, largest), units.size
    if weighted is None or not 2 <= d <= _MOST:
        return None
    sizes, replaced = weighted / units, neighbours is Neighbours.REPLACE_ONE
    # Whole numbers are clipped into a ball that is smaller by half a step for each feature.
    room = 1.0 - 2.0 * sqrt(d) / largest
    most = int(np.sum(np.cumsum(np.sort(body.shares**2)[::-1]) <= room))
    most = min(most, d // 2) if replaced else most
    full = np.outer(sizes, sizes) ** 2 * (16.0 * (d // 2) * (d - d // 2) / (d * (d - 1.0)) if replaced else 2.0)
    diagonal = np.zeros((d, d)) if replaced else np.outer(sizes**2, sizes**2)
    best = 0.0
    for k in sorted({1, most} - {0}) or [0]:
        both, one = k * (k - 1.0) / (d * (d - 1.0)), k / d
        own, together = (2.0 * one, -2.0 * one / (d - 1.0)) if replaced else (one, both)
        few, of_few = (4.0 if replaced else 2.0) * both, (own - together) * np.eye(d) + together
        for part in _PARTS if k else (1.0,):
            beside = np.sqrt(part * full + (1.0 - part) * few) * np.outer(units, units)
            block = (part * diagonal + (1.0 - part) * of_few) * np.outer(units, units) ** 2
            roots = np.sqrt(np.maximum(np.linalg.eigvalsh(block), 0.0))
            best = max(best, (float(np.sum(beside)) - float(np.trace(beside))) / 2.0 + float(np.sum(roots)))
    return best
