"""Whether a person must agree before a release spends.

A release's share of what is left of the budget is one over the number of such releases that still fit; that holds for
Gaussian and pure losses together, and is what a person has to decide about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.ledger import BudgetStatus
from blockveil.pipeline.plan.balance import guesses, share_text
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.price import price_of
from blockveil.pipeline.plan.promise import guess_alone
from blockveil.pipeline.plan.summary import warnings


@dataclass(frozen=True)
class ApprovalRequest:
    """What a person is asked.

    Attributes
    ----------
    key
        Names the plan and the place of the records: an answer holds for these alone.
    text
        The question, with the cost.
    """

    key: str
    text: str


class NotApproved(BlockveilError):
    """A release needs a person's approval and does not have it."""

    exit_code: ClassVar[int] = 11

    @classmethod
    def because(cls, what: str, remedy: str) -> NotApproved:
        """Build the error from what happened and what to do."""
        return cls(what.removesuffix("."), "A release above approval.threshold_share needs a person", remedy)


def question(plan: Plan, budget: BudgetStatus | None, charged: bool) -> ApprovalRequest | None:
    """Question to ask before a release is charged, or None where nobody needs to be asked.

    Parameters
    ----------
    plan
        The release.
    budget
        Budget that it would be charged to.
    charged
        Whether it has a charge already: finishing it costs nothing more.
    """
    section = plan.config.approval
    if section is None or charged or budget is None:
        return None
    fits, price = budget.nights_left(plan.charge), price_of(plan, budget)
    # Where none fits, not even of a part of which nothing was released, the ledger refuses it, and there is nothing to
    # decide.
    if fits == 0 and not price.adds:
        return None
    # A release takes 1 / fits of what is left; one of a part at most that, if that part costs most.
    if fits and 1.0 / fits <= section.threshold_share:
        return None
    share = f"up to {share_text(1.0 / fits)}" if fits > 1 else "more than half"
    cost = (
        f"{plan.release_id} would take {share} of what is left of the budget of '{budget.dataset}'; above "
        f"{share_text(section.threshold_share)} of that a person decides."
    )
    guess = f"A guess about one unit is {guesses([guess_alone(plan), *price.bounds])}"
    text = " ".join([cost, price.sentence, guess, *warnings(plan)])
    store = [str(plan.loaded.store), plan.config.data.array]
    return ApprovalRequest(f"approve-{digest([plan.digest, *store])[:32]}", text)
