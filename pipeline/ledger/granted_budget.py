"""A budget is granted or changed, inside a writing transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.budget.filter import Accountant, Cap
from blockveil.pipeline.ledger import lookups, restoring
from blockveil.pipeline.ledger.budget_status import BudgetStatus
from blockveil.pipeline.ledger.chain import append, identifier
from blockveil.pipeline.ledger.grants import Grant, changed_cap, check_change
from blockveil.pipeline.ledger.periods import Period


@dataclass(frozen=True)
class BudgetChange:
    """What a person wants of a budget; parts that are None stay as they are, or as usual in a new budget.

    Attributes
    ----------
    dataset
        Name of the budget.
    usual
        Its epsilon and delta, and what is usual beside them.
    neighbours, privacy_unit
        What it is for.
    reserve, slack, accountant, periods
        What may be spent on what.
    after_loss
        Why it is granted although charges were forgotten.
    granted_by
        Who grants it and why, as ``granted_by`` and ``why``; empty where nobody is named.
    nonce
        Of its entry, by which a transaction that is repeated finds it.
    """

    dataset: str
    usual: Cap
    neighbours: Neighbours
    privacy_unit: str
    reserve: float | None
    slack: float | None
    accountant: Accountant | None
    periods: tuple[Period, ...] | None
    after_loss: str | None
    granted_by: Mapping[str, str] = field(default_factory=dict)
    nonce: str = field(default_factory=identifier)


def granted(connection: sa.Connection, wanted: BudgetChange, now: str) -> BudgetStatus:
    """Add the entry of a change, unless it is there; the budget afterwards.

    Raises
    ------
    LedgerError
        It would leave less than is spent, mix relations or units, or move what may be spent on what after something
        was released.
    """
    present = lookups.budget(connection, wanted.dataset, now)
    if present is not None and lookups.has_nonce(connection, wanted.nonce):
        return present
    before = wanted.usual if present is None else present.cap
    cap = changed_cap(before, wanted.usual, wanted.reserve, wanted.slack, wanted.accountant)
    periods = () if present is None else present.grant.periods
    grant = Grant(cap, wanted.neighbours, wanted.privacy_unit, periods if wanted.periods is None else wanted.periods)
    if present is not None:
        if present.charges:
            lookups.check_scope(present, wanted.neighbours, wanted.privacy_unit)
        check_change(wanted.dataset, present.cap, present.tally.total, cap)
    terms = (
        grant.payload()
        | dict(wanted.granted_by)
        | ({} if wanted.after_loss is None else {"after_loss": wanted.after_loss})
    )
    append(connection, "BUDGET", wanted.dataset, terms, now, nonce=wanted.nonce)
    restoring.begin(connection)
    return lookups.require_budget(connection, wanted.dataset, now)
