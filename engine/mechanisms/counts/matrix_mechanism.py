"""The matrix mechanism: noise on a strategy of few, well chosen counts, from which a workload follows by least squares.

Strategies are Kronecker products ``A1 (x) A2`` over a table X: the strategy answers are ``A1 X A2'``. Coefficients are
whole numbers (real ones, times ``2**bits``, rounded first), so answers are exact in int64 and sensitivities are exact
integers of the strategy that is used, not of the real one behind it; the rounding costs accuracy only.

A record lies in one cell, or in none where records may be left out. So the squared L2 distance of neighbours is at most
the largest squared norm of a column (add-remove), and the larger of that and of the largest squared distance of two
columns (replace-one: a replaced record may also leave the table, or enter it).

Strategies are found by :mod:`.strategy_search`; how good they are is no matter of privacy.

**Source**: Li, Hay, Rastogi, Miklau and McGregor, 2010 (mechanism); McKenna, Miklau, Hay and Machanavajjhala, 2018
(products). Verdict: the published guarantee holds for any strategy, as it is that of the Gaussian mechanism.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from math import isqrt, nextafter, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.records.product_threads import one_thread
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.strategies import farthest_columns
from blockveil.engine.workloads.expected_error import error_trace
from blockveil.engine.workloads.kronecker import rows_of
from blockveil.engine.workloads.strategy import Arrays
from blockveil.engine.workloads.workload import Kronecker, Workload

_MOST_BITS = 24
_LARGEST_SUM = 2**62
_MOST_ENTRIES = 2**24
"""Most entries of a workload's factor for which deviations of single answers are computed."""


@dataclass(frozen=True, eq=False)
class AxisStrategy:
    """Strategy along one axis.

    Attributes
    ----------
    integers
        Coefficients times ``2**bits``, shape (queries, cells), int64; of full column rank.
    bits
        Binary places, at most 24.
    """

    integers: NDArray[np.int64]
    bits: int

    def __post_init__(self) -> None:
        """Refuse what float64 could not multiply exactly, or what does not determine the counts."""
        if not 0 <= self.bits <= _MOST_BITS or self.integers.ndim != 2 or self.integers.dtype != np.int64:
            raise CalibrationError(f"bits is {self.bits}; a strategy is an int64 matrix of at most {_MOST_BITS} bits")
        largest = int(np.max(np.abs(self.integers), initial=0))
        if largest * largest * self.integers.shape[0] > 2**53:
            raise CalibrationError("the coefficients are too large for exact Gram matrices; use fewer bits")
        if np.linalg.matrix_rank(self.integers.astype(np.float64)) < self.integers.shape[1]:
            raise CalibrationError("the strategy does not determine all counts; add the identity with a small weight")

    @classmethod
    def rounded(cls, matrix: Matrix, bits: int) -> AxisStrategy:
        """Nearest strategy of whole numbers to a real matrix."""
        return cls(np.rint(np.ldexp(matrix, bits)).astype(np.int64), bits)

    @cached_property
    def gram(self) -> Matrix:
        """``A'A`` of the integers, shape (cells, cells), float64 holding exact integers."""
        values = self.integers.astype(np.float64)
        # |sum a_i c_i| <= queries * largest^2 <= 2**53 in every partial sum: exact in any order.
        return values.T @ values

    @cached_property
    def covariance(self) -> Matrix:
        """Inverse of the real strategy's Gram matrix, shape (cells, cells)."""
        root = self.solve(np.eye(self.integers.shape[0]))
        return root @ root.T

    @property
    def real(self) -> Matrix:
        """Coefficients themselves, exact in float64, shape (queries, cells)."""
        return np.ldexp(self.integers.astype(np.float64), -self.bits)

    @property
    def largest(self) -> int:
        """Largest absolute coefficient, times ``2**bits``."""
        return int(np.max(np.abs(self.integers)))

    @property
    def digest(self) -> str:
        """SHA-256 of the integers, row by row, as little-endian int64."""
        return hashlib.sha256(np.ascontiguousarray(self.integers, dtype="<i8").tobytes()).hexdigest()

    def solve(self, answers: Matrix) -> Matrix:
        """Least-squares counts from answers along the first axis."""
        # Takes long to import, and a plan imports every mechanism; here, as no limit holds for a library loaded within.
        from scipy.linalg import qr, solve_triangular

        # One thread, so that another number of them does not change the last bits of what is published.
        with one_thread():
            q, r = qr(self.real, mode="economic")
            counts: Matrix = solve_triangular(r, q.T @ answers)
        return counts


