"""The noise of one release as plain data: law, spread, steps; and how it is added to an exact integer answer.

How these numbers are chosen, and why they are private, is in :mod:`.additive`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.engine.noise.discrete_gaussian import Grid, NoiseKey
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.workloads.strategy import Strategy

ROUND_UP = 1.0 + 1e-12
"""Covers the float errors of a few products and roots."""


class Law(Protocol):
    """A law of discrete noise on the integers, in grid steps, and its secure sampler."""

    @property
    def label(self) -> str:
        """Public name."""

    @property
    def standard_deviation(self) -> float:
        """Standard deviation."""

    @property
    def privacy_scale(self) -> float:
        """Scale of continuous noise that is no more private: standard deviation (Gaussian) or b (Laplace)."""

    @property
    def total_variation_per_draw(self) -> float:
        """Bound of the distance of one drawn entry from the law."""

    def draw(
        self, key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int], symmetric: bool
    ) -> NDArray[np.int64]:
        """Noise of a block, int64: a pure function of key, row and column."""


class CannotCalibrate(ValueError):
    """The asked guarantee cannot be met: the message names the value, the rule and the remedy."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Relative size of the noise, and what that makes of the sensitivity.

    Attributes
    ----------
    rows, columns
        Positive, shapes (m,) and (n,), in units of the answer up to a common factor.
    symmetric
        Whether entry (j, i) repeats entry (i, j); rows equal columns then.
    changing
        Largest number of distinct entries that differ between neighbours.
    unscaled
        Whether Gaussian noise of a symmetric answer is as large off the diagonal as on it, as some papers print it.
    """

    rows: Vector
    columns: Vector
    symmetric: bool
    changing: int
    unscaled: bool = False

    def __post_init__(self) -> None:
        """Refuse sizes for which no noise exists."""
        for values in (self.rows, self.columns):
            if values.size == 0 or not np.all(np.isfinite(values)) or np.any(values <= 0):
                raise CannotCalibrate(
                    "a noise size is not positive and finite, so an entry would be exact or never released; "
                    "give each feature a positive share of the budget, or leave it out"
                )

    @property
    def entries(self) -> int:
        """Number of distinct entries that are drawn."""
        m, n = self.rows.size, self.columns.size
        return m * (m + 1) // 2 if self.symmetric else m * n

    @property
    def least(self) -> float:
        """Smallest product of a row's and a column's spread."""
        return float(np.min(self.rows) * np.min(self.columns))

    @property
    def largest(self) -> float:
        """Largest product of a row's and a column's spread."""
        return float(np.max(self.rows) * np.max(self.columns))


@dataclass(frozen=True)
class Scaling:
    """How the exact integers relate to the answer.

    Attributes
    ----------
    unit
        Integers that stand for one unit of the answer.
    largest
        Largest absolute integer that the answer can take.
    """

    unit: int
    largest: int

    def __post_init__(self) -> None:
        """Refuse sums that could leave int64; one bit stays free for adding noise."""
        if self.largest > 2**62:
            raise OverflowError("the sums can exceed the exact range of 2**62; lower rows_at_most or quantisation_bits")


@dataclass(frozen=True, eq=False)
class NoiseDesign:
    """All numbers of the noise of one release.

    Attributes
    ----------
    spread
        Relative size of the noise by row and column.
    scale
        Size of the noise where the spreads are one: standard deviation (Gaussian), or scale b (Laplace).
    sensitivity
        Of the answer divided by the spreads: L2 (Gaussian) or L1 (Laplace).
    grid
        Law of the discrete noise.
    unit
        Integers that stand for one unit of the answer.
    shift
        The exact integers are multiplied by ``2**shift`` first, where steps would otherwise be too coarse.
    loss
        What the release costs.
    whole
        Whether each step is one integer of the answer, so that the release is in whole numbers.
    strategy
        What is measured of a table of counts in place of its cells; None where the answer itself is.
    """

    spread: Spread
    scale: float
    sensitivity: Sensitivity
    grid: Law
    unit: int
    shift: int
    loss: Loss
    whole: bool = False
    strategy: Strategy | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of what gets noise: of the answer, or of the strategy's answers."""
        return self.spread.rows.size, self.spread.columns.size

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.spread.columns.size

    @property
    def isometric(self) -> bool:
        """Whether noise off the diagonal of a symmetric answer is smaller by sqrt(2), as the Frobenius norm has it."""
        return self.spread.symmetric and not self.spread.unscaled and isinstance(self.grid, Grid)

    @property
    def mu(self) -> float:
        """Gaussian part of the loss."""
        return self.loss.mu

    @property
    def total_variation(self) -> float:
        """Distance of the sampler from its law, over all entries."""
        return self.loss.total_variation

    def steps(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.int64]:
        """Grid steps of a block, in units of the shifted integers.

        Parameters
        ----------
        rows, columns
            Half-open ranges of the answer.

        Returns
        -------
        Shape (rows, columns), int64, at least one; symmetric over the whole matrix where the answer is.
        """
        if self.whole:
            return np.ones((rows[1] - rows[0], columns[1] - columns[0]), dtype=np.int64)
        root = sqrt(self.scale / self.grid.privacy_scale) * sqrt(self.unit) * 2.0 ** (self.shift / 2)
        row, column = root * self.spread.rows[slice(*rows)], root * self.spread.columns[slice(*columns)]
        # Rounding up, after covering the float error of the products, only adds noise: each step >= its ideal value.
        ideal = np.multiply.outer(row, column) * ROUND_UP
        if self.isometric:
            diagonal = np.arange(*rows)[:, None] == np.arange(*columns)[None, :]
            ideal = np.where(diagonal, ideal, ideal * sqrt(0.5))
        steps: NDArray[np.int64] = np.ceil(ideal).astype(np.int64)
        return steps

    def standard_deviations(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.float64]:
        """Standard deviation of the noise of a block, in units of the answer."""
        steps = self.steps(rows, columns).astype(np.float64)
        return steps * (self.grid.standard_deviation / self.shifted_unit)

    def entry_standard_deviation(self) -> NDArray[np.float64]:
        """Standard deviation of the noise of each entry, in units of the answer, shape of the answer."""
        return self.standard_deviations((0, self.shape[0]), (0, self.shape[1]))

    def extremes(self, lead: int = 0) -> NoiseDesign:
        """Return the design of the first ``lead`` and the two least and most noisy rows and columns alone.

        Noise grows with the spread of row and column, so the least and the largest standard deviation of the whole
        answer are among these few entries, on and off the diagonal.
        """
        rows, columns = (_outermost(side, lead) for side in (self.spread.rows, self.spread.columns))
        spread = replace(self.spread, rows=self.spread.rows[rows], columns=self.spread.columns[columns])
        return replace(self, spread=spread)

    @property
    def shifted_unit(self) -> float:
        """Shifted integers that stand for one unit of the answer."""
        return float(self.unit) * 2.0**self.shift


def _outermost(side: Vector, lead: int) -> NDArray[np.intp]:
    order = lead + np.argsort(side[lead:], kind="stable")
    chosen: NDArray[np.intp] = np.concatenate([np.arange(lead), np.unique(np.concatenate([order[:2], order[-2:]]))])
    return chosen


def add_noise(
    exact: NDArray[np.int64], steps: NDArray[np.int64], noise: NDArray[np.int64], shift: int = 0
) -> NDArray[np.int64]:
    """Round the exact answer to the grid and add discrete noise.

    Parameters
    ----------
    exact
        Integer answer, int64.
    steps
        Grid steps, same shape.
    noise
        Grid noise, same shape.
    shift
        Power of two that the answer is multiplied by first.

    Returns
    -------
    int64, same shape, in grid steps: times ``steps`` it estimates ``exact * 2**shift`` without bias beyond half a
    step.
    """
    # floor division and remainder are exact in int64; a remainder of at least half a step rounds up.
    quotient, remainder = np.divmod(exact << shift, steps)
    return quotient + (remainder >= steps - remainder) + noise
