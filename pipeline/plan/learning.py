"""A night that learns the shape of its noise first: three stages under one charge, whose losses are fixed beforehand.

The stages are a pilot (sums of the features and of their squares in the declared box), rings (counts by distance from
the pilot's centre), and the covariance of records shortened to the ellipsoid that both gave. Each is private for every
value of what was released before it, so that mu squared adds up, also when a stage turns out not to be used. The noise
of all three is designed here, before any record is read: that of the ellipsoid is the same in its own coordinates,
whichever it is.

**Source**: Dong, Roth and Su, 2022, Theorem 3.2 (adaptive composition).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blockveil.engine.answers.learned_spread import ring_edges
from blockveil.engine.estimates.learned_ellipsoid import (
    LearnedAxes,
    Radius,
    Shortening,
    box_error,
    chosen_radius,
    learned_axes,
)
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, GaussianDP, Loss, compose
from blockveil.engine.mechanisms.contract import Importance, NotApplicable
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.noise.design import NoiseDesign, Released
from blockveil.engine.records.geometry import Body, Vector
from blockveil.engine.sensitivity.problems import SecondMoment
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.query_sections import MomentSection
from blockveil.pipeline.plan.shares import shared
from blockveil.pipeline.questions import moment
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.cells import CellsAnswer
from blockveil.pipeline.questions.moment import Moment, MomentAnswer
from blockveil.pipeline.questions.question import additive
from blockveil.pipeline.questions.spread_questions import LearningQuestions
from blockveil.pipeline.questions.totals import TotalsAnswer

PILOT, RINGS = 0.07, 0.02
"""Shares of mu squared: together so small that staying in the box costs at most a twentieth of the error."""

_EVEN = ShapedGaussian(Importance("relative-error"))
"""Noise of the same size in each coordinate, of a box as of an ellipsoid."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What the first two stages gave: public, and all that the last one needs of them.

    Attributes
    ----------
    centre, semi_axes
        Of the ellipsoid, raw units, shape (d,) each; None where records stay in the declared box.
    shortening
        What shortening records to the ellipsoid takes from them.
    facts
        The same and what was expected of it, as plain JSON values.
    """

    centre: Vector
    semi_axes: Vector | None
    shortening: Shortening
    facts: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Learning:
    """The stages of a night that learns.

    Attributes
    ----------
    questions
        What the first stages ask.
    pilot, rings
        Both with their design.
    ellipsoid, box
        Noise of the covariance in an ellipsoid, in its coordinates, and in the declared box.
    power
        See :func:`.learned_ellipsoid.learned_axes`.
    aim
        Of the mechanism: error relative to the declared bounds, or in raw units.
    """

    questions: LearningQuestions
    pilot: TotalsAnswer
    rings: CellsAnswer
    ellipsoid: NoiseDesign
    box: NoiseDesign
    power: float
    aim: str

    @classmethod
    def of(cls, questions: LearningQuestions, mechanism: Any, answer: MomentAnswer, guarantee: ApproxDP) -> Learning:
        """Design the stages beside the box.

        Parameters
        ----------
        questions
            What the first stages ask.
        mechanism
            Of the answer in the box.
        answer
            The answer in the box, with the noise of :func:`main_guarantee`.
        guarantee
            Of a row, for all stages together.

        Raises
        ------
        NotApplicable
            The mechanism has noise of another law, or of a spread that has no ellipsoid.
        CannotCalibrate
            A stage cannot meet its share.
        """
        if answer.work(questions.asked.rows_at_most).blocked:
            raise NotApplicable("query.geometry.learn is for answers that are held whole; declare fewer features")
        if not isinstance(mechanism, ShapedGaussian) or mechanism.importance.aim == "weights":
            raise NotApplicable(
                'query.geometry.learn needs mechanism.kind = "shaped-gaussian" with optimise_for = "relative-error" or '
                '"absolute-error"; choose one, or leave learn out'
            )
        pilot, rings = questions.pilot, questions.rings
        asked, box = questions.asked, answer.question.problem
        largest = 2 ** ((asked.quantisation_bits or 16) - 1) - 1
        width = len(asked.columns)
        ball = SecondMoment(
            Body.BALL, np.ones(width), box.neighbours, largest, asked.rows_at_most, augmented=True, even=True
        )
        return cls(
            questions,
            TotalsAnswer(pilot, _EVEN.design(pilot.problem, shared(guarantee, PILOT))),
            CellsAnswer(rings, _EVEN.design(rings.problem, shared(guarantee, RINGS))),
            _EVEN.design(ball, main_guarantee(guarantee)),
            additive(answer.design),
            1.0 if questions.shape.learn == "correlation" else 0.5,
            mechanism.importance.aim,
        )

    @property
    def loss(self) -> Loss:
        """Loss of a row by all stages, of which the last is one of two; fixed before anything is drawn."""
        first = [self.pilot.design.loss, self.rings.design.loss]
        last = [self.ellipsoid.loss, self.box.loss]
        mu = compose([*(GaussianDP(each.mu) for each in first), GaussianDP(max(each.mu for each in last))]).mu
        distance = math.fsum([*(each.total_variation for each in first), max(each.total_variation for each in last)])
        return Loss(mu, 0.0, distance * (1.0 + 2.0**-50))

    def require(self, guarantee: ApproxDP) -> None:
        """Refuse stages that exceed what is promised together; raises CannotCalibrate."""
        # The inequality that the proof needs: shares of at most one in sum, and all samplers' distances.
        if self.loss.delta(guarantee.epsilon) > guarantee.delta:
            raise CannotCalibrate(f"delta {guarantee.delta:g} leaves no room for three stages; raise it")

    def facts(self) -> dict[str, Any]:
        """Public numbers of all stages but the box, as plain JSON values."""
        return {
            "for": self.questions.shape.learn,
            "version": 1,
            "pilot": _stated(self.pilot),
            "rings": _stated(self.rings),
            "ellipsoid": {**self.ellipsoid.facts(), "loss": self.ellipsoid.loss.plain},
        }

    @property
    def weights(self) -> Vector:
        """Of half widths in the unit of the wanted error, shape (d,)."""
        widths = self.questions.half_widths
        return widths if self.aim == "absolute-error" else np.ones(widths.size)

    def axes(self, pilot: Released, rows: int) -> LearnedAxes:
        """Centre and axes, in half widths about the middle of the box.

        Parameters
        ----------
        pilot
            Released integers of the pilot.
        rows
            Number of records, used only where it is public.
        """
        found, width = self.pilot.arrays(pilot, rows), self.weights.size
        noise = found["mean_standard_deviation"][0][width:]
        return learned_axes(self._means(found), found["mean"][0][width:], noise, self.power, self.weights)

    def _means(self, pilot: ReleaseArrays) -> Vector:
        """Means by the pilot, in half widths about the middle of the box, shape (d,)."""
        means: Vector = (pilot["mean"][0][: self.weights.size] - self.questions.middle) / self.questions.half_widths
        return means

    def raw(self, axes: LearnedAxes) -> tuple[Vector, Vector]:
        """Centre and axes in raw units, shape (d,) each."""
        widths = self.questions.half_widths
        return self.questions.middle + axes.centre * widths, axes.axes * widths

    def learned(self, pilot: Released, rings: Released, rows: int) -> Learned:
        """The shape of the last stage: an ellipsoid, or the box where that is expected to have the smaller error.

        Parameters
        ----------
        pilot, rings
            Released integers of both stages.
        rows
            Number of records, used only where it is public.
        """
        axes = self.axes(pilot, rows)
        found, counts = self.pilot.arrays(pilot, rows), self.rings.arrays(rings, rows)
        records, width = float(found["count"][0]), self.weights.size
        deviation = float(np.max(counts["counts_standard_deviation"][0]))
        few = self.ellipsoid.extremes(1).entry_standard_deviation()
        noise = float(few[1, 2] if len(few) > 2 else few[1, 1] / math.sqrt(2.0))
        radius = chosen_radius(counts["counts"][0], deviation, records, width, noise)
        spread = self.box.spread.rows[1:] * math.sqrt(self.box.scale * math.sqrt(0.5))
        in_box = box_error(spread, axes.axes, records)
        variances = found["mean"][0][width:] - self._means(found) ** 2
        return self._told(axes, radius, in_box, variances, found["mean_standard_deviation"][0][width:])

    def question(self, loaded: LoadedConfig, learned: Learned) -> Moment:
        """The covariance of records in a learned ellipsoid.

        Parameters
        ----------
        loaded
            The config with that ellipsoid (:meth:`.LearningQuestions.with_shape`).
        learned
            What the first stages gave.

        Raises
        ------
        GeometryError
            There is no such ellipsoid.
        """
        asked = loaded.config.query
        if not isinstance(asked, MomentSection):
            raise NotApplicable("only a covariance has a shape that is learned")
        return replace(moment.build(loaded, asked), shortening=learned.shortening)

    def extremes(self) -> tuple[Learned, Learned]:
        """The narrowest ellipsoid in a corner of the box, and the widest: all that can be learned lies between them."""
        ones, rings = np.ones(self.weights.size), ring_edges(self.weights.size)
        narrow = learned_axes(ones, ones, 0.0 * ones, self.power, self.weights)
        wide = learned_axes(0.0 * ones, ones, 0.0 * ones, self.power, self.weights)
        ends = (narrow, float(rings[1])), (wide, float(rings[-1]))
        narrowest, widest = (
            self._told(axes, Radius(length, 0.0, 0.0, 0.0, 0.0), 1.0, ones, ones) for axes, length in ends
        )
        return narrowest, widest

    def arrays(self, pilot: Released, rings: Released, rows: int) -> ReleaseArrays:
        """What the first stages release, under names of their own; parameters as for :meth:`learned`."""
        stages = {"pilot": self.pilot.arrays(pilot, rows), "rings": self.rings.arrays(rings, rows)}
        return {
            f"{stage}_{name}": (values, tuple(f"{stage}_{axis}" for axis in axes))
            for stage, arrays in stages.items()
            for name, (values, axes) in arrays.items()
        }

    def _told(self, axes: LearnedAxes, radius: Radius, in_box: float, variances: Vector, noise: Vector) -> Learned:
        centre, units = self.raw(axes)
        stays = in_box <= radius.error
        facts = {
            "for": self.questions.shape.learn,
            "aim": self.aim,
            "chosen": "box" if stays else "ellipsoid",
            "radius": radius.radius,
            "shortened": 0.0 if stays else radius.shortened,
            "shortened_standard_deviation": 0.0 if stays else radius.uncertain,
            "lost": 0.0 if stays else radius.lost,
            "expected_squared_error": {"box": in_box, "ellipsoid": radius.error},
            "declared": self.questions.stated_shape(),
            "stages": {
                "pilot": {"query": self.questions.stated_pilot(), "mechanism": _stated(self.pilot), "matrix": "totals"},
                "rings": {"query": self.questions.stated_rings(), "mechanism": _stated(self.rings), "matrix": "counts"},
            },
        }
        squares = axes.axes**2
        shortening = Shortening(radius.radius, radius.lost, variances / squares, noise / squares)
        return Learned(centre, None if stays else units * radius.radius, shortening, facts)


def main_guarantee(whole: ApproxDP) -> ApproxDP:
    """What the last stage has of a guarantee."""
    return shared(whole, 1.0 - PILOT - RINGS)


def _stated(answer: TotalsAnswer | CellsAnswer) -> dict[str, Any]:
    """Mechanism of a stage as a release states mechanisms."""
    return {
        "mechanism": _EVEN.name,
        "parameters": _EVEN.parameters(),
        **answer.facts(),
        **answer.design.facts(),
        "loss": answer.design.loss.plain,
    }
