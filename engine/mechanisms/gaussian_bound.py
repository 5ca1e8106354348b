"""A total variance below which no Gaussian noise gets, whatever its covariance, for each kind of query.

Gaussian noise of covariance K is as private as one Gaussian at mu only if ``d' K^-1 d <= mu^2`` for every change d that
one unit can make. By duality (:mod:`.duality`) any probability distribution over such changes, with
``C = E d d'``, proves

``tr(W K) >= (tr (W^1/2 C W^1/2)^1/2)^2 / mu^2``.

For: with ``d' K^-1 d <= mu^2`` for all d, ``tr(K^-1 C) <= mu^2``; and by Cauchy and Schwarz
``(tr (W^1/2 C W^1/2)^1/2)^2 <= tr(W K) tr(K^-1 C)``. Here distributions are chosen for which C has a few blocks:

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
histograms       both                          :mod:`.histogram_sizes`; else bins of all columns, independently
marginals        both                          :mod:`.residual_strategy`
================ ============================= ==================================================================

Each of these changes is one of those for which noise is calibrated: of records in whole numbers within the body. A sign
vector of a ball is rounded towards zero and counted as that. Entries of a symmetric answer are taken in orthonormal
coordinates, entries off the diagonal times sqrt(2). The bound is about Gaussian noise alone: K-norm and Laplace noise
may be below it. Half cubes and boxes within balls are in :mod:`.shaped_bounds`. Where none is known there is none:
covariances of these, features of one sign that count differently, totals within balls, gradients of a model. That of
other covariances depends on how well count and sums are known (:mod:`.covariance_bound`).

**Source**: Edmonds, Nikolov and Ullman, 2020 (duality); Li and Miklau, 2013 (counts); the distributions are derived
here.
"""

from __future__ import annotations

from functools import singledispatch
from math import floor, sqrt

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.counts import histogram_sizes
from blockveil.engine.mechanisms.counts.histogram_sizes import MOST_COLUMNS
from blockveil.engine.mechanisms.counts.residual_strategy import ResidualStrategy
from blockveil.engine.mechanisms.shaped_bounds import moments_within_ball, one_signed, within_ball
from blockveil.engine.records.geometry import Body, CappedBox, Matrix, Vector
from blockveil.engine.sensitivity.problems import (
    Counts,
    Histograms,
    Marginals,
    OuterProducts,
    Problem,
    Rows,
    SecondMoment,
    Totals,
)

_DOWN = 1.0 - 1e-9
"""Rounding of sums and of eigenvalues of at most :data:`_MOST` features, on the safe side."""

_MOST, _EXACT, _FEW = 2048, 64, 32
_SHARES = tuple(float(share) for share in np.linspace(0.0, 1.0, 17))


def least_total(problem: Problem, rows: Vector, columns: Vector) -> float | None:
    """Total variance that any Gaussian noise has at least, at a loss of one; over mu squared at a loss of mu.

    Parameters
    ----------
    problem
        The query over its declared shape.
    rows, columns
        Raw units times roots of importances, by row and by column of the answer.

    Returns
    -------
    None where no bound is known.
    """
    found = _root(problem, rows, columns)
    return None if found is None or not found > 0.0 else found**2 * _DOWN


@singledispatch
def _root(problem: Problem, rows: Vector, columns: Vector) -> float | None:
    """``tr (W^1/2 C W^1/2)^1/2`` for the best of the distributions."""
    return None


@_root.register
def _rows(problem: Rows, rows: Vector, columns: Vector) -> float | None:
    if isinstance(problem.body, CappedBox):
        sizes = within_ball(problem.body, columns, problem.largest) if problem.even else None
        side = None if sizes is None else 2.0 * float(np.sum(sizes))
    else:
        side = _differences(problem.body, problem.ends, columns, even=problem.even)
    # Any of the n rows may be the one that changes: C has 1 / n of a row's in each.
    return None if side is None else float(np.sum(rows)) / sqrt(rows.size) * side


@_root.register
def _totals(problem: Totals, rows: Vector, columns: Vector) -> float | None:
    units = float(rows[0]) * columns
    if not problem.counted:
        ends = None if problem.widths is None else (np.zeros(problem.scale.size), problem.widths)
        return _differences(problem.body, ends, units, even=False)
    if problem.body is Body.BALL:
        return float(units[0]) + sqrt(float(np.sum(units[1:] ** 2)))
    reached = problem.widths is not None and bool(np.all(problem.widths == 2.0))
    return float(np.sum(units)) if problem.body is Body.CUBE and reached else None


