"""Connections to the ledger: immediate transactions, full durability, and failures in words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pipeline.errors import BlockveilError, LedgerError, StoreError

_WAIT_SECONDS = 60


class Database:
    """One SQLite file.

    Parameters
    ----------
    url
        ``sqlite:///path``.
    """

    def __init__(self, url: str) -> None:
        if not url.startswith("sqlite:///"):
            raise LedgerError(
                f'The ledger address "{url.partition("://")[0]}://..." is not supported',
                "A ledger is an SQLite file",
                "Give sqlite:/// and a path",
            )
        self._path = Path(url.removeprefix("sqlite:///"))
        # The file is opened by URI so that a missing one is an error, not an empty ledger that has forgotten all
        # charges.
        self._engine = sa.create_engine(
            f"sqlite:///file:{self._path}?mode=rw&uri=true",
            connect_args={"timeout": _WAIT_SECONDS},
            poolclass=sa.NullPool,
        )
        sa.event.listen(self._engine, "connect", _configure)
        sa.event.listen(self._engine, "begin", _begin)

    def create(self, metadata: sa.MetaData) -> None:
        """Make the file (mode 0600) and its table where they are missing."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            failure = StoreError(
                f"The ledger cannot be created ({os.strerror(error.errno or 0)})",
                "Its folder must exist and be writable",
                "Correct output.ledger, or its permissions",
            )
        else:
            with self.transaction() as connection:
                metadata.create_all(connection)
            return
        raise failure

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Transaction that holds the only write lock from its start; committed and on the disk when it ends.

        Raises
        ------
        LedgerError
            There is no ledger, it is damaged, or it stays locked.
        StoreError
            The disk is full or the file may not be written.
        """
        if not self._path.exists():
            raise LedgerError(
                f'There is no ledger "{self._path.name}"',
                "Budget is granted by a person before anything is released",
                "Run `blockveil budget set`; if there was a ledger, restore it first",
            )
        try:
            with self._engine.begin() as connection:
                yield connection
        except BlockveilError:
            raise
        except sa.exc.DBAPIError as error:
            failure = _explain(str(error.orig).lower())
        else:
            return
        raise failure


def _configure(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver's own BEGIN is deferred: two readers could both pass the check
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _explain(reason: str) -> BlockveilError:
    if "full" in reason or "disk i/o" in reason:
        return StoreError(
            "The ledger cannot be written: the disk is full or failing",
            "An entry is booked whole or not at all",
            "Free some space and run again",
        )
    if "readonly" in reason or "unable to open" in reason or "permission" in reason:
        return StoreError(
            "The ledger cannot be written",
            "Reading and writing it needs permission on file and folder",
            "Give the user that runs Blockveil write permission there",
        )
    if "locked" in reason or "busy" in reason:
        return LedgerError(
            f"The ledger stayed locked for {_WAIT_SECONDS} seconds",
            "One transaction at a time may write it",
            "Find the process that holds it, then run again",
        )
    if "never changed" in reason or "unique constraint" in reason:
        return LedgerError(
            "An entry would break the ledger's rules",
            "Rows are never changed and a state is entered once",
            "Run `blockveil ledger verify`, then run again",
        )
    if "no such column" in reason or "no column named" in reason:
        return LedgerError(
            "The ledger was made by another version of Blockveil",
            "Its rows and their hashes have other columns",
            "Use the version that made it, or grant a new ledger what is left of the budget",
        )
    return LedgerError(
        "The ledger is damaged or is not a ledger",
        "It must be an SQLite file that Blockveil made",
        "Restore it from its backup, and check it with `blockveil ledger verify`",
    )
