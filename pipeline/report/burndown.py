"""How a data set's budget was spent: a picture of the ledger's entries."""

from __future__ import annotations

from collections.abc import Sequence

from blockveil.pipeline.budget.filter import NOTHING, Cap, Ticks
from blockveil.pipeline.budget.parts import Tally
from blockveil.pipeline.ledger import BudgetStatus, Entry
from blockveil.pipeline.ledger.entries import counted
from blockveil.pipeline.plan.summary import share_text
from blockveil.pipeline.report.pictures import Picture, burn_down
from blockveil.pipeline.report.words import number

_MOST = 120


def points(entries: Sequence[Entry], cap: Cap) -> list[tuple[str, float]]:
    """Night of each entry that moves the budget, and share of the budget that all charges up to it take; the last ones.

    Parameters
    ----------
    entries
        Entries of one data set, in order.
    cap
        Its budget. Shares of it add up, epsilons do not.
    """
    tally = Tally()
    found: list[tuple[str, Ticks]] = []
    for entry in counted(entries):
        if entry.ticks != NOTHING:
            tally.add(entry.ticks, entry.of_part)
            found.append((str(entry.release_id).rpartition("/")[2], tally.total.ticks))
    return [(day, cap.used(total)) for day, total in found[-_MOST:]]


def picture(entries: Sequence[Entry], budget: BudgetStatus) -> Picture:
    """Picture of the entries of one data set beside its budget."""
    text = (
        f"Budget of {budget.dataset}, epsilon {number(budget.epsilon)} at delta {budget.delta:g}: "
        f"{share_text(budget.cap.used(budget.spent))} of it spent by {budget.charges} releases."
    )
    return burn_down(points(entries, budget.cap), text)
