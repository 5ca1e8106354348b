"""An operator states that the key of all digests of records was lost; the ledger goes on under a new one.

Inside one writing transaction, reservations are given back, for nobody can tell which records they were for, and the
renewal is booked (:mod:`.renewals`).
"""

from __future__ import annotations

import sqlalchemy as sa

from blockveil.pipeline.ledger import lookups, renewals, restoring
from blockveil.pipeline.ledger.chain import append
from blockveil.pipeline.ledger.entries import Entry, State
from blockveil.pipeline.ledger.renewals import Renewal, Renewals
from blockveil.pipeline.ledger.schema import entry
from blockveil.pipeline.ledger.sums import not_void

_STANDING = sa.select(entry).where(entry.c.kind == State.RESERVED, not_void(entry)).order_by(entry.c.sequence)


def renew(connection: sa.Connection, renewal: Renewal, seen: Renewals, now: str) -> list[tuple[str, str]]:
    """Book a renewal, and give back reservations where the key before it was lost.

    Parameters
    ----------
    connection
        A writing transaction.
    renewal, seen, now
        As :func:`.renewals.renew`.

    Returns
    -------
    Release and charge of each reservation that was given back.

    Raises
    ------
    LedgerError
        As :func:`.renewals.renew`; or a key was lost and the ledger is not known to be whole (:mod:`.restoring`).
    """
    given_back = [] if renewal.loss is None else _give_back(connection, now)
    renewals.renew(connection, renewal, seen, now)
    return given_back


def _give_back(connection: sa.Connection, now: str) -> list[tuple[str, str]]:
    restoring.follow(connection)  # of an older copy, what is reserved may have been committed
    given_back = list[tuple[str, str]]()
    for row in connection.execute(_STANDING).mappings().all():
        one = Entry.of(dict(row))
        of = (str(one.release_id), str(one.charge_id))
        if lookups.find(connection, of[1])[1] is State.RESERVED:
            append(connection, State.VOID, one.dataset, {"reason": "the key of digests was lost"}, now, *of, -one.ticks)
            given_back.append(of)
    return given_back
