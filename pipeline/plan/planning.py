"""The plan of one release: every number that decides it, complete before any record is read.

A plan is a pure function of the config, the logical date and public files that the config names, made in three steps:
what is asked (:mod:`.resolving`), the engine's numbers (:mod:`.designing`), and their description (:mod:`.describing`).
The description is what the ledger stores and what resuming compares; the fingerprint of the data is added to it when
the budget is reserved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any

from blockveil.engine.answers.cost import Cut, Machine, TooLarge, choose
from blockveil.engine.answers.rates import NOMINAL, Rates
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.engine.mechanisms.auto import Candidate
from blockveil.engine.mechanisms.contract import Designer
from blockveil.engine.noise.design import Design
from blockveil.engine.records.geometry import GeometryError
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.config import LoadedConfig, LocalCluster, ReleaseConfig, Threads
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.guessing import with_loss, with_promise
from blockveil.pipeline.plan import editions, nights
from blockveil.pipeline.plan.begun import Begun, begun_of
from blockveil.pipeline.plan.describing import Described, describe
from blockveil.pipeline.plan.designing import Designed, design
from blockveil.pipeline.plan.resolving import resolve
from blockveil.pipeline.questions import Answer, Question
from blockveil.pipeline.questions.gradients import course_of, steps_of
from blockveil.pipeline.questions.question import additive

CHUNK_BYTES = 32 * 2**20
"""Bytes of float64 records that a task reads at once, unless the config says how many rows."""

SMALL_SECONDS = 3.0
"""Seconds that one core is predicted to need for work for which no workers are started; they take longer to start."""

_MOST_HERE = 8
"""Threads that do such work."""


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
        How the ledger had the release when it was planned; None where it was planned as one that nobody has begun.
    """

    loaded: LoadedConfig
    logical_date: date
    designed: Designed
    charge: Loss
    described: Described
    begun: Begun | None = None

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
    def trains(self) -> bool:
        """Whether a model is trained: the answer is made step by step."""
        return course_of(self.question, self.design) is not None

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
    def series(self) -> nights.Series | None:
        """The nights that share its charge; None where it is charged alone."""
        return self.described.series

    @property
    def weighs(self) -> bool:
        """Whether its records count by their age, as in a series of nights that share a charge."""
        return self.series is not None and self.series.scheme.levels is not None

    @property
    def config(self) -> ReleaseConfig:
        """The validated config."""
        return self.loaded.config

    @property
    def digest(self) -> str:
        """SHA-256 of the public description."""
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
        column = self.config.data.part_of
        return None if column is None else Part(self.config.release.dataset, column, "")

    def spec(self, fingerprint: str, history: str | None = None, part: Part | None = None) -> dict[str, Any]:
        """Return the full specification that the ledger stores: the plan and the data it is for."""
        data = {**self.public["data"], "fingerprint": fingerprint}
        data |= {} if history is None else {"history": history}
        data |= {} if part is None else {"equals": part.value}
        return {**self.public, "data": data}

    def chunk_rows(self, stored_rows: int) -> int:
        """Rows a task reads at once: as configured, else whole stored chunks up to 32 MiB."""
        wanted = self.config.compute.block_rows or max(1, CHUNK_BYTES // (8 * len(self.columns)))
        return max(1, wanted // stored_rows) * stored_rows if wanted >= stored_rows else wanted

    @cached_property
    def here(self) -> int | None:
        """Threads of the process that runs it, where these do the work: as configured, or as it is small; else None.

        Work is small where starting workers would take longer. Its bits are the same.
        """
        cluster = self.config.cluster
        if isinstance(cluster, Threads):
            return cluster.threads_per_worker
        if not isinstance(cluster, LocalCluster) or cluster.always:
            return None
        slots = min(cluster.workers * cluster.threads_per_worker, _MOST_HERE)
        try:
            cut = self._cut(
                Machine(1, slots, int(self.config.compute.memory_gib * 2**30)), self.config.query.rows_at_most
            )
        except TooLarge:
            return None
        return slots if cut.cost.seconds * self.steps * slots <= SMALL_SECONDS else None

    def machine(self, workers: int | None = None, threads: int | None = None, rates: Rates = NOMINAL) -> Machine:
        """Return what runs the release: as configured, or as found."""
        cluster, memory = self.config.cluster, int(self.config.compute.memory_gib * 2**30)
        if self.here is not None:
            return Machine(workers or 1, threads or self.here, memory, rates)
        declared = [int(getattr(cluster, name, 1)) for name in ("workers", "threads_per_worker")]
        return Machine(workers or declared[0], threads or declared[1], memory, rates)

    def cut(self, machine: Machine, rows: int | None = None) -> Cut:
        """How the answer is computed, for this many records or for the most there may be.

        Raises
        ------
        ConfigError
            It does not fit the memory bound.
        """
        most, failure = self.config.query.rows_at_most, ""
        # The number of records may be private, so the message is about the most there may be.
        for count in (rows or most, most):
            try:
                return self._cut(machine, count)
            except TooLarge as error:
                failure = str(error)
        raise ConfigError("The release does not fit in memory", failure, "Change [compute] or [cluster] accordingly")

    def _cut(self, machine: Machine, rows: int) -> Cut:
        chunk = min(rows, self.chunk_rows(1)) * 8 * len(self.columns)
        work = self.answer.work(rows)
        if self.weighs:
            work = replace(work, weighted_sums=additive(self.design).weight_digits[1])
        return choose(work, machine, chunk)

    @property
    def guess(self) -> float:
        """Bound of a guess with this release, or with all nights that share its charge."""
        return min(with_promise(self.guarantee), with_loss(self.charge))


def make_plan(
    loaded: LoadedConfig,
    logical_date: date,
    begun: Begun | None = None,
    edition: int = editions.NEWEST,
) -> Plan:
    """Plan a release; reads no data.

    Parameters
    ----------
    loaded
        Config of the release.
    logical_date
        Night that it is for.
    begun
        How the ledger has it (:func:`plan_begun`); None plans it as one that nobody has begun.
    edition
        Of the formulas; an earlier one finishes what was begun by it.

    Raises
    ------
    ConfigError
        The declared shape, privacy and size cannot be combined, or the date is not among the nights that share a
        charge; the message says what to change.
    """
    try:
        designed = design(resolve(loaded, logical_date, None if begun is None else begun.night, edition))
        charge = designed.charge
    except (GeometryError, CannotCalibrate, OverflowError, ValueError) as error:
        raise ConfigError("This release cannot be planned", str(error), "Change the config accordingly") from None
    described = describe(designed, charge, release_id(loaded.config, logical_date), begun)
    plan = Plan(loaded, logical_date, designed, charge, described, begun)
    plan.cut(plan.machine())  # a plan fits the memory bound before it starts
    _check_blocks(plan)
    return plan


def release_id(config: ReleaseConfig, logical_date: date) -> str:
    """``dataset/name/logical date``."""
    return f"{config.release.dataset}/{config.release.name}/{logical_date.isoformat()}"


def plan_begun(loaded: LoadedConfig, logical_date: date, ledger: Ledger) -> Plan:
    """Plan a release as a ledger has it: which of the nights of its charge it is, and how an earlier version made it.

    It is planned once. Only what was begun by formulas of an earlier version is planned anew, by those.

    Parameters
    ----------
    loaded, logical_date
        As for :func:`make_plan`.
    ledger
        Where the release may have been begun.

    Raises
    ------
    ConfigError
        As :func:`make_plan`.
    LedgerError
        The ledger cannot be read.
    """
    return _as_it_stands(loaded, logical_date, begun_of(ledger, loaded.config, release_id(loaded.config, logical_date)))


def as_begun(plan: Plan, ledger: Ledger) -> Plan:
    """The plan as a ledger has it; the same object where it was planned so, or as begun and the ledger has nothing.

    Raises
    ------
    LedgerError
        The ledger cannot be read.
    """
    begun = begun_of(ledger, plan.config, plan.release_id)
    stands = begun is not None and begun.calibration is not None
    if begun == plan.begun or (plan.begun is not None and not stands):
        return plan
    return _as_it_stands(plan.loaded, plan.logical_date, begun)


def _as_it_stands(loaded: LoadedConfig, logical_date: date, begun: Begun | None) -> Plan:
    newest = None
    for edition in editions.NEWEST_FIRST:
        try:
            plan = make_plan(loaded, logical_date, begun, edition)
        except ConfigError:
            if newest is None:
                raise
            continue  # what cannot be planned by it was not begun by it
        if begun is None or begun.has(plan.public["calibration"], plan.series):
            return plan
        newest = newest or plan
    return newest or plan


def plan_near(loaded: LoadedConfig, day: date) -> Plan:
    """Plan of a config for a date, or for the nearest where its nights do not hold it."""
    return make_plan(loaded, nights.nearest(loaded, day))


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
    if section is not None and section.windows and (plan.answer.work(rows).blocked or not plan.weighs):
        raise ConfigError(
            "continual.windows with an answer that is written in blocks, or with nights that an earlier version began",
            "Windows are differences of whole results, of nights that are weighed by age",
            "Leave windows out, declare fewer features, or begin new nights under another continual.first",
        )
