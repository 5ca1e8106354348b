"""Linear workloads over counts, as structured operators: their answers and Gram matrices.

A workload along one axis is a matrix W of shape (queries, cells). It is never built: each kind knows how to apply
itself and its own Gram matrix ``W'W`` in closed form. Over two axes workloads are unions of Kronecker products.

============ ================== ==============================
kind         queries            Gram matrix, entry (j, k)
============ ================== ==============================
identity     n                  [j = k]
total        1                  1
prefix       n                  n - max(j, k)
all ranges   n (n + 1) / 2      (min + 1) (n - max)
============ ================== ==============================

All of these are matrices of zeros and ones. Errors of their answers are computed in :mod:`.expected_error`.

**Source**: McKenna, Miklau, Hay and Machanavajjhala, 2018 (unions of Kronecker products).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.records.geometry import Matrix

Numbers = TypeVar("Numbers", NDArray[np.int64], NDArray[np.float64])

LARGEST_ANSWER = 2**27
"""Most answers that are computed at once."""


class Factor(Protocol):
    """A workload along one axis."""

    @property
    def cells(self) -> int:
        """Number of cells, n."""

    @property
    def queries(self) -> int:
        """Number of queries."""

    def apply(self, counts: Numbers) -> Numbers:
        """``W x`` along the first axis: shape (cells, ...) to (queries, ...); int64 stays int64 and exact."""

    def gram(self) -> Matrix:
        """``W'W``, shape (cells, cells), float64."""


@dataclass(frozen=True)
class _Named:
    """Common parts of the kinds of zeros and ones.

    Attributes
    ----------
    cells
        Number of cells, at least one.
    """

    cells: int

    def __post_init__(self) -> None:
        """Refuse an empty axis."""
        if self.cells < 1:
            raise CalibrationError(f"cells is {self.cells}; a workload needs at least one cell; give the axis length")


class Identity(_Named):
    """Each cell by itself."""

    @property
    def queries(self) -> int:
        """One a cell."""
        return self.cells

    def apply(self, counts: Numbers) -> Numbers:
        """The counts."""
        return counts

    def gram(self) -> Matrix:
        """The identity matrix."""
        return np.eye(self.cells)


class Total(_Named):
    """All cells together."""

    @property
    def queries(self) -> int:
        """One."""
        return 1

    def apply(self, counts: Numbers) -> Numbers:
        """Sum over the first axis."""
        sums: Numbers = np.sum(counts, axis=0, keepdims=True, dtype=counts.dtype)
        return sums

    def gram(self) -> Matrix:
        """All ones."""
        return np.ones((self.cells, self.cells))


class Prefix(_Named):
    """Cells ``0..i`` together, for each i."""

    @property
    def queries(self) -> int:
        """One a cell."""
        return self.cells

    def apply(self, counts: Numbers) -> Numbers:
        """Running sums."""
        return np.cumsum(counts, axis=0, dtype=counts.dtype)

    def gram(self) -> Matrix:
        """``n - max(j, k)``."""
        index = np.arange(self.cells, dtype=np.float64)
        gram: Matrix = self.cells - np.maximum.outer(index, index)
        return gram


class AllRange(_Named):
    """Cells ``i..j`` together, for each ``i <= j``, ordered by i and then j."""

    @property
    def queries(self) -> int:
        """``n (n + 1) / 2``."""
        return self.cells * (self.cells + 1) // 2

    def apply(self, counts: Numbers) -> Numbers:
        """Differences of running sums.

        Raises
        ------
        CalibrationError
            There are too many answers to hold.
        """
        _check_size(self.queries * counts[0].size)
        low, high = np.triu_indices(self.cells)
        sums = np.cumsum(counts, axis=0, dtype=counts.dtype)
        return sums[high] - sums[low] + counts[low]

    def gram(self) -> Matrix:
        """``(min(j, k) + 1) (n - max(j, k))``."""
        index = np.arange(self.cells, dtype=np.float64)
        gram: Matrix = (np.minimum.outer(index, index) + 1.0) * (self.cells - np.maximum.outer(index, index))
        return gram


@dataclass(frozen=True, eq=False)
class Explicit:
    """Any matrix of moderate size.

    Attributes
    ----------
    matrix
        Shape (queries, cells), finite; int64 or float64.
    """

    matrix: NDArray[Any]

    def __init__(self, matrix: ArrayLike) -> None:
        values = np.asarray(matrix)
        if values.ndim != 2 or values.size == 0 or values.dtype.kind not in "iuf" or not np.all(np.isfinite(values)):
            raise CalibrationError("a workload is a matrix of finite real numbers; give (queries, cells) coefficients")
        object.__setattr__(self, "matrix", values if values.dtype.kind == "f" else values.astype(np.int64))

    @property
    def cells(self) -> int:
        """Number of columns."""
        return int(self.matrix.shape[1])

    @property
    def queries(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @property
    def binary(self) -> bool:
        """Whether all coefficients are zero or one."""
        return bool(np.all((self.matrix == 0) | (self.matrix == 1)))

    def apply(self, counts: Numbers) -> Numbers:
        """Matrix product; exact in int64 where both are integers and no sum leaves int64."""
        products: Numbers = np.tensordot(self.matrix, counts, axes=(1, 0))
        return products

    def gram(self) -> Matrix:
        """``W'W``."""
        values = self.matrix.astype(np.float64)
        return values.T @ values


@dataclass(frozen=True)
class Kronecker:
    """All products of a query along the rows and a query along the columns of a table of counts.

    Attributes
    ----------
    rows, columns
        Workloads along either axis.
    weight
        Positive factor of all its queries; importance of squared error is its square.
    """

    rows: Factor
    columns: Factor
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a weight that is no importance."""
        if not (np.isfinite(self.weight) and self.weight > 0):
            raise CalibrationError(f"weight is {self.weight}; it must be positive and finite; leave the queries out")

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answers."""
        return self.rows.queries, self.columns.queries

    def apply(self, counts: Numbers) -> Numbers:
        """``W1 X W2'`` without the weight: shape (cells, cells) to (queries, queries)."""
        _check_size(self.rows.queries * self.columns.queries)
        return self.rows.apply(self.columns.apply(counts.T).T)


Workload = tuple[Kronecker, ...]
"""A union of Kronecker products over the same table."""


def marginals(cells: tuple[int, int]) -> Workload:
    """Counts along the rows, counts along the columns, and the total of a table."""
    m, n = cells
    return (Kronecker(Identity(m), Total(n)), Kronecker(Total(m), Identity(n)), Kronecker(Total(m), Total(n)))


def _check_size(answers: int) -> None:
    if answers > LARGEST_ANSWER:
        raise CalibrationError(
            f"the workload has {answers} answers; more than {LARGEST_ANSWER} are not computed at once; "
            "ask for chosen rectangles, or use its Gram matrices"
        )
