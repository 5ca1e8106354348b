"""The noise of one release as plain data: law, spread, steps; and how it is added to an exact integer answer.

How these numbers are chosen, and why they are private, is in :mod:`.additive`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Spread
from blockveil.engine.workloads.strategy import Strategy

ROUND_UP = 1.0 + 1e-12
"""Covers the float errors of a few products and roots."""


class Law(Protocol):
    """A law of discrete noise on the integers, in grid steps, and its secure sampler.

    Attributes
    ----------
    norm
        Norm in which sensitivities are measured for it: "L2" (Gaussian), "L1" (Laplace), or in the words of a law whose
        entries get their noise together (K-norm noise).
    """

    norm: ClassVar[str]

    @property
    def label(self) -> str:
        """Public name."""

    @property
    def standard_deviation(self) -> float:
        """Standard deviation."""

    @property
    def privacy_scale(self) -> float:
        """Scale of continuous noise that is no more private: standard deviation (Gaussian) or b (Laplace, K-norm)."""

    @property
    def total_variation_per_draw(self) -> float:
        """Bound of the distance of one drawn entry from the law."""

    def draw(
        self, key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int], symmetric: bool
    ) -> NDArray[np.int64]:
        """Noise of a block, int64: a pure function of key, row and column."""


WEIGHT_BITS = 8
"""Bits of the weight by which a record counts, where records have weights."""

Block = tuple[tuple[int, int], tuple[int, int]]
"""Half-open ranges of rows and of columns."""

Released = NDArray[np.int64 | np.float64]
"""A release in grid steps: whole numbers, or floats where it is estimated from the whole numbers of several nights."""


class Design(Protocol):
    """All numbers that turn one exact integer answer into a private release, and what that costs."""

    @property
    def loss(self) -> Loss:
        """What the release costs."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the release."""

    @property
    def by_tile(self) -> bool:
        """Whether a tile of the release follows from that tile of the answer; else it follows from the whole answer."""

    @property
    def symmetric(self) -> bool:
        """Whether the answer is symmetric, so that its tiles below the diagonal are mirror images."""

    @property
    def additive(self) -> NoiseDesign | None:
        """The design where it adds noise to the entries of an answer, and None where it draws a release otherwise."""

    def release(self, key: NoiseKey, exact: NDArray[np.int64], block: Block | None = None) -> NDArray[np.int64]:
        """Draw the release: a pure function of the key and the exact answer.

        Parameters
        ----------
        key
            Key of the release.
        exact
            Exact integers, int64: of the block where the release is drawn by tiles, of the whole answer elsewhere.
        block
            What is to be drawn; None for all of it, in ``shape``.

        Returns
        -------
        int64, the shape of the block, in grid steps. Safe to publish.
        """

    def facts(self) -> dict[str, Any]:
        """Public numbers of the draw, as plain JSON values."""

    def lines(self) -> list[tuple[str, str]]:
        """Lines (what, value) of the draw, for a person."""


@dataclass(frozen=True, eq=False)
class EntryNoise:
    """Noise of every entry of a matrix, from one number for each row and column.

    Attributes
    ----------
    rows, columns
        Size of the noise by row and by column: their product is the ideal step of an entry.
    off_diagonal
        Factor of steps off the diagonal.
    of_a_step
        Standard deviation that one step stands for, in units of the answer.
    """

    rows: Vector
    columns: Vector
    off_diagonal: float
    of_a_step: float

    def steps(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.int64]:
        """Grid steps of a block, half-open ranges; shape (rows, columns), int64, at least one."""
        steps: NDArray[np.int64] = self._whole_steps(rows, columns).astype(np.int64)
        return steps

    def standard_deviations(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.float64]:
        """Standard deviation of the noise of a block, in units of the answer."""
        found = self._whole_steps(rows, columns)
        found *= self.of_a_step
        return found

    def _whole_steps(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.float64]:
        """Steps as floats, which hold them exactly: they are at most 2**60, and a float beyond 2**53 is whole."""
        ideal = np.multiply.outer(self.rows[slice(*rows)], self.columns[slice(*columns)])
        # Rounding up, after covering the float error of the products, only adds noise: each step >= its ideal value.
        ideal *= ROUND_UP
        if self.off_diagonal != 1.0:
            low, high = max(rows[0], columns[0]), min(rows[1], columns[1])
            diagonal = np.arange(low, max(low, high))
            places = diagonal - rows[0], diagonal - columns[0]
            kept = ideal[places]
            ideal *= self.off_diagonal
            ideal[places] = kept
        found: NDArray[np.float64] = np.ceil(ideal, out=ideal)
        return found


