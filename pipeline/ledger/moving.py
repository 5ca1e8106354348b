"""How a ledger goes on at another address: it is closed for that one, and opened only there.

Two ledgers of one data set would spend its budget twice. A closed ledger takes no entry, so a run that reserved before
can neither commit nor give back there: what the other one then says is all that there is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from blockveil.pipeline.ledger import lookups, refusals
from blockveil.pipeline.ledger.address import digest_of_place
from blockveil.pipeline.ledger.chain import append
from blockveil.pipeline.ledger.entries import Verification
from blockveil.pipeline.ledger.schema import entry

Row = Mapping[str, Any]


def check_other_place(here: str, there: str) -> None:
    """Refuse to close a ledger for its own address."""
    if digest_of_place(here) == digest_of_place(there):
        raise refusals.same_place()


def close(connection: sa.Connection, address: str, now: str) -> None:
    """Append the closing entry; again for the same address changes nothing.

    Raises
    ------
    LedgerError
        The ledger was closed for another address, or is a copy.
    """
    place, closed = digest_of_place(address), lookups.closing(connection)
    if closed is None:
        append(connection, "CLOSED", "", {"for": place}, now)
    elif closed != {"for": place}:
        raise refusals.closed_elsewhere()


def handed_over(rows: Sequence[Row], address: str) -> bool:
    """Whether rows end with an entry that closes their ledger for an address."""
    closed = json.loads(rows[-1]["payload"]) if rows[-1]["kind"] == "CLOSED" else {}
    return bool(closed.get("for") == digest_of_place(address))


def check_loadable(rows: Sequence[Row], found: Verification, address: str | None) -> None:
    """Refuse to load rows that are no whole ledger, or whose ledger may go on elsewhere.

    Parameters
    ----------
    rows, found
        The rows, and what their verification found.
    address
        Where the ledger is to go on; None for a copy.

    Raises
    ------
    LedgerError
        Their chain is broken, there are none, or their ledger was not closed for the address.
    """
    if found.problems:
        raise refusals.broken(found)
    if not rows:
        raise refusals.nothing_to_load()
    if address is not None and not handed_over(rows, address):
        raise refusals.not_handed_over()


def load(connection: sa.Connection, rows: Sequence[Row], *, as_copy: bool, now: str) -> None:
    """Write rows into an empty ledger and open it, or keep it closed; where that was done before, nothing changes.

    Raises
    ------
    LedgerError
        The ledger has other entries.
    """
    present = list(lookups.rows(connection))
    closed = rows[-1]["kind"] == "CLOSED"
    added = ["OPENED"] if not as_copy else [] if closed else ["CLOSED"]
    if present:
        same = [row["hash"] for row in present[: len(rows)]] == [row["hash"] for row in rows]
        if not same or [row["kind"] for row in present[len(rows) :]] != added:
            raise refusals.not_empty()
        return
    connection.execute(entry.insert(), [dict(row) for row in rows])
    for kind in added:
        payload = {"from": rows[-1]["hash"]} if kind == "OPENED" else {"copy": True}
        append(connection, kind, "", payload, max(now, str(rows[-1]["time"])))
