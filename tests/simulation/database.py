"""The ledger's database: a real SQLite file whose connections are lost, and whose transactions are refused.

The product's own classes talk to it. Whether a power loss forgets a commit is decided by what the connection has asked
SQLite for: with less than ``synchronous=FULL``, the last commits may be gone.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import sqlalchemy as sa

from blockveil.pipeline.ledger import sqlite as sqlite_ledger
from blockveil.pipeline.ledger.database import Database
from blockveil.pipeline.ledger.postgres import PostgresDatabase
from blockveil.pipeline.ledger.sqlite import SqliteDatabase
from tests.simulation.statements import Sessions

if TYPE_CHECKING:
    from tests.simulation.world import Process, World


class ServerLost(sqlite3.OperationalError, psycopg.OperationalError):
    """What a driver raises where the server went away, or asks for another try."""

    @property
    def sqlstate(self) -> str | None:  # type: ignore[override]
        """Code of the server, where it gave one."""
        return self.args[1] if len(self.args) > 1 else None


class File:
    """A ledger's file and SQLite's connections to it, which one schedule after the other uses.

    Parameters
    ----------
    path
        Where it is made.
    template
        A ledger that a person has granted a budget in, and nothing else.
    guarded
        Whether the product's triggers refuse what it must not do.
    """

    def __init__(self, path: Path, template: Path, guarded: bool) -> None:
        shutil.copyfile(template, path)
        self._path = path
        self.all: list[sqlite3.Connection] = []
        self.idle: list[sqlite3.Connection] = []
        self.watcher = self.take()
        triggers = self.watcher.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, text in triggers:
            # Nothing in the product deletes; each schedule begins by deleting the rows of the one before it, for
            # SQLite takes long to open a file and to prepare statements.
            if not guarded or "BEFORE DELETE" in text:
                self.watcher.execute(f'DROP TRIGGER "{name}"')
        if not guarded:
            self.watcher.execute("DROP INDEX IF EXISTS one_entry_a_state")
        (self._granted,) = self.watcher.execute("SELECT max(sequence) FROM entry").fetchone()

    @property
    def all_idle(self) -> bool:
        """Whether nobody holds a connection."""
        return len(self.idle) == len(self.all) - 1

    def begin(self) -> None:
        """Take all rows away but those of the template."""
        self.watcher.execute("DELETE FROM entry WHERE sequence > ?", (self._granted,))

    def take(self) -> sqlite3.Connection:
        """A connection."""
        if self.idle:
            return self.idle.pop()
        found = sqlite3.connect(self._path, isolation_level=None, timeout=0.0)
        found.execute(_WAL)
        found.execute("PRAGMA synchronous=OFF")
        self.all.append(found)
        return found

    def close(self) -> None:
        """Close all connections, and remove it."""
        for each in self.all:
            each.close()
        self._path.unlink()


class Engine:
    """The database itself, which processes and power losses do not take away."""

    def __init__(self) -> None:
        fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(dir=fast)
        self._files: dict[tuple[Path, bool], File] = {}
        self.writer: Connection | None = None
        self._before: bytes | None = None
        self.guarded = True

    def begin(self, template: Path) -> None:
        """Start from a ledger that a person has granted a budget in."""
        key = (template, self.guarded)
        if key in self._files and not self._files[key].all_idle:
            self._files.pop(key).close()
        if key not in self._files:
            self._files[key] = File(Path(self._folder.name, f"{len(self._files)}.db"), template, self.guarded)
        self._file = self._files[key]
        self._file.begin()
        self.writer, self._before = None, None

    @property
    def watcher(self) -> sqlite3.Connection:
        """A connection of nobody's."""
        return self._file.watcher

    def take(self) -> sqlite3.Connection:
        """A connection of SQLite's."""
        return self._file.take()

    def give(self, connection: sqlite3.Connection) -> None:
        """Take a connection back, with its transaction rolled back."""
        if connection.in_transaction:
            connection.rollback()
        self._file.idle.append(connection)

    def about_to_commit(self, synchronous: bool) -> None:
        """Remember what a power loss goes back to, where a commit does not wait for the disk."""
        if synchronous:
            self._before = None
        elif self._before is None:
            self._before = self.watcher.serialize()

    def lose_power(self, chance: Callable[[], float]) -> None:
        """Forget commits that nobody waited for."""
        if self._before is not None and chance() < 0.5:
            source, before = sqlite3.connect(":memory:"), bytearray(self._before)
            before[18:20] = b"\x01\x01"  # in memory there is no write-ahead log
            source.deserialize(bytes(before))
            source.backup(self.watcher)
            source.close()
        self._before = None


_WAL = "PRAGMA journal_mode=WAL"
_PRAGMA = re.compile(r"PRAGMA synchronous=(\w+)", re.IGNORECASE)


