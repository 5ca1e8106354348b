"""Axes of tables whose cells have an order, and what is measured along them so that ranges of cells are known well.

Along an ordered axis of n cells all ranges ``i..j`` are asked for, ``n (n + 1) / 2`` of them with weight ``2 / (n +
1)`` each: together they weigh as much as n cells. Their Gram matrix is ``G_jk = 2 / (n + 1) (min(j, k) + 1) (n - max(j,
k))``.

What is measured beyond the total is ``H x`` for the counts x of the cells and a symmetric matrix H of whole numbers
whose rows add up to zero, ``2**12`` times a real matrix Q of rank n - 1. Then H 1 = 0, so that H measures the residual
alone (:mod:`.marginal_tables`), and the residual follows from it: ``Q^+ Q x = x - mean``. With noise of variance one in
each entry of ``Q x`` the residual has the covariance ``(Q^+)^2``, and the ranges have the total variance ``tr(G
(Q^+)^2)``. A record in cell j adds column j of Q.

The search minimises ``tr(G X^+)`` for ``X = Q^2`` with ``X 1 = 0`` and ``X_jj <= 1``. Its dual is

``maximise over weights lam >= 0, sum lam = 1:   (tr (L' G L)^1/2)^2``,   L L' = P diag(lam) P,   P = I - 11' / n,

and the X of some lam solves ``X (L L') X = P G P``. The iteration ``lam_j <- lam_j X_jj^2`` closes the gap to a part in
a thousand in a few rounds, whose number is fixed. No X of this kind has less error for any table, since over products
of axes both the error and the largest norm of a column are products. How good the search is, is no matter of privacy:
what is charged are the norms of the columns of H, which are exact.

**Source**: Li and Miklau, 2013, and :mod:`.strategy_search` for the search; Xiao, He, Zhang and Kifer, 2023, for
measuring the residual by any matrix whose rows add up to zero. The symmetric matrix in whole numbers is derived here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.records.product_threads import one_thread
from blockveil.engine.workloads.workload import AllRange, Numbers

MOST_ORDERED = 512
"""Most cells along an ordered axis: what is measured is searched by dense matrices."""

MOST_KINDS = 256
"""Most kinds of pairs of records along an axis that are distinguished."""

_BITS = 12
_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class OrderedAxis:
    """What is measured along an ordered axis.

    Attributes
    ----------
    integers
        H, shape (cells, cells), int64.
    """

    integers: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Refuse what would not measure the residual, the whole residual, and nothing but it."""
        h = self.integers
        if h.ndim != 2 or h.dtype != np.int64 or not np.array_equal(h, h.T) or np.any(np.sum(h, axis=0)):
            raise CalibrationError("what is measured is no symmetric matrix of rows that add up to zero; build it anew")
        if self.largest**2 * h.shape[0] > 2**53:
            raise CalibrationError("the coefficients are too large for an exact Gram matrix; use fewer bits")
        # With the total added the matrix is regular if and only if it has rank n - 1.
        if np.linalg.matrix_rank(self.real + 1.0 / h.shape[0]) < h.shape[0]:
            raise CalibrationError("what is measured does not determine the counts; build it anew")

    @classmethod
    def of(cls, cells: int) -> OrderedAxis:
        """The matrix for so many cells, at most :data:`MOST_ORDERED`."""
        return _built(cells)

    @property
    def cells(self) -> int:
        """Number of cells."""
        count: int = self.integers.shape[0]
        return count

    @property
    def unit(self) -> int:
        """``H / Q``."""
        return 1 << _BITS

    @property
    def largest(self) -> int:
        """Largest absolute entry of H."""
        return int(np.max(np.abs(self.integers)))

    @property
    def real(self) -> Matrix:
        """Q, exact."""
        return np.ldexp(self.integers.astype(np.float64), -_BITS)

    @cached_property
    def gram(self) -> Matrix:
        """``Q'Q``, exact: scalar products of what records add."""
        values = self.integers.astype(np.float64)
        # Every partial sum is an integer of at most cells * largest^2 <= 2**53: exact in any order.
        return np.ldexp(values.T @ values, -2 * _BITS)

    @property
    def norm(self) -> float:
        """Largest squared norm of a column of Q, exact."""
        return float(np.max(np.diagonal(self.gram)))

    @cached_property
    def inverse(self) -> Matrix:
        """``Q^+``: the residual from what is measured."""
        return inverse(self.real)

    @cached_property
    def covariance(self) -> Matrix:
        """Of the residual, for noise of variance one in each entry that is measured."""
        with one_thread():
            return self.inverse @ self.inverse

    @property
    def digest(self) -> str:
        """SHA-256 of H, row by row, as little-endian int64."""
        return hashlib.sha256(np.ascontiguousarray(self.integers, dtype="<i8").tobytes()).hexdigest()

    @cached_property
    def pairs(self) -> NDArray[np.float64] | None:
        """Squared norms of what two records add, and their scalar product, shape (kinds, 3), in both orders.

        Only those stay for which no other two add at least as much each, with at most as large a product; and, as the
        last kind, two records in the cell of the largest norm. None where more than :data:`MOST_KINDS` stay.
        """
        norms = np.diagonal(self.gram)
        first, second = np.indices(self.gram.shape).reshape(2, -1)
        kinds = np.unique(np.column_stack([norms[first], norms[second], self.gram[first, second]]), axis=0)
        frontier: list[NDArray[np.float64]] = []
        while kinds.size and len(frontier) < MOST_KINDS:
            # Of the least products the largest sum of norms: none of the others has at least as much of all three.
            best = kinds[np.lexsort((-kinds[:, 0] - kinds[:, 1], kinds[:, 2]))[0]]
            frontier.append(best)
            kinds = kinds[(kinds[:, 0] > best[0]) | (kinds[:, 1] > best[1])]
        return None if kinds.size else np.array([*frontier, np.full(3, self.norm)])

    @cached_property
    def farthest(self) -> NDArray[np.float64]:
        """The same of two records of the least product, in both orders, and of two in the cell of the largest norm."""
        one, other = np.unravel_index(int(np.argmin(self.gram)), self.gram.shape)
        a, b, least = self.gram[one, one], self.gram[other, other], self.gram[one, other]
        return np.array([[a, b, least], [b, a, least], [self.norm] * 3])

    @property
    def beyond(self) -> NDArray[np.float64]:
        """Two kinds that bound all: the largest norm twice with the least and with the largest product there is."""
        return np.array([[self.norm, self.norm, float(np.min(self.gram))], [self.norm] * 3])


