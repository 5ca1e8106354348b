"""The plan of one release: every number that decides it, complete before any record is read.

A plan is a pure function of the config, the logical date and public files that the config names, made in three steps:
what is asked (:mod:`.resolving`), the engine's numbers (:mod:`.designing`), and their description (:mod:`.describing`).
The description is what the ledger stores and what resuming compares; the fingerprint of the data is added to it when
the budget is reserved.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.engine.mechanisms.auto import Auto, Candidate
from blockveil.engine.mechanisms.contract import Designer
from blockveil.engine.noise.design import Design
from blockveil.engine.records.geometry import GeometryError
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.config import LoadedConfig, ReleaseConfig
from blockveil.pipeline.ledger.guessing import with_loss, with_promise
from blockveil.pipeline.plan import nights
from blockveil.pipeline.plan.axis_names import require_own_names
from blockveil.pipeline.plan.describing import Described, describe
from blockveil.pipeline.plan.designing import Designed, design
from blockveil.pipeline.plan.earlier_shape import EarlierShape
from blockveil.pipeline.plan.effort import Effort
from blockveil.pipeline.plan.finite_numbers import require_finite
from blockveil.pipeline.plan.grouping import charge_of_a_unit
from blockveil.pipeline.plan.resolving import resolve
from blockveil.pipeline.plan.stages import Learned
from blockveil.pipeline.questions import Answer, Question
from blockveil.pipeline.questions.stepwise import course_of, steps_of


@dataclass(frozen=True)
class Begun:
    """What the ledger has of a release, or of the nights that share its charge.

    Attributes
    ----------
    night
        Its number among the nights that share a charge, by those that were drawn; None where it is charged alone.
    charged
        Whether the release itself has a charge that is not void; decides no number of its plan.
    earlier
        Where records lay on an earlier night, of a night that learns from it.
    """

    night: int | None = None
    charged: bool = field(default=False, compare=False)
    earlier: EarlierShape | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that is decided before data is read.

    Attributes
    ----------
    loaded
        Config with its paths resolved.
    logical_date
        Night that it is for.
    designed
        The question with its design.
    charge
        What the ledger books: the loss of one unit, which is that of the noise where a unit has one row. Of nights that
        share a charge, it is that of all of them, and booked once.
    described
        The plan written down.
    begun
        How the ledger had the release when it was planned; None where it was planned without one.
    learned
        What its first stages gave, of the last stage of a night that learns; None before them and elsewhere.
    """

    loaded: LoadedConfig
    logical_date: date
    designed: Designed
    charge: Loss
    described: Described
    begun: Begun | None = None
    learned: Learned | None = None

    @property
    def release_id(self) -> str:
        """``dataset/name/logical date``."""
        return release_id(self.config, self.logical_date)

    @property
    def answer(self) -> Answer:
        """What is asked, with its design."""
        return self.designed.answer

    @property
    def question(self) -> Question:
        """What is asked."""
        return self.answer.question

    @property
    def charged(self) -> bool:
        """Whether the ledger had a charge for it when it was planned: finishing it costs nothing more."""
        return self.begun is not None and self.begun.charged

    @property
    def trains(self) -> bool:
        """Whether a model is trained: the answer is made step by step."""
        return course_of(self.question, self.design) is not None

    @property
    def learns_shape(self) -> bool:
        """Whether its noise follows where records lie, and not the declared bounds."""
        return self.designed.learning is not None and self.designed.learning.shapes

    @property
    def steps(self) -> int:
        """Times that the records are read, each for a part of the answer that follows from those before it."""
        return steps_of(self.question)

    @property
    def design(self) -> Design:
        """The numbers of the draw."""
        return self.answer.design

    @property
    def mechanism(self) -> Designer:
        """Which made the design."""
        return self.designed.mechanism

    @property
    def compared(self) -> tuple[Candidate, ...]:
        """Every mechanism with its expected error, best first; empty unless the mechanism is "auto"."""
        return self.designed.compared

    @property
    def least(self) -> float | None:
        """Error below which no Gaussian noise gets, of what "auto" compared; None where no bound is known."""
        resolved = self.designed.resolved
        return (
            resolved.mechanism.metric.least(self.question.problem, resolved.of_a_row, self.design)
            if isinstance(resolved.mechanism, Auto)
            else None
        )

    @property
    def guarantee(self) -> ApproxDP:
        """What is promised for one unit."""
        return self.designed.resolved.guarantee

    @property
    def neighbours(self) -> Neighbours:
        """What one unit is to the data."""
        return Neighbours(self.config.privacy.neighbours)

    @property
    def public(self) -> dict[str, Any]:
        """Canonical description of the release, plain JSON values, nothing private."""
        return self.described.public

    @property
    def stated(self) -> dict[str, Any]:
        """What its release states of query and mechanism: of a night that learns those of its last stage.

        Where coefficients get errors, the mechanism is that of the steps with their own loss.
        """
        if self.learned is None and self.designed.stage_after is None:
            return self.public
        own = charge_of_a_unit(self.design.loss, self.guarantee, self.config.privacy)
        return describe(self.designed, own, self.release_id).public

    def of_last_stage(self, learned: Learned) -> Plan:
        """The same night with what its first stages gave, whose answer is that of its last stage."""
        if self.designed.learning is None:
            raise RuntimeError("only a night that learns has a last stage")
        resolved, answer = self.designed.resolved, self.answer
        if learned.last is not None:
            config, answer = learned.last
            resolved = replace(resolved, config=config, question=answer.question)
        designed = replace(self.designed, resolved=resolved, answer=answer, learning=None)
        return replace(self, designed=designed, learned=learned)

    @cached_property
    def last_stages(self) -> tuple[Plan, ...]:
        """The furthest that a night which learns can come to, between which all numbers are monotone; else none.

        Raises
        ------
        GeometryError, ValueError
            Numbers of one of them cannot be stated.
        """
        learning = self.designed.learning
        return () if learning is None else tuple(map(self.of_last_stage, learning.extremes()))

    @property
    def series(self) -> nights.Series | None:
        """The nights that share its charge; None where it is charged alone."""
        return self.described.series

    @property
    def config(self) -> ReleaseConfig:
        """The validated config."""
        return self.loaded.config

    @property
    def digest(self) -> str:
        """SHA-256 of the public description, which was complete before any record was read."""
        return digest(self.public)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the records."""
        return self.config.query.columns

    @property
    def charge_of_a_night(self) -> Loss | None:
        """What every further night costs; None where one charge pays for several."""
        return self.charge if self.series is None else None

    @property
    def new_part(self) -> Part | None:
        """A part of the records of which nothing was released; None where the release is charged as one of all."""
        column = self.config.data.partition_by
        return None if column is None else Part(self.config.release.dataset, column, "")

    def spec(self, fingerprint: str, history: str | None = None, part: Part | None = None) -> dict[str, Any]:
        """Return the full specification that the ledger stores: the plan and the data it is for."""
        data = {**self.public["data"], "fingerprint": fingerprint}
        data |= {} if history is None else {"history": history}
        data |= {} if part is None else {"equals": part.value}
        data |= {} if part is None or part.listed is None else {"listed": part.listed}
        return {**self.public, "data": data}

    @cached_property
    def effort(self) -> Effort:
        """What it asks of the machine that runs it; no part of what is promised."""
        learning, stage_after = self.designed.learning, self.designed.stage_after
        beside: tuple[Answer, ...] = () if learning is None else learning.before
        beside += () if stage_after is None else (stage_after.answer,)
        return Effort(self.config, self.answer, self.series is not None, beside, learning is not None)

    @property
    def guess(self) -> float:
        """Bound of a guess with this release, or with all nights that share its charge."""
        return min(with_promise(self.guarantee), with_loss(self.charge))


def make_plan(
    loaded: LoadedConfig,
    logical_date: date,
    begun: Begun | None = None,
) -> Plan:
    """Plan a release; reads no data.

    Parameters
    ----------
    loaded
        Config of the release.
    logical_date
        Night that it is for.
    begun
        How the ledger has it (:func:`.begun_plans.plan_begun`); None plans it as the first that nobody has begun.

    Raises
    ------
    ConfigError
        The declared shape, privacy and size cannot be combined, or the date is not among the nights that share a
        charge; the message says what to change.
    """
    try:
        state = Begun() if begun is None else begun
        designed = design(resolve(loaded, logical_date, state.night, state.earlier))
        charge = designed.charge
    except (GeometryError, CannotCalibrate, OverflowError, ValueError) as error:
        raise ConfigError("This release cannot be planned", str(error), "Change the config accordingly") from None
    description = describe(designed, charge, release_id(loaded.config, logical_date))
    plan = Plan(loaded, logical_date, designed, charge, description, begun)
    require_own_names(loaded.config)
    require_finite(loaded.config, plan.answer, description)
    plan.effort.cut(plan.effort.machine())  # a plan fits the memory bound before it starts
    if designed.stage_after is not None:
        stage = Effort(loaded.config, designed.stage_after.answer, weighs=False)
        stage.cut(stage.machine())
    _check_blocks(plan)
    _check_last_stages(plan)
    return plan


def release_id(config: ReleaseConfig, logical_date: date) -> str:
    """``dataset/name/logical date``."""
    return f"{config.release.dataset}/{config.release.name}/{logical_date.isoformat()}"


def plan_near(loaded: LoadedConfig, day: date) -> Plan:
    """Plan of a config for a date, or for the nearest where its nights do not hold it."""
    return make_plan(loaded, nights.nearest(loaded, day))


def _check_last_stages(plan: Plan) -> None:
    try:
        for each in plan.last_stages:
            require_finite(plan.config, each.answer)
    except ValueError:  # of the numbers of a shape
        raise ConfigError(
            "query.geometry.learn with bounds that are so large, so small or so far apart",
            "Every ellipsoid that could be learned has numbers that a release can write",
            "Give bounds that records can reach, or another unit, or leave learn out",
        ) from None


def _check_blocks(plan: Plan) -> None:
    rows = plan.config.query.rows_at_most
    if plan.answer.work(rows).blocked and plan.answer.blocks(rows) is None:
        m, n = plan.design.shape
        raise ConfigError(
            f"An answer of {m:,} x {n:,} is too large for what is made of it",
            "A matrix that mixes all features, and directions, need the whole answer in one piece",
            "Declare fewer features, or a box, a ball or an ellipsoid by its axes",
        )
    section = plan.config.continual
    if section is not None and section.windows and plan.answer.work(rows).blocked:
        raise ConfigError(
            "continual.windows with an answer that is written in blocks",
            "Windows are differences of whole results",
            "Leave windows out, or declare fewer features",
        )