class Connection:
    """One connection of one process, as the driver offers it to SQLAlchemy."""

    isolation_level: Any = None
    row_factory: Any = None

    def __init__(self, world: World, engine: Engine, kind: str, after: Callable[[], None]) -> None:
        self._world, self._engine, self._kind, self._after = world, engine, kind, after
        self._real: sqlite3.Connection | None = engine.take()
        self._owner: Process = world.current
        self._owner.connections.append(self)
        self._synchronous = True

    @property
    def in_transaction(self) -> bool:
        return self._real is not None and self._real.in_transaction

    def _alive(self) -> sqlite3.Connection:
        self._world.alive()
        if self._real is None:
            raise self._lost()
        return self._real

    def _lost(self) -> sqlite3.Error:
        if self._kind == "server":
            return ServerLost("the server closed the connection")
        return sqlite3.OperationalError("disk I/O error")

    def _may_fail(self) -> None:
        """Lose the connection, and with it what was not committed."""
        faults, chance = self._world.faults, self._world.chance
        if self._owner is not self._world.machine and faults.lost and chance() < faults.lost:
            self._world.note(f"{self._owner.name} loses the database")
            self.cut()
            raise self._lost()

    def create_function(self, *_: Any, **__: Any) -> None:
        """SQLAlchemy's own functions are not used by the ledger."""

    def cursor(self, *_: Any) -> Cursor:
        return Cursor(self, self._alive().cursor())

    def execute(self, statement: str, values: Any = ()) -> Any:
        return self.cursor().execute(statement, values)

    def rows(self, statement: str, values: Any) -> list[Any]:
        """All rows of a statement."""
        real = self._alive()
        asked = self.before(statement)
        if asked is None:
            return []
        return real.execute(asked, values if asked == statement else ()).fetchall()

    def before(self, statement: str) -> str | None:
        """What becomes of a statement: itself, another one, or None where SQLite has no such thing."""
        if statement.startswith("PRAGMA"):
            found = _PRAGMA.search(statement)
            if found:
                self._synchronous = found[1].upper() in ("FULL", "EXTRA")
            return None if found or statement == _WAL else statement  # of a disk in memory nothing is synced
        if statement.startswith("SET TRANSACTION"):
            return "BEGIN" if statement.endswith("READ ONLY") else None
        if statement.startswith("SELECT set_config"):
            return None
        if statement.startswith(("BEGIN IMMEDIATE", "SELECT pg_advisory_xact_lock")):
            self._world.step("begin")
            self._may_fail()
            self._world.wait(lambda: self._engine.writer is None, "the ledger's lock")
            self._alive()
            self._engine.writer = self
            return "BEGIN IMMEDIATE"
        if statement.startswith("INSERT"):
            self._world.step("insert")
            self._may_fail()
        return statement

    def commit(self) -> None:
        real = self._alive()
        if not real.in_transaction:
            return
        writing = self._engine.writer is self
        if writing:
            self._world.step("commit")
            self._may_fail()
            self._refuse()
            self._engine.about_to_commit(self._synchronous)
        real.commit()
        if writing:
            self._engine.writer = None
            self._world.note("committed")
            self._after()
            self._world.ambush()
            self._world.step("committed")
            self._may_fail()

    def _refuse(self) -> None:
        faults = self._world.faults
        if self._kind != "server" or self._owner is self._world.machine:
            return
        if faults.serialisation and self._world.chance() < faults.serialisation:
            self.rollback()
            raise ServerLost("could not serialize access", "40001")

    def rollback(self) -> None:
        if self._real is not None and self._real.in_transaction:
            self._real.rollback()
        if self._engine.writer is self:
            self._engine.writer = None

    def cut(self) -> None:
        """End the connection; what was not committed never was."""
        self.rollback()
        if self._real is not None:
            self._engine.give(self._real)
            self._real = None

    def close(self) -> None:
        self.cut()
        if self in self._owner.connections:
            self._owner.connections.remove(self)


class Cursor:
    """A cursor of a connection."""

    arraysize = 1

    def __init__(self, connection: Connection, real: sqlite3.Cursor) -> None:
        self.connection, self._real = connection, real

    def execute(self, statement: str, values: Any = ()) -> Cursor:
        asked = self.connection.before(statement)
        if asked is not None:
            self._real.execute(asked, values if asked == statement else ())
        return self

    def executemany(self, statement: str, values: Any) -> Cursor:
        self.connection.before(statement)
        self._real.executemany(statement, values)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Server(PostgresDatabase):
    """The product's own class for a server, in front of the simulated one."""

    def __init__(self, engine: Any) -> None:
        Database.__init__(self, engine)


def sessions_for(connect: Callable[[], Connection], *, server: bool) -> Sessions:
    """The same as :func:`engine_for`, with the stand-in for SQLAlchemy's engine."""
    if server:
        return Sessions(connect)
    return Sessions(
        connect,
        lambda connection: sqlite_ledger._configure(connection, None),
        lambda session: sqlite_ledger._begin(session),
    )


def engine_for(connect: Callable[[], Connection], *, server: bool) -> sa.Engine:
    """SQLAlchemy's engine over simulated connections, set up as the product sets up its own."""
    found = sa.create_engine("sqlite://", creator=connect, poolclass=sa.NullPool, hide_parameters=True)
    if not server:
        # Looked up when they are called: a mistake may be planted in them.
        sa.event.listen(found, "connect", lambda connection, record: sqlite_ledger._configure(connection, record))
        sa.event.listen(found, "begin", lambda connection: sqlite_ledger._begin(connection))
    return found


def database_for(path: Path, engine: Any, *, server: bool) -> Database:
    """A ledger's database of one process, as the product opens it."""
    if server:
        return Server(engine)
    found = SqliteDatabase(path)
    found._engine = engine
    return found
