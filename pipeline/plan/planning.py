"""The plan of one release: every number that decides it, complete before any record is read.

A plan is a pure function of the config, the logical date and public files that the config names. Its canonical form is
what the ledger stores and what resuming compares; the fingerprint of the data is added to it when the budget is
reserved.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from blockveil.engine.answers.cost import NOMINAL, Cut, Machine, Rates, TooLarge, choose
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.engine.mechanisms.auto import Auto, Candidate, compare
from blockveil.engine.mechanisms.contract import Mechanism
from blockveil.engine.mechanisms.counts.buckets import Dawa
from blockveil.engine.mechanisms.directions.exponential import Exponential
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.noise.design import Design, NoiseDesign
from blockveil.engine.records.geometry import GeometryError
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.config import LoadedConfig, ReleaseConfig, release_world
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.guessing import with_loss, with_promise
from blockveil.pipeline.plan import nights
from blockveil.pipeline.plan.begun import Begun, specification
from blockveil.pipeline.plan.grouping import charge_of_a_unit, guarantee_of_a_row
from blockveil.pipeline.plan.mechanism_choice import mechanism_of
from blockveil.pipeline.plan.rounded import unfelt, with_few_bits
from blockveil.pipeline.plan.splitting import check_share, guarantee_of
from blockveil.pipeline.questions import Answer, Question, ask

ALGORITHMS = {
    "quantise": "nearest integer, norm checked in int64, single precision where precise enough, version 3",
    "answer": "exact int64, version 1",
    "noise": "AES-256-CTR, 127-bit table, 128 x 128 tiles, version 1",
    "laplace": "AES-256-CTR, digits to the base 1024 by 128-bit tables, version 1",
    "constant weight": "1 / (1 + sqrt(d)), version 1",
}
"""Anything that changes a bit of a release, or its law, changes a version here and so makes a new release."""

CHUNK_BYTES = 32 * 2**20
"""Bytes of float64 records that a task reads at once, unless the config says how many rows."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that is decided before data is read.

    Attributes
    ----------
    loaded
        Config with its paths resolved.
    release_id
        ``dataset/name/logical date``.
    answer, mechanism
        What is asked with its design, and how the design was made.
    compared
        With mechanism "auto": every mechanism and its expected error, best first.
    charge
        What the ledger books: the loss of one unit, which is that of the noise where a unit has one row. Of nights that
        share a charge, it is that of all of them, and booked once.
    guarantee, neighbours
        What is promised.
    public
        Canonical description of the release, plain JSON values, nothing private.
    series
        The nights that share its charge; None where it is charged alone.
    """

    loaded: LoadedConfig
    logical_date: date
    release_id: str
    answer: Answer
    mechanism: Mechanism | Exponential | Dawa
    compared: tuple[Candidate, ...]
    charge: Loss
    guarantee: ApproxDP
    neighbours: Neighbours
    public: dict[str, Any]
    series: nights.Series | None = None

    @property
    def config(self) -> ReleaseConfig:
        """The validated config."""
        return self.loaded.config

    @property
    def question(self) -> Question:
        """What is asked."""
        return self.answer.question

    @property
    def design(self) -> Design:
        """The numbers of the draw."""
        return self.answer.design

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

    def machine(self, workers: int | None = None, threads: int | None = None, rates: Rates = NOMINAL) -> Machine:
        """Return what runs the release: as configured, or as found."""
        cluster, memory = self.config.cluster, int(self.config.compute.memory_gib * 2**30)
        declared = [int(getattr(cluster, name, 1)) for name in ("workers", "threads_per_worker")]
        return Machine(workers or declared[0], threads or declared[1], memory, rates)

    def cut(self, machine: Machine, rows: int | None = None) -> Cut:
        """How the answer is computed, for this many records or for the most there may be.

        Raises
        ------
        ConfigError
            It does not fit the memory bound.
        """
        most = self.config.query.rows_at_most
        try:
            return self._cut(machine, rows or most)
        except TooLarge as error:
            failure = str(error)
        if rows is not None:  # the number of records may be private, so the message is about the most there may be
            return self.cut(machine)
        raise ConfigError("The release does not fit in memory", failure, "Change [compute] or [cluster] accordingly")

    def _cut(self, machine: Machine, rows: int) -> Cut:
        chunk = min(rows, self.chunk_rows(1)) * 8 * len(self.columns)
        return choose(self.answer.work(rows), machine, chunk)

    @property
    def guess(self) -> float:
        """Bound of a guess with this release, or with all nights that share its charge."""
        return min(with_promise(self.guarantee), with_loss(self.charge))

    def guarantee_sentence(self, part: Part | None = None) -> str:
        """Return the guarantee in one sentence; in another one, which part of the records it is of."""
        change = "adding or removing" if self.neighbours is Neighbours.ADD_REMOVE else "replacing"
        drawn = "this release" if self.series is None else f"all {self.series.nights} nights of this release together"
        return (
            f"Whatever an attacker knows already, {change} {self.config.privacy.unit} multiplies the probability of "
            f"any conclusion drawn from {drawn} by at most e^{self.guarantee.epsilon:g} and adds at most "
            f"{self.guarantee.delta:g} to it.{self._part_sentence(part)}"
        )

    def _part_sentence(self, part: Part | None) -> str:
        column = self.config.data.part_of
        if column is None:
            return ""
        which = f"one {column}, which its store names," if part is None else part.words
        return (
            f" It is of the records of {which} alone, and as each unit has one record, with one {column}, the budget "
            f"counts such releases once, for the {column} that costs most."
        )


def make_plan(loaded: LoadedConfig, logical_date: date, begun: Begun | None = None) -> Plan:
    """Plan a release; reads no data.

    Parameters
    ----------
    loaded
        Config of the release.
    logical_date
        Night that it is for.
    begun
        How the ledger has the plan where an earlier version began the release; None writes it as this version does.

    Raises
    ------
    ConfigError
        The declared shape, privacy and size cannot be combined, or the date is not among the nights that share a
        charge; the message says what to change.
    """
    config = loaded.config
    section = config.continual
    night = None if section is None else nights.number(section, logical_date)
    try:
        guarantee = guarantee_of(config.privacy)
        answer = _answer(loaded, guarantee, night)
        charge = charge_of_a_unit(answer.answer.design.loss, guarantee, config.privacy)
        check_share(config.privacy, charge)
    except (GeometryError, CannotCalibrate, OverflowError, ValueError) as error:
        raise ConfigError("This release cannot be planned", str(error), "Change the config accordingly") from None
    release_id = f"{config.release.dataset}/{config.release.name}/{logical_date.isoformat()}"
    public = _public(answer, release_id, answer.answer, charge, begun)
    series = None
    if section is not None and answer.shared is not None and night is not None:
        series = nights.series(
            section, night, _public(answer, "", answer.answer.question.answer(answer.shared), charge, begun)
        )
        public["calibration"]["continual"] = nights.facts(section, series)
    plan = Plan(
        loaded=loaded,
        logical_date=logical_date,
        release_id=release_id,
        answer=answer.answer,
        mechanism=answer.mechanism,
        guarantee=guarantee,
        neighbours=Neighbours(config.privacy.neighbours),
        compared=answer.compared,
        charge=charge,
        public=public,
        series=series,
    )
    plan.cut(plan.machine())  # a plan fits the memory bound before it starts
    _check_blocks(plan)
    return plan


def as_begun(plan: Plan, ledger: Ledger) -> Plan:
    """The plan as the ledger has it where an earlier version began the release or its series, else as it is.

    Raises
    ------
    LedgerError
        The ledger cannot be read.
    """
    now = Begun.of(plan.public["calibration"])
    if not now.mapped and now.exact is not False:
        return plan  # earlier versions wrote the same
    first = None if plan.series is None else plan.series.first
    spec = specification(ledger, plan.config.release.account, plan.release_id, first)
    then = now if spec is None else Begun.of(spec["calibration"])
    return plan if then == now else make_plan(plan.loaded, plan.logical_date, then)


def plan_near(loaded: LoadedConfig, day: date) -> Plan:
    """Plan of a config for a date, or for the nearest where its nights do not hold it."""
    return make_plan(loaded, nights.nearest(loaded, day))


@dataclass(frozen=True, eq=False)
class _Answer:
    """What is asked, with as many bits, and the noise that answers it; see :class:`Plan`, and :func:`_shared`."""

    config: ReleaseConfig
    answer: Answer
    mechanism: Mechanism | Exponential | Dawa
    shared: NoiseDesign | None
    compared: tuple[Candidate, ...]


def _answer(loaded: LoadedConfig, guarantee: ApproxDP, night: int | None) -> _Answer:
    """Answer to a config's question with few bits where they are not felt, else with those that it declares."""
    few = with_few_bits(loaded)
    if few is not None:
        answer = _answer_as_declared(few, guarantee, night)
        # All nights that share a charge have the bits that suit the noise of one increment.
        if unfelt(answer.answer if answer.shared is None else answer.answer.question.answer(answer.shared)):
            return answer
    return _answer_as_declared(loaded, guarantee, night)


