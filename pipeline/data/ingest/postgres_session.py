"""A table on a PostgreSQL server, read in one read-only transaction, which sees one snapshot.

Functions, operators and types are PostgreSQL's own, because nothing else is on the path where names are looked up. A
table with row-level security is refused unless the role may see all of it: a policy may look at other rows. Rows
come in the order in which they lie in the table, so that a run that goes on finds them where it left off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError, StoreUnreachable
from blockveil.pipeline.config.row_query import RowQuery, TableName
from blockveil.pipeline.data.ingest.database_files import not_stored
from blockveil.pipeline.data.ingest.database_types import of_postgres

_BEGIN = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL search_path = pg_catalog, pg_temp",
    "SET LOCAL row_security = off",
    "SET LOCAL standard_conforming_strings = on",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL synchronize_seqscans = off",
    "SET LOCAL max_parallel_workers_per_gather = 0",
    "SET LOCAL enable_indexonlyscan = off",
    "SET LOCAL enable_bitmapscan = off",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
_HOLDS = (
    "SELECT 1 WHERE (current_setting('transaction_read_only'), current_setting('transaction_isolation'), "
    "current_setting('search_path'), current_setting('row_security')) "
    "= ('on', 'repeatable read', 'pg_catalog, pg_temp', 'off')"
)

_TABLE = (
    "SELECT c.oid::int8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
)
_COLUMNS = (
    "SELECT attname::text FROM pg_attribute WHERE attrelid = $1::int8 AND attnum > 0 AND NOT attisdropped "
    "ORDER BY attnum"
)
_NOT_BASE = (
    "WITH RECURSIVE below AS (SELECT $1::int8::oid AS part UNION SELECT i.inhrelid FROM pg_inherits i "
    "JOIN below ON i.inhparent = below.part) SELECT 1 FROM below JOIN pg_class c ON c.oid = below.part "
    "WHERE c.relkind NOT IN ('r', 'p')"
)
"""Parts of a table, itself included, that are not base tables."""

_BATCH_BYTES = "8388608"


class PostgresSession:
    """A snapshot of a PostgreSQL database; see :class:`.database_table.Session`.

    Parameters
    ----------
    address
        Where it is, with what is needed to be let in.
    query
        What is read: nobody can change, empty or replace its tables until the end, which no snapshot would show.

    Raises
    ------
    StoreUnreachable
        The server does not answer.
    DataError
        It has no such table.
    StoreError
        It lets nobody in with that address.
    """

    schema, catalog = "public", ""

    def __init__(self, address: str, query: RowQuery) -> None:
        waiting = "" if "connect_timeout" in address else ("&" if "?" in address else "?") + "connect_timeout=20"
        self._connection: Any = None
        self._cursor: Any = None
        try:
            self._connection = adbc.connect(address + waiting, autocommit=False)
            self._cursor = self._connection.cursor()
            # A public table may be looked up by an index; the query is written so that the source's table is not.
            index = f"SET LOCAL enable_indexscan = {'on' if query.lookups else 'off'}"
            # The snapshot begins with the first query after the locks.
            for statement in (*_BEGIN, index, *query.locks(self.schema)):
                self._cursor.execute(statement)
            if not self._rows(_HOLDS):
                raise adbc.ProgrammingError("settings", status_code=0)
        except Exception as error:  # noqa: BLE001 - its text may quote the address
            failure = self.failure("The database of source.address", error)
        else:
            return
        self.close()
        raise failure

    def identity(self) -> str:
        """See :class:`.database_table.Session`: which transactions it sees, of which life of the server."""
        text = "SELECT pg_current_snapshot()::text, pg_postmaster_start_time()::text, oid::text FROM pg_database"
        return " ".join(self._rows(f"{text} WHERE datname = current_database()")[0])

    def columns(self, table: TableName) -> tuple[bool, list[str]] | None:
        """See :class:`.database_table.Session`; the parts of a partitioned table are base tables too."""
        rows = self._rows(_TABLE, table.schema or self.schema, table.name)
        if not rows:
            return None
        oid = int(rows[0][0])
        columns = self._rows(_COLUMNS, oid)
        return not self._rows(_NOT_BASE, oid), [column for (column,) in columns]

    def first(self, text: str) -> tuple[Any, ...] | None:
        """See :class:`.database_table.Session`."""
        return next(iter(self._rows(text)), None)

    def batches(self, text: str, rows: int) -> Iterator[pa.RecordBatch]:
        """See :class:`.database_table.Session`; a batch has as many rows as fit into some megabytes."""
        del rows
        self._cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": _BATCH_BYTES})
        self._cursor.execute(text)
        with self._cursor.fetch_record_batch() as reader:
            for batch in reader:
                columns = [of_postgres(*each) for each in zip(batch.columns, batch.schema, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, batch.schema.names)

    def check_unchanged(self) -> None:
        """See :class:`.database_table.Session`: a snapshot does not change."""

    def close(self) -> None:
        """See :class:`.database_table.Session`."""
        for resource in (self._cursor, self._connection):
            if resource is not None:
                resource.close()
        self._cursor = self._connection = None

    def failure(self, shown: str, error: BaseException) -> BlockveilError:
        """See :class:`.database_table.Session`."""
        state = getattr(error, "sqlstate", None) or self._state_of_stream(error)
        kind = f"{type(error).__name__}{f', SQLSTATE {state}' if state else ''}"
        match state[:2]:
            case "22":
                return DataError(
                    f"{shown} holds a value with which source.query cannot compute ({kind})",
                    "Each row is computed by itself, and none is left out for an error",
                    "Filter such rows, or compute with CASE",
                )
            case "28" | "3D":
                problem = f"{shown} lets nobody in with this address ({kind})"
                return StoreError(problem, "Role and database exist", "Correct the address, or the password in it")
            case "42" if state == "42809":  # of the locks: nothing else asks for a table of a kind
                return not_stored("What source.query names")
            case "42" | "3F" if state in ("42P01", "3F000"):
                return DataError(
                    f"{shown} is not there, or has no such table",
                    "The query names a table of the database, with its schema if that is not public",
                    "Correct the name or its upper and lower case",
                )
            case "42" if state != "42501":
                return DataError(
                    f"{shown} does not fit source.query ({kind})",
                    "Its columns have the types that the query's operators and functions take",
                    "Correct the query, and try it in PostgreSQL itself",
                )
        if state == "42501":
            return StoreError(
                f"{shown} may not be read by this role, or only through row-level security",
                "A policy may look at other rows, so the role sees all rows of the table",
                "Grant SELECT, and BYPASSRLS where the table has policies",
            )
        return StoreUnreachable(
            f"{shown} cannot be read ({kind})",
            "The server answers from beginning to end, and no timeout of it ends the reading",
            "Look at the server, its log and the network, and run again",
        )

    def _state_of_stream(self, error: BaseException) -> str:
        """What ended a result while it was read, of which the driver says no more than that it ended.

        A connection that is still there says that its transaction has failed: a row could not be computed.
        """
        if isinstance(error, OSError) and self._cursor is not None:
            try:
                self._rows("SELECT 1")
            except adbc.ProgrammingError:
                return "22000"
            except Exception:  # noqa: BLE001 - whatever it is, nobody answers
                return ""
        return ""

    def _rows(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        self._cursor.execute(text, values or None)
        return list(self._cursor.fetchall())
