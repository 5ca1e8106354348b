"""Quantiles by two stages under one charge: ranks in all cells say roughly where they are, few cells measure them.

The first stage is the answer that the config declares, with a small share of mu squared. From what it released follow
few cells of each column, narrow about its quantiles (:mod:`.few_cells`); the second stage is the same answer of these
cells, with the rest of mu squared. Quantiles and intervals follow from the second stage alone: given the first one, its
cells are fixed and its noise is fresh, so that each interval holds its quantile as often as one of declared cells.
Both stages are designed here, before any record is read, and each is private for every value of what was released
before it, so that mu squared adds up. A night keeps to one stage where two are not expected to be better.

**Source**: Dong, Roth and Su, 2022, Theorem 3.2 (adaptive composition).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import Loss
from blockveil.engine.kinds.quantiles.few_cells import few_cells, last_cells
from blockveil.engine.kinds.quantiles.rank_estimate import ColumnBalances, column_balances
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.config import ReleaseConfig
from blockveil.pipeline.kinds.quantiles.question import QuantilesAnswer, QuantilesQuestion
from blockveil.pipeline.plan.resolving import Resolved
from blockveil.pipeline.plan.shares import shared
from blockveil.pipeline.plan.stages import Drawn, Learned, Stage, stated, together
from blockveil.pipeline.questions.question import additive

RANKS = "ranks"
"""Name of the first stage."""

OF_RANKS = 0.2
"""Share of mu squared for the first stage."""

_WORTH = 0.75
"""Mean square of the second stage's ranks over those of one stage alone, above which few cells are not worth it."""


@dataclass(frozen=True, eq=False)
class QuantileStages:
    """The two stages.

    Attributes
    ----------
    config
        With the question.
    mechanism
        Of both stages.
    first
        Of all declared cells.
    plain_answer
        Of as few cells as the second stage has, which are all about as wide.
    loss
        Loss of a row by both.
    """

    config: ReleaseConfig
    mechanism: Gaussian
    first: QuantilesAnswer
    plain_answer: QuantilesAnswer
    loss: Loss
    earlier: ClassVar[None] = None
    shapes: ClassVar[bool] = False
    sized: ClassVar[bool] = True

    @classmethod
    def of(cls, asked: Resolved) -> QuantileStages | None:
        """Design both stages; None where one is as good, or the mechanism has noise of another law."""
        question, mechanism, guarantee = asked.question, asked.mechanism, asked.of_a_row
        if not isinstance(question, QuantilesQuestion) or not isinstance(mechanism, Gaussian):
            return None
        few = question.joined(tuple(_even(size, question.probabilities.size) for size in question.problem.sizes))
        try:
            shares = [shared(guarantee, share) for share in (1.0, OF_RANKS, 1.0 - OF_RANKS)]
            asks = zip((question, question, few), shares, strict=True)
            alone, first, last = (
                QuantilesAnswer(each, additive(mechanism.design(each.problem, share))) for each, share in asks
            )
        except CannotCalibrate:
            return None
        if np.mean(last.rank_deviations() ** 2) > _WORTH * np.mean(alone.rank_deviations() ** 2):
            return None
        loss = together([first.design.loss], [last.design])
        # The inequality that the proof needs: the loss of both together meets the guarantee of the whole.
        if loss.delta(guarantee.epsilon) > guarantee.delta:
            return None
        return cls(asked.config, mechanism, first, last, loss)

    def facts(self) -> dict[str, Any]:
        """Mechanism of the first stage, as plain JSON values."""
        return {"learning": {"for": "quantiles", "version": 1, RANKS: stated(self.first, self.mechanism)}}

    def lines(self) -> list[tuple[str, str]]:
        """What the first stage is for, and what it costs."""
        sizes = self.plain_answer.question.problem.sizes
        return [
            (
                "Learns",
                f"roughly where quantiles are, for {100 * OF_RANKS:g} % of mu squared; the rest measures at most "
                f"{max(sizes)} cells of each column, the narrow ones there. All is charged in any case",
            )
        ]

    @property
    def before(self) -> tuple[QuantilesAnswer, ...]:
        """See :class:`.stages.StagesBefore`."""
        return (self.first,)

    def due(self, drawn: Sequence[Drawn], rows: int) -> Stage | None:
        """The first stage while nothing is drawn; parameters as for :meth:`.stages.StagesBefore.due`."""
        del rows
        return None if drawn else Stage(RANKS, self.first, self.first.question.query)

    def blank(self, rows: int) -> list[Drawn]:
        """See :class:`.stages.StagesBefore`."""
        del rows
        return [Drawn(Stage(RANKS, self.first, self.first.question.query), np.zeros(self.first.design.shape, np.int64))]

    def learned(self, drawn: Sequence[Drawn], rows: int) -> Learned:
        """Few cells of each column; parameters as for :meth:`.stages.StagesBefore.due`."""
        problem = self.first.question.problem
        return self._among(column_balances(drawn[0].released, self.first.design, problem, rows))

    def supposed(self, mean: Vector, size: Vector, rows: int) -> Learned:
        """What would be learned, without noise, of normal records; parameters as of :class:`.stages.StagesBefore`."""
        # Takes long to import, and commands that plan nothing import every kind.
        from scipy.special import ndtr

        borders = [greatest for _, greatest in self.first.question.ends]
        columns = zip(borders, mean, size, self.first.noise, strict=True)
        return self._among(
            [ColumnBalances(rows * (ndtr((b - m) / s) - 0.5), float(rows), noise) for b, m, s, noise in columns]
        )

    def extremes(self) -> list[Learned]:
        """Any cells: their numbers are the same wherever they are."""
        return [self.learned(self.blank(1), 1)]

    def _among(self, columns: Sequence[ColumnBalances]) -> Learned:
        question = self.first.question
        last = tuple(last_cells(column, question.probabilities) for column in columns)
        answer = QuantilesAnswer(question.joined(last), self.plain_answer.design)
        stages = {RANKS: {"mechanism": stated(self.first, self.mechanism), "matrix": self.first.matrix}}
        return Learned(last, (self.config, answer), {"for": "quantiles", "stages": stages})


def _even(cells: int, probabilities: int) -> NDArray[np.int64]:
    """Cells with which few cells end that are all about as wide."""
    few = few_cells(cells, probabilities)
    return np.arange(1, few + 1) * cells // few - 1


LEARNING = QuantileStages.of
