"""What the ledger's transactions read: budgets, charges and where they stand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.ledger import refusals
from blockveil.pipeline.ledger.approved import Approved
from blockveil.pipeline.ledger.budget_status import BudgetStatus, PeriodStatus
from blockveil.pipeline.ledger.entries import WITHDRAWN, Charge, Entry, State, state_of
from blockveil.pipeline.ledger.grants import Grant
from blockveil.pipeline.ledger.periods import Period
from blockveil.pipeline.ledger.same_records import warning
from blockveil.pipeline.ledger.schema import entry
from blockveil.pipeline.ledger.sums import not_void, plain_text, spent

# Built once: a statement takes longer to build than to run.
_GRANTED = (
    sa.select(entry.c.payload)
    .where(entry.c.dataset == sa.bindparam("dataset"), entry.c.kind == "BUDGET")
    .order_by(entry.c.sequence.desc())
    .limit(1)
)
_ACTIVE = sa.select(entry).where(
    entry.c.release_id == sa.bindparam("release_id"), entry.c.kind == "RESERVED", not_void(entry)
)
_OF_CHARGE = sa.select(entry).where(entry.c.charge_id == sa.bindparam("charge_id")).order_by(entry.c.sequence)
_MOVED = sa.select(entry.c.charge_id).where(
    entry.c.dataset == sa.bindparam("dataset"), entry.c.kind.in_(("COMMITTED", "VOID"))
)
_STALE = (
    sa.select(entry)
    .where(
        entry.c.dataset == sa.bindparam("dataset"),
        entry.c.kind == "RESERVED",
        entry.c.time < sa.bindparam("before"),
        entry.c.charge_id.not_in(_MOVED),
    )
    .order_by(entry.c.sequence)
)
_NEWEST = sa.select(entry.c.kind, entry.c.payload).order_by(entry.c.sequence.desc()).limit(1)
_OTHER_ACCOUNT = (
    sa.select(entry.c.dataset)
    .where(
        entry.c.kind == "RESERVED",
        entry.c.release_id.startswith(sa.bindparam("prefix"), escape="/"),
        entry.c.dataset != sa.bindparam("dataset"),
        not_void(entry),
    )
    .limit(1)
)
_ROWS = sa.select(entry).order_by(entry.c.sequence)
_WANTED = {name: entry.c[name] == sa.bindparam(name) for name in ("dataset", "release_id")}
_HISTORIES: dict[tuple[str, ...], sa.Select[Any]] = {
    (): _ROWS,
    **{(name,): _ROWS.where(each) for name, each in _WANTED.items()},
    tuple(_WANTED): _ROWS.where(*_WANTED.values()),
}
FIRST = sa.select(entry.c.hash).where(entry.c.sequence == 1)
"""Hash of the first entry."""
NAMED = sa.select(entry.c.dataset).where(entry.c.kind == "BUDGET").distinct()
"""Names that have a budget."""
_OF_NONCE = sa.select(entry.c.sequence).where(entry.c.nonce == sa.bindparam("nonce"))
_SAID = sa.select(entry.c.payload).where(
    entry.c.charge_id == sa.bindparam("charge_id"), entry.c.kind == sa.bindparam("state")
)


def budget(connection: sa.Connection, dataset: str, now: str) -> BudgetStatus | None:
    """Budget of a name with what its charges cost, in all and in the periods that hold a time; or None."""
    granted = connection.execute(_GRANTED, {"dataset": dataset}).scalar_one_or_none()
    if granted is None:
        return None
    grant = Grant.of(json.loads(granted))
    return BudgetStatus(
        dataset=dataset,
        grant=grant,
        tally=spent(connection, dataset),
        periods=tuple(_period(connection, dataset, grant, period, now) for period in grant.periods),
    )


def _period(connection: sa.Connection, dataset: str, grant: Grant, period: Period, now: str) -> PeriodStatus:
    # A charge belongs to the time of its reservation, also where it is given back later.
    start = period.start(now)
    return PeriodStatus(period, grant.period_cap(period), start, spent(connection, dataset, start))


def require_budget(connection: sa.Connection, dataset: str, now: str) -> BudgetStatus:
    """Budget of a data set; a LedgerError says how to grant one where there is none."""
    status = budget(connection, dataset, now)
    if status is None:
        raise LedgerError(
            f"'{dataset}' has no budget",
            "A person grants a budget before anything is released",
            "Run `blockveil ledger grant CONFIG --epsilon E --delta D`",
        )
    return status


def check_scope(budget: BudgetStatus, neighbours: Neighbours, unit: str) -> None:
    """Refuse a relation or a privacy unit that the budget is not for."""
    if (budget.neighbours, budget.privacy_unit) != (neighbours, unit):
        raise LedgerError(
            f"'{budget.dataset}' is accounted as {budget.neighbours.value}, \"{budget.privacy_unit}\"; "
            f'this is {neighbours.value}, "{unit}"',
            "Losses for different relations or privacy units do not add up",
            "Use the budget's relation and unit, or another data set name with its own budget",
        )


def check_account(connection: sa.Connection, release_id: str, dataset: str) -> None:
    """Refuse a release of a data set whose other releases are charged to another budget."""
    prefix = release_id.partition("/")[0] + "/"
    parameters = {"prefix": plain_text(prefix), "dataset": dataset}
    other = connection.execute(_OTHER_ACCOUNT, parameters).scalar_one_or_none()
    if other is not None:
        raise LedgerError(
            f"Releases of '{prefix[:-1]}' are charged to the budget '{other}', and this one would be to '{dataset}'",
            "The people of a data set have one budget",
            f'Write budget = "{other}" in [release]',
        )


def stale(connection: sa.Connection, dataset: str, before: str) -> list[Entry]:
    """Reservations from before a time on which nothing was drawn."""
    rows = connection.execute(_STALE, {"dataset": dataset, "before": before}).mappings()
    return [Entry.of(dict(row)) for row in rows]


def active(connection: sa.Connection, release_id: str) -> Entry | None:
    """RESERVED entry of a release's charge that is not void, or None."""
    rows = connection.execute(_ACTIVE, {"release_id": release_id}).mappings().all()
    if len(rows) > 1:
        raise refusals.two_charges(release_id)
    return Entry.of(dict(rows[0])) if rows else None


