"""Histograms of columns as a strategy of integers: what bins differ in, what totals differ in, and one sum of all.

Of k columns with ``n_c`` bins, let x be the counts of column c and t_c their sum, the number of records that have a
value there. The strategy measures, in whole numbers,

* for each column ``n_c x - t_c``, in each of its bins;
* for each column ``k t_c - sum t``;
* ``sum t``, the number of all values.

Counts follow from these, and the noise of what is measured is projected to what it can be, which is post-processing:
``x = (measured_c - its mean) / n_c + t_c / n_c`` and ``t_c = (measured - its mean) / k + sum t / k``. All parts are
orthogonal, so that this is least squares.

Privacy. Let the noise have the standard deviations s_c, s_d and s_t in these, and ``w_c = n_c^2 / s_c^2``, ``a = k^2 /
s_d^2`` and ``b = k / s_t^2``. A record has a value in some of the columns, and in one bin of each of these.

* A value in column c changes ``n_c x - t_c`` by ``n_c e_i - 1``, of squared length ``n_c (n_c - 1)``: over s_c^2 it is
  ``w_c (1 - 1/n_c)``. One that leaves bin i for bin j changes it by ``n_c (e_i - e_j)``: ``2 w_c``, which is more.
* Let t_c change by x_c in {-1, 0, 1}, r of which are not zero, and d be their sum. ``k x_c - d`` has the squared length
  ``k^2 r - 2 k d^2 + k d^2``: over s_d^2 it is ``a (r - d^2 / k)``; and ``d^2 / s_t^2`` is ``b d^2 / k``.

Squares of a change add up. **Add-remove**: d is r. Of all records with r values the worst has them in the r columns of
largest ``w_c (1 - 1/n_c)``; the largest over r is exact. **Replace-one**: two records differ by one value in r columns,
and in all others the worst have values in two bins, where there are two. Of all pairs with the same r those columns
have one value for which ``2 w_c`` exceeds ``w_c (1 - 1/n_c)`` least. In d^2, which lies between ``r mod 2`` and r^2 and
takes both, the square is linear. So the largest over r and both ends is exact; in some pairs one record is nowhere.

Least error: :mod:`.histogram_sizes`.

**Source**: as for :mod:`.residual_strategy`, of which one-way tables are the case in which no value is missing; derived
here for values that may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.counts.histogram_sizes import MOST_COLUMNS, least_noise
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.workloads.bin_places import places_of
from blockveil.engine.workloads.strategy import Arrays
from blockveil.engine.workloads.workload import Kronecker, Workload

_LARGEST_SUM = 2**61
_ROUND_UP = 1.0 + 1e-12
_BITS = 20
"""Of a size: machines whose sums differ in their last bits find the same."""


@dataclass(frozen=True, eq=False)
class HistogramStrategy:
    """What bins and totals of histograms differ in, and the sum of all, measured in integers.

    Answers have a row for each column, its bins along it; behind these what totals differ in, as many in a row as there
    are bins, and the sum in a row of its own. Zeros fill up each row.

    Attributes
    ----------
    sizes
        Bins of each column.
    records_at_most
        Public bound on the number of records.
    last
        As for :class:`.histograms.problem.Histograms`.
    """

    sizes: tuple[int, ...]
    records_at_most: int
    last: bool = False

    def __post_init__(self) -> None:
        """Refuse what shares are not sought for, and sums that could leave int64."""
        if not 2 <= len(self.sizes) <= MOST_COLUMNS:
            raise CalibrationError(
                f"noise that columns have in common is for 2 to {MOST_COLUMNS} columns, and these are "
                f"{len(self.sizes)}; choose gaussian"
            )
        if 2 * self.largest > _LARGEST_SUM:
            raise CalibrationError("the answers can exceed 2**60; lower rows_at_most, or declare fewer bins")

    @property
    def cells(self) -> tuple[int, int]:
        """Columns, and the largest number of bins."""
        return len(self.sizes), max(self.sizes)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answers."""
        columns, width = self.cells
        return columns + -(-columns // width) + 1, width

    @property
    def largest(self) -> int:
        """Largest absolute answer."""
        return self.records_at_most * max(*self.sizes, len(self.sizes))

    @property
    def changing(self) -> int:
        """Answers that one record changes, at most."""
        return sum(self.sizes) + len(self.sizes) + 1

    @cached_property
    def _bins(self) -> Vector:
        return np.asarray(self.sizes, dtype=np.float64)

    @cached_property
    def _there(self) -> NDArray[np.bool_]:
        """Where a column has a bin."""
        return places_of(self.sizes, self.last)

    def by_row(self, sizes: Vector) -> Vector:
        """Sizes of each column, of what totals differ in and of the sum, as one for each row of the answers."""
        behind = self.shape[0] - len(self.sizes) - 1
        return np.repeat(sizes, [1] * len(self.sizes) + [behind, 1])

    def least_sizes(self, neighbours: Neighbours) -> Vector:
        """Sizes s_c, s_d and s_t of the least total variance, for a loss of about one, shape (columns + 2,)."""
        least, columns = least_noise(self.sizes, neighbours), len(self.sizes)
        within = self._bins / np.sqrt(least.within)
        # A column of one bin has nothing that differs: its size does not matter, and is like another's.
        within = np.where(self._bins > 1.0, within, float(np.max(within)))
        sizes = np.append(within, [columns / sqrt(least.between), sqrt(columns / least.together)])
        parts, powers = np.frexp(sizes)
        rounded: Vector = np.ldexp(np.round(np.ldexp(parts, _BITS)), powers - _BITS)
        return rounded

    def l2(self, sizes: Vector, neighbours: Neighbours) -> Sensitivity:
        """Sensitivity of the answers divided by such sizes, exact; see the module."""
        columns = float(len(self.sizes))
        within = (self._bins / sizes[:-2]) ** 2
        between, together = (columns / sizes[-2]) ** 2, columns / sizes[-1] ** 2
        replaced = neighbours is Neighbours.REPLACE_ONE
        single = within * (1.0 - 1.0 / self._bins)
        both = np.where(self._bins > 1.0, 2.0 * replaced * within, 0.0)
        order = np.argsort(both - single, kind="stable")
        # Columns in this order are single up to some number of them: sums of non-negative terms alone.
        first = np.concatenate([[0.0], np.cumsum(single[order])])
        others = np.concatenate([np.cumsum(both[order][::-1])[::-1], [0.0]])
        numbers = np.arange(columns + 1.0)
        ends = (numbers % 2.0, numbers**2) if replaced else (numbers**2,)
        of_totals = (between * (numbers - square / columns) + together * square / columns for square in ends)
        root = sqrt(max(float(np.max(first + others + each)) for each in of_totals))
        return Sensitivity(root * _ROUND_UP, root)

    def answers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact answers from histograms, int64, shape ``shape``.

        Raises
        ------
        CalibrationError
            These are no histograms of these columns.
        """
        if counts.shape != self.cells or counts.dtype != np.int64:
            raise CalibrationError(f"counts must be int64 of shape {self.cells}; build the strategy for these columns")
        columns, answers = len(self.sizes), np.zeros(self.shape, dtype=np.int64)
        values = np.where(self._there, counts, 0)
        totals: NDArray[np.int64] = np.sum(values, axis=1, dtype=np.int64)
        differing = np.asarray(self.sizes, dtype=np.int64)[:, None] * values - totals[:, None]
        answers[:columns] = np.where(self._there, differing, 0)
        whole = int(np.sum(totals, dtype=np.int64))
        answers[columns:-1].reshape(-1)[:columns] = columns * totals - whole
        answers[-1, 0] = whole
        return answers

    def estimate(self, answers: Matrix, deviations: Vector) -> Matrix:
        """See :class:`.strategy.Strategy`: exact least squares, whatever the sizes, as all parts are orthogonal."""
        columns = len(self.sizes)
        values = np.where(self._there, answers[:columns] / self._bins[:, None], 0.0)
        values -= np.sum(values, axis=1, keepdims=True) / self._bins[:, None]
        values += (self.totals(answers) / self._bins)[:, None]
        return np.where(self._there, values, 0.0)

    def totals(self, answers: Matrix) -> Vector:
        """Number of values of each column, from noisy answers."""
        columns = len(self.sizes)
        differing = answers[columns:-1].reshape(-1)[:columns] / columns
        totals: Vector = differing - np.mean(differing) + answers[-1, 0] / columns
        return totals

    def within_deviations(self, deviations: Vector) -> Vector:
        """Standard deviation, before projection, of what bins of each column differ in, shape (columns,)."""
        within: Vector = deviations[: len(self.sizes)] / self._bins
        return within

    def _total_parts(self, deviations: Vector) -> tuple[float, float]:
        """Variances of what totals differ in, before projection, and of what they have in common, in each of them."""
        columns = len(self.sizes)
        return (float(deviations[columns]) / columns) ** 2, (float(deviations[-1]) / columns) ** 2

    def total_deviation(self, deviations: Vector) -> float:
        """Standard deviation of the number of values of a column, the same for each."""
        differing, common = self._total_parts(deviations)
        return sqrt(differing * (1.0 - 1.0 / len(self.sizes)) + common)

    def cell_deviations(self, deviations: Vector) -> Matrix:
        """See :class:`.strategy.Strategy`; zero where a column has no bin, which is known to be empty."""
        own = self.within_deviations(deviations) ** 2 * (1.0 - 1.0 / self._bins)
        by_column = np.sqrt(own + (self.total_deviation(deviations) / self._bins) ** 2)
        return np.where(self._there, by_column[:, None], 0.0)

    def widest(self, deviations: Vector) -> float:
        """See :class:`.strategy.Strategy`; a bound: of totals it is theirs in columns of the fewest bins."""
        differing, common = self._total_parts(deviations)
        of_totals = max(differing, len(self.sizes) * common) / min(self.sizes)
        return max(float(np.max(self.within_deviations(deviations))), sqrt(of_totals))

    def workload_error(self, workload: Workload, deviations: Vector) -> float:
        """See :class:`.strategy.Strategy`; of the bins themselves, which is all that is asked of histograms."""
        return float(np.sum(self.cell_deviations(deviations) ** 2))

    def answer_deviations(self, part: Kronecker, deviations: Vector) -> Matrix | None:
        """None: products of queries along rows and columns are not asked of histograms."""
        return None

    def facts(self) -> dict[str, Any]:
        """Kind, and the bins of each column."""
        return {"kind": "residuals of histograms, version 1", "bins_by_column": list(self.sizes)}

    def arrays(self, answers: Matrix, deviations: Vector) -> Arrays:
        """Values of each column with their error, and the noise of what its bins differ in before projection."""
        of_each = np.full(len(self.sizes), self.total_deviation(deviations))
        return {
            "values": (self.totals(answers), ("feature",)),
            "values_standard_deviation": (of_each, ("feature",)),
            "within_standard_deviation": (self.within_deviations(deviations), ("feature",)),
        }
