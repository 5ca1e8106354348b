"""The matrix mechanism: noise on a strategy of few, well chosen counts, from which a workload follows by least squares.

Strategies are Kronecker products ``A1 (x) A2`` over a table X: the strategy answers are ``A1 X A2'``. Coefficients are
whole numbers (real ones, times ``2**bits``, rounded first), so answers are exact in int64 and sensitivities are exact
integers of the strategy that is used, not of the real one behind it; the rounding costs accuracy only.

Exact loss: mu = L2 sensitivity / standard deviation (Gaussian), epsilon = L1 sensitivity / b (Laplace).

Strategies are found by :mod:`engine.mechanisms.strategy_search`; how good they are is no matter of privacy.

**Source**: Li, Hay, Rastogi, Miklau and McGregor, 2010 (mechanism); McKenna, Miklau, Hay and Machanavajjhala, 2018
(products). Verdict: the published guarantee holds for any strategy, as it is that of the Gaussian or Laplace mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isqrt, nextafter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from engine.calibration import CalibrationError
from engine.geometry import Matrix
from engine.guarantees import GaussianDP, Neighbours, PureDP
from engine.workload_errors import error_trace
from engine.workloads import Workload

Draw = Callable[[tuple[int, int], tuple[int, int]], NDArray[np.int64]]
"""Secure discrete noise of a block, given half-open ranges of rows and columns: int64, every integer possible."""

_ROUND_UP = 1.0 + 1e-12
_MOST_BITS = 24
_LARGEST_SUM = 2**62


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

    @property
    def l1(self) -> int:
        """Largest L1 norm of a column."""
        return int(np.max(np.sum(np.abs(self.integers), axis=0)))

    @property
    def largest(self) -> int:
        """Largest absolute coefficient."""
        return int(np.max(np.abs(self.integers)))


@dataclass(frozen=True, eq=False)
class Strategy:
    """Product of two strategies, over a table of counts.

    Attributes
    ----------
    rows, columns
        Strategies along either axis.
    neighbours
        Neighbouring relation; each record counts in one cell.
    records_at_most
        Public bound on the number of records.
    """

    rows: AxisStrategy
    columns: AxisStrategy
    neighbours: Neighbours
    records_at_most: int

    def __post_init__(self) -> None:
        """Refuse sums that could leave int64."""
        # An answer is a sum over records of a product of two coefficients.
        if self.records_at_most * self.rows.largest * self.columns.largest > _LARGEST_SUM:
            raise CalibrationError("the answers can exceed 2**62; use fewer bits or lower records_at_most")

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the strategy answers."""
        return self.rows.integers.shape[0], self.columns.integers.shape[0]

    @property
    def unit(self) -> int:
        """Integers that stand for one: strategy answers divided by this are in records."""
        return 1 << (self.rows.bits + self.columns.bits)

    @property
    def l2_squared(self) -> int:
        """Square of the L2 sensitivity of the integer answers: an exact integer under add-remove, else a bound.

        The replace-one bound is attained to rounding where all columns of each factor have one norm, as here.
        """
        first, second = self.rows.gram, self.columns.gram
        most: int = int(np.max(np.diagonal(first))) * int(np.max(np.diagonal(second)))
        if self.neighbours is Neighbours.ADD_REMOVE:
            return most
        ends = [(int(np.min(gram)), int(np.max(gram))) for gram in (first, second)]
        # |a (x) b - c (x) d|^2 <= 2 max|a|^2 max|b|^2 - 2 min (a.c)(b.d); the latter is least at corners.
        least: int = min(g * h for g in ends[0] for h in ends[1])
        return 2 * most - 2 * least

    @property
    def l2(self) -> float:
        """L2 sensitivity of the integer answers, rounded up."""
        return _root_up(self.l2_squared)

    @property
    def l1(self) -> int:
        """L1 sensitivity of the integer answers: exact under add-remove, an upper bound under replace-one."""
        # Triangle inequality: a replaced record is one removed and one added.
        return self.rows.l1 * self.columns.l1 * (1 if self.neighbours is Neighbours.ADD_REMOVE else 2)

    @property
    def changing(self) -> int:
        """Most answers that one record changes; needed where answers are rounded to a coarser grid before noise."""
        touched = [int(np.max(np.count_nonzero(axis.integers, axis=0))) for axis in (self.rows, self.columns)]
        twice = 1 if self.neighbours is Neighbours.ADD_REMOVE else 2
        return min(twice * touched[0] * touched[1], self.shape[0] * self.shape[1])

    def gaussian_loss(self, privacy_scale: float) -> GaussianDP:
        """Loss of Gaussian noise on the integer answers.

        Parameters
        ----------
        privacy_scale
            Standard deviation of continuous noise that is no more private than the discrete noise that is added, in
            units of the integer answers.
        """
        _check_scale(privacy_scale)
        return GaussianDP(self.l2 / privacy_scale * _ROUND_UP)

    def laplace_loss(self, privacy_scale: float) -> PureDP:
        """Loss of discrete Laplace noise of scale b on the integer answers."""
        _check_scale(privacy_scale)
        return PureDP(self.l1 / privacy_scale * _ROUND_UP)

    def gaussian_scale(self, mu: float) -> float:
        """Standard deviation in units of the integer answers that costs at most mu, rounded up."""
        _check_scale(mu)
        return self.l2 / mu * _ROUND_UP * _ROUND_UP

    def laplace_scale(self, epsilon: float) -> float:
        """Scale b in units of the integer answers that costs at most epsilon, rounded up."""
        _check_scale(epsilon)
        return self.l1 / epsilon * _ROUND_UP * _ROUND_UP

    def answers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact strategy answers ``A1 X A2'`` of a table: shape (m, n) to ``shape``, int64.

        Raises
        ------
        CalibrationError
            The table does not fit, or holds more records than declared.
        """
        if counts.shape != (self.rows.integers.shape[1], self.columns.integers.shape[1]):
            raise CalibrationError(f"the table is {counts.shape}; the strategy is for another shape; build it anew")
        if counts.dtype != np.int64 or np.any(counts < 0) or int(np.sum(counts)) > self.records_at_most:
            raise CalibrationError("the table holds no counts, or more than records_at_most; correct the bound")
        if self.records_at_most * self.rows.largest * self.columns.largest <= 2**53:
            # Every partial sum is an integer of at most records * largest * largest <= 2**53: exact in float64.
            left, table, right = (v.astype(np.float64) for v in (self.rows.integers, counts, self.columns.integers))
            return (left @ table @ right.T).astype(np.int64)
        return self.rows.integers @ counts @ self.columns.integers.T

    def release(self, counts: NDArray[np.int64], draw: Draw) -> NDArray[np.int64]:
        """Exact answers plus noise on the same integers, int64; ``estimate`` turns them into a table."""
        noise = draw((0, self.shape[0]), (0, self.shape[1]))
        if noise.dtype != np.int64 or noise.shape != self.shape:
            raise CalibrationError(f"noise must be int64 of shape {self.shape}; give the noise of all strategy answers")
        return self.answers(counts) + noise

    def estimate(self, released: NDArray[np.int64]) -> NDArray[np.float64]:
        """Least-squares table of counts, shape (m, n), float64, in records; without bias; post-processing."""
        half = _least_squares(self.rows.integers, released.astype(np.float64))
        return _least_squares(self.columns.integers, half.T).T

    def total_squared_error(self, workload: Workload, standard_deviation: float) -> float:
        """Expected total squared error of the workload's answers, in records squared.

        Parameters
        ----------
        workload
            Union of products over the same table.
        standard_deviation
            Of the noise that is added, in units of the integer answers.
        """
        return standard_deviation**2 * error_trace(workload, self.rows.gram, self.columns.gram)


def _least_squares(integers: NDArray[np.int64], answers: NDArray[np.float64]) -> NDArray[np.float64]:
    q, r = qr(integers.astype(np.float64), mode="economic")
    found: NDArray[np.float64] = solve_triangular(r, q.T @ answers)
    return found


def _root_up(square: int) -> float:
    """Upper bound of the root of an exact integer, within a few floats."""
    # isqrt is exact: (isqrt + 1)^2 > square; scaling first keeps 2**-60 relative precision.
    root = isqrt(square << 120) + 1
    return nextafter(root / 2**60, np.inf)


def _check_scale(value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise CalibrationError(f"{value} is no scale or loss; it must be finite and positive; calibrate it first")
