"""Marginal tables by explicit matrices over all cells of a small grid, without the product code; the law of noise."""

import itertools

import numpy as np
from scipy import stats


def table_matrix(sizes, tables):
    """Matrix from the cells of the grid to the cells of all tables, table by table."""
    grid = list(itertools.product(*map(range, sizes)))
    rows = []
    for table in tables:
        cells = itertools.product(*(range(sizes[axis]) for axis in table))
        rows += [[float(tuple(record[axis] for axis in table) == cell) for record in grid] for cell in cells]
    return np.array(rows)


def multiplied(blocks):
    """Each block by the largest power of two with which it has no larger entry than the largest of all blocks."""
    largest = [np.max(np.abs(block)) for block in blocks]
    return [block * 2.0 ** np.floor(np.log2(max(largest) / own)) for block, own in zip(blocks, largest, strict=True)]


def residual_matrix(sizes, axes):
    """``product of (n I - 11')`` over some axes times the table over them, as a matrix over the cells of the grid."""
    factor = np.ones((1, 1))
    for axis in range(len(sizes)):
        n = sizes[axis]
        factor = np.kron(factor, n * np.eye(n) - 1.0 if axis in axes else np.ones((1, n)))
    return factor


def singular_value_bound(sizes, tables):
    """Least total variance of the tables that any Gaussian noise of mu one has under add-remove, from below."""
    matrix = table_matrix(sizes, tables)
    return np.sum(np.linalg.svd(matrix, compute_uv=False)) ** 2 / matrix.shape[1]


def range_matrix(sizes, tables, ordered):
    """Matrix from the cells of the grid to all that is asked of tables, ranges along ordered axes, with their weights.

    A range of an axis of n cells has the weight 2 / (n + 1) in squares, a cell of another axis one.
    """
    parts = []
    for table in tables:
        factor = np.ones((1, 1))
        for axis, n in enumerate(sizes):
            own = np.ones((1, n))
            if axis in table:
                ends = [(i, j) for i in range(n) for j in range(i, n) if axis in ordered or i == j]
                own = np.array([[float(i <= k <= j) for k in range(n)] for i, j in ends])
                own *= np.sqrt(2.0 / (n + 1.0)) if axis in ordered else 1.0
            factor = np.kron(factor, own)
        parts.append(factor)
    return np.vstack(parts)


def range_bound(sizes, tables, ordered):
    """Least total squared error of these that any Gaussian noise of mu one has under add-remove, from below."""
    values = np.linalg.eigvalsh((matrix := range_matrix(sizes, tables, ordered)).T @ matrix)
    return np.sum(np.sqrt(np.maximum(values, 0.0))) ** 2 / matrix.shape[1]


def require_law(total, dimensions):
    """Squares of noise over stated variances agree with them at alpha 1e-9, and not with scales 5 % off either way."""

    def pvalue(scale):
        tail = stats.chi2.cdf(total / scale**2, dimensions)
        return 2 * min(tail, 1 - tail)

    assert pvalue(1.0) > 1e-9
    assert pvalue(1.05) < 1e-9
    assert pvalue(1.0 / 1.05) < 1e-9