@lru_cache(maxsize=64)
def _built(cells: int) -> OrderedAxis:
    if not 2 <= cells <= MOST_ORDERED:
        raise CalibrationError(
            f"an ordered axis has {cells} cells; it has 2 to {MOST_ORDERED}; declare wider cells, or do not order it"
        )
    import scipy.linalg  # noqa: F401 - here, as no limit of threads holds for a library that is loaded within

    with one_thread():
        root = _root(_searched(range_gram(cells)))
    root = (root + root.T) / 2.0
    root = (root + root[::-1, ::-1]) / 2.0  # ranges read backwards are ranges
    integers = np.rint(np.ldexp(root, _BITS)).astype(np.int64)
    np.fill_diagonal(integers, 0)
    np.fill_diagonal(integers, -np.sum(integers, axis=0))
    return OrderedAxis(integers)


def range_gram(cells: int) -> Matrix:
    """G of all ranges, which together weigh as much as the cells."""
    return AllRange(cells).gram() * (2.0 / (cells + 1.0))


def inverse(real: Matrix) -> Matrix:
    """Pseudo-inverse of a symmetric matrix of rank n - 1 whose rows add up to zero."""
    even = 1.0 / real.shape[0]
    with one_thread():
        pseudo_inverse: Matrix = np.linalg.inv(real + even) - even
    return pseudo_inverse


def along_axis(matrix: Numbers, values: Numbers, along: int) -> Numbers:
    """A matrix times an array along one of its axes; int64 stays int64 and exact."""
    return np.asarray(np.moveaxis(np.tensordot(matrix, values, axes=(1, along)), 0, along), dtype=values.dtype)


def _searched(gram: Matrix) -> Matrix:
    """X of least ``tr(G X^+)`` with ``X 1 = 0`` and largest diagonal entry one, nearly."""
    from scipy.linalg import solve_triangular  # takes long to import, and a plan imports every workload

    cells = gram.shape[0]
    even = 1.0 / cells
    centre = np.eye(cells) - even
    # Both are made regular by the total, which then stays apart from the rest.
    regular = centre @ gram @ centre + even
    weights: Vector = np.full(cells, even)
    strategy = centre
    for _ in range(_ROUNDS):
        lower = np.linalg.cholesky((centre * weights) @ centre + even)
        half = solve_triangular(lower, _root(lower.T @ regular @ lower), lower=True, trans="T").T
        strategy = solve_triangular(lower, half, lower=True, trans="T") - even
        weights = weights * np.diagonal(strategy) ** 2
        weights = weights / np.sum(weights)
    best: Matrix = strategy / float(np.max(np.diagonal(strategy)))
    return best


def _root(matrix: Matrix) -> Matrix:
    """Root of a symmetric matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    root: Matrix = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
