"""The same table in a DuckDB file, an SQLite file and on a PostgreSQL server, and sources that read it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa

KINDS = ("duckdb", "sqlite", "postgresql")
TYPES = {
    "duckdb": {"int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN", "date32[day]": "DATE"},
    "sqlite": {"int64": "INTEGER", "double": "REAL", "string": "TEXT", "bool": "INTEGER", "date32[day]": "TEXT"},
    "postgresql": {"int64": "int8", "double": "float8", "string": "text", "bool": "bool", "date32[day]": "date"},
}


class Database:
    """One database.

    Parameters
    ----------
    kind
        Which.
    folder
        Where a file lies.
    server
        Where a server is, and the name of its database.
    """

    def __init__(self, kind: str, folder: Path, server: Any = None) -> None:
        self.kind, self.file, self.server = kind, folder / f"clinic.{kind}", server
        self.name = None if server is None else server.new_database()
        if server is not None:  # its jobs are transactions, which make another snapshot of the same rows
            server.execute("ALTER SYSTEM SET autovacuum = off")
            server.execute("SELECT pg_reload_conf()")

    @property
    def address(self) -> str:
        """Address of a server's database."""
        return self.server.url(self.name)

    def execute(self, *statements: str, rows: list[tuple[Any, ...]] | None = None) -> None:
        """Run statements as an owner; the last one for each row where rows are given."""
        with closing(self._opened()) as opened:
            cursor = opened.cursor()
            for statement in statements[:-1] if rows else statements:
                cursor.execute(statement)
            if rows:
                cursor.executemany(statements[-1], rows)
            opened.commit()

    def _opened(self) -> Any:
        if self.kind == "sqlite":
            return sqlite3.connect(self.file)
        if self.kind == "postgresql":
            return psycopg.connect(self.address)
        opened = duckdb.connect(str(self.file))
        opened.begin()
        return opened

    def put(self, table: pa.Table, name: str = "visits") -> None:
        """Make a table of the same rows in the same order."""
        types = TYPES[self.kind]
        columns = ", ".join(f'"{field.name}" {types[str(field.type)]}' for field in table.schema)
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        if self.kind == "sqlite":
            rows = [tuple(str(value) if hasattr(value, "isoformat") else value for value in row) for row in rows]
        mark = "%s" if self.kind == "postgresql" else "?"
        marks = ", ".join([mark] * table.num_columns)
        if self.kind == "duckdb":
            with closing(duckdb.connect(str(self.file))) as opened:
                opened.execute(f'CREATE TABLE "{name}" ({columns})')
                opened.register("given", table)
                opened.execute(f'INSERT INTO "{name}" SELECT * FROM given')
            return
        self.execute(f'CREATE TABLE "{name}" ({columns})', f'INSERT INTO "{name}" VALUES ({marks})', rows=rows)

    def source(self, query: str = "SELECT * FROM visits", more: str = "") -> str:
        """``[source]`` of a config."""
        where = 'address = "env:CLINIC"' if self.kind == "postgresql" else f'file = "{self.file.name}"'
        return f"kind = \"{self.kind}\"\n{where}\nquery = '''{query}'''\n{more}"
