"""A release is withdrawn, inside a writing transaction: for good, and what it spent remains spent."""

from __future__ import annotations

import sqlalchemy as sa

from blockveil.pipeline.ledger import lookups, refusals
from blockveil.pipeline.ledger.chain import append
from blockveil.pipeline.ledger.entries import WITHDRAWN, Charge, Entry, State


def withdrawn(connection: sa.Connection, release_id: str, reason: str, now: str) -> Charge:
    """Add the entry that withdraws a release, unless it is there; the charge afterwards.

    Parameters
    ----------
    connection
        A writing transaction.
    release_id
        ``dataset/name/date``.
    reason
        Why, in one line that everybody may read.
    now
        Time of the entry.

    Raises
    ------
    LedgerError
        The release is not RELEASED.
    """
    reserved = lookups.active(connection, release_id)
    charge = None if reserved is None else lookups.charge(connection, reserved, is_new=False)
    if reserved is None or charge is None or charge.state is not State.RELEASED:
        raise refusals.not_released(release_id, None if charge is None else charge.state)
    if charge.withdrawn is not None:
        return charge
    append(connection, WITHDRAWN, reserved.dataset, {"reason": reason}, now, release_id, charge.charge_id)
    return lookups.charge(connection, reserved, is_new=False)


def not_withdrawn(connection: sa.Connection, reserved: Entry, *, is_new: bool) -> Charge:
    """The charge of a release that may go on.

    Raises
    ------
    LedgerError
        The release was withdrawn.
    """
    charge = lookups.charge(connection, reserved, is_new=is_new)
    if charge.withdrawn is not None:
        raise refusals.withdrawn(charge.release_id, charge.withdrawn)
    return charge
