"""A covariance as the last stage of a night that learns, for itself or for correlations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from blockveil.engine.estimates.learned_ellipsoid import (
    OF_CORRELATIONS,
    Expected,
    RingsSeen,
    box_error,
    error_of_products,
)
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Body, Vector
from blockveil.pipeline.kinds.moments.question import Moment
from blockveil.pipeline.kinds.spread.last_stages import noise_of_products
from blockveil.pipeline.kinds.spread.learning_night import Learning
from blockveil.pipeline.kinds.spread.spread_questions import LearningQuestions


@dataclass(frozen=True, eq=False)
class OfCovariance:
    """See :class:`.last_stages.LastStage`."""

    questions: LearningQuestions
    boxed: Moment

    @property
    def power(self) -> float:
        """Correlations are of one unit each."""
        return 1.0 if self.questions.shape.learn == "correlation" else 0.5

    def ball(self) -> SecondMoment:
        """The covariance in the unit ball."""
        box, sizes = self.boxed.problem, np.ones(len(self.boxed.features))
        largest = self.questions.largest
        return SecondMoment(Body.BALL, sizes, box.neighbours, largest, box.rows_at_most, augmented=True, even=True)

    def expected(self, design: NoiseDesign, sizes: Vector, rings: RingsSeen) -> Expected:
        """Squared error of products."""
        displacement = OF_CORRELATIONS if self.questions.shape.learn == "correlation" else rings.moved
        return error_of_products(sizes, noise_of_products(design) / rings.many, displacement)

    def in_box(self, design: NoiseDesign, unit: Vector, records: float) -> float:
        """Squared error of products in the box."""
        return box_error(design.spread.rows[1:] * math.sqrt(design.scale * math.sqrt(0.5)) * unit, records)


LEARNING = partial(Learning.of, OfCovariance)
