"""Which formulas a plan is made by: those of this version, or those by which an earlier version began the release.

A release or a series is finished with the noise with which it was begun, also where a later version proves that less is
enough: another scale under a committed charge would be another release. So what a later version computes otherwise has
an edition, and a plan that has an entry in the ledger is made by the edition whose plan the entry holds.

======= ===============================================================================================================
edition what is new in it
======= ===============================================================================================================
0       as versions up to 0.2 had it
1       what replacing a record changes is bounded by the ends of each feature of a box (:mod:`.box_moments`)
2       eigenvalues of positive semi-definite versions are shrunk where that suits the noise (:mod:`.shrunk_spectrum`)
======= ===============================================================================================================
"""

from __future__ import annotations

from dataclasses import replace

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.sensitivity.problems import OuterProducts, Rows, SecondMoment
from blockveil.pipeline.questions import Answer, Question
from blockveil.pipeline.questions.moment import Moment, MomentAnswer
from blockveil.pipeline.questions.outer import Outer
from blockveil.pipeline.questions.rows import RowsQuestion

NEWEST = 2


def by_edition(question: Question, edition: int) -> Question:
    """The question as an edition has it; the same object where the edition has nothing else."""
    if edition < 2 and isinstance(question, Moment) and question.shrinks:
        question = replace(question, shrinks=False)
    return _without_ends(question) if edition < 1 else question


def _without_ends(question: Question) -> Question:
    """The question where no more is known of a box than how far it reaches from its origin."""
    match question:
        case Moment(problem=SecondMoment(ends=ends) as problem) if ends is not None:
            return replace(question, problem=replace(problem, ends=None))
        case RowsQuestion(problem=Rows(ends=ends) as problem) if ends is not None:
            return replace(question, problem=replace(problem, ends=None))
        case Outer(problem=OuterProducts() as problem) if problem.left_ends is not None:
            return replace(question, problem=replace(problem, left_ends=None, right_ends=None))
    return question


def earlier(answer: Answer) -> tuple[int, ...]:
    """Earlier editions that may have planned the same otherwise, the newest first."""
    question = answer.question
    replaced = question.problem.neighbours is Neighbours.REPLACE_ONE
    bounded = replaced and _without_ends(question) is not question
    shrunk = isinstance(answer, MomentAnswer) and answer.shrinks
    return (1, 0) if bounded and shrunk else (0,) if bounded or shrunk else ()
