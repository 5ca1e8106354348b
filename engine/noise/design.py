"""The noise of one release as plain data: law, spread, steps; and how it is added to an exact integer answer.

How these numbers are chosen, and why they are private, is in :mod:`.additive`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.entry_noise import EntryNoise, diagonal_places
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Spread
from blockveil.engine.workloads.strategy import Strategy


class Law(Protocol):
    """A law of discrete noise on the integers, in grid steps, and its secure sampler.

    Attributes
    ----------
    norm
        Norm in which sensitivities are measured for it: "L2" (Gaussian), "L1" (Laplace), or in the words of a law whose
        entries get their noise together. Such a law says more: how many ``entries`` do, the ``tails`` of one of them,
        the ``length`` of a difference of two releases, and whether a draw is ``slow``.
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
        """Scale of continuous noise that is no more private: standard deviation (Gaussian) or b of a pure loss."""

    @property
    def total_variation_per_draw(self) -> float:
        """Bound of the distance of one drawn entry from the law."""

    def draw(
        self, key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int], symmetric: bool
    ) -> NDArray[np.int64]:
        """Noise of a block, int64: a pure function of key, row and column."""


WEIGHT_BITS = 8
"""Bits of the weight by which a record counts, where records have weights."""

_FAR_BELOW = 2**31
"""Row of the numbers that all entries of a diagonal share; symmetric answers end long before it."""

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
class NoiseDesign:
    """All numbers of the noise of one release.

    Attributes
    ----------
    spread
        Relative size of the noise by row and column.
    scale
        Size of the noise where the spreads are one: standard deviation (Gaussian), or scale b of a pure loss.
    sensitivity
        Of the answer divided by the spreads, in the norm of the law: L2 (Gaussian), L1 (Laplace) or its own.
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
        return add_noise(measured, self.steps(rows, columns), self.noise(key, rows, columns), self.shift)

    def noise(self, key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.int64]:
        """Noise of a block in grid steps, with what the diagonal shares; a pure function of the key and the place.

        Parameters
        ----------
        key
            Key of the release.
        rows, columns
            Half-open ranges.
        """
        block = self.grid.draw(key, rows, columns, self.symmetric)
        diagonal, places = self.spread.diagonal, diagonal_places(rows, columns)
        if diagonal is not None and diagonal.shared and places[0].size:
            # Far below the answer, in a tile that holds none of its entries.
            together = self.grid.draw(key, (_FAR_BELOW, _FAR_BELOW + 1), (0, diagonal.shared), False)
            block[places] += diagonal.taken(self.width)[places[0] + rows[0]] * np.sum(together)
        return block

    def apart(self, values: NDArray[np.int64]) -> NDArray[np.int64 | np.float64]:
        """A whole release, or a difference of two, where each distinct entry has noise of its own of the grid's law.

        What the diagonal shares leaves its noise with the covariance ``I + s ww'``, w how often each entry takes it.
        The inverse root takes ``1 - (1 + s w'w)^-1/2`` of what lies along w. All other designs have such noise already.

        Parameters
        ----------
        values
            In grid steps, shape of the design.
        """
        diagonal = self.spread.diagonal
        if diagonal is None or not diagonal.shared:
            return values
        release, weights, squares = values.astype(np.float64), diagonal.taken(self.width), diagonal.squares(self.width)
        along = float(np.diagonal(release) @ weights) / squares
        places = np.diag_indices(self.width)
        release[places] -= along * weights * (1.0 - 1.0 / sqrt(1.0 + diagonal.shared * squares))
        return release

    def rounded(self, exact: NDArray[np.int64], block: Block | None = None) -> NDArray[np.int64]:
        """What is released where there is no noise; parameters as for :meth:`release`. Not private."""
        measured = exact if self.strategy is None else self.strategy.answers(exact)
        rows, columns = block or ((0, measured.shape[0]), (0, measured.shape[1]))
        return add_noise(measured, self.steps(rows, columns), np.zeros_like(measured), self.shift)

    def taken_by_step(self, key: NoiseKey) -> Callable[[], NDArray[np.int64]] | None:
        """What each next step of a training takes away of the noise of those before it, secret; None if nothing."""

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
            **({} if self.spread.diagonal is None else {"diagonal": self.spread.diagonal.facts()}),
        }

    def lines(self) -> list[tuple[str, str]]:
        """Sensitivity and noise; see :class:`Design`."""
        exact = "exact" if self.sensitivity.exact else "upper bound"
        bound = f"{self.sensitivity.bound:.6g} in {self.grid.norm}"
        return [
            ("Sensitivity", f"{bound}, in spread coordinates ({exact})"),
            ("Noise", f"scale {self.scale:.6g} there; discrete, {self.grid.label}"),
            *([] if self.spread.diagonal is None else [("Diagonal", self.spread.diagonal.described())]),
        ]

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.spread.columns.size

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian; else its loss is pure."""
        return self.grid.norm == "L2"

    @property
    def joint(self) -> bool:
        """Whether entries of a row, or of the whole answer, get their noise together."""
        return self.grid.norm not in ("L1", "L2")

    @property
    def isometric(self) -> bool:
        """Whether noise off the diagonal of a symmetric answer is smaller by sqrt(2), as the Frobenius norm has it."""
        spread = self.spread
        return spread.symmetric and not spread.unscaled and spread.diagonal is None and self.gaussian

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
    def step_excess(self) -> float:
        """By how much rounding steps up makes the noise of an entry larger than the guarantee needs, at most."""
        return 1.0 if self.whole else self.entry_noise.step_excess()

    @property
    def entry_noise(self) -> EntryNoise:
        """Noise of every entry, where steps are not whole numbers of the answer."""
        root = sqrt(self.scale / self.grid.privacy_scale) * sqrt(self.unit) * 2.0 ** (self.shift / 2)
        diagonal = self.spread.diagonal
        of_a_step = self.grid.standard_deviation / self.shifted_unit
        if diagonal is not None and diagonal.even:
            sizes = root / sqrt(sqrt(diagonal.gain)) * self.spread.rows
            return EntryNoise(sizes, sizes, sqrt(diagonal.gain / 2.0), of_a_step, grown=diagonal.grown(self.width))
        if diagonal is not None:
            sizes, own = root * self.spread.rows, root**2 * diagonal.sizes(self.spread.rows)
            return EntryNoise(sizes, sizes, sqrt(0.5), of_a_step, own, diagonal.grown(self.width))
        off = sqrt(0.5) if self.isometric else 1.0
        return EntryNoise(root * self.spread.rows, root * self.spread.columns, off, of_a_step)

    def standard_deviations(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.float64]:
        """Standard deviation of the noise of a block, in units of the answer."""
        steps = self.steps(rows, columns).astype(np.float64)
        deviations = steps * (self.grid.standard_deviation / self.shifted_unit)
        diagonal = self.spread.diagonal
        if diagonal is not None:
            places = diagonal_places(rows, columns)
            deviations[places] *= diagonal.grown(self.width)[places[0] + rows[0]]
        return deviations

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
