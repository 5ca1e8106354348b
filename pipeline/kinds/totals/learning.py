"""Totals as the last stage of a night that learns, for means in units of the features' standard deviations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from blockveil.engine.estimates.learned_ellipsoid import Expected, RingsSeen, error_of_means
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Body, Vector
from blockveil.pipeline.kinds.spread.learning_night import Learning
from blockveil.pipeline.kinds.spread.spread_questions import LearningQuestions
from blockveil.pipeline.kinds.totals.question import TotalsQuestion


@dataclass(frozen=True, eq=False)
class OfTotals:
    """See :class:`.last_stages.LastStage`."""

    questions: LearningQuestions
    boxed: TotalsQuestion

    power = 1.0

    def ball(self) -> Totals:
        """The totals in the unit ball."""
        box, sizes = self.boxed.problem, np.ones(len(self.boxed.features))
        return Totals(Body.BALL, sizes, box.neighbours, self.questions.largest, box.rows_at_most)

    def expected(self, design: NoiseDesign, sizes: Vector, rings: RingsSeen) -> Expected:
        """Squared error of means."""
        return error_of_means(sizes, float(design.entry_standard_deviation()[0, -1]) / rings.many)

    def in_box(self, design: NoiseDesign, unit: Vector, records: float) -> float:
        """Squared error of means in the box."""
        sums = design.entry_standard_deviation()[0, -unit.size :] * unit / max(records, 1.0)
        return math.fsum((sums * sums).tolist())


LEARNING = partial(Learning.of, OfTotals)
