"""Noisy balances to counts up to each cell, and to quantiles with intervals that cover noise and cell. Post-processing.

Let N be the number of values of a column and F_i those up to the upper border of cell i. The quantile q at probability
p is the least value up to which p N values lie. It is in the cell i with ``D_(i-1) < 0 <= D_i``, where

``D_i = F_i - p N = s_i + (1/2 - p) N``

is known without bias, with noise of one standard deviation t at all borders (:mod:`.balance_matrix`).

* **Interval** of confidence c. Let noise stay within z t with probability c: z is the standard normal quantile at
  ``(1 + c) / 2``, or a bound for sums of Laplace noise. Cell i is excluded where the noisy ``D_(i-1) > z t`` or the
  noisy ``D_i < -z t``. At q's own cell each has a probability of at most ``(1 - c) / 2``, as noise is symmetric and the
  borders of that cell do not depend on it: the cell stays with probability c or more, whatever happens at others. The
  interval holds all cells that stay, from end to end, and so q, wherever in its cell.
* **Estimate**: balances are fitted by a non-decreasing sequence (least squares) between ``-N / 2`` and ``N / 2``, and q
  is where that crosses ``(p - 1/2) N``, linearly within its cell, or within all declared cells that were measured as
  one. One sequence serves all p, so that quantiles of a column never cross.

Intervals hold for each quantile by itself. Values outside the declared ends count as these ends.

**Source**: Barlow, Bartholomew, Bremner and Brunk, 1972 (isotonic regression); Neyman, 1937 (inverted tests).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import hypot, ldexp, sqrt

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.matrices import coordinate_estimate
from blockveil.engine.kinds.quantiles.balance_matrix import BITS
from blockveil.engine.kinds.quantiles.problem import Quantiles
from blockveil.engine.noise.design import NoiseDesign, Released
from blockveil.engine.records.geometry import Vector


@dataclass(frozen=True)
class QuantileEstimate:
    """A quantile and its interval, in the unit of the column."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class RankNoise:
    """Standard deviations in one column, in values.

    Attributes
    ----------
    balance
        Of a balance, at any border.
    count
        Of the number of values; zero where it is public.
    """

    balance: float
    count: float

    def at(self, probability: float) -> float:
        """Standard deviation of a rank about ``probability`` times the number of values."""
        return hypot(self.balance, (0.5 - probability) * self.count)

    @property
    def cumulative(self) -> float:
        """Standard deviation of the number of values up to a border."""
        return self.at(0.0)


@dataclass(frozen=True, eq=False)
class ColumnBalances:
    """Noisy balances of one column.

    Attributes
    ----------
    balances
        At the upper border of each cell, shape (n,).
    count
        Number of values, noisy where it is not public.
    noise
        Of both.
    """

    balances: Vector
    count: float
    noise: RankNoise

    @property
    def cumulative(self) -> Vector:
        """Number of values up to the upper border of each cell, shape (n,)."""
        return self.balances + self.count / 2.0

    @cached_property
    def heights(self) -> Vector:
        """Fitted balances, non-decreasing: at the lower border of the first cell and at the upper one of each."""
        # Takes long to import, and a plan imports every kind.
        from scipy.optimize import isotonic_regression

        half = max(self.count, 0.0) / 2.0
        return np.concatenate([[-half], np.clip(isotonic_regression(self.balances).x, -half, half)])

    def quantiles(
        self, probabilities: Vector, ends: tuple[Vector, Vector], last: NDArray[np.int64], factor: float
    ) -> list[QuantileEstimate]:
        """Quantiles of the column, non-decreasing in their probabilities.

        Parameters
        ----------
        probabilities
            Between 0 and 1, exclusive.
        ends
            Least and greatest value of each declared cell, non-decreasing.
        last
            Declared cell with which each measured cell ends, ascending, shape (n,): all of them where none are joined.
        factor
            Standard deviations z of a rank beyond which a cell is excluded; see the module.
        """
        heights = np.interp(np.arange(-1, ends[0].size), np.append(-1, last), self.heights)
        return [self._quantile(float(each), ends, last, heights, factor) for each in probabilities]

    def _quantile(
        self,
        probability: float,
        ends: tuple[Vector, Vector],
        last: NDArray[np.int64],
        heights: Vector,
        factor: float,
    ) -> QuantileEstimate:
        least, greatest = ends
        level = (probability - 0.5) * 2.0 * -float(heights[0])
        cell = min(int(np.searchsorted(heights[1:], level)), least.size - 1)
        rise = float(heights[cell + 1] - heights[cell])
        share = min(max((level - float(heights[cell])) / rise, 0.0), 1.0) if rise > 0.0 else 0.5
        value = float(least[cell]) + share * float(greatest[cell] - least[cell])
        ranks = self.balances + (0.5 - probability) * self.count
        margin = factor * self.noise.at(probability)
        # All values are up to the last border, so that nothing is tested there; see the module.
        beyond = np.concatenate([[False], ranks[:-1] > margin])
        before = np.concatenate([ranks[:-1] < -margin, [False]])
        possible = np.append(np.flatnonzero(~(beyond | before)), np.searchsorted(last, cell))
        lowest = np.append(0, last + 1)[np.min(possible)]
        return QuantileEstimate(value, float(least[lowest]), float(greatest[last[np.max(possible)]]))


def column_noise(design: NoiseDesign, problem: Quantiles) -> list[RankNoise]:
    """Noise of each column; reads no data."""
    measured = design.extremes().entry_standard_deviation()[0, 0]
    count = measured / ldexp(problem.weight, -BITS) if problem.counted else 0.0
    if problem.complete:
        count /= sqrt(len(problem.sizes))
    return [RankNoise(float(measured * column.deviation), float(count)) for column in problem.columns]


def column_balances(released: Released, design: NoiseDesign, problem: Quantiles, rows: int) -> list[ColumnBalances]:
    """Balances and number of values of each column.

    Parameters
    ----------
    released
        In grid steps, shape of the problem.
    design
        Noise of one size.
    problem
        What was measured.
    rows
        Number of records, used only where it is public.
    """
    answers = coordinate_estimate(released, design).value
    counts = np.full(len(problem.sizes), float(rows))
    if problem.counted:
        counts = answers[:, -1] / ldexp(problem.weight, -BITS)
        if problem.complete:  # all columns have the same number of values
            counts = np.full(counts.size, np.mean(counts))
    return [
        ColumnBalances(column.balances(row[: column.cells]), float(count), noise)
        for column, row, count, noise in zip(
            problem.columns, answers, counts, column_noise(design, problem), strict=True
        )
    ]
