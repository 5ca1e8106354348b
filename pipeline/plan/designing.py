"""The second step of a plan: the engine's numbers. Which bits, which mechanism, how much noise, and what it costs.

A pure function of what was resolved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.engine.mechanisms.auto import Auto, Candidate, compare
from blockveil.engine.mechanisms.contract import Designer
from blockveil.engine.noise.design import Design
from blockveil.pipeline.plan.grouping import charge_of_a_unit
from blockveil.pipeline.plan.resolving import Resolved
from blockveil.pipeline.plan.rounded import enough
from blockveil.pipeline.plan.shares import check_share
from blockveil.pipeline.plan.stages import StageAfter, StagesBefore
from blockveil.pipeline.questions import Answer


@dataclass(frozen=True, eq=False)
class Designed:
    """A question with its design, and how it came about.

    Attributes
    ----------
    resolved
        What was to be designed.
    answer
        The question with its design.
    mechanism
        Which made the design.
    compared
        With mechanism "auto": every mechanism and its expected error, best first.
    together, first
        Where nights share a charge, the question with the design of what each of them draws, and with that of the first
        night, which has the least noise.
    learning
        Where something is learned before the answer, all stages; the answer is then that of their plan.
    stage_after
        Where more is asked once all steps are made, the stage for it; the answer is then that of the steps.
    """

    resolved: Resolved
    answer: Answer
    mechanism: Designer
    compared: tuple[Candidate, ...] = ()
    together: Answer | None = None
    first: Answer | None = None
    learning: StagesBefore | None = None
    stage_after: StageAfter | None = None

    @property
    def has_its_bits(self) -> bool:
        """Whether its bits are settled, or their rounding is far enough below the noise."""
        # All nights that share a charge have the bits that suit the first of them.
        return self.resolved.settled or enough(self.first or self.answer)

    @property
    def charge(self) -> Loss:
        """What the ledger books: the loss of one unit, which is that of the noise where a unit has one row.

        Raises
        ------
        CannotCalibrate
            It exceeds the guarantee, or the config declares a share and the loss is not Gaussian.
        """
        privacy = self.resolved.config.privacy
        stages = self.learning or self.stage_after
        loss = self.answer.design.loss if stages is None else stages.loss
        unit_loss = charge_of_a_unit(loss, self.resolved.guarantee, privacy)
        check_share(privacy, unit_loss)
        return unit_loss


def design(ways: Iterable[Resolved]) -> Designed:
    """Design the first question whose bits are enough.

    The bits of the last one are settled.

    Raises
    ------
    ValueError
        The guarantee cannot be met, or the mechanism does not answer the question.
    """
    return next(candidate for candidate in map(_designed, ways) if candidate.has_its_bits)


def _shared(asked: Resolved, found: Design) -> None:
    """Refuse a design that does not answer the question, or whose loss has no share."""
    check_share(asked.config.privacy, found.loss)
    asked.question.answer(found)


def _designed(asked: Resolved) -> Designed:
    question, mechanism, guarantee, night = asked.question, asked.mechanism, asked.of_a_row, asked.night
    learning: StagesBefore | None = asked.config.kind.part("learning", _no_stages)(asked)
    if learning is not None:
        return Designed(asked, learning.plain_answer, mechanism, learning=learning)
    stage_after: StageAfter | None = asked.config.kind.part("stage_after", _no_stages)(asked)
    if stage_after is not None:
        return Designed(asked, question.answer(stage_after.noise), mechanism, stage_after=stage_after)
    if isinstance(mechanism, Auto):
        best = compare(question.problem, guarantee, mechanism.metric, partial(_shared, asked))
        return Designed(asked, question.answer(best.design), best.mechanism, best.table)
    if night is None:
        return Designed(asked, question.answer(mechanism.design(question.problem, guarantee)), mechanism)
    together = night.together(mechanism, question.problem, guarantee)
    whole = question.answer(night.noise(together))
    first = question.answer(night.noise(together, 1))
    return Designed(asked, whole, mechanism, together=question.answer(together), first=first)


def _no_stages(asked: Resolved) -> None:
    """Most kinds ask once."""
