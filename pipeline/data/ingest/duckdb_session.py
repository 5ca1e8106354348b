"""A DuckDB file, read by a locked instance that can reach nothing else.

The file is attached to an instance of its own, whose own catalog is empty: a macro that is stored in the file, such as
one that is named ``lower`` or even ``+``, would else be called in place of DuckDB's own function. No other file,
network or extension can be reached, no setting can be changed, and nothing is spilled to disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError
from blockveil.pipeline.config.row_query import TableName
from blockveil.pipeline.data.ingest.database_files import changed, state_of
from blockveil.pipeline.data.ingest.database_types import of_duckdb

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": "200MB",
    "temp_directory": "",
    "threads": "1",  # rows come in their own order, and memory is that of one thread
    "preserve_insertion_order": "true",
    "disabled_optimizers": "join_order,build_side_probe_side",  # a public table is looked up, never the other way round
}

_PLACE = "database_name = 'source' AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)"
_BASE = f"SELECT 1 FROM duckdb_tables() WHERE {_PLACE}"  # noqa: S608 - parts of this file
_COLUMNS = f"SELECT column_name FROM duckdb_columns() WHERE {_PLACE} ORDER BY column_index"  # noqa: S608 - parts of this file


class DuckdbSession:
    """A DuckDB file; see :class:`.database_table.Session`.

    Raises
    ------
    StoreError
        It cannot be opened.
    DataError
        It is no DuckDB file.
    """

    schema, catalog = "main", "source"

    def __init__(self, file: Path) -> None:
        self._file, self._state = file, state_of(file, ".wal")
        self._reader: pa.RecordBatchReader | None = None
        self._connection = duckdb.connect(":memory:", config=_SETTINGS)
        try:
            place = str(file).replace("'", "''")
            self._connection.execute(f"ATTACH '{place}' AS source (READ_ONLY)")
            self._connection.execute("SET enable_progress_bar = false")  # it would be drawn into logs
            self._connection.execute("SET TimeZone = 'UTC'")  # else a time with a zone has the date of this machine
            self._connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")
        except Exception as error:  # noqa: BLE001 - its text may quote anything
            failure = self.failure(f'Database "{file.name}"', error)
        else:
            return
        self.close()
        raise failure

    def identity(self) -> str:
        """See :class:`.database_table.Session`; DuckDB lets nobody else write while it is attached."""
        self.check_unchanged()
        return self._state

    def columns(self, table: TableName) -> tuple[bool, list[str]] | None:
        """See :class:`.database_table.Session`."""
        place = [table.schema or self.schema, table.name]
        base = self._connection.execute(_BASE, place).fetchone() is not None
        rows = self._connection.execute(_COLUMNS, place).fetchall()
        return (base, [name for (name,) in rows]) if rows else None

    def first(self, text: str) -> tuple[Any, ...] | None:
        """See :class:`.database_table.Session`."""
        return self._connection.execute(text).fetchone()

    def batches(self, text: str, rows: int) -> Iterator[pa.RecordBatch]:
        """See :class:`.database_table.Session`."""
        # A result of sql() is streamed; one of execute() would be held whole before its first batch.
        kinds = [kind for _, kind, *_ in self._connection.execute(f"DESCRIBE {text}").fetchall()]
        self._reader = self._connection.sql(text).to_arrow_reader(rows)
        for batch in self._reader:
            columns = [of_duckdb(*each) for each in zip(batch.columns, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, batch.schema.names)

    def check_unchanged(self) -> None:
        """See :class:`.database_table.Session`."""
        if state_of(self._file, ".wal") != self._state:
            raise changed(self._file)

    def close(self) -> None:
        """See :class:`.database_table.Session`."""
        if self._reader is not None:  # while it is open, the file stays attached
            self._reader.close()
            self._reader = None
        self._connection.close()

    def failure(self, shown: str, error: BaseException) -> BlockveilError:
        """See :class:`.database_table.Session`."""
        kind = type(error).__name__
        match error:
            case duckdb.BinderException() | duckdb.CatalogException() | duckdb.ParserException():
                return DataError(
                    f"{shown} does not fit source.query ({kind})",
                    "Its columns have the types that the query's operators and functions take",
                    "Correct the query, and try it in DuckDB itself",
                )
            case duckdb.ConversionException() | duckdb.OutOfRangeException() | duckdb.InvalidInputException():
                return DataError(
                    f"{shown} holds a value with which source.query cannot compute ({kind})",
                    "Each row is computed by itself, and none is left out for an error",
                    "Filter such rows, or compute with CASE or TRY_CAST",
                )
            case duckdb.OutOfMemoryException():
                problem = f"{shown} needs more memory than DuckDB has here"
                return StoreError(problem, "It works in 200 MB", "Read fewer columns")
            case duckdb.IOException() | duckdb.ConnectionException() | duckdb.PermissionException():
                return StoreError(
                    f"{shown} cannot be opened or read ({kind})",
                    "It is a DuckDB file of a version that is known here, and no other process writes to it",
                    "Wait until the other process has ended, or correct source.file",
                )
        problem = f"{shown} cannot be read ({kind})"
        return StoreError(problem, "The source must be readable", "Check the file, and run again")
