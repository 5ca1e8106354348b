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
5       and such noise by feature for covariances and uneven boxes (:mod:`.shaped_diagonal`)
6       and noise that the count of a covariance has in common with its diagonal (:mod:`.joint_diagonal`)
7       and noise that columns of histograms have in common (:mod:`.histogram_noise`); places without a bin do not count
======= ===============================================================================================================
"""

from __future__ import annotations

from dataclasses import replace

from blockveil.engine.mechanisms.auto import Auto
from blockveil.engine.mechanisms.contract import Designer
from blockveil.engine.sensitivity.problems import OuterProducts, Rows, SecondMoment
from blockveil.pipeline.questions import Question
from blockveil.pipeline.questions.moment import Moment
from blockveil.pipeline.questions.outer import Outer
from blockveil.pipeline.questions.rows import RowsQuestion

NEWEST = 7

NEWEST_FIRST = tuple(range(NEWEST, -1, -1))

_COMPARED_SINCE = {
    "k-norm": 3,
    "box-diagonal": 4,
    "shaped-diagonal": 5,
    "joint-diagonal": 6,
    "histogram-residuals": 7,
}
"""Mechanisms that ``auto`` did not compare before an edition."""


def by_edition(question: Question, mechanism: Designer, edition: int) -> tuple[Question, Designer]:
    """A question and a mechanism as an edition has them; the same objects where the edition has nothing else.

    Parameters
    ----------
    question, mechanism
        As the newest edition has them.
    edition
        Of the formulas.
    """
    unknown = tuple(name for name, since in _COMPARED_SINCE.items() if edition < since)
    if unknown and isinstance(mechanism, Auto):
        mechanism = replace(mechanism, without=unknown, metric=replace(mechanism.metric, filled=edition < 7))
    if edition < 2 and isinstance(question, Moment) and question.shrinks:
        question = replace(question, shrinks=False)
    return _without_ends(question) if edition < 1 else question, mechanism


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
