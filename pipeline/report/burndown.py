"""How a data set's budget was spent: a picture of the ledger's entries."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.accounting import NOTHING, Accountant, Ticks
from pipeline.ledger import BudgetStatus, Entry
from pipeline.ledger.records import counted
from pipeline.parts import Tally
from pipeline.report.pictures import Picture, burn_down
from pipeline.report.words import number

_MOST = 120


def points(
    entries: Sequence[Entry], delta: float, accountant: Accountant = Accountant.GAUSSIAN
) -> list[tuple[str, float]]:
    """Night of each entry that moves the budget, and epsilon of all charges up to it at a delta; the last ones.

    Parameters
    ----------
    entries
        Entries of one data set, in order.
    delta
        Delta of its budget.
    accountant
        Currency of its budget.
    """
    tally = Tally()
    found: list[tuple[str, Ticks]] = []
    for entry in counted(entries):
        if entry.ticks != NOTHING:
            tally.add(entry.ticks, entry.of_part)
            found.append((str(entry.release_id).rpartition("/")[2], tally.total.ticks))
    return [(day, total.epsilon(delta, accountant)) for day, total in found[-_MOST:]]


def picture(entries: Sequence[Entry], budget: BudgetStatus) -> Picture:
    """Picture of the entries of one data set beside its budget."""
    text = (
        f"Budget of {budget.dataset}: epsilon {number(budget.spent_epsilon)} of {number(budget.epsilon)} at delta "
        f"{budget.delta:g} spent by {budget.charges} releases."
    )
    return burn_down(points(entries, budget.delta, budget.cap.accountant), budget.epsilon, text)