def _answer_as_declared(loaded: LoadedConfig, guarantee: ApproxDP, night: int | None) -> _Answer:
    config = loaded.config
    of_a_row = guarantee_of_a_row(guarantee, config.privacy)
    question = ask(loaded)
    mechanism = mechanism_of(config)
    compared: tuple[Candidate, ...] = ()
    if isinstance(mechanism, Auto):
        comparison = compare(question.problem, of_a_row, mechanism.metric, question.answer)
        mechanism, compared = comparison.mechanism, comparison.table
    shared = _shared(mechanism, question, of_a_row, config)
    if config.continual is None or shared is None or night is None:
        design: Design = mechanism.design(question.problem, of_a_row)
    else:
        design = nights.noise(shared, config.continual, night)
    return _Answer(config, question.answer(design), mechanism, shared, compared)


def _shared(
    mechanism: Mechanism | Exponential | Dawa, question: Question, guarantee: ApproxDP, config: ReleaseConfig
) -> NoiseDesign | None:
    """Noise of one increment where nights share a charge, else None."""
    if config.continual is None or not isinstance(mechanism, Gaussian | ShapedGaussian):
        return None
    return nights.increment(mechanism, question.problem, guarantee, config.continual)


def _public(
    answer: _Answer,
    release_id: str,
    said: Answer,
    charge: Loss,
    begun: Begun | None,
) -> dict[str, Any]:
    numbers = {
        "mechanism": answer.mechanism.name,
        "parameters": answer.mechanism.parameters(),
        **said.facts(),
        **said.design.facts(),
        "loss": asdict(charge),
    }
    if answer.compared:
        numbers["compared"] = [asdict(candidate) for candidate in answer.compared]
    numbers = numbers if begun is None else begun.written(numbers)
    world = release_world(answer.config)
    return {"release_id": release_id, **world, "calibration": numbers, "algorithms": dict(ALGORITHMS)}


def _check_blocks(plan: Plan) -> None:
    rows = plan.config.query.rows_at_most
    if plan.answer.work(rows).blocked and plan.answer.blocks(rows) is None:
        m, n = plan.design.shape
        raise ConfigError(
            f"An answer of {m:,} x {n:,} is too large for what is made of it",
            "A matrix that mixes all features, and directions, need the whole answer in one piece",
            "Declare fewer features, or a box, a ball or an ellipsoid by its axes",
        )