def find(connection: sa.Connection, charge_id: str) -> tuple[Entry, State]:
    """RESERVED entry of a charge and its present state."""
    rows = _entries(connection, charge_id)
    if not rows or rows[0].kind != State.RESERVED:
        raise LedgerError("A charge is not in the ledger", "Its row is never removed", "Run `blockveil ledger verify`")
    return rows[0], state_of(rows)


def _entries(connection: sa.Connection, charge_id: str) -> list[Entry]:
    return [Entry.of(dict(row)) for row in connection.execute(_OF_CHARGE, {"charge_id": charge_id}).mappings()]


def rows(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    """All rows as they are stored, by sequence."""
    for row in connection.execute(_ROWS).mappings():
        yield dict(row)


def history(connection: sa.Connection, dataset: str | None, release_id: str | None) -> list[Entry]:
    """Entries in order, all or those of a data set or a release."""
    parameters = {"dataset": dataset, "release_id": release_id}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    return [Entry.of(dict(row)) for row in connection.execute(_HISTORIES[tuple(parameters)], parameters).mappings()]


def has_nonce(connection: sa.Connection, nonce: str) -> bool:
    """Whether an entry was written under a nonce."""
    return connection.execute(_OF_NONCE, {"nonce": nonce}).first() is not None


def payload(connection: sa.Connection, charge_id: str, kind: State) -> dict[str, Any]:
    """What an entry of a charge says."""
    text = connection.execute(_SAID, {"charge_id": charge_id, "state": kind.value}).scalar_one()
    return dict(json.loads(text))


def charge(connection: sa.Connection, reserved: Entry, *, is_new: bool) -> Charge:
    """A charge as it stands, anchored at its commit where there is one."""
    rows = _entries(connection, str(reserved.charge_id))
    committed = next((row for row in rows if row.kind == State.COMMITTED), None)
    anchor = committed or rows[0]
    withdrawn = next((str(row.payload["reason"]) for row in rows if row.kind == WITHDRAWN), None)
    return Charge(
        charge_id=str(reserved.charge_id),
        release_id=str(reserved.release_id),
        spec_digest=reserved.spec_digest,
        state=state_of(rows),
        sequence=anchor.sequence,
        row_hash=anchor.hash,
        is_new=is_new,
        key_check=None if committed is None else str(committed.payload["key_check"]),
        continues=reserved.payload.get("continues"),
        warning=warning(reserved),
        withdrawn=withdrawn,
        approval=Approved.of(reserved.payload.get("approval")),
    )


def closing(connection: sa.Connection) -> dict[str, Any] | None:
    """What the closing entry says, where it is the last one; else None."""
    row = connection.execute(_NEWEST).one_or_none()
    return dict(json.loads(row.payload)) if row is not None and row.kind == "CLOSED" else None
