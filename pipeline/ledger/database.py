"""What both backends of the ledger share: sessions, the schema's version, and failures in words."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import sqlalchemy as sa

from blockveil.pipeline.base.errors import BlockveilError, LedgerError
from blockveil.pipeline.ledger.schema import SCHEMA, entry, stamp
from blockveil.pipeline.ledger.tables import make_tables

WAIT_SECONDS = 60
"""How long a transaction waits for the one that is before it."""

NOT_BOOKED = "this entry was not booked, and what was reserved before stands"
"""Part of a refusal, where that is certain."""

_PAUSES = (0.0, 0.05, 0.2, 1.0, 3.0, 10.0)
"""Seconds before each try of a transaction whose connection was lost."""

Result = TypeVar("Result")


class ConnectionLost(LedgerError):
    """The server went away during a transaction; whether it was committed is not known here."""

    passes = True

    def __init__(self) -> None:
        super().__init__(
            "The ledger's server was lost during a transaction",
            "An entry is booked whole or not at all, and found again by its identifier",
            "When the server is back, run the same command again: what was booked is not booked twice",
        )


class Unreachable(LedgerError):
    """There is no connection to the server; nothing was sent."""

    passes = True

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The ledger's server {reason}",
            f"Nothing is released without the ledger; {NOT_BOOKED}",
            "Check the address, the role and its password that output.ledger refers to, and that the server runs",
        )


class Locked(LedgerError):
    """The lock of whoever writes did not come in time; nothing was booked."""

    passes = True

    def __init__(self) -> None:
        super().__init__(
            f"The ledger stayed locked for {WAIT_SECONDS} seconds",
            f"One entry at a time is written; {NOT_BOOKED}",
            "Find the process that holds it, then run again",
        )


class Database(ABC):
    """Where the rows are kept.

    A writing transaction holds the ledger's only write lock from its start, so that what it reads still holds when it
    writes. A reading one sees all rows as they were at one moment and waits for nobody.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._checked = False

    @classmethod
    def place(cls, url: str) -> str:
        """Where a ledger is that another package keeps: its address, without role, password and options."""
        raise NotImplementedError(f"{cls.__name__} does not say where {url.partition('://')[0]} ledgers are; add place")

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a ledger."""

    @abstractmethod
    def create_place(self) -> None:
        """Make what must be there before a table can be."""

    @abstractmethod
    def missing(self) -> LedgerError:
        """Refusal where a ledger should be and is none."""

    @abstractmethod
    def session(self, *, writing: bool) -> AbstractContextManager[sa.Connection]:
        """Transaction whatever the tables are; failures in words."""

    def create(self) -> None:
        """Make the ledger where there is none.

        Raises
        ------
        LedgerError
            There is one of another version.
        """
        self.create_place()

        def work(connection: sa.Connection) -> None:
            if not _has(connection, entry):
                make_tables(connection)

        self._repeat(lambda: self.session(writing=True), work)

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Transaction that holds the only write lock; committed and on the disk when it ends.

        Raises
        ------
        LedgerError
            There is no ledger, it is damaged or of another version, it stays locked, or its server is lost.
        StoreError
            The disk is full or the ledger may not be written.
        """
        with self.session(writing=True) as connection:
            self._check(connection)
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """All rows as they were at one moment, without the lock; raises as :meth:`transaction`."""
        with self.session(writing=False) as connection:
            self._check(connection)
            yield connection

    def write(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Run ``work`` in one transaction; a lost connection is resolved by running it again.

        After a lost connection nobody here knows whether the transaction was committed. The next transaction gets the
        lock only when the server has decided that, and ``work`` then finds its own row or writes it: it must look for
        its row by an identifier that was chosen before this call.
        """
        return self._repeat(self.transaction, work)

    def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Run ``work`` on all rows as they were at one moment; again where the connection is lost."""
        return self._repeat(self.reading, work)

    @staticmethod
    def _repeat(
        begin: Callable[[], AbstractContextManager[sa.Connection]], work: Callable[[sa.Connection], Result]
    ) -> Result:
        for number, pause in enumerate(_PAUSES):
            time.sleep(pause)
            try:
                with begin() as connection:
                    return work(connection)
            except ConnectionLost:
                pass
            except Unreachable:
                if number == 0:
                    raise  # nothing was ever sent
        raise ConnectionLost

    def _check(self, connection: sa.Connection) -> None:
        if self._checked:
            return
        if not _has(connection, entry):
            raise self.missing()
        version = connection.scalar(sa.select(stamp.c.version)) if _has(connection, stamp) else None
        if version != SCHEMA:
            raise _other_schema(version)
        self._checked = True


def _other_schema(found: object) -> LedgerError:
    return LedgerError(
        f"The ledger has {f'schema {found}' if isinstance(found, int) else 'no schema'}",
        f"This version of Blockveil reads schema {SCHEMA}, and could misread in another one what is spent",
        "Finish its nights with the version that made it; docs/stability.md says which versions follow one another",
    )


def _has(connection: sa.Connection, table: sa.Table) -> bool:
    return sa.inspect(connection).has_table(table.name)


@contextmanager
def translated(explain: Callable[[sa.exc.DBAPIError], BlockveilError]) -> Iterator[None]:
    """Turn a driver's error into one in words; the driver's text may quote a value or an address."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise explain(error) from None


def broken_rule() -> LedgerError:
    """Refusal of the database's own rules."""
    return LedgerError(
        "An entry would break the ledger's rules",
        "Rows are never changed, each continues the one before it, and a state is entered once",
        "Run `blockveil ledger verify`, then run again",
    )
