"""A total variance below which no Gaussian noise gets, whatever its covariance, for each kind of query.

Gaussian noise of covariance K is as private as one Gaussian at mu only if ``d' K^-1 d <= mu^2`` for every change d that
one unit can make. By duality (:mod:`.duality`) any probability distribution over such changes, with
``C = E d d'``, proves

``tr(W K) >= (tr (W^1/2 C W^1/2)^1/2)^2 / mu^2``.

For: with ``d' K^-1 d <= mu^2`` for all d, ``tr(K^-1 C) <= mu^2``; and by Cauchy and Schwarz
``(tr (W^1/2 C W^1/2)^1/2)^2 <= tr(W K) tr(K^-1 C)``. Here distributions are chosen for which C has a few blocks:

========== =================================================================
query      changes that are equally likely
========== =================================================================
histograms :mod:`.histogram_sizes`; else bins of all columns, independently
marginals  :mod:`.residual_strategy`
all others :mod:`.root_bounds`
========== =================================================================

The bound is about Gaussian noise alone: K-norm and Laplace noise may be below it.

**Source**: Edmonds, Nikolov and Ullman, 2020 (duality); Li and Miklau, 2013 (counts); the distributions are derived
here.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.abilities import (
    OneBinOfEachColumn,
    OneCellOfEachTable,
    one_bin_of_each_column,
    one_cell_of_each_table,
    root_bound,
)
from blockveil.engine.mechanisms.counts import histogram_sizes
from blockveil.engine.mechanisms.counts.histogram_sizes import MOST_COLUMNS
from blockveil.engine.mechanisms.counts.residual_strategy import ResidualStrategy
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.problems import Problem

_DOWN = 1.0 - 1e-9
"""Rounding of sums and of eigenvalues of at most 2048 features, on the safe side."""


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
    root = _root(problem, rows, columns)
    return None if root is None or not root > 0.0 else root**2 * _DOWN


def _root(problem: Problem, rows: Vector, columns: Vector) -> float | None:
    """``tr (W^1/2 C W^1/2)^1/2`` for the best of the distributions."""
    if one_bin_of_each_column(problem):
        return _histograms(problem, rows, columns)
    if one_cell_of_each_table(problem):
        return _tables(problem, rows, columns)
    return root_bound(problem, rows, columns)


def _histograms(problem: OneBinOfEachColumn, rows: Vector, columns: Vector) -> float | None:
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


def _tables(problem: OneCellOfEachTable, rows: Vector, columns: Vector) -> float | None:
    if problem.tables.ordered:
        return None  # what is asked for are ranges, of whose error no such bound is known
    try:
        strategy = ResidualStrategy(problem.tables, problem.rows_at_most)
    except CalibrationError:
        return None
    return sqrt(strategy.least_noise(problem.neighbours).bound) * float(rows[0] * columns[0])
