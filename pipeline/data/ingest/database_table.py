"""One table of a database as a source: one snapshot, read in batches.

The table must be a base table. A view may put rows of several persons into one, which no check of the query would see.
What a driver says in an error may quote a record or a password, so only the kind of the error is shown.

Rows come in the order in which they lie, so that a run that goes on finds them where it left off. That order may follow
from the rows of others, and decides nothing (:mod:`.units`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlencode

import pyarrow as pa

from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError, guard
from blockveil.pipeline.base.extras import MissingExtra
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.base.postgres_address import proof
from blockveil.pipeline.config.ingest_databases import (
    DatabaseSource,
    DuckdbSource,
    PostgresSource,
    SqliteSource,
)
from blockveil.pipeline.config.ingest_file import LoadedIngest
from blockveil.pipeline.config.query_refusal import QueryRefused
from blockveil.pipeline.config.secrets import POSTGRES, read_secret
from blockveil.pipeline.data.ingest.batches import TableBatch
from blockveil.pipeline.data.ingest.database_files import not_stored
from blockveil.pipeline.data.ingest.late_rows import Unseen, digests_of, joined
from blockveil.pipeline.data.ingest.units import Digests

if TYPE_CHECKING:
    from blockveil.pipeline.config.query_dates import Dates
    from blockveil.pipeline.config.row_query import RowQuery, TableName

T = TypeVar("T")

_DIGEST_ROWS = 2**16
"""Rows that are looked at together where only their digests are wanted."""


class Session(Protocol):
    """A read-only snapshot of a database.

    Attributes
    ----------
    schema, catalog
        Where tables lie that are named without a schema, and in which database, if it has several.
    """

    schema: str
    catalog: str

    def identity(self) -> str:
        """What changes with the content of the snapshot."""

    def columns(self, table: TableName) -> tuple[bool, list[str]] | None:
        """Whether a table is a base table, and its columns; None where there is no such table."""

    def first(self, text: str) -> tuple[Any, ...] | None:
        """First row of a query; None where it has none."""

    def batches(self, text: str, rows: int) -> Iterator[pa.RecordBatch]:
        """Result of a query, in batches of at most about a given number of rows."""

    def check_unchanged(self) -> None:
        """Refuse a database whose snapshot did not hold; DataError."""

    def close(self) -> None:
        """End the snapshot; may be called again."""

    def failure(self, shown: str, error: BaseException) -> BlockveilError:
        """What an error of the driver means."""


class SourceTable:
    """One table, opened.

    Parameters
    ----------
    session
        A snapshot of its database.
    query
        What is read.
    inputs
        Columns of the result.
    location
        Where the database is, without a secret.

    Raises
    ------
    DataError
        The table is not there, is a view, or lacks a column, or a public table has no such key.
    StoreError
        The database cannot be read.
    """

    size = 0
    """Unknown; the number of rows is private."""
    taken_in: Digests | None
    """Digests of all rows that a store holds once those that are read are added, where some may come late."""

    def __init__(self, session: Session, query: RowQuery, inputs: Sequence[str], location: str) -> None:
        self._session, self._query, self._inputs = session, query, tuple(inputs)
        self.location = location
        self._stored: Digests | None = None
        self.taken_in: Digests | None = None
        weakref.finalize(self, session.close)
        self._text, self.identity = self._guarded(self._prepared)

    @property
    def name(self) -> str:
        """Name of the table."""
        return self._query.table.name

    @property
    def shown(self) -> str:
        """The table in messages."""
        return f'Table "{self.name}"'

    def counted(self, column: str, *stretches: Dates) -> tuple[int, ...]:
        """How many rows that the query keeps have no date of arrival, and how many arrived in each of some stretches.

        Raises
        ------
        DataError
            There is no such column, or it holds no dates.
        StoreError
            The database does not answer any more.
        """

        def count() -> tuple[int, ...]:
            self._check_table(self._query.table, {column})
            place = (self._session.schema, self._session.catalog)
            return tuple(map(int, self._session.first(self._query.arrivals(column, stretches, place)) or ()))

        return self._guarded(count)

    def restrict(self, column: str, dates: Dates, stored: Digests | None = None) -> None:
        """Read those rows alone that arrived in a stretch of dates.

        Parameters
        ----------
        column, dates
            As for :meth:`counted`.
        stored
            Digests of rows that are left out, each as often as it is there; none by default.
        """
        self._text, self._stored = self._text_of(column, dates), stored

    def digests(self, column: str, dates: Dates) -> Digests:
        """Digests of the rows that arrived in a stretch of dates, each as often as it is there, in order.

        Parameters and errors as for :meth:`counted`.
        """
        batches = self._session.batches(self._text_of(column, dates), _DIGEST_ROWS)
        digests: list[Digests] = []
        while (batch := self._guarded(lambda: next(batches, None))) is not None:
            digests.append(digests_of(batch))
        return joined(digests)

    def _text_of(self, column: str, dates: Dates) -> str:
        place = (self._session.schema, self._session.catalog)
        return self._guarded(lambda: self._query.arrived(column, dates).sql(self._inputs, *place))

    def check_unchanged(self) -> None:
        """Refuse a database that changed while it was read, as far as a snapshot does not exclude it; DataError."""
        self._session.check_unchanged()

    def close(self) -> None:
        """End the snapshot; may be called again."""
        self._session.close()

    def pieces(self, start: int, batch_rows: int) -> Iterator[tuple[TableBatch, None]]:
        """Batches from row ``start`` of the result on; what share of the table they are is unknown.

        Raises
        ------
        DataError
            A value cannot be computed as the query says.
        StoreError
            The database does not answer any more.
        """
        try:
            for part, _ in rows_from(self._batches(batch_rows), start, batch_rows):
                yield TableBatch(dict(zip(self._inputs, part.columns, strict=True)), part.num_rows), None
        finally:
            self._session.close()

    def _batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Batches of the result, without the rows that are stored already."""
        batches = self._session.batches(self._text, batch_rows)
        unseen = None if self._stored is None else Unseen(self._stored)
        while (batch := self._guarded(lambda: next(batches, None))) is not None:
            yield batch if unseen is None else batch.filter(pa.array(unseen.of(digests_of(batch))))

    def _prepared(self) -> tuple[str, str]:
        for table, columns in self._query.columns(self._inputs).items():
            self._check_table(table, columns)
        for lookup in self._query.lookups.values():
            duplicates_query = self._query.repeated(lookup, self._session.schema, self._session.catalog)
            if self._session.first(duplicates_query) is not None:
                raise DataError(
                    f'Two rows of the public table "{lookup.table.name}" have the same "{lookup.key}"',
                    "A public table is joined on a key that identifies its rows",
                    "Correct source.public",
                )
        text = self._query.sql(self._inputs, self._session.schema, self._session.catalog)
        return text, self._session.identity()

    def _check_table(self, table: TableName, wanted: set[str]) -> None:
        columns = _declared(self._session, table)
        exact = self._query.dialect == "postgres"
        names = set(columns) if exact else {column.casefold() for column in columns}
        for name in sorted(wanted):
            if (name if exact else name.casefold()) not in names:
                raise DataError(
                    f'Table "{table.name}" does not have column "{name}"',
                    "The query and columns name columns that the table declares",
                    "Correct source.query, columns, or their upper and lower case",
                )

    def _guarded(self, work: Callable[[], T]) -> T:
        return _guarded(self._session, self.shown, work)


