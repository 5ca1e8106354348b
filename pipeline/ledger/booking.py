"""What a new charge costs, and whether a budget and its caps for periods hold it."""

from __future__ import annotations

from typing import Any

from blockveil.engine.guarantees.guarantee import Loss, Neighbours
from blockveil.pipeline.base.spelling import is_canonical
from blockveil.pipeline.budget.filter import Chargeable, Ticks
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import refusals
from blockveil.pipeline.ledger.budget_status import BudgetStatus
from blockveil.pipeline.ledger.entries import Night
from blockveil.pipeline.ledger.exhausted_budget import exhausted


def booked(budget: BudgetStatus, charge: Chargeable, part: Part | None) -> Ticks:
    """What a charge costs a budget.

    Parameters
    ----------
    part
        Part of the records that it is of; None for all of them.

    Raises
    ------
    BudgetExhausted
        The cap, or one for a period, does not hold it.
    LedgerError
        It is too large to be stored.
    """
    ticks = budget.tally.book(budget.cap, charge, part)
    if not budget.tally.holds(budget.cap, ticks, part):
        raise exhausted(budget, charge, ticks, part)
    for period in budget.periods:
        if not period.tally.holds(period.cap, ticks, part):
            raise exhausted(budget, charge, ticks, part, period)
    if not ticks.storable:
        raise refusals.not_storable()
    return ticks


def event_of(charge: Chargeable) -> dict[str, Any]:
    """What is charged, whole, as plain JSON values: a better accountant can read it anew."""
    if isinstance(charge, Loss):
        return charge.plain
    from blockveil.pipeline.budget.event_files import plain  # few charges are a series

    return {"series": plain(charge)}


def check_part(
    part: Part | None, release_id: str, charge: Chargeable, neighbours: Neighbours, night: Night | None
) -> None:
    """Refuse a charge of a part of the records for which the proof of :mod:`.parts` does not hold.

    Raises
    ------
    LedgerError
        It is of another data set or of no type, under another relation, of a series of events, or of nights that share
        a charge.
    """
    if part is None:
        return
    if neighbours is not Neighbours.ADD_REMOVE:
        raise refusals.no_part("A record that is replaced may leave one part and enter another")
    if not isinstance(charge, Loss) or night is not None:
        raise refusals.no_part("A series of events, and nights that share a charge, are of all records")
    if part.dataset != release_id.partition("/")[0] or not (part.column and part.value):
        raise refusals.no_part("A part is of the data set that is released, by a column and its value")
    if part.type is None or not is_canonical(part.value, part.type):
        raise refusals.no_part("The column of a part has a type, and its value the one spelling of that type")
    if (part.type == "text") != (part.listed is not None):
        raise refusals.no_part("Texts are parts of a declared list of values, and values of no other type are")
