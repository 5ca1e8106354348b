"""The last stage of a night that learns: a covariance or totals, in an ellipsoid as in the declared box.

The noise of an ellipsoid is the same in its own coordinates, whichever it is, so that it is designed before any record
is read. What a radius is expected to cost follows from that noise and from what the answer is for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blockveil.engine.estimates.learned_ellipsoid import (
    OF_CORRELATIONS,
    Expected,
    RingsSeen,
    box_error,
    error_of_means,
    error_of_products,
)
from blockveil.engine.estimates.shortening import Shortening
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Body, Vector
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.moments import question as moment
from blockveil.pipeline.kinds.moments.question import Moment
from blockveil.pipeline.kinds.moments.section import MomentSection
from blockveil.pipeline.kinds.totals import question as totals
from blockveil.pipeline.kinds.totals.question import TotalsQuestion
from blockveil.pipeline.kinds.totals.section import TotalsSection
from blockveil.pipeline.plan.first_stages import EVEN
from blockveil.pipeline.questions.question import additive
from blockveil.pipeline.questions.spread_questions import LearningQuestions


@dataclass(frozen=True, eq=False)
class OfCovariance:
    """A covariance, for itself or for correlations.

    Attributes
    ----------
    questions
        What is asked before it.
    boxed
        The same in the declared box.
    """

    questions: LearningQuestions
    boxed: Moment

    @property
    def power(self) -> float:
        """See :func:`.learned_ellipsoid.learned_axes`."""
        return 1.0 if self.questions.shape.learn == "correlation" else 0.5

    def ball(self) -> SecondMoment:
        """The covariance in the unit ball, whose noise is that of every ellipsoid in its coordinates."""
        box, sizes = self.boxed.problem, np.ones(len(self.boxed.features))
        largest = self.questions.largest
        return SecondMoment(Body.BALL, sizes, box.neighbours, largest, box.rows_at_most, augmented=True, even=True)

    def in_ellipsoid(self, loaded: LoadedConfig, shortening: Shortening) -> Moment:
        """The covariance of a config with an ellipsoid; raises GeometryError where there is none."""
        asked = loaded.config.query
        if not isinstance(asked, MomentSection):
            raise RuntimeError("the covariance of another config")
        return replace(moment.build(loaded, asked), shortening=shortening)

    def expected(self, design: NoiseDesign, sizes: Vector, rings: RingsSeen) -> Expected:
        """Squared error in an ellipsoid, by its radius.

        Parameters
        ----------
        design
            Noise in the coordinates of an ellipsoid.
        sizes
            Lengths of the axes for a radius of one in the unit of the wanted error, shape (d,).
        rings
            How far out records lie.
        """
        moved = OF_CORRELATIONS if self.questions.shape.learn == "correlation" else rings.moved
        return error_of_products(sizes, noise_of_products(design) / rings.many, moved)

    def in_box(self, design: NoiseDesign, unit: Vector, records: float) -> float:
        """Squared error in the box; ``unit`` is of its half widths in the wanted one, shape (d,)."""
        return box_error(design.spread.rows[1:] * math.sqrt(design.scale * math.sqrt(0.5)) * unit, records)


@dataclass(frozen=True, eq=False)
class OfTotals:
    """Totals, for means in units of the features' standard deviations; attributes as of :class:`OfCovariance`."""

    questions: LearningQuestions
    boxed: TotalsQuestion

    power = 1.0

    def ball(self) -> Totals:
        """See :class:`OfCovariance`."""
        box, sizes = self.boxed.problem, np.ones(len(self.boxed.features))
        return Totals(Body.BALL, sizes, box.neighbours, self.questions.largest, box.rows_at_most)

    def in_ellipsoid(self, loaded: LoadedConfig, shortening: Shortening) -> TotalsQuestion:
        """See :class:`OfCovariance`."""
        asked = loaded.config.query
        if not isinstance(asked, TotalsSection):
            raise RuntimeError("the totals of another config")
        return replace(totals.build(loaded, asked), shortening=shortening)

    def expected(self, design: NoiseDesign, sizes: Vector, rings: RingsSeen) -> Expected:
        """See :class:`OfCovariance`."""
        return error_of_means(sizes, float(design.entry_standard_deviation()[0, -1]) / rings.many)

    def in_box(self, design: NoiseDesign, unit: Vector, records: float) -> float:
        """See :class:`OfCovariance`."""
        sums = design.entry_standard_deviation()[0, -unit.size :] * unit / max(records, 1.0)
        return math.fsum((sums * sums).tolist())


Answered = OfCovariance | OfTotals
"""What the last stage asks."""


def answered(questions: LearningQuestions, boxed: Moment | TotalsQuestion) -> Answered:
    """What the last stage asks, by the same in the declared box."""
    return OfCovariance(questions, boxed) if isinstance(boxed, Moment) else OfTotals(questions, boxed)


def noise_of_products(design: NoiseDesign) -> float:
    """Standard deviation of the noise of a product's sum off the diagonal, in the coordinates of an ellipsoid."""
    few = design.extremes(1).entry_standard_deviation()
    return float(few[1, 2] if len(few) > 2 else few[1, 1] / math.sqrt(2.0))


def designs(answer: Answered, mechanism: Any, share: ApproxDP) -> tuple[NoiseDesign, NoiseDesign]:
    """Noise in an ellipsoid and in the box."""
    return additive(EVEN.design(answer.ball(), share)), additive(mechanism.design(answer.boxed.problem, share))
