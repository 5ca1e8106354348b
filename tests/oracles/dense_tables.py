"""Marginal tables by explicit matrices over all cells of a small grid, without the product code."""

import itertools

import numpy as np


def table_matrix(sizes, tables):
    """Matrix from the cells of the grid to the cells of all tables, table by table."""
    grid = list(itertools.product(*map(range, sizes)))
    rows = []
    for table in tables:
        cells = itertools.product(*(range(sizes[axis]) for axis in table))
        rows += [[float(tuple(record[axis] for axis in table) == cell) for record in grid] for cell in cells]
    return np.array(rows)


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
