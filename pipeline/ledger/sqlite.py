"""A ledger in one SQLite file: immediate transactions, full durability."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from blockveil.pipeline.base import permissions
from blockveil.pipeline.base.durable import kind_of, store_error
from blockveil.pipeline.base.errors import BlockveilError, DiskFull, LedgerError, StoreError
from blockveil.pipeline.base.permissions import JOURNALS, beside, resolved
from blockveil.pipeline.ledger import read_only, writer_queue
from blockveil.pipeline.ledger.database import NOT_BOOKED, WAIT_SECONDS, Database, Locked, broken_rule, translated

_FOUND_AGAIN = "if this one was, it is found again and not booked twice"


class SqliteDatabase(Database):
    """One SQLite file.

    Parameters
    ----------
    path
        The file; :meth:`create` makes it with mode 0600.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(_FILES.execution_options())  # with events of its own
        self._looking = _LOOKED_INTO

    def exists(self) -> bool:
        """Whether the file is there."""
        try:
            return self._path.exists()
        except OSError as error:
            passes = kind_of(error).passes
            name = self._path.name
            failure = store_error(error, f'"{name}" cannot be read', "output.ledger") if passes else _unreadable(name)
        raise failure

    def create_place(self) -> None:
        """Make the file where it is missing."""
        journal = next((ending for ending in JOURNALS if beside(self._path, ending).exists()), None)
        if journal is not None and not self.exists():
            raise _orphaned(self._path.name, journal)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            permissions.check(self._path, writing=True)
            # Never opened where it is there: a process that closes a file lets go of all locks on it, also those of
            # SQLite's connections in other threads, whose commits could then be lost.
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            failure = kind_of(error)(
                f"The ledger cannot be created ({os.strerror(error.errno or 0)})",
                "Its folder must exist and be writable",
                "Correct output.ledger, or its permissions",
            )
        else:
            return
        raise failure

    def missing(self) -> LedgerError:
        """Refusal of a file that is not there or holds no ledger."""
        if self.exists():
            return _damaged()
        return LedgerError(
            f'There is no ledger "{self._path.name}"',
            "Budget is granted by a person before anything is released",
            "Run `blockveil ledger grant`; if there was a ledger, restore it first",
        )

    @contextmanager
    def session(self, *, writing: bool) -> Iterator[sa.Connection]:
        """Transaction; a writing one has the file's write lock from its start."""
        if not self.exists():
            raise self.missing()
        real = permissions.check(self._path, writing=writing)
        engine, ending = self._engine if writing or _may_write(real) else self._looking, False
        outcome = {True: _FOUND_AGAIN, False: NOT_BOOKED}
        with (
            writer_queue.in_turn(beside(real, "-lock")) if writing else nullcontext(),
            translated(lambda error: _explain(error, self._path.name, outcome[ending], writing=writing)),
            _connected(engine, self._path).execution_options(writing=writing) as connection,
            connection.begin(),
        ):
            yield connection
            ending = True  # what fails now fails in the commit


def _connected(engine: sa.Engine, path: Path) -> sa.Connection:
    before = _file.set(path)
    try:
        return engine.connect()
    finally:
        _file.reset(before)


def _may_write(real: Path) -> bool:
    """Whether SQLite may write the file, and its journal beside it."""
    return os.access(real, os.W_OK) and os.access(os.path.dirname(real), os.W_OK)


def _configure(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver's own BEGIN is deferred: two readers could both pass the check
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options()["writing"] else "BEGIN")


def _opened() -> sqlite3.Connection:
    # By URI, so that a missing file is an error, not an empty ledger that has forgotten all charges.
    file = f"file:{quote(str(_file.get()))}?mode=rw"
    return sqlite3.connect(file, uri=True, timeout=WAIT_SECONDS, check_same_thread=False)


def _looked_into() -> sqlite3.Connection:
    return read_only.connect(resolved(_file.get()))


_file: ContextVar[Path] = ContextVar("file that is opened")

# One engine for all files of a process: it keeps the statements that it has compiled.
_FILES = sa.create_engine("sqlite://", creator=_opened, poolclass=sa.NullPool, hide_parameters=True)
sa.event.listen(_FILES, "connect", _configure)
sa.event.listen(_FILES, "begin", _begin)

# For who may read and not write: connections that have begun, and end with the first transaction.
_LOOKED_INTO = sa.create_engine("sqlite://", creator=_looked_into, poolclass=sa.NullPool, hide_parameters=True)


def _damaged() -> LedgerError:
    return LedgerError(
        "The ledger is damaged or is not a ledger",
        "It must be an SQLite file that Blockveil made",
        "Restore it from its backup, and check it with `blockveil ledger verify`",
    )


def _orphaned(name: str, ending: str) -> LedgerError:
    return LedgerError(
        f'"{name}{ending}" is there, and "{name}" is not',
        "The journal of a ledger that is lost may hold its last charges, and would be played into another ledger",
        "Restore the ledger beside it; or move the journal away, and read docs/operations.md on a lost ledger",
    )


def _unreadable(name: str) -> StoreError:
    return StoreError(
        f'The ledger cannot be read: "{name}" or its folder does not allow it',
        "Reading it needs permission to read the file, and to look into its folder",
        "Let its owner give this account permission to read there",
    )


def _explain(error: sa.exc.DBAPIError, name: str, outcome: str, *, writing: bool) -> BlockveilError:
    reason = str(error.orig).lower()
    if not writing and ("readonly" in reason or "unable to open" in reason or "permission" in reason):
        return _unreadable(name)
    if "full" in reason or "disk i/o" in reason:
        return DiskFull(
            f'The ledger cannot be written: the disk of "{name}" is full or failing',
            f"An entry is booked whole or not at all; {outcome}",
            "Free some space and run again",
        )
    if "readonly" in reason or "unable to open" in reason or "permission" in reason:
        return StoreError(
            f'The ledger cannot be written: "{name}" or its folder does not allow it',
            f"Reading and writing it needs permission on file and folder; {outcome}",
            "Give the user that runs Blockveil write permission there",
        )
    if "locked" in reason or "busy" in reason:
        return Locked()
    if "never changed" in reason or "unique constraint" in reason:
        return broken_rule()
    return _damaged()
