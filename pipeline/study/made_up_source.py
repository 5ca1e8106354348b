"""Made-up sources of the kind that the config of an ingest reads, each in a folder of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet
import zarr
from numpy.typing import NDArray

from blockveil.pipeline.config.ingest_databases import (
    ArrivalSection,
    DeltaSource,
    DuckdbSource,
    IcebergSource,
    PostgresSource,
    SqliteSource,
)
from blockveil.pipeline.config.ingest_file import (
    CsvSource,
    IngestConfig,
    NpySource,
    NpzSource,
    ScipySource,
    ZarrSource,
)
from blockveil.pipeline.data.objects import is_remote

_Arrays = NpySource | NpzSource | ScipySource | ZarrSource
_SQL = {"int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN", "date32[day]": "DATE"}
_STORED_BY_SQLITE = {"int64": "INTEGER", "double": "REAL", "string": "TEXT", "bool": "INTEGER", "date32[day]": "TEXT"}


def replaced_by(config: IngestConfig, rows: pa.Schema) -> tuple[str, tuple[str, ...]]:
    """The kind of source that takes the place of a config's own, and what of that one is not replayed, in words.

    Parameters
    ----------
    config
        Of the ingest.
    rows
        Types of the rows that are put into it.
    """
    source = config.source
    arrival, only = config.arrival, config.ingest.partition
    if isinstance(source, PostgresSource):
        return "parquet", ("the PostgreSQL server and its query, whose rows Parquet files hold",)
    if arrival is not None and only is not None and only.column == arrival.column:
        return "parquet", ("the query by dates of arrival that divide the records too; Parquet files hold its rows",)
    numbers = all(
        pa.types.is_integer(one) or pa.types.is_floating(one) or pa.types.is_boolean(one) for one in rows.types
    )
    if isinstance(source, NpySource | NpzSource | ScipySource | ZarrSource) and not numbers:
        return "parquet", ("arrays of text or dates, whose columns Parquet files hold",)
    if isinstance(source, DuckdbSource | SqliteSource):
        return source.kind, ("what the query computes and filters: a table holds its rows as they would come",)
    locations = source.files if not isinstance(source, DeltaSource | IcebergSource) else (source.table,)
    elsewhere = any(map(is_remote, locations)) or getattr(source, "catalog", None) is not None
    return source.kind, ("the object store or catalog: files of this machine take its place",) * elsewhere


class MadeUpSource:
    """A source that holds what is put into it.

    Parameters
    ----------
    config
        Of the ingest, whose own source is not read.
    kind
        What takes its place.
    folder
        Where that lies.
    """

    def __init__(self, config: IngestConfig, kind: str, folder: Path) -> None:
        self._config, self._folder, self._kind = config, folder, kind
        self._appends, self._files, self._table = 0, 0, "in"
        (folder / "in").mkdir(parents=True)

    @property
    def section(self) -> dict[str, Any]:
        """``[source]`` of a config that reads it."""
        source = self._config.source
        match self._kind:
            case "delta" | "iceberg":
                return {"kind": self._kind, "table": self._table}
            case "duckdb" | "sqlite":
                more = {} if self._config.arrival is None else {"arrival": self._config.arrival.model_dump()}
                return {"kind": self._kind, "file": "in/db", "query": "SELECT * FROM made_up", **more}
            case "parquet":
                return {"kind": "parquet", "files": ["in"]}
        names = [f"in/{number:03d}.zarr" for number in range(self._files)] if self._kind == "zarr" else ["in"]
        return source.model_dump(exclude_unset=True) | {"files": names}

    @property
    def before(self) -> date | None:
        """The first date that is not over, where rows are read by their dates."""
        arrival = self._arrival
        return None if arrival is None else arrival.first + timedelta(self._appends)

    @property
    def _arrival(self) -> ArrivalSection | None:
        return self._config.arrival if self._kind in ("duckdb", "sqlite") else None

    def append(self, tables: Sequence[pa.Table]) -> None:
        """Put tables into the source, behind those that it holds: a file each, or rows of the next date."""
        arrival = self._arrival
        for table in tables:
            if arrival is not None:
                day = arrival.first + timedelta(self._appends)
                others = table.drop_columns([arrival.column]) if arrival.column in table.column_names else table
                table = others.append_column(arrival.column, pa.array([day] * table.num_rows, pa.date32()))
            self._write(table)
            self._files += 1
        self._appends += 1

    def _write(self, table: pa.Table) -> None:
        source, place = self._config.source, self._folder / "in" / f"{self._files:03d}"
        match self._kind:
            case "delta":
                import deltalake

                deltalake.write_deltalake(str(self._folder / "in"), table, mode="append")
            case "iceberg":
                self._iceberg(table)
            case "duckdb":
                _insert_by_duckdb(self._folder / "in" / "db", table)
            case "sqlite":
                _insert_by_sqlite(self._folder / "in" / "db", table)
            case "csv" if isinstance(source, CsvSource):
                _write_csv(place, table, source.delimiter, compressed=self._files % 2 == 1)
            case "npy" | "npz" | "scipy" | "zarr" if isinstance(
                source, NpySource | NpzSource | ScipySource | ZarrSource
            ):
                _write_arrays(place, _matrix(table, source.columns), source)
            case _:
                arrow_parquet.write_table(table, place.with_suffix(".parquet"))

    def _iceberg(self, table: pa.Table) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        place = f"file://{self._folder}/in"
        catalog = SqlCatalog("made-up", uri=f"sqlite:///{self._folder}/catalog.db", warehouse=place)
        try:
            catalog.create_namespace_if_not_exists("all")
            rows = catalog.create_table_if_not_exists("all.rows", schema=table.schema, location=place)
            rows.append(table)
            self._table = rows.metadata_location.removeprefix("file://")
        finally:
            catalog.engine.dispose()


def _write_csv(place: Path, table: pa.Table, delimiter: str, compressed: bool) -> None:
    options = arrow_csv.WriteOptions(delimiter=delimiter)
    if not compressed:
        arrow_csv.write_csv(table, place.with_suffix(".csv"), options)
        return
    with pa.CompressedOutputStream(str(place.with_suffix(".csv.gz")), "gzip") as stream:
        arrow_csv.write_csv(table, stream, options)


def _matrix(table: pa.Table, columns: tuple[str, ...]) -> NDArray[np.float64]:
    """Numbers of all columns of an array; those that are not read are 0."""
    there = set(table.column_names)
    return np.column_stack(
        [
            table[name].to_numpy(zero_copy_only=False).astype(np.float64) if name in there else np.zeros(table.num_rows)
            for name in columns
        ]
    )


def _write_arrays(place: Path, matrix: NDArray[np.float64], source: _Arrays) -> None:
    if isinstance(source, NpySource):
        np.save(place.with_suffix(".npy"), matrix)
        return
    if isinstance(source, ScipySource):
        import scipy.sparse

        scipy.sparse.save_npz(place.with_suffix(".npz"), scipy.sparse.csr_array(matrix))
        return
    # Of several arrays side by side the first ones have one column each.
    parts = dict(zip(source.arrays, np.split(matrix, range(1, len(source.arrays)), axis=1), strict=False))
    if isinstance(source, NpzSource):
        np.savez(place.with_suffix(".npz"), allow_pickle=False, **parts)
        return
    if not parts:
        zarr.create_array(place.with_suffix(".zarr"), data=matrix)
        return
    group = zarr.create_group(place.with_suffix(".zarr"))
    for name, part in parts.items():
        group.create_array(name, data=part)


def _columns(schema: pa.Schema, types: dict[str, str]) -> str:
    """Columns of a table, as SQL declares them."""
    names = (field.name.replace('"', '""') for field in schema)
    return ", ".join(f'"{name}" {types[str(field.type)]}' for name, field in zip(names, schema, strict=True))


def _insert_by_duckdb(file: Path, table: pa.Table) -> None:
    import duckdb

    with closing(duckdb.connect(str(file))) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS made_up ({_columns(table.schema, _SQL)})")
        connection.register("added", table)
        connection.execute("INSERT INTO made_up SELECT * FROM added")


def _insert_by_sqlite(file: Path, table: pa.Table) -> None:
    rows = [[str(one) if isinstance(one, date) else one for one in row.values()] for row in table.to_pylist()]
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS made_up ({_columns(table.schema, _STORED_BY_SQLITE)})")
        marks = ", ".join("?" * table.num_columns)
        connection.executemany(f"INSERT INTO made_up VALUES ({marks})", rows)  # noqa: S608 - nothing but marks
        connection.commit()
