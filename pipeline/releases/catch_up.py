"""Which nights are due although their time has passed: those that were begun, and those that were missed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import date

from blockveil.pipeline.budget.filter import Cap
from blockveil.pipeline.budget.parts import Tally
from blockveil.pipeline.config import ReleaseSection
from blockveil.pipeline.config.deployments_file import Missed
from blockveil.pipeline.ledger import BudgetStatus, Ledger, State
from blockveil.pipeline.ledger.entries import WITHDRAWN
from blockveil.pipeline.plan.planning import Plan


@dataclass(frozen=True)
class Due:
    """A night that should run now.

    Attributes
    ----------
    night
        Its logical date.
    why
        Reason, in words.
    begun
        Whether it has a charge already.
    """

    night: date
    why: str
    begun: bool = False


def due(
    nights: Sequence[date],
    charges: Mapping[date, State],
    at_work: Collection[date | None],
    missed: Missed,
    fresh: Collection[date] = (),
) -> list[Due]:
    """Nights to run: those that were begun first, then those that were missed, oldest first.

    Parameters
    ----------
    nights
        Logical dates of the schedule, up to now.
    charges
        Where the ledger stands for each night that has a charge; void ones left out.
    at_work
        Nights that have a planned, waiting or running run.
    missed
        What becomes of nights that never began.
    fresh
        Those of the nights that are not late enough to count as missed.
    """
    nights_due = [
        Due(night, "it was begun; finishing it costs nothing more", begun=True)
        for night, state in charges.items()
        if state is not State.RELEASED and night not in at_work
    ]
    candidates = {"skip": [], "latest": sorted(nights)[-1:]}.get(missed, nights)
    nights_due.sort(key=lambda each: each.night)
    nights_due += [
        Due(night, "it was missed")
        for night in sorted({*candidates, *fresh})
        if night not in charges and night not in at_work
    ]
    return nights_due


class Room:
    """What budgets have left while nights that are due are counted one after the other, before any of them runs."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[Cap, Tally]]] = {}

    def take(self, plan: Plan, status: BudgetStatus | None, *, paid: bool) -> str | None:
        """What one more night costs, in words; None where no room is left for it beside those counted before.

        Parameters
        ----------
        plan
            The night.
        status
            Its budget as the ledger has it; None where nobody has granted one.
        paid
            Whether it costs nothing more: it was begun, or an earlier night of its series paid.
        """
        if status is None:
            return None
        if paid:
            return "at no further charge"
        # Whenever a night was due, its charge counts in the periods in which it is caught up.
        caps = [(status.cap, status.tally), *((each.cap, each.tally) for each in status.periods)]
        tallies = self._held.setdefault(plan.config.release.account, deepcopy(caps))
        part = None if plan.new_part is None else replace(plan.new_part, value=plan.logical_date.isoformat())
        ticks = tallies[0][1].book(status.cap, plan.charge, part)
        if not all(tally.holds(cap, ticks, part) for cap, tally in tallies):
            return None
        for _, tally in tallies:
            tally.add(ticks, part)
        return f"for {100.0 * status.cap.used(ticks):.3g} % of the budget"


def charges_of(ledger: Ledger, release: ReleaseSection) -> dict[date, State]:
    """Where the charges of a release's nights stand, void ones left out."""
    charges: dict[date, State] = {}
    for entry in ledger.history(release.account):
        owner, _, day = (entry.release_id or "").rpartition("/")
        if owner != f"{release.dataset}/{release.name}":
            continue
        night = date.fromisoformat(day)
        if entry.kind == State.VOID:
            charges.pop(night, None)
        elif entry.kind != WITHDRAWN:  # a withdrawn night stays released, so that it is not due again
            charges[night] = State(entry.kind)
    return charges


def last_released(charges: Mapping[date, State], until: date) -> date | None:
    """Newest night up to a day that is released, or None; a mistyped date to come is not where the nights stand.

    Parameters
    ----------
    charges
        Where the ledger stands for each night that has a charge.
    until
        The last day that counts.
    """
    released = (night for night, state in charges.items() if state is State.RELEASED and night <= until)
    return max(released, default=None)