@dataclass(frozen=True, eq=False)
class ProductStrategy:
    """Product of two strategies, over a table of counts.

    Attributes
    ----------
    rows, columns
        Strategies along either axis.
    records_at_most
        Public bound on the number of records.
    """

    rows: AxisStrategy
    columns: AxisStrategy
    records_at_most: int

    def __post_init__(self) -> None:
        """Refuse sums that could leave int64."""
        if self.largest > _LARGEST_SUM:
            raise CalibrationError("the answers can exceed 2**62; use fewer bits or lower rows_at_most")

    @property
    def cells(self) -> tuple[int, int]:
        """Shape of the table."""
        return self.rows.integers.shape[1], self.columns.integers.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the strategy answers."""
        return self.rows.integers.shape[0], self.columns.integers.shape[0]

    @property
    def unit(self) -> int:
        """Integers that stand for one: strategy answers divided by this are in records."""
        return 1 << (self.rows.bits + self.columns.bits)

    @property
    def largest(self) -> int:
        """Largest absolute integer answer."""
        # An answer is a sum over records of a product of two coefficients.
        return self.records_at_most * self.rows.largest * self.columns.largest

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Square of the L2 sensitivity of the integer answers: an exact integer under add-remove, else a bound.

        The replace-one bound is attained to rounding where all columns of each factor have one norm, as those found by
        :mod:`.strategy_search` do.
        """
        first, second = self.rows.gram, self.columns.gram
        most: int = int(np.max(np.diagonal(first))) * int(np.max(np.diagonal(second)))
        if neighbours is Neighbours.ADD_REMOVE:
            return most
        ends = [(int(np.min(gram)), int(np.max(gram))) for gram in (first, second)]
        # |a (x) b - c (x) d|^2 <= 2 max|a|^2 max|b|^2 - 2 min (a.c)(b.d); the latter is least at corners.
        least: int = min(g * h for g in ends[0] for h in ends[1])
        # A replaced record that leaves the table moves the answers by a whole column.
        return max(2 * most - 2 * least, most)

    def l2(self, neighbours: Neighbours) -> Sensitivity:
        """L2 sensitivity of the answers in records."""
        bound = _root_up(self.l2_squared(neighbours))
        one, two = (sqrt(float(np.max(np.diagonal(axis.gram)))) for axis in (self.rows, self.columns))
        attained = one * two
        if neighbours is Neighbours.REPLACE_ONE:
            attained = max(attained, farthest_columns(self.rows.gram, self.columns.gram))
        # The unit is a power of two, so dividing by it is exact.
        return Sensitivity(bound / self.unit, min(attained, bound) / self.unit)

    def changing(self, neighbours: Neighbours) -> int:
        """Most answers that one record changes."""
        touched = [int(np.max(np.count_nonzero(axis.integers, axis=0))) for axis in (self.rows, self.columns)]
        twice = 1 if neighbours is Neighbours.ADD_REMOVE else 2
        return min(twice * touched[0] * touched[1], self.shape[0] * self.shape[1])

    def answers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact strategy answers ``A1 X A2'`` of a table, times ``unit``: shape (m, n) to ``shape``, int64.

        Raises
        ------
        CalibrationError
            The table does not fit, or holds more records than declared.
        """
        if counts.shape != self.cells:
            raise CalibrationError(f"the table is {counts.shape}; the strategy is for another shape; build it anew")
        if counts.dtype != np.int64 or np.any(counts < 0) or int(np.sum(counts)) > self.records_at_most:
            raise CalibrationError("the table holds no counts, or more than rows_at_most; correct the bound")
        if self.largest <= 2**53:
            # Every partial sum is an integer of at most records * largest * largest <= 2**53: exact in float64.
            left, table, right = (v.astype(np.float64) for v in (self.rows.integers, counts, self.columns.integers))
            return (left @ table @ right.T).astype(np.int64)
        return self.rows.integers @ counts @ self.columns.integers.T

    def estimate(self, answers: Matrix, deviations: Vector) -> Matrix:
        """See :class:`.strategy.Strategy`; the noise of all answers has one law."""
        return self.columns.solve(self.rows.solve(answers).T).T

    def cell_deviations(self, deviations: Vector) -> Matrix:
        """See :class:`.strategy.Strategy`."""
        sides = [np.sqrt(np.diagonal(axis.covariance)) for axis in (self.rows, self.columns)]
        return float(deviations[0]) * np.outer(*sides)

    def widest(self, deviations: Vector) -> float:
        """Noise over the least singular values."""
        sides = [sqrt(float(np.linalg.eigvalsh(axis.covariance)[-1])) for axis in (self.rows, self.columns)]
        return float(deviations[0]) * sides[0] * sides[1]

    def workload_error(self, workload: Workload, deviations: Vector) -> float:
        """See :class:`.strategy.Strategy`."""
        grams = (np.ldexp(axis.gram, -2 * axis.bits) for axis in (self.rows, self.columns))
        return float(deviations[0]) ** 2 * error_trace(workload, *grams)

    def answer_deviations(self, part: Kronecker, deviations: Vector) -> Matrix | None:
        """See :class:`.strategy.Strategy`."""
        if any(factor.queries * factor.cells > _MOST_ENTRIES for factor in (part.rows, part.columns)):
            return None
        sides = []
        for factor, axis in ((part.rows, self.rows), (part.columns, self.columns)):
            matrix = rows_of(factor)
            sides.append(np.sqrt(np.sum((matrix @ axis.covariance) * matrix, axis=1)))
        errors: Matrix = float(deviations[0]) * np.outer(sides[0], sides[1])
        return errors

    def facts(self) -> dict[str, Any]:
        """Shapes, binary places and digests of the coefficients."""
        axes = {"rows": self.rows, "columns": self.columns}
        return {
            "kind": "product, version 1",
            **{
                name: {"shape": list(axis.integers.shape), "bits": axis.bits, "sha256": axis.digest}
                for name, axis in axes.items()
            },
        }

    def arrays(self, answers: Matrix, deviations: Vector) -> Arrays:
        """The answers, their noise, and the coefficients along both axes, exact."""
        names = ("strategy_row", "strategy_column")
        return {
            "strategy_answers": (answers, names),
            "strategy_standard_deviation": (np.full(self.shape, deviations[0]), names),
            "row_strategy": (self.rows.real, (names[0], "row")),
            "column_strategy": (self.columns.real, (names[1], "column")),
        }


def _root_up(square: int) -> float:
    """Upper bound of the root of an exact integer, within a few floats."""
    # isqrt is exact: (isqrt + 1)^2 > square; scaling first keeps 2**-60 relative precision.
    root = isqrt(square << 120) + 1
    return nextafter(root / 2**60, np.inf)
