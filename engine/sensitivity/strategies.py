"""Sensitivity of linear workloads and strategies over counts.

One record changes the answers of a workload by one of its columns (add-remove) or by the difference of two of them
(replace-one, where every record lies in some cell), so a sensitivity is a largest norm of columns or of their
differences. That is the sensitivity of the workload itself, answered directly; a strategy has its own
(:mod:`.matrix_mechanism`).

**Source**: Li, Hay, Rastogi, Miklau and McGregor, 2010 (matrix mechanism), Proposition 3 for add-remove; replace-one is
derived here.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.spatial.distance import pdist

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Matrix
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.workloads.workload import Explicit, Factor

_ROUND_UP = 1.0 + 1e-12


def l2_sensitivity(factor: Factor, neighbours: Neighbours) -> Sensitivity:
    """L2 sensitivity along one axis over counts; exact, by the Gram matrix."""
    gram = factor.gram()
    diagonal = np.diagonal(gram)
    square = float(np.max(diagonal))
    if neighbours is Neighbours.REPLACE_ONE:
        # |a_j - a_k|^2 = G_jj + G_kk - 2 G_jk: one record leaves cell j and another enters cell k.
        square = float(np.max(diagonal[:, None] + diagonal[None, :] - 2.0 * gram))
    return _up(sqrt(max(square, 0.0)))


def l1_sensitivity(factor: Factor, neighbours: Neighbours) -> Sensitivity:
    """L1 sensitivity along one axis over counts; exact."""
    if factor.binary:
        # Coefficients of differences are 0 or +-1, whose absolute value is their square.
        return _up(float(np.rint(l2_sensitivity(factor, neighbours).attained ** 2)))
    matrix = factor.matrix.astype(np.float64) if isinstance(factor, Explicit) else factor.apply(np.eye(factor.cells))
    if neighbours is Neighbours.ADD_REMOVE:
        return _up(float(np.max(np.sum(np.abs(matrix), axis=0))))
    return _up(float(np.max(pdist(matrix.T, "cityblock"), initial=0.0)))


def product_l2_sensitivity(rows: Factor, columns: Factor, neighbours: Neighbours) -> Sensitivity:
    """L2 sensitivity of a Kronecker product over a table; exact under add-remove.

    Under replace-one the bound is exact where all columns of each factor have the same norm, as in every strategy of
    :mod:`.matrix_mechanism`, and safe elsewhere.
    """
    first, second = rows.gram(), columns.gram()
    most = float(np.max(np.diagonal(first)) * np.max(np.diagonal(second)))
    if neighbours is Neighbours.ADD_REMOVE:
        return _up(sqrt(most))
    ends = [float(np.min(first)), float(np.max(first))], [float(np.min(second)), float(np.max(second))]
    # |a (x) b - c (x) d|^2 = |a|^2|b|^2 + |c|^2|d|^2 - 2 (a.c)(b.d); a product of intervals is least at its corners.
    square = 2.0 * most - 2.0 * min(g * h for g in ends[0] for h in ends[1])
    return Sensitivity(sqrt(max(square, 0.0)) * _ROUND_UP, farthest_columns(first, second))


def farthest_columns(first: Matrix, second: Matrix) -> float:
    """Largest distance among pairs of a product's columns that are built from the extreme pairs of either factor.

    Some pair is that far apart; others may be farther.

    Parameters
    ----------
    first, second
        Gram matrices of the factors.
    """
    pairs = [(_pairs(first), first), (_pairs(second), second)]
    (left, g), (right, h) = pairs
    squares = (g[j, j] * h[a, a] + g[k, k] * h[b, b] - 2.0 * g[j, k] * h[a, b] for j, k in left for a, b in right)
    return sqrt(max(0.0, *(float(square) for square in squares)))


def _pairs(gram: Matrix) -> list[tuple[int, int]]:
    diagonal = np.diagonal(gram)
    distance = diagonal[:, None] + diagonal[None, :] - 2.0 * gram
    top = int(np.argmax(diagonal))
    places = [int(np.argmin(gram)), int(np.argmax(gram)), int(np.argmax(distance)), int(np.argmin(gram - distance))]
    found = [(int(p) // gram.shape[0], int(p) % gram.shape[0]) for p in places]
    return [*found, (top, top), (top, int(np.argmin(gram[top])))] + [(k, j) for j, k in found]


def _up(value: float) -> Sensitivity:
    return Sensitivity(value if value == np.rint(value) else value * _ROUND_UP, value)
