"""An SQLite file, read in one transaction that may do nothing but read what its query names.

SQLite itself asks before each step that a statement contains: only the query's tables may be read, and only functions
that are on the list here may be called. That is a second lock beside the check of the query, for what a schema could
bring with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError
from blockveil.pipeline.config.row_query import RowQuery, TableName
from blockveil.pipeline.data.ingest.database_files import changed, state_of

_FUNCTIONS = frozenset(
    {
        *("abs", "ceil", "ceiling", "exp", "floor", "ln", "pow", "power", "round", "sign", "sqrt"),
        *("coalesce", "ifnull", "iif", "nullif"),
        *("instr", "length", "like", "lower", "replace", "substr", "substring", "trim", "upper"),
    }
)
_LARGEST_VALUE = 2**20
"""Bytes of a text: a column of longer ones is none that an ingest declares."""


class SqliteSession:
    """An SQLite file; see :class:`.database_table.Session`.

    Raises
    ------
    StoreError
        It cannot be opened.
    DataError
        It is no SQLite file.
    """

    schema, catalog = "main", ""

    def __init__(self, file: Path, query: RowQuery) -> None:
        self._file, self._tables = file, {query.table.name.casefold()}
        self._tables |= {lookup.table.name.casefold() for lookup in query.lookups.values()}
        self._state = state_of(file, "-wal")
        self._cursor: sqlite3.Cursor | None = None
        try:
            self._connection = _connected(file)
        except sqlite3.Error as error:
            failure = self.failure(f'Database "{file.name}"', error)
        else:
            self._others_write = self._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
            return
        raise failure

    def identity(self) -> str:
        """See :class:`.database_table.Session`."""
        if state_of(self._file, "-wal") != self._state:
            raise changed(self._file)
        return self._state

    def columns(self, table: TableName) -> tuple[bool, list[str]] | None:
        """See :class:`.database_table.Session`."""
        if (table.schema or "main").casefold() != "main":
            return None
        table_row = self._connection.execute(
            "SELECT name, type = 'table' AND rootpage > 0 FROM main.sqlite_master "
            "WHERE type IN ('table', 'view') AND lower(name) = lower(?)",
            (table.name,),
        ).fetchone()
        if table_row is None:
            return None
        name, base = table_row
        columns = self._connection.execute("SELECT name FROM pragma_table_xinfo(?, 'main')", (name,)).fetchall()
        return bool(base), [column for (column,) in columns]

    def first(self, text: str) -> tuple[Any, ...] | None:
        """See :class:`.database_table.Session`."""
        row: tuple[Any, ...] | None = self._connection.execute(text).fetchone()
        return row

    def batches(self, text: str, rows: int) -> Iterator[pa.RecordBatch]:
        """See :class:`.database_table.Session`."""
        self._connection.set_authorizer(self._authorised)
        self._cursor = cursor = self._connection.execute(text)
        names = [column[0] for column in cursor.description]
        while block := cursor.fetchmany(rows):
            # SQLite has types of values and none of columns: values of several types in one are refused here.
            arrays = [pa.array(values, from_pandas=False) for values in zip(*block, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names)

    def check_unchanged(self) -> None:
        """See :class:`.database_table.Session`; with a write-ahead log others may write, and the snapshot stays."""
        if not self._others_write and state_of(self._file, "-wal") != self._state:
            raise changed(self._file)

    def close(self) -> None:
        """See :class:`.database_table.Session`."""
        if self._cursor is not None:  # while it is open, the file stays locked
            self._cursor.close()
            self._cursor = None
        self._connection.close()

    def failure(self, shown: str, error: BaseException) -> BlockveilError:
        """See :class:`.database_table.Session`."""
        kind = getattr(error, "sqlite_errorname", None) or type(error).__name__
        match kind.split("_")[1] if kind.startswith("SQLITE_") else kind:
            case "ERROR" | "AUTH":
                return DataError(
                    f"{shown} does not fit source.query ({kind})",
                    "The query calls what this SQLite has, and reads no other table",
                    "Correct the query, and try it in SQLite itself",
                )
            case "ArrowInvalid" | "ArrowTypeError" | "OverflowError":
                return DataError(
                    f"{shown} has a column with values of several types",
                    "A column holds numbers, texts or dates as text, and missing values",
                    "Correct the table, or leave the column out",
                )
            case "NOTADB" | "CORRUPT" | "OperationalError" | "TOOBIG" | "MISMATCH":
                return DataError(
                    f"{shown} is damaged, of another format, or holds texts that are not UTF-8 or very long ({kind})",
                    "It is a whole SQLite file",
                    "Restore it, or correct source.file",
                )
        return StoreError(
            f"{shown} cannot be opened or read ({kind})",
            "The file is readable, nobody holds it locked, and the log beside it can be opened",
            "Check permissions of file and folder, or wait until the other process has ended",
        )

    def _authorised(self, action: int, one: Any, two: Any, place: Any, through: Any) -> int:
        allowed = action == sqlite3.SQLITE_SELECT
        allowed |= action == sqlite3.SQLITE_READ and str(one).casefold() in self._tables and through is None
        allowed |= action == sqlite3.SQLITE_FUNCTION and str(two).casefold() in _FUNCTIONS
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _connected(file: Path) -> sqlite3.Connection:
    """A connection with a snapshot; SQLite's errors."""
    # A path in an address: each byte is written as its number.
    place = "".join(f"%{byte:02x}" for byte in str(file).encode())
    connection = sqlite3.connect(
        f"file:{place}?mode=ro", uri=True, isolation_level=None, check_same_thread=False, timeout=20
    )
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM main.sqlite_master").fetchone()  # the snapshot begins with a read
    except BaseException:
        connection.close()
        raise
    return connection
