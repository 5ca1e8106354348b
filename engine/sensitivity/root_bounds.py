"""Distributions over what one record changes, which bound all Gaussian noise from below; see :mod:`.gaussian_bound`.

For each body and relation changes d are chosen that are equally likely, so that ``C = E d d'`` has a few blocks:

================ ============================= ==================================================================
query            relation                      changes that are equally likely
================ ============================= ==================================================================
rows, totals     both                          all signs of the widest differences, or axes of a ball by importance
second moment    add-remove, cube              signs, of all features or of as many as is searched
second moment    replace-one, cube             two sign vectors that differ in half of all features; ends of one alone
second moment    both, ball                    sign vectors of one length, and axes
second moment    both, half cube               ones in some number of features, which count equally
rows, moments    both, box within a ball       all signs, of sizes that fill the ball; and ends of a few features
outer products   both, no half cube            all signs, or axes of a ball by importance
counts           both                          all cells, or all pairs of cells
================ ============================= ==================================================================

Each of these changes is one of those for which noise is calibrated: of records in whole numbers within the body. A sign
vector of a ball is rounded towards zero and counted as that. Entries of a symmetric answer are taken in orthonormal
coordinates, entries off the diagonal times sqrt(2). Half cubes and boxes within balls are in :mod:`.shaped_bounds`.
Where none is known there is none: covariances of these, features of one sign that count differently, totals within
balls, gradients of a model. That of other covariances depends on how well count and sums are known
(:mod:`.covariance_bound`).

**Source**: as for :mod:`.gaussian_bound`; the distributions are derived here.
"""

from __future__ import annotations

from math import floor, sqrt

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import AnyBody, Body, CappedBox, Matrix, Vector
from blockveil.engine.sensitivity.shaped_bounds import moments_within_ball, one_signed

_MOST, _EXACT, _FEW = 2048, 64, 32
_SHARES = tuple(float(share) for share in np.linspace(0.0, 1.0, 17))


def differences(body: object, ends: tuple[Vector, Vector] | None, units: Vector, even: bool) -> float | None:
    """Of two records of a body: all signs of the widths of a box, or twice an axis of a ball."""
    if body is Body.BALL:
        return 2.0 * sqrt(float(np.sum(units**2)))
    if body not in (Body.CUBE, Body.HALF_CUBE):
        return None
    if ends is not None:
        return float(np.sum((ends[1] - ends[0]) * units))
    if body is Body.HALF_CUBE:
        return float(np.sum(units))
    return 2.0 * float(np.sum(units)) if even else None


def extent(body: object, units: Vector) -> float | None:
    """All signs of a cube, or the axes of a ball by importance."""
    if body is Body.CUBE:
        return float(np.sum(units))
    return sqrt(float(np.sum(units**2))) if body is Body.BALL else None


def moment_root(body: AnyBody, rows: Vector, largest: int, neighbours: Neighbours, *, even: bool) -> float | None:
    """``tr (W^1/2 C W^1/2)^1/2`` of second moments for the best of the distributions; None where none is known.

    Parameters
    ----------
    body
        Set of admissible coordinates.
    rows
        Raw units times roots of importances, shape (d,).
    largest
        The integer that stands for coordinate one.
    neighbours
        Neighbouring relation.
    even
        Whether records reach both ends of a cube.
    """
    if isinstance(body, CappedBox):
        applicable = even and rows.size >= 2
        return moments_within_ball(body, rows, largest, neighbours) if applicable else None
    if body is Body.HALF_CUBE:
        alike = 2 <= rows.size <= _MOST and float(np.ptp(rows)) == 0.0
        return float(rows[0]) ** 2 * one_signed(rows.size, neighbours) if alike else None
    d, cube = rows.size, body is Body.CUBE
    if not 2 <= d <= _MOST or (cube and not even):
        return None
    pairs = (float(np.sum(rows)) ** 2 - float(np.sum(rows**2))) / 2.0
    size = 1.0 if cube else (floor(largest / sqrt(d)) / largest) ** 2
    if neighbours is Neighbours.REPLACE_ONE:
        # Off the diagonal 2 times sqrt(2) where just one of two features has another sign, on it nothing.
        differing = 2.0 * (d // 2) * (d - d // 2) / (d * (d - 1.0))
        off = size * sqrt(8.0 * differing) * pairs
        if cube and d <= _FEW:
            return max(_replaced(rows, pairs, differing, j, k, share) for j, k, share in _singles(d))
        # In a ball one axis is replaced by another in some share of the pairs.
        shares = _SHARES[:-1] if not cube and d <= _EXACT else (0.0,)
        return max(
            sqrt(1.0 - share) * off + _trace_of_root(rows**2, 2.0 * share / (d - 1.0), -2.0 * share / (d * (d - 1.0)))
            for share in shares
        )
    return max(_added(rows, pairs, one, two, axes, size) for one, two, axes in _mixtures(d, cube))


def _singles(d: int) -> list[tuple[int, int, float]]:
    """How many features are ends of the one record alone and of the other alone, in a share of the pairs."""
    numbers = sorted({round(d * part / 5.0) for part in range(6)})
    return [(j, k, share) for j in numbers for k in numbers if k <= j and 0 < j + k <= d for share in _SHARES[:-4]]


def _replaced(units: Vector, pairs: float, differing: float, j: int, k: int, share: float) -> float:
    """Of sign vectors that differ in half of the features, and of such pairs; all orders are equally likely."""
    d = units.size
    both, own = (j * (j - 1.0) + k * (k - 1.0)) / (d * (d - 1.0)), (j + k) / d
    together = ((j - k) ** 2 - (j + k)) / (d * (d - 1.0))
    beside = 2.0 * ((1.0 - share) * 4.0 * differing + share * both)
    return sqrt(beside) * pairs + _trace_of_root(units**2, share * (own - together), share * together)


def _mixtures(d: int, cube: bool) -> list[tuple[float, float, float]]:
    """Means of u_i and of u_i u_j for squares u of sign vectors, of which some are zero; and the share of axes."""
    if not cube:
        return [(share, share, 1.0 - share) for share in _SHARES]
    numbers = sorted({max(1, round(d * share)) for share in _SHARES})
    # All features are ends with some probability, else as many as k of them.
    mixed = [(k, share) for k in numbers for share in _SHARES]
    return [
        (share + (1.0 - share) * k / d, share + (1.0 - share) * k * (k - 1.0) / (d * (d - 1.0)), 0.0)
        for k, share in mixed
    ]


def _added(units: Vector, pairs: float, one: float, two: float, axes: float, size: float) -> float:
    """The trace of the root for sign vectors of a squared size, and axes of length one with a probability."""
    alone, common = (one - two) * size**2 + axes / units.size, two * size**2
    return sqrt(2.0 * two) * size * pairs + _trace_of_root(units**2, alone, common)


def _trace_of_root(units: Vector, alone: float, common: float) -> float:
    """``tr (U (a I + b 11') U)^1/2`` for a diagonal U."""
    if units.size > _EXACT:  # the root is monotone, so that either part alone is a lower bound
        return max(sqrt(alone) * float(np.sum(units)), sqrt(max(common, 0.0)) * float(np.linalg.norm(units)))
    matrix: Matrix = alone * np.diag(units**2) + common * np.outer(units, units)
    return float(np.sum(np.sqrt(np.maximum(np.linalg.eigvalsh(matrix), 0.0))))
