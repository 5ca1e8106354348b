"""Distributions over changes of records of one sign, and of records in a box within a ball; see :mod:`.gaussian_bound`.

**One sign.** Two records in {0, 1}^d, A features of which are ones in both, B in the first alone and C in the second
alone, at random places; the second is none where a record is added, so that A and C are 0. All features count equally.
In orthonormal coordinates squares change by D_i in {-1, 0, 1}, and products by 2^1/2 O_ij, where O_ij is 1 for two
features of B or one of A and one of B, -1 for two of C or one of A and one of C, else 0. Orders of the features leave
the second moment of changes as it is, so that it has three kinds of blocks, of which those of one kind are alike. With
r_i the sum of O_ij over j, which is B - C, A + B - 1, 1 - A - C or 0 for features of A, B, C or neither:

* what all have in common: ``sum D_i / d^1/2`` and ``(2 / M)^1/2 sum O_ij`` of the M = d (d - 1) / 2 products; one block
  of two;
* for z with ``sum z_i = 0`` and ``|z| = 1``: ``sum z_i D_i`` of the squares, and, as ``sum over i < j of (z_i +
  z_j)^2 = d - 2``, ``(2 / (d - 2))^1/2 sum z_i r_i`` of the products; d - 1 blocks of two, each with 1 / (d - 1) of the
  products of the centred D and r;
* the other d (d - 3) / 2 products, of one variance, which follows from that of all products, twice the mean number of
  O_ij that are not 0.

The law of A, B and C is sought by ``share <- share * mean of change' C^-1/2 change``; any law proves a bound.

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

from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Body, CappedBox, Matrix, Vector
from blockveil.engine.sensitivity.box_with_ball import water_level

_MOST = 256
_ROUNDS, _FEW, _ALONE, _LEAST = 200, 10, 32, 1e-9
_SHARES = (0.0, 0.2, 0.25, 0.28, 0.31, 1.0 / 3.0, 0.36, 0.4, 0.5, 0.65, 1.0)
_PARTS = tuple(float(part) for part in np.linspace(0.0, 1.0, 9))


@lru_cache(maxsize=64)
def one_signed(features: int, neighbours: Neighbours) -> float:
    """Trace of the root of C for second moments of records of one sign, all features alike: the best law that is found.

    Parameters
    ----------
    features
        Number d of features, two or more.
    neighbours
        Neighbouring relation.
    """
    common, apart, others = _changes_of_ones(features, _kinds_of_ones(features, neighbours))
    number = features * (features - 3.0) / 2.0
    shares, best = np.full(others.size, 1.0 / others.size), 0.0
    for _ in range(_ROUNDS):
        first, second = (np.sum(shares[:, None, None] * blocks, axis=0) for blocks in (common, apart))
        variance = float(shares @ others) / max(number, 1.0)
        (one, of_one), (two, of_two) = _root(first), _root(second)
        best = max(best, one + (features - 1.0) * two + max(number, 0.0) * sqrt(variance))
        gained = np.sum(common * of_one, axis=(1, 2)) + (features - 1.0) * np.sum(apart * of_two, axis=(1, 2))
        shares = shares * (gained + others / sqrt(max(variance, _LEAST)))
        shares /= np.sum(shares)
    return best


def _kinds_of_ones(d: int, neighbours: Neighbours) -> Matrix:
    """Numbers A, B and C, shape (kinds, 3): all of few features, of others some."""
    if neighbours is Neighbours.ADD_REMOVE:
        alone = np.unique(np.round(np.linspace(1.0, d, min(d, _ALONE))))
        return np.stack([0.0 * alone, alone, 0.0 * alone], axis=1)
    some = range(d + 1) if d <= _FEW else sorted({int(d * part + 1e-9) for part in _SHARES})
    kinds = [(a, b, c) for a in some for b in some for c in some if c <= b and b > 0 and a + b + c <= d]
    return np.array(kinds, dtype=np.float64)


def _changes_of_ones(d: int, kinds: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64], Vector]:
    """Second moment of each kind of change: of what is common, of one z, and the sum of that of other products."""
    a, b, c = kinds.T
    of_a, of_b, of_c = b - c, a + b - 1.0, 1.0 - a - c
    squares, products = b - c, (b * of_b + c * of_c + a * of_a) / 2.0
    along = np.stack([squares / sqrt(d), products * 2.0 / sqrt(d * (d - 1.0))])
    slope = 2.0 / (d - 2.0) if d > 2 else 0.0
    mean = 2.0 * products / d
    own, mixed = b + c - squares**2 / d, b * of_b - c * of_c - squares * mean
    variance = a * of_a**2 + b * of_b**2 + c * of_c**2 - d * mean**2
    apart = np.array([[own, sqrt(slope) * mixed], [sqrt(slope) * mixed, slope * variance]])
    every = b * (b - 1.0) + 2.0 * a * (b + c) + c * (c - 1.0)
    others = np.maximum(every - along[1] ** 2 - slope * variance, 0.0) if d > 3 else np.zeros(a.size)
    return np.einsum("ik,jk->kij", along, along), np.moveaxis(apart, 2, 0) / (d - 1.0), others


def _root(block: Matrix) -> tuple[float, Matrix]:
    """Trace of the root of a positive semi-definite matrix, and the inverse root."""
    values, axes = np.linalg.eigh(block)
    roots = np.sqrt(np.maximum(values, 0.0))
    return float(np.sum(roots)), (axes / np.maximum(roots, _LEAST)) @ axes.T


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
