"""How a data set's budget was spent: a picture of the ledger's entries, and lines of what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.budget.filter import NOTHING, Cap, Ticks
from blockveil.pipeline.budget.parts import Tally
from blockveil.pipeline.ledger import BudgetStatus, Entry, Ledger
from blockveil.pipeline.ledger.entries import counted
from blockveil.pipeline.ledger.guessing import Together
from blockveil.pipeline.plan.balance import budget_lines, share_text
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.report.facts import Rows
from blockveil.pipeline.report.papers import Picture
from blockveil.pipeline.report.pictures import burn_down

_MOST = 120


def points(entries: Sequence[Entry], cap: Cap) -> list[tuple[str, float]]:
    """Night of each of the last entries that move the budget, and share of it that all charges up to this one take."""
    tally = Tally()
    totals: list[tuple[str, Ticks]] = []
    for entry in counted(entries):
        if entry.ticks != NOTHING:
            tally.add(entry.ticks, entry.of_part)
            totals.append((str(entry.release_id).rpartition("/")[2], tally.total.ticks))
    return [(day, cap.used(total)) for day, total in totals[-_MOST:]]


def picture(entries: Sequence[Entry], budget: BudgetStatus) -> Picture:
    """Picture of the entries of one data set beside its budget."""
    text = (
        f"Budget of {budget.dataset}, epsilon {number(budget.epsilon)} at delta {budget.delta:g}: "
        f"{share_text(budget.used)} of it spent by {budget.charges} releases."
    )
    return burn_down(points(entries, budget.cap), text)


@dataclass(frozen=True)
class Balance:
    """What a ledger says of the budget of a release.

    Attributes
    ----------
    rows
        Lines of what is left.
    together
        What a guess reaches with the other releases of the budget; None where no ledger was asked.
    spent
        Picture of the budget spent so far, likewise.
    """

    rows: Rows = ()
    together: Together | None = None
    spent: Picture | None = None

    @classmethod
    def of(cls, ledger: Ledger, plan: Plan, status: BudgetStatus) -> Balance:
        """Balance of a plan's budget.

        Parameters
        ----------
        ledger
            The ledger that its config names.
        plan
            A release that the budget pays.
        status
            The budget, as that ledger has it.
        """
        rows = budget_lines(status, plan.charge_of_a_night, plan.new_part)
        return cls(rows, Together.of(status), picture(ledger.history(status.dataset), status))


UNKNOWN = Balance()
"""Where no ledger was asked."""