@_root.register
def _moment(problem: SecondMoment, rows: Vector, columns: Vector) -> float | None:
    # Of a covariance the total variance leaves out the count and the sums, which it needs: its bound would say little.
    if type(problem) is not SecondMoment or problem.augmented:
        return None
    if isinstance(problem.body, CappedBox):
        known = problem.even and rows.size >= 2
        return moments_within_ball(problem.body, rows, problem.largest, problem.neighbours) if known else None
    if problem.body is Body.HALF_CUBE:
        alike = 2 <= rows.size <= _MOST and float(np.ptp(rows)) == 0.0
        return float(rows[0]) ** 2 * one_signed(rows.size, problem.neighbours) if alike else None
    d, cube = rows.size, problem.body is Body.CUBE
    if not 2 <= d <= _MOST or (cube and not problem.even):
        return None
    pairs = (float(np.sum(rows)) ** 2 - float(np.sum(rows**2))) / 2.0
    size = 1.0 if cube else (floor(problem.largest / sqrt(d)) / problem.largest) ** 2
    if problem.neighbours is Neighbours.REPLACE_ONE:
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


@_root.register
def _outer(problem: OuterProducts, rows: Vector, columns: Vector) -> float | None:
    left, right = _extent(problem.left, rows), _extent(problem.right, columns)
    # Which gradients there are depends on the weights of a model.
    if type(problem) is not OuterProducts or left is None or right is None or not problem.even:
        return None
    # a b' becomes -a b', where records are replaced.
    return left * right * (1.0 if problem.neighbours is Neighbours.ADD_REMOVE else 2.0)


@_root.register
def _counts(problem: Counts, rows: Vector, columns: Vector) -> float | None:
    cells = rows.size * columns.size
    if problem.neighbours is Neighbours.ADD_REMOVE or cells == 1:
        return float(np.sum(rows)) * float(np.sum(columns)) / sqrt(cells)
    even = float(np.ptp(rows)) == 0.0 and float(np.ptp(columns)) == 0.0
    # The mean of (e_i - e_j)(e_i - e_j)' is 2 / (N - 1) on vectors of sum zero.
    return sqrt(2.0 * (cells - 1.0)) * float(rows[0] * columns[0]) if even else None


@_root.register
def _histograms(problem: Histograms, rows: Vector, columns: Vector) -> float | None:
    if float(np.ptp(columns)) != 0.0 or float(np.ptp(rows)) != 0.0:
        return None
    sizes = np.array(problem.sizes, dtype=np.float64)
    unit = float(rows[0] * columns[0])
    if 2 <= sizes.size <= MOST_COLUMNS:
        return unit * sqrt(histogram_sizes.least_noise(problem.sizes, problem.neighbours).bound)
    if problem.neighbours is Neighbours.REPLACE_ONE:
        # Two records in different bins of every column: 2 / (n - 1) on vectors of sum zero.
        return unit * float(np.sum(np.sqrt(2.0 * (sizes - 1.0))))
    # Beside vectors of sum zero, what all columns have in common: one bin of each changes.
    return unit * (float(np.sum((sizes - 1.0) / np.sqrt(sizes))) + sqrt(float(np.sum(1.0 / sizes))))


@_root.register
def _marginals(problem: Marginals, rows: Vector, columns: Vector) -> float | None:
    if problem.tables.ordered:
        return None  # what is asked for are ranges, of whose error no such bound is known
    try:
        strategy = ResidualStrategy(problem.tables, problem.rows_at_most)
    except CalibrationError:
        return None
    return sqrt(strategy.least_noise(problem.neighbours).bound) * float(rows[0] * columns[0])


def _differences(body: object, ends: tuple[Vector, Vector] | None, units: Vector, even: bool) -> float | None:
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


def _extent(body: object, units: Vector) -> float | None:
    """All signs of a cube, or the axes of a ball by importance."""
    if body is Body.CUBE:
        return float(np.sum(units))
    return sqrt(float(np.sum(units**2))) if body is Body.BALL else None


def _trace_of_root(units: Vector, alone: float, common: float) -> float:
    """``tr (U (a I + b 11') U)^1/2`` for a diagonal U."""
    if units.size > _EXACT:  # the root is monotone, so that either part alone is a lower bound
        return max(sqrt(alone) * float(np.sum(units)), sqrt(max(common, 0.0)) * float(np.linalg.norm(units)))
    matrix: Matrix = alone * np.diag(units**2) + common * np.outer(units, units)
    return float(np.sum(np.sqrt(np.maximum(np.linalg.eigvalsh(matrix), 0.0))))
