"""A ledger in a PostgreSQL database: one lock for all writers, durable commits, no password in any message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy as sa

from blockveil.pipeline.base.errors import BlockveilError, DiskFull, LedgerError, StoreError
from blockveil.pipeline.base.postgres_address import proof
from blockveil.pipeline.ledger.database import (
    NOT_BOOKED,
    WAIT_SECONDS,
    ConnectionLost,
    Database,
    Locked,
    Unreachable,
    broken_rule,
    translated,
)

LOCK = 0x626C6F636B766569
"""Advisory lock of all writers of a database: needs no privilege, and ends with its transaction or its session."""

_SETTINGS = {
    "lock_timeout": f"{WAIT_SECONDS}s",
    # A writer that is cut off loses the lock before those who wait for it give up.
    "idle_in_transaction_session_timeout": f"{WAIT_SECONDS * 3 // 4}s",
}
# A server may be set to answer before a commit is on the disk: a crash would then forget a charge.
_DURABLE = sa.case(
    (sa.func.current_setting("synchronous_commit") == "off", sa.func.set_config("synchronous_commit", "on", True))
)
_SET = sa.select(*(sa.func.set_config(name, value, True) for name, value in _SETTINGS.items()), _DURABLE)
_LOCKED = sa.select(sa.func.pg_advisory_xact_lock(LOCK))
_DEFAULTS = {
    "application_name": "blockveil ledger",
    "connect_timeout": "10",
    # A peer that is gone is noticed within a minute instead of a quarter of an hour.
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "50000",
}


class PostgresDatabase(Database):
    """A database that a role may read and add rows to.

    Parameters
    ----------
    url
        ``postgresql://role:password@host:port/database?options``. It is never shown.

    Raises
    ------
    LedgerError
        The address is malformed, or does not check who answers there.
    """

    def __init__(self, url: str) -> None:
        address = _parse(url)
        options = _DEFAULTS | _proofs(address)
        engine = sa.create_engine(
            address.set(drivername="postgresql+psycopg"),
            connect_args={key: value for key, value in options.items() if key not in address.query},
            poolclass=sa.NullPool,
            hide_parameters=True,
        )
        super().__init__(engine)

    def exists(self) -> bool:
        """Whether the database has a ledger."""
        with self.session(writing=False) as connection:
            return sa.inspect(connection).has_table("entry")

    def create_place(self) -> None:
        """Nothing: an administrator makes the database."""

    def missing(self) -> LedgerError:
        """Refusal of a database without a ledger."""
        return LedgerError(
            "There is no ledger in the database",
            "Budget is granted by a person before anything is released",
            "Run `blockveil ledger grant` as the database's owner; if there was a ledger, restore it first",
        )

    @contextmanager
    def session(self, *, writing: bool) -> Iterator[sa.Connection]:
        """Transaction; a writing one has the lock from its start."""
        with translated(_unreachable):
            connection = self._engine.connect()
        with translated(_explain), connection, connection.begin():
            if writing:
                _lock(connection)
            else:
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection


def _lock(connection: sa.Connection) -> None:
    """Wait for the lock, then see what those before have written.

    The isolation is READ COMMITTED: each statement after this one sees all that was committed before the lock was
    granted. A stricter level would see the rows as they were when the waiting began.
    """
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE")
    connection.execute(_SET)
    connection.execute(_LOCKED)


def _parse(url: str) -> sa.URL:
    try:
        address = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        address = None
    if address is None or not address.database:
        raise LedgerError(
            "The ledger's address is malformed (it is not shown, for it may hold a password)",
            "It is written postgresql://role:password@host:port/database",
            "Correct what output.ledger refers to",
        )
    return address


def _proofs(address: sa.URL) -> dict[str, str]:
    server = proof(address.render_as_string(hide_password=False))
    if server.problem is not None:
        raise LedgerError(
            f"The ledger's server {server.problem}",
            "Whoever answers in its place could say that a spent budget is whole",
            server.remedy,
        )
    return server.options


def _state(error: sa.exc.DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def _unreachable(error: sa.exc.DBAPIError) -> BlockveilError:
    text = str(error.orig).lower()  # a connection that failed has no SQLSTATE
    if "authentication method requirement" in text:
        return Unreachable("does not prove that it knows the role's password: at localhost it must use scram-sha-256")
    if "authentication failed" in text or "no pg_hba.conf entry" in text or ("role " in text and "exist" in text):
        return Unreachable("refuses the role or its password")
    if "database " in text and "exist" in text:
        return Unreachable("has no such database")
    full = "too many clients" in text or "connection slots" in text or "too many connections" in text
    return Unreachable("has no free connection" if full else "cannot be reached")


def _explain(error: sa.exc.DBAPIError) -> BlockveilError:
    state = _state(error)
    lost = isinstance(error.orig, psycopg.OperationalError | psycopg.InterfaceError) and not state
    if lost or error.connection_invalidated or state.startswith(("08", "57P", "25P03", "40")):
        return ConnectionLost()
    if state == "55P03":
        return Locked()
    if state.startswith(("23", "BV")):
        return broken_rule()
    if state.startswith(("53", "58")):
        return DiskFull(
            "The ledger cannot be written: its server's disk is full or failing",
            "An entry is booked whole or not at all",
            "Free some space there and run again",
        )
    if state in ("42501", "25006"):
        return StoreError(
            "The ledger cannot be written",
            f"The role needs SELECT and INSERT on the ledger, on a server that accepts writes; {NOT_BOOKED}",
            "Run what `blockveil ledger admin role` prints as the database's owner, use the primary server, or the "
            "owner's role for what a role for runs may not do: budgets, withdrawals",
        )
    return LedgerError(
        f"The ledger's server refuses a statement (SQLSTATE {state or 'unknown'})",
        "Its tables must be as Blockveil made them",
        "Check them with `blockveil ledger verify`, or restore the database",
    )
