"""What errors need of a workload along one axis, without its matrix or its Gram matrix: time linear in the cells.

The Gram matrices of total, prefix and range sums are semi-separable, ``V_jk = p(min(j, k)) q(max(j, k))``:

======== ======== ========
kind     p        q
======== ======== ========
total    1        1
prefix   1        n - k
ranges   j + 1    n - k
======== ======== ========

so that a product with V, restricted to blocks of neighbouring cells, is two running sums.

**Source**: derived here from the table of :mod:`.workload`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.workloads.workload import AllRange, Explicit, Factor, Identity, Kronecker, Prefix, Total, Workload

Starts = NDArray[np.int64]
"""First cell of each block, increasing from 0."""


def diagonal(factor: Factor) -> Vector:
    """Diagonal of ``W'W``, shape (cells,): squared error of all answers for unit noise in one cell."""
    pair = _separable(factor)
    if pair is not None:
        return pair[0] * pair[1]
    if isinstance(factor, Identity):
        return np.ones(factor.cells)
    return np.diagonal(factor.gram()).copy()


def block_gram(factor: Factor, values: Matrix, starts: Starts) -> Matrix:
    """``W'W`` without its entries between different blocks, times values along the first axis; shape of ``values``."""
    pair = _separable(factor)
    if pair is not None:
        p, q = pair[0][:, None], pair[1][:, None]
        up_to, from_on = _running(p * values, starts), _running_back(q * values, starts)
        products: Matrix = q * up_to + p * (from_on - q * values)
        return products
    if isinstance(factor, Identity):
        return values
    block = np.searchsorted(starts, np.arange(factor.cells), side="right")
    inside: Matrix = np.where(block[:, None] == block[None, :], factor.gram(), 0.0)
    return inside @ values


def block_energy(factor: Factor, starts: Starts) -> Vector:
    """``1' (W'W) 1`` for each block, shape (blocks,): squares of all answers where the cells of the block are one."""
    return np.add.reduceat(block_gram(factor, np.ones((factor.cells, 1)), starts)[:, 0], starts)


def quadratic(part: Kronecker, values: Matrix, rows: Starts, columns: Starts) -> Matrix:
    """``v' (W'W) v`` for the values of each block of a table, weight included, shape (row blocks, column blocks)."""
    left = block_gram(part.rows, values, rows)
    right = block_gram(part.columns, values.T, columns).T
    # tr(v' V1 v V2) = sum of (V1 v) * (v V2), since both Gram matrices are symmetric.
    return part.weight**2 * block_sums(left * right, rows, columns)


def block_sums(values: NDArray[np.float64], rows: Starts, columns: Starts) -> NDArray[np.float64]:
    """Sum of each block of a table."""
    sums: NDArray[np.float64] = np.add.reduceat(np.add.reduceat(values, rows, axis=0), columns, axis=1)
    return sums


def independent_error(workload: Workload, variances: Matrix) -> float:
    """Expected total squared error of answers computed from cells whose noise is independent.

    Parameters
    ----------
    workload
        Union of products over the table.
    variances
        Of the noise of each cell, shape of the table.
    """
    return float(sum(part.weight**2 * (diagonal(part.rows) @ variances @ diagonal(part.columns)) for part in workload))


def squared(part: Kronecker) -> Kronecker:
    """The product whose coefficients are the squares: it maps variances of independent cells to those of answers."""
    return Kronecker(_squared(part.rows), _squared(part.columns))


def intervals(factor: Factor) -> NDArray[np.int64] | None:
    """First and end cell of each query, half-open, shape (queries, 2); None where queries are no sums of neighbours."""
    index = np.arange(factor.cells)
    match factor:
        case Identity():
            return np.column_stack([index, index + 1])
        case Total():
            return np.array([[0, factor.cells]])
        case Prefix():
            return np.column_stack([np.zeros_like(index), index + 1])
        case AllRange():
            low, high = np.triu_indices(factor.cells)
            return np.column_stack([low, high + 1])
        case Explicit() if factor.binary:
            edges = np.diff(factor.matrix.astype(np.int64), axis=1, prepend=0, append=0)
            if np.all(np.sum(np.abs(edges), axis=1) == 2):
                return np.column_stack([np.argmax(edges == 1, axis=1), np.argmax(edges == -1, axis=1)])
    return None


def rows_of(factor: Factor) -> Matrix:
    """The matrix W itself, shape (queries, cells), float64: where queries times cells fit memory."""
    if isinstance(factor, Explicit):
        return factor.matrix.astype(np.float64)
    ends, index = intervals(factor), np.arange(factor.cells)
    if ends is None:
        return factor.apply(np.eye(factor.cells))
    inside: Matrix = ((ends[:, :1] <= index) & (index < ends[:, 1:])).astype(np.float64)
    return inside


def _squared(factor: Factor) -> Factor:
    return Explicit(factor.matrix**2) if isinstance(factor, Explicit) else factor


def _separable(factor: Factor) -> tuple[Vector, Vector] | None:
    index = np.arange(factor.cells, dtype=np.float64)
    match factor:
        case Total():
            return np.ones(factor.cells), np.ones(factor.cells)
        case Prefix():
            return np.ones(factor.cells), factor.cells - index
        case AllRange():
            return index + 1.0, factor.cells - index
    return None


def _running(values: Matrix, starts: Starts) -> Matrix:
    """Running sums within blocks."""
    sums = np.cumsum(values, axis=0)
    lengths = np.diff(np.append(starts, values.shape[0]))
    before = np.vstack([np.zeros((1, values.shape[1])), sums[starts[1:] - 1]])
    within: Matrix = sums - np.repeat(before, lengths, axis=0)
    return within


def _running_back(values: Matrix, starts: Starts) -> Matrix:
    """Running sums within blocks, from their ends."""
    ends = values.shape[0] - np.append(starts[1:], values.shape[0])
    return _running(values[::-1], ends[::-1])[::-1]
