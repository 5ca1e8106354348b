"""The second step of a plan: the engine's numbers. Which bits, which mechanism, how much noise, and what it costs.

A pure function of what was resolved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.engine.mechanisms.auto import Auto, Candidate, compare
from blockveil.engine.mechanisms.contract import Designer, NotApplicable
from blockveil.engine.noise.design import Design
from blockveil.pipeline.kinds.gradients.question import Gradients, errors_share_of
from blockveil.pipeline.kinds.moments.question import Moment
from blockveil.pipeline.kinds.totals.question import TotalsQuestion
from blockveil.pipeline.plan.fisher_stage import FisherStage
from blockveil.pipeline.plan.grouping import charge_of_a_unit
from blockveil.pipeline.plan.learning import Learning
from blockveil.pipeline.plan.resolving import Resolved
from blockveil.pipeline.plan.rounded import enough
from blockveil.pipeline.plan.shares import check_share
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.spread_questions import LearningQuestions


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
        Where the shape of the noise is learned, all stages; the answer is then that of records that stay in their box.
    fisher
        Where coefficients of a trained model get errors, the stage after its last step.
    """

    resolved: Resolved
    answer: Answer
    mechanism: Designer
    compared: tuple[Candidate, ...] = ()
    together: Answer | None = None
    first: Answer | None = None
    learning: Learning | None = None
    fisher: FisherStage | None = None

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
        loss = self.answer.design.loss if self.learning is None else self.learning.loss
        loss = loss if self.fisher is None else self.fisher.loss
        found = charge_of_a_unit(loss, self.resolved.guarantee, privacy)
        check_share(privacy, found)
        return found


def design(ways: Iterable[Resolved]) -> Designed:
    """Design the first question whose bits are enough.

    Parameters
    ----------
    ways
        The same question with more and more bits; those of the last are settled.

    Raises
    ------
    ValueError
        The guarantee cannot be met, or the mechanism does not answer the question.
    """
    return next(found for found in map(_designed, ways) if found.has_its_bits)


def _shared(asked: Resolved, found: Design) -> None:
    """Refuse a design that does not answer the question, or whose loss has no share."""
    check_share(asked.config.privacy, found.loss)
    asked.question.answer(found)


def _designed(asked: Resolved) -> Designed:
    question, mechanism, guarantee, night = asked.question, asked.mechanism, asked.of_a_row, asked.night
    if asked.learning is not None:
        return _learning(asked, asked.learning)
    share = errors_share_of(question)
    if share is not None:
        return _with_errors(asked, share)
    if isinstance(mechanism, Auto):
        best = compare(question.problem, guarantee, mechanism.metric, partial(_shared, asked))
        return Designed(asked, question.answer(best.design), best.mechanism, best.table)
    if night is None:
        return Designed(asked, question.answer(mechanism.design(question.problem, guarantee)), mechanism)
    together = night.together(mechanism, question.problem, guarantee)
    whole = question.answer(night.noise(together))
    first = question.answer(night.noise(together, 1))
    return Designed(asked, whole, mechanism, together=question.answer(together), first=first)


def _with_errors(asked: Resolved, share: float) -> Designed:
    """The steps of a training, with what the stage for its errors leaves them, and that stage."""
    question, mechanism = asked.question, asked.mechanism
    if isinstance(mechanism, Auto) or not isinstance(question, Gradients):
        raise NotApplicable('query.training.errors_share with mechanism.kind = "auto"; choose "gaussian"')
    fisher = FisherStage.of(question, share, asked.of_a_row, partial(mechanism.design, question.problem))
    return Designed(asked, question.answer(fisher.steps), mechanism, fisher=fisher)


def _learning(asked: Resolved, questions: LearningQuestions) -> Designed:
    """The answer in the box, with what all stages leave it, and the stages."""
    if not isinstance(asked.question, Moment | TotalsQuestion):
        raise NotApplicable('query.geometry.learn is for query.kind = "covariance" or "totals"; leave it out')
    learning = Learning.of(questions, asked.mechanism, asked.question, asked.of_a_row, asked.earlier)
    return Designed(asked, asked.question.answer(learning.box), asked.mechanism, learning=learning)
