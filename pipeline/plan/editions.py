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
3       ``auto`` compares K-norm noise for rows and gradients (:mod:`.k_norm`)
4       ``auto`` compares noise with a diagonal of its own for second moments in a box (:mod:`.box_diagonal`)
======= ===============================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.auto import Auto, Candidate
from blockveil.engine.mechanisms.contract import Designer
from blockveil.engine.sensitivity.problems import OuterProducts, Rows, SecondMoment
from blockveil.pipeline.questions import Answer, Question
from blockveil.pipeline.questions.moment import Moment, MomentAnswer
from blockveil.pipeline.questions.outer import Outer
from blockveil.pipeline.questions.rows import RowsQuestion

NEWEST = 4

_COMPARED_SINCE = {"k-norm": 3, "box-diagonal": 4}
"""Mechanisms that ``auto`` did not compare before an edition."""

Mechanism = TypeVar("Mechanism", bound=Designer)


def by_edition(question: Question, edition: int) -> Question:
    """The question as an edition has it; the same object where the edition has nothing else."""
    if edition < 2 and isinstance(question, Moment) and question.shrinks:
        question = replace(question, shrinks=False)
    return _without_ends(question) if edition < 1 else question


def mechanism_by_edition(mechanism: Mechanism, edition: int) -> Mechanism:
    """The mechanism as an edition has it: ``auto`` compares what it did then; the same object otherwise."""
    unknown = tuple(name for name, since in _COMPARED_SINCE.items() if edition < since)
    return replace(mechanism, without=unknown) if unknown and isinstance(mechanism, Auto) else mechanism


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


def earlier(answer: Answer, compared: Iterable[Candidate] = ()) -> tuple[int, ...]:
    """Earlier editions that may have planned the same otherwise, the newest first.

    Parameters
    ----------
    answer
        As the newest edition has it.
    compared
        What ``auto`` compared, where it chose.
    """
    question = answer.question
    replaced = question.problem.neighbours is Neighbours.REPLACE_ONE
    changed = {_COMPARED_SINCE[row.mechanism] for row in compared if row.mechanism in _COMPARED_SINCE}
    if isinstance(answer, MomentAnswer) and answer.shrinks:
        changed.add(2)
    if replaced and _without_ends(question) is not question:
        changed.add(1)
    return tuple(edition - 1 for edition in sorted(changed, reverse=True))