def rows_from(batches: Iterable[pa.RecordBatch], start: int, most: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Rows of batches from row ``start`` on, at most ``most`` at once, and how many rows end with their batch."""
    rows_read = 0
    for batch in batches:
        first, rows_read = rows_read, rows_read + batch.num_rows
        for offset in range(max(0, start - first), batch.num_rows, most):
            yield batch.slice(offset, most), rows_read


def _guarded(session: Session, shown: str, work: Callable[[], T]) -> T:
    """What some work returns; where it fails, the session is closed and the driver's text is not shown."""

    def failure(error: Exception) -> BlockveilError:
        if isinstance(error, QueryRefused):
            return DataError(f"source.query: {error.problem}", error.rule, error.remedy)
        return session.failure(shown, error)

    try:
        return guard(work, failure)
    except BlockveilError:
        session.close()
        raise


def _declared(session: Session, table: TableName) -> list[str]:
    """Columns of a base table."""
    declaration = session.columns(table)
    if declaration is None:
        raise DataError(
            f'The database has no table "{table.name}" that may be read',
            "The query names a table of the database, with its schema if that is not the usual one",
            "Correct the name or its upper and lower case, or give the role permission to read it",
        )
    base, columns = declaration
    if not base:
        raise not_stored(f'"{table.name}"')
    return columns


def declared_columns(source: DatabaseSource, base: Path) -> list[str]:
    """Names of the columns of a source's table, in their order; of nothing else is read.

    Raises
    ------
    BlockveilError
        As :func:`open_table`.
    """
    session, _ = _opened(source, base)
    table = source.checked.table
    columns = _guarded(session, f'Table "{table.name}"', lambda: _declared(session, table))
    session.close()
    return columns


def open_table(loaded: LoadedIngest) -> SourceTable:
    """The table that a config reads, in a snapshot that lasts until it is read.

    Raises
    ------
    MissingExtra
        The driver of the database is not installed.
    ConfigError
        What holds the database's address is not there.
    DataError, StoreError
        As :class:`SourceTable`.
    """
    source, base = loaded.config.source, loaded.path.parent
    assert isinstance(source, DatabaseSource)  # noqa: S101 - for types alone
    session, location = _opened(source, base)
    return SourceTable(session, source.checked, loaded.config.inputs, location)


def _opened(source: DatabaseSource, base: Path) -> tuple[Session, str]:
    """A snapshot of a source's database, and where that is, without a secret."""
    try:
        return _connected(source, base)
    except ModuleNotFoundError as missing:
        raise MissingExtra.of(missing) or missing from None


def _connected(source: DatabaseSource, base: Path) -> tuple[Session, str]:
    match source:
        case DuckdbSource():
            from blockveil.pipeline.data.ingest.duckdb_session import DuckdbSession

            file = absolute(base / source.file, "source.file")
            return DuckdbSession(file), str(file)
        case SqliteSource():
            from blockveil.pipeline.data.ingest.sqlite_session import SqliteSession

            file = absolute(base / source.file, "source.file")
            return SqliteSession(file, source.checked), str(file)
        case PostgresSource():
            from blockveil.pipeline.data.ingest.postgres_session import PostgresSession

            return PostgresSession(_address(source, base), source.checked), source.address
    raise AssertionError(type(source).__name__)


def _address(source: PostgresSource, base: Path) -> str:
    address = read_secret("source.address", source.address, base)
    scheme, _, rest = address.partition("://")
    if scheme not in POSTGRES or not rest:
        raise StoreError(
            "source.address: what it refers to is not the address of a PostgreSQL database (it is not shown)",
            "It is written postgresql://role:password@host:port/database",
            "Correct it; a file of DuckDB or SQLite is named by source.file",
        )
    verification = proof(f"postgresql://{rest}")
    if verification.problem is not None:
        raise StoreError(
            f"source.address: the server {verification.problem}",
            "Whoever answers in its place is told the password, and decides what is read",
            verification.remedy,
        )
    more = urlencode(verification.options)
    return f"postgresql://{rest}{('&' if '?' in rest else '?') + more if more else ''}"
