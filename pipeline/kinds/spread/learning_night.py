"""A night that learns the shape of its noise first: stages under one charge, whose losses are fixed beforehand.

The stages are two pilots (sums of the features and of their squares, in the declared box and in the nearer bounds that
follow; where bounds are learned, counts of values by their size are in the place of the first), rings (counts by
distance from the pilot's centre), and the covariance of records shortened to the ellipsoid that these gave. Where an
earlier night published where its records lie, its release is in the place of all stages before the rings: it was paid
for. Each stage is private for every value of what was released before it, so that mu squared adds up, also when a stage
turns out not to be used. The noise of all stages is designed here, before any record is read: that of the ellipsoid is
the same in its own coordinates, whichever it is. What is charged is the same with an earlier night and without.

**Source**: Dong, Roth and Su, 2022, Theorem 3.2 (adaptive composition).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammainc

from blockveil.engine.answers.learned_spread import ring_edges
from blockveil.engine.estimates.learned_ellipsoid import (
    LearnedAxes,
    NoisySpread,
    Radius,
    RingsSeen,
    chosen_radius,
    learned_axes,
)
from blockveil.engine.estimates.shortening import Shortening
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import Loss, Neighbours
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.counts.question import CellsAnswer
from blockveil.pipeline.kinds.histograms.question import HistogramsAnswer
from blockveil.pipeline.kinds.spread.last_stages import LastStage, noise_of_products
from blockveil.pipeline.kinds.spread.spread_questions import LearningQuestions
from blockveil.pipeline.kinds.totals.question import TotalsAnswer
from blockveil.pipeline.plan.earlier_shape import EarlierShape
from blockveil.pipeline.plan.resolving import Resolved
from blockveil.pipeline.plan.shares import shared
from blockveil.pipeline.plan.stages import EVEN, Drawn, Learned, Stage, stated, together
from blockveil.pipeline.questions import Answer, ask
from blockveil.pipeline.questions.question import additive

BOUNDS, PILOT, NEARER_PILOT, RINGS = "bounds", "pilot", "nearer_pilot", "rings"
"""Names of the stages, in their order; the first is one of the two."""

_ROUNDS = 2
"""Number of pilots."""

OF_PILOTS, OF_RINGS = 0.07, 0.02
"""Shares of mu squared: together so small that staying in the box costs at most a twentieth of the error."""


@dataclass(frozen=True, eq=False)
class Learning:
    """The stages of a night that learns.

    Attributes
    ----------
    loaded
        The config.
    questions
        What the first stages ask.
    answer
        What the answer costs, by what is asked before it.
    earlier
        Where records lay on an earlier night, in the place of pilots; None where there is no such night.
    bounds
        Counts of values by their size, with their noise; None where bounds are declared.
    pilot, rings
        Noise of each pilot, and the counts by distance with their noise.
    ellipsoid, plain_answer
        Noise of the answer in an ellipsoid, in its coordinates, and the answer in the declared box.
    loss
        Loss of a row by all stages, of which the last is one of two, with pilots or without, whichever is more; fixed
        before anything is drawn.
    aim
        Of the mechanism: error relative to the declared bounds, or in raw units.
    """

    loaded: LoadedConfig
    questions: LearningQuestions
    answer: LastStage
    earlier: EarlierShape | None
    bounds: HistogramsAnswer | None
    pilot: NoiseDesign
    rings: CellsAnswer
    ellipsoid: NoiseDesign
    plain_answer: Answer
    loss: Loss
    aim: str
    shapes: ClassVar[bool] = True

    @classmethod
    def of(cls, last: Callable[[LearningQuestions, Any], LastStage], asked: Resolved) -> Learning | None:
        """Design the stages; None where the config declares its shape itself.

        Parameters
        ----------
        last
            What the answer costs, by what is asked before it and by the question in the declared box.
        asked
            What is asked last.

        Raises
        ------
        NotApplicable
            The mechanism has noise of another law, or of a spread that has no ellipsoid.
        CannotCalibrate
            A stage cannot meet its share, or the samplers of all leave no room for them.
        """
        questions = LearningQuestions.of(asked.loaded)
        if questions is None:
            return None
        mechanism, guarantee, earlier = asked.mechanism, asked.of_a_row, asked.earlier
        if not isinstance(mechanism, ShapedGaussian) or mechanism.importance.aim == "weights":
            raise NotApplicable(
                'query.geometry.learn needs mechanism.kind = "shaped-gaussian" with optimise_for = "relative-error" or '
                '"absolute-error"; choose one, or leave learn out'
            )
        answer = last(questions, asked.question)
        of_pilot = shared(guarantee, OF_PILOTS / _ROUNDS)
        pilot = EVEN.design(questions.pilot.problem, of_pilot)
        sizes = questions.bounds
        bounds = None if sizes is None else HistogramsAnswer(sizes, EVEN.design(sizes.problem, of_pilot))
        rings = CellsAnswer(questions.rings, EVEN.design(questions.rings.problem, shared(guarantee, OF_RINGS)))
        ball, boxed = answer.ball(), asked.question.problem
        with_pilots, without = (
            (additive(EVEN.design(ball, share)), additive(mechanism.design(boxed, share)))
            for share in (shared(guarantee, 1.0 - OF_RINGS - OF_PILOTS), shared(guarantee, 1.0 - OF_RINGS))
        )
        first = pilot.loss if bounds is None else bounds.design.loss, pilot.loss, rings.design.loss
        losses = together(first, with_pilots), together(first[2:], without)
        # Whether an earlier night is there may follow from released numbers: the charge does not follow from it.
        loss = Loss(max(each.mu for each in losses), 0.0, max(each.total_variation for each in losses))
        # The inequality that the proof needs: shares of at most one in sum, and all samplers' distances.
        if loss.delta(guarantee.epsilon) > guarantee.delta:
            raise CannotCalibrate(f"delta {guarantee.delta:g} leaves no room for three stages; raise it")
        ellipsoid, even_box = with_pilots if earlier is None else without
        aim = mechanism.importance.aim
        in_box = asked.question.answer(even_box)
        return cls(asked.loaded, questions, answer, earlier, bounds, pilot, rings, ellipsoid, in_box, loss, aim)

    def facts(self) -> dict[str, Any]:
        """Public numbers of all stages but the box, as plain JSON values."""
        before: dict[str, Any] = {} if self.bounds is None else {"bounds": stated(self.bounds)}
        before = before | {"pilot": stated(self._pilot)} if self.earlier is None else {"earlier": self.earlier.plain}
        facts = {
            "for": self.questions.shape.learn,
            "version": 3,
            **before,
            "rings": stated(self.rings),
            "ellipsoid": {**self.ellipsoid.facts(), "loss": self.ellipsoid.loss.plain},
        }
        return {"learning": facts}

    def lines(self) -> list[tuple[str, str]]:
        """What a night learns before its answer, and of which shape the numbers of a plan are."""
        learn, near = self.questions.shape.learn, "" if self.sized else ", in bounds that are learned too"
        means = learn == "mean"
        before = "" if means else " (unless a release before does)"
        first = f"{100 * OF_PILOTS:g} % of mu squared say where records lie{near}{before}"
        if self.earlier is not None:
            first = f"{self.earlier.release_id} says where records lie"
        return [
            (
                "Learns",
                f"{first}, {100 * OF_RINGS:g} % of mu squared how far they spread; the rest releases their "
                f"{'totals' if means else 'covariance'} in the ellipsoid of least expected error of {learn}s, or in "
                "the declared box where that has less. All is charged whatever is found. Noise and expected error are "
                "those of the box",
            )
        ]

    @property
    def sized(self) -> bool:
        """Whether the declared bounds are near enough for a pilot."""
        return self.bounds is None

    @property
    def before(self) -> tuple[Answer, ...]:
        """Answers of the stages before the last one, which all read the records."""
        return (self.rings,) if self.earlier else (self.bounds or self._pilot, self._pilot, self.rings)

    @property
    def _pilot(self) -> TotalsAnswer:
        return TotalsAnswer(self.questions.pilot, self.pilot)

    @property
    def weights(self) -> Vector:
        """Of half widths in the unit of the wanted error, shape (d,)."""
        widths = self.questions.half_widths
        return widths if self.aim == "absolute-error" else np.ones(widths.size)

    def due(self, drawn: Sequence[Drawn], rows: int) -> Stage | None:
        """The stage that follows; None where the last one does.

        Parameters
        ----------
        drawn
            All stages before it.
        rows
            Number of records, used only where it is public.
        """
        if drawn and drawn[-1].stage.name == RINGS:
            return None
        if self.earlier is None and not drawn:
            if self.bounds is not None:
                return Stage(BOUNDS, self.bounds, self.bounds.question.query)
            return Stage(PILOT, self._pilot, self.questions.pilot.query)
        if self.earlier is None and len(drawn) < _ROUNDS:
            lower, upper = self._nearer(drawn[0], rows)
            nearer = self.questions.nearer_pilot(lower, upper)
            return Stage(NEARER_PILOT, TotalsAnswer(nearer, self.pilot), nearer.query, (lower, upper))
        centre, units = self._raw(self._axes(drawn, rows))
        return Stage(
            RINGS,
            self.rings,
            self.questions.ring_counts(centre, units),
            (centre, units),
            "learning how far records spread",
        )

    def learned(self, drawn: Sequence[Drawn], rows: int) -> Learned:
        """The shape of the last stage: an ellipsoid, or the box where that is expected to have the smaller error.

        Parameters
        ----------
        drawn
            All stages before it.
        rows
            Number of records, used only where it is public.
        """
        axes = self._axes(drawn, rows)
        counts = self.rings.arrays(drawn[-1].released, rows)
        public = self.rings.question.problem.neighbours is Neighbours.REPLACE_ONE
        records = float(rows) if public else math.fsum(counts["counts"][0].tolist())
        radius = self._radius(counts["counts"][0], float(np.max(counts["counts_standard_deviation"][0])), records, axes)
        return self._told(axes, radius, self._in_box(axes, records), drawn, rows)

    def supposed(self, mean: Vector, size: Vector, rows: int) -> Learned:
        """What would be learned, without noise, of independent normal records, or as far out as an earlier night went.

        Parameters
        ----------
        mean, size
            Means and standard deviations of the features, raw units, shape (d,) each.
        rows
            Number of records.

        Raises
        ------
        GeometryError
            The bounds of a nearer pilot cannot be told apart.
        """
        widths = self.questions.half_widths
        axes = self._by((mean - self.questions.middle) / widths, (size / widths) ** 2, np.zeros(size.size))
        variances = (size / widths / axes.axes) ** 2
        # Their squared length is a sum of such squares, and nearly a multiple of a chi-square of as large a variance.
        unit = float(np.sum(variances**2) / np.sum(variances))
        squares = ring_edges(size.size) ** 2
        within = gammainc(float(np.sum(variances)) / unit / 2.0, squares / unit / 2.0)
        counts = np.asarray(rows * np.diff(within), np.float64)
        noise = float(np.max(self.rings.design.entry_standard_deviation()))
        radius = self._radius(counts, noise, float(rows), axes)
        if self.earlier is not None:
            _, _, of_variance, _ = self.earlier.arrays
            noise = noise_of_products(self.ellipsoid) * math.sqrt(2.0)
            squared_radii = of_variance * rows / noise / (axes.axes * widths) ** 2
            radius = replace(radius, radius=float(np.sqrt(np.median(squared_radii))))
        return self._told(axes, radius, self._in_box(axes, float(rows)), self.blank(rows), rows)

    def _in_box(self, axes: LearnedAxes, records: float) -> float:
        return self.answer.in_box(additive(self.plain_answer.design), self._unit(axes), records)

    def _unit(self, axes: LearnedAxes) -> Vector:
        """Of half widths in the unit of the wanted error, shape (d,), which is that of the axes for correlations."""
        return 1.0 / axes.axes if self.answer.power == 1.0 else self.weights

    def _radius(self, counts: Vector, deviation: float, records: float, axes: LearnedAxes) -> Radius:
        rings = RingsSeen(counts, deviation, records, axes.axes.size)
        return chosen_radius(rings, self.answer.expected(self.ellipsoid, axes.axes * self._unit(axes), rings))

    def extremes(self) -> list[Learned]:
        """The narrowest ellipsoids in a corner of the box and about zero, and the widest: all others lie between them.

        Raises
        ------
        GeometryError
            The bounds of a nearer pilot cannot be told apart.
        """
        zeros, ones = np.zeros(self.weights.size), np.ones(self.weights.size)
        rings = ring_edges(ones.size)
        at_zero = np.clip(-self.questions.middle / self.questions.half_widths, -1.0, 1.0)
        shapes = []
        for mean, variance, length in (ones, zeros, rings[1]), (at_zero, zeros, rings[1]), (zeros, ones, rings[-1]):
            self.questions.nearer_pilot(*self._spread(mean, variance, zeros).bounds())
            radius = Radius(float(length), 0.0, 0.0, 0.0, 0.0)
            shapes.append(self._told(self._by(mean, variance, zeros), radius, 1.0, self.blank(1), 1))
        return shapes

    def blank(self, rows: int) -> list[Drawn]:
        """All stages before the last one, as if each had released zeros; rows as for :meth:`due`."""
        draws: list[Drawn] = []
        while (stage := self.due(draws, rows)) is not None:
            draws.append(Drawn(stage, np.zeros(stage.answer.design.shape, dtype=np.int64)))
        return draws

    def _axes(self, drawn: Sequence[Drawn], rows: int) -> LearnedAxes:
        """Centre and axes, in half widths about the middle of the box, by the pilots or by the earlier night."""
        if self.earlier is None:
            spread = self._seen(drawn[1], rows)
            if self.bounds is None:
                spread = self._seen(drawn[0], rows).or_nearer(spread)
            return learned_axes(spread, self.answer.power, self.weights)
        mean, variance, noise, _ = self.earlier.arrays
        middle, widths = self.questions.middle, self.questions.half_widths
        return self._by((mean - middle) / widths, variance / widths**2, noise / widths**2)

    def _by(self, mean: Vector, variance: Vector, noise: Vector) -> LearnedAxes:
        return learned_axes(self._spread(mean, variance, noise), self.answer.power, self.weights)

    def _spread(self, mean: Vector, variance: Vector, noise: Vector) -> NoisySpread:
        return NoisySpread(mean, variance, noise, self.questions.least(np.clip(mean, -1.0, 1.0)))

    def _nearer(self, first: Drawn, rows: int) -> tuple[Vector, Vector]:
        """Bounds of the nearer pilot, in half widths about the middle of the box."""
        answer = first.stage.answer
        if not isinstance(answer, HistogramsAnswer):
            return self._seen(first, rows).bounds()
        return self.questions.found_bounds(answer.arrays(first.released, rows), answer.noise)

    def _seen(self, pilot: Drawn, rows: int) -> NoisySpread:
        """What a pilot saw, in half widths about the middle of the box."""
        answer, width = pilot.stage.answer, self.weights.size
        if not isinstance(answer, TotalsAnswer):
            raise RuntimeError("only pilots see where records lie")
        arrays, own = answer.arrays(pilot.released, rows), answer.question.coordinates
        mean, square = np.split(arrays["mean"][0], 2)
        noise = arrays["mean_standard_deviation"][0][width:]
        variance = square - ((mean - own.origin[:width]) / own.scale[:width]) ** 2
        widths = self.questions.half_widths
        squares = (own.scale[:width] / widths) ** 2
        return self._spread((mean - self.questions.middle) / widths, variance * squares, noise * squares)

    def _raw(self, axes: LearnedAxes) -> tuple[Vector, Vector]:
        """Centre and axes in raw units, shape (d,) each."""
        widths = self.questions.half_widths
        return self.questions.middle + axes.centre * widths, axes.axes * widths

    def _told(self, axes: LearnedAxes, radius: Radius, in_box: float, drawn: Sequence[Drawn], rows: int) -> Learned:
        centre, units = self._raw(axes)
        stays = in_box <= radius.error
        facts = {
            "for": self.questions.shape.learn,
            "aim": self.aim,
            "domain": "box" if stays else "ellipsoid",
            "radius": radius.radius,
            "clipped_share": 0.0 if stays else radius.shortened,
            "clipped_share_standard_deviation": 0.0 if stays else radius.uncertain,
            "clipped_squared_length_share": 0.0 if stays else radius.lost,
            "expected_squared_error": {"box": in_box, "ellipsoid": radius.error},
            "declared_geometry": self.questions.shape.stated(),
            **self.questions.stated_limit(),
            **({} if self.earlier is None else {"earlier": self.earlier.plain}),
            "stages": {
                each.stage.name: {
                    "query": self.questions.stated(each.stage.answer.question),
                    "mechanism": stated(each.stage.answer),
                    "matrix": each.stage.answer.matrix,
                }
                for each in drawn
            },
        }
        share = radius.shortened + radius.uncertain
        unshortened, before = None, None if self.earlier is None else self.earlier.shortened
        if self.earlier is None and self.bounds is None:
            noisy_spread, squares = self._seen(drawn[0], rows), self.questions.half_widths**2
            unshortened = noisy_spread.variance * squares, noisy_spread.noise * squares
        shortening = Shortening(units, radius.lost, share, unshortened, before)
        if stays:
            return Learned((centre, np.zeros(0)), None, facts)
        shaped = self.questions.with_shape(self.loaded, centre, units * radius.radius)
        question: Any = ask(shaped)
        last = replace(question, shortening=shortening).answer(self.ellipsoid)
        return Learned((centre, units * radius.radius), (shaped.config, last), facts)