@dataclass(frozen=True, eq=False)
class NoiseDesign:
    """All numbers of the noise of one release.

    Attributes
    ----------
    spread
        Relative size of the noise by row and column.
    scale
        Size of the noise where the spreads are one: standard deviation (Gaussian), or scale b (Laplace, K-norm).
    sensitivity
        Of the answer divided by the spreads, in the norm of the law: L2 (Gaussian), L1 (Laplace) or its own (K-norm).
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
    def weight_digits(self) -> tuple[int, int]:
        """Bits of a digit of the records' weights, where they have any, and into how many digits a weight is cut."""
        return WEIGHT_BITS, 1

    @property
    def additive(self) -> NoiseDesign:
        """It adds noise."""
        return self

    @property
    def by_tile(self) -> bool:
        """Whether noise is added to the answer itself; a strategy needs the whole of it first."""
        return self.strategy is None

    @property
    def symmetric(self) -> bool:
        """Whether the answer is symmetric, and its noise with it."""
        return self.spread.symmetric

    def release(self, key: NoiseKey, exact: NDArray[np.int64], block: Block | None = None) -> NDArray[np.int64]:
        """Round the answer, or a strategy's answers, to the grid and add noise; see :class:`Design`."""
        rows, columns = block or ((0, self.shape[0]), (0, self.shape[1]))
        measured = exact if self.strategy is None else self.strategy.answers(exact)
        noise = self.grid.draw(key, rows, columns, self.symmetric)
        return add_noise(measured, self.steps(rows, columns), noise, self.shift)

    def facts(self) -> dict[str, Any]:
        """Spread, sensitivity and law of the noise; see :class:`Design`."""
        rows, columns = self.spread.rows, self.spread.columns
        return {
            "row_spread": _numbers(rows) if self.strategy is None else _runs(rows),
            "column_spread": "as by row" if self.symmetric else _numbers(columns),
            "sensitivity": self.sensitivity.bound,
            "sensitivity_exact": self.sensitivity.exact,
            "scale": self.scale,
            "grid": self.grid.label,
            "grid_standard_deviation": self.grid.standard_deviation,
            "unit": self.unit,
            "shift": self.shift,
        }

    def lines(self) -> list[tuple[str, str]]:
        """Sensitivity and noise; see :class:`Design`."""
        exact = "exact" if self.sensitivity.exact else "upper bound"
        bound = f"{self.sensitivity.bound:.6g} in {self.grid.norm}"
        return [
            ("Sensitivity", f"{bound}, in spread coordinates ({exact})"),
            ("Noise", f"scale {self.scale:.6g} there; discrete, {self.grid.label}"),
        ]

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.spread.columns.size

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian; else it is Laplace or K-norm noise."""
        return self.grid.norm == "L2"

    @property
    def joint(self) -> bool:
        """Whether entries of a row, or of the whole answer, get their noise together: K-norm noise."""
        return self.grid.norm not in ("L1", "L2")

    @property
    def isometric(self) -> bool:
        """Whether noise off the diagonal of a symmetric answer is smaller by sqrt(2), as the Frobenius norm has it."""
        return self.spread.symmetric and not self.spread.unscaled and self.gaussian

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
        return self.entry_noise.steps(rows, columns)

    @property
    def entry_noise(self) -> EntryNoise:
        """Noise of every entry, where steps are not whole numbers of the answer."""
        root = sqrt(self.scale / self.grid.privacy_scale) * sqrt(self.unit) * 2.0 ** (self.shift / 2)
        return EntryNoise(
            root * self.spread.rows,
            root * self.spread.columns,
            sqrt(0.5) if self.isometric else 1.0,
            self.grid.standard_deviation / self.shifted_unit,
        )

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


def _runs(values: Vector) -> list[list[float]]:
    """Each value and how often it follows itself, for the rows of a strategy's levels."""
    starts = [0, *(i for i in range(1, values.size) if values[i] != values[i - 1])]
    ends = [*starts[1:], values.size]
    return [[float(values[start]), end - start] for start, end in zip(starts, ends, strict=True)]


def _numbers(values: Vector) -> float | list[float]:
    """All values, or the one that all of them are."""
    return float(values[0]) if bool((values == values[0]).all()) else [float(value) for value in values]


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
    quotient += remainder >= steps - remainder
    quotient += noise
    return quotient
