"""The names of a source's columns, and nothing else that it holds.

What a file says about its records besides (types that were inferred from values, statistics, dictionaries, shapes, the
number of files) follows from the records, and a config that depended on it would tell something about them. Of two
sources with the same names in the same order, everything here is the same.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as arrow_parquet
from pydantic import ValidationError

from blockveil.pipeline.base.errors import BlockveilError, ConfigError, DataError
from blockveil.pipeline.base.printable import is_hidden
from blockveil.pipeline.config.ingest_databases import (
    DatabaseSource,
    DeltaSource,
    DuckdbSource,
    IcebergSource,
    PostgresSource,
    SqliteSource,
)
from blockveil.pipeline.data.ingest.database_table import declared_columns
from blockveil.pipeline.data.ingest.delta_files import open_delta
from blockveil.pipeline.data.ingest.files import SourceFile, find, not_utf8, unreadable
from blockveil.pipeline.data.ingest.iceberg_files import iceberg_columns
from blockveil.pipeline.data.ingest.readers import SUFFIXES
from blockveil.pipeline.data.ingest.table_files import lake_kind

Kind = Literal["csv", "parquet", "npy", "zarr", "delta", "iceberg", "duckdb", "sqlite", "postgresql"]

CATALOG = "catalog:"
"""What a table's name in a catalog of PyIceberg begins with: ``catalog:warehouse/clinic.visits``."""

_ENDINGS: dict[str, Kind] = {
    ".csv": "csv", ".csv.gz": "csv", ".csv.bz2": "csv", ".csv.zst": "csv",
    ".tsv": "csv", ".tsv.gz": "csv", ".tsv.bz2": "csv", ".tsv.zst": "csv",
    ".parquet": "parquet", ".pq": "parquet", ".npy": "npy", ".zarr": "zarr",
}  # fmt: skip
_PACKED = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_DELIMITERS = (",", ";", "\t", "|")
_OTHER_QUOTES = ("'", "`", "\u2018", "\u201c", "\u00ab")
_STORES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "memory")
_LONGEST_LINE = 2**20
_MOST_COLUMNS = 2**15
_LONGEST_NAME = 120


@dataclass(frozen=True)
class SourceColumns:
    """What is known of a source before anybody looks at its records.

    Attributes
    ----------
    location
        The path or address, as it was given.
    kind
        Format of the files.
    names
        Names of the columns in their order; empty for arrays, whose columns have no names.
    delimiter
        What separates the fields of a CSV file.
    query
        What is read of a database.
    """

    location: str
    kind: Kind
    names: tuple[str, ...]
    delimiter: str = ","
    query: str = ""


def read_columns(location: str, base: Path) -> SourceColumns:
    """Names of the columns of a file, or of the first file of a folder or pattern.

    Parameters
    ----------
    location
        A CSV or Parquet file, a folder or pattern of them, a TSV or NPY file, or a Zarr store; local or in an object
        store.
        Or the folder of a Delta or Iceberg table, a metadata file of an Iceberg table, or its name in a catalog,
        ``catalog:warehouse/clinic.visits``. Or the table of a database: ``clinic.duckdb/visits``,
        ``clinic.sqlite/visits`` or ``env:CLINIC/visits``.
    base
        Folder that a relative path starts from.

    Raises
    ------
    ConfigError
        The format is not known, or the first line of a CSV file does not look like names.
    DataError
        The file is damaged, empty or has columns without a name of their own.
    StoreError
        It cannot be read.
    """
    _refuse_other_addresses(location)
    if (place := table_place(location)) is not None and not (base / location).exists():
        return _of_table(place, location, base)
    kind = _kind(location)
    if kind in ("npy", "zarr"):  # their headers hold types and shapes only, and so they are not opened
        return SourceColumns(location, kind, ())
    if location.startswith(CATALOG) or (lake := lake_kind(location, base)) == "iceberg":
        return SourceColumns(location, "iceberg", _checked(iceberg_columns(_iceberg(location), base)))
    if lake == "delta":
        delta = DeltaSource(kind="delta", table=location)
        return SourceColumns(location, "delta", _checked(open_delta(delta, base).columns()))
    file = _first(location, base, kind)
    folders = [name for name, _ in file.keys]  # folders named column=value give columns
    if _kind(file.name) == "csv":
        line = _read(file, _first_line)
        delimiter = _delimiter(line)
        names = _fields(line, delimiter)
        _check_header(file, line, names)
        # A column without a name, such as the index that pandas writes, cannot be asked for and is not read.
        return SourceColumns(location, "csv", _checked([*filter(None, names), *folders]), delimiter)
    return SourceColumns(location, "parquet", _checked([*_read(file, _parquet_names), *folders]))


def _refuse_other_addresses(location: str) -> None:
    """Refuse what looks like an address and is none that can be read; it may hold a password and is not repeated."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", location)
    if scheme is None or scheme[1].lower() in _STORES:
        return
    if re.fullmatch(r"(?i)(postgres|sqlite|duckdb).*", scheme[1]):
        raise ConfigError(
            f"The source is an address that begins with {scheme[1][:20]}://",
            "A table of DuckDB or SQLite is the file and the table; of PostgreSQL, a variable holds the address",
            "Write clinic.duckdb/visits, clinic.sqlite/visits or env:CLINIC/visits",
        )
    raise ConfigError(
        f"The source is an address that begins with {scheme[1][:20]}://",
        "Records are read from local files, from s3://, gs:// and az://, and from DuckDB, SQLite and PostgreSQL",
        "Write the records to Parquet or CSV files first, and name these",
    )


def _of_table(place: TablePlace, location: str, base: Path) -> SourceColumns:
    name = ".".join(map(_quoted, place.table.split(".")))
    query = f"SELECT * FROM {name}"  # noqa: S608 - quoted, and checked as every query is
    try:
        source = place.model.model_validate({"kind": place.kind, place.key: place.database, "query": query})
    except ValidationError:
        failure = ConfigError(
            f'"{place.table}" is not the name of a table', "It is table, or schema.table", "Correct it"
        )
    else:
        return SourceColumns(location, place.kind, _checked(declared_columns(source, base)), query=query)
    raise failure


def catalog_table(location: str) -> tuple[str, str] | None:
    """Name of a catalog, and of a table in it; None where a source is no such table."""
    if not location.startswith(CATALOG):
        return None
    catalog, _, table = location.removeprefix(CATALOG).partition("/")
    return catalog, table


def _iceberg(location: str) -> IcebergSource:
    catalog, table = catalog_table(location) or (None, location)
    try:
        return IcebergSource(kind="iceberg", table=table, catalog=catalog)
    except ValidationError:
        failure = ConfigError(
            f'"{location}" is not the name of a table in a catalog',
            "It is written catalog:NAME/TABLE, with the catalog as PyIceberg knows it",
            "Correct it, such as catalog:warehouse/clinic.visits",
        )
    raise failure


def _quoted(name: str) -> str:
    if re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        return name
    text = name.replace('"', '""')
    return f'"{text}"'


def pasted(text: str) -> tuple[str, ...]:
    """Names of columns from a pasted line, or from pasted lines with one name each.

    Raises
    ------
    ConfigError
        There are none, or two are the same.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    names = _fields(lines[0], _delimiter(lines[0])) if len(lines) == 1 else lines
    return _checked([name.strip() for name in names])


@dataclass(frozen=True)
class TablePlace:
    """Where a table is."""

    kind: Literal["duckdb", "sqlite", "postgresql"]
    model: type[DatabaseSource]
    key: str
    database: str
    table: str


_DATABASES: tuple[tuple[str, Any], ...] = (
    (r"(.+\.(?:duckdb|ddb))(?:/([^/]+))?", ("duckdb", DuckdbSource, "file")),
    (r"(.+\.(?:sqlite3?|db))(?:/([^/]+))?", ("sqlite", SqliteSource, "file")),
    (r"(env:[A-Za-z_][A-Za-z0-9_]*)(?:/([^/]+))?", ("postgresql", PostgresSource, "address")),
)


def table_place(location: str) -> TablePlace | None:
    """Where a table is; None for files.

    Raises
    ------
    ConfigError
        A database is named without a table.
    """
    for pattern, (kind, model, key) in _DATABASES:
        match = None if "://" in location else re.fullmatch(pattern, location)
        if match is not None and match[2]:
            return TablePlace(kind, model, key, match[1], match[2])
        if match is not None:
            raise ConfigError(
                f'"{location}" is a database', "One table of it is the source", f"Name it, such as {match[1]}/visits"
            )
    return None


def _kind(location: str) -> Kind | None:
    name = location.rstrip("/").lower()
    return next((kind for ending, kind in _ENDINGS.items() if name.lower().endswith(ending)), None)


def _first(location: str, base: Path, kind: Kind | None) -> SourceFile:
    """The first file by name: which one it is follows from names alone, and all have the same columns."""
    suffixes = (*SUFFIXES["csv"], *SUFFIXES["parquet"])
    if kind is None and "*" not in location and "://" not in location and not (base / location).is_dir():
        raise ConfigError(
            f'"{Path(location).name}" has an ending that says no format',
            "A source is a .csv or .tsv file (also .gz, .bz2, .zst), a .parquet or .npy file, a .zarr store, or a "
            "folder of files or of a Delta or Iceberg table",
            "Rename it, or convert it",
        )
    return find((location,), base, suffixes)[0]


def _read(file: SourceFile, work: Any) -> Any:
    try:
        with closing(file.open()) as stream:
            return work(file, stream)
    except BlockveilError:
        raise
    except pa.ArrowException:
        failure: BlockveilError = DataError(
            f'File "{file.name}" is damaged or not of its format', "Its columns are read from it", "Correct the file"
        )
    except Exception as error:  # noqa: BLE001 - a reader of foreign files may raise anything
        failure = unreadable(f'File "{file.name}"', error)
    # Raised outside the handlers: the text of what was caught could quote a record.
    raise failure


def _parquet_names(_: SourceFile, stream: Any) -> list[str]:
    # The schema alone: its metadata, as pandas writes it, would say how many rows there are.
    return list(arrow_parquet.read_schema(stream).names)


def _first_line(file: SourceFile, stream: Any) -> str:
    """The header line: what a CSV reader takes as the first record, which may span lines within quotes."""
    codec = _PACKED.get(file.name.rpartition(".")[2].lower())
    plain = stream if codec is None else pa.CompressedInputStream(stream, codec)
    content = bytearray()
    while len(content) < _LONGEST_LINE:
        more = plain.read(1)
        if not more:
            break
        content += more
        if more in b"\r\n" and content.count(b'"') % 2 == 0:
            break
    text = content.decode("utf-8-sig", "replace").strip("\r\n")
    if "�" in text or "\0" in text:
        raise not_utf8(file.name)
    if not text.strip() or len(content) >= _LONGEST_LINE:
        raise DataError(
            f'File "{file.name}" has no header line',
            "A CSV file is UTF-8 text that starts with a line of column names",
            "Write the names into its first line",
        )
    return text


def _delimiter(line: str) -> str:
    """What separates most names; a comma where nothing does."""
    return max(_DELIMITERS, key=lambda mark: (len(_fields(line, mark)), -_DELIMITERS.index(mark)))


def _fields(line: str, delimiter: str) -> list[str]:
    return next(csv.reader(io.StringIO(line), delimiter=delimiter), [])


def _check_header(file: SourceFile, line: str, names: Sequence[str]) -> None:
    """Refuse a first line that is no line of names: values that were shown would be somebody's record."""
    if re.fullmatch(r"sep=.?", line.strip('"'), re.IGNORECASE):
        raise ConfigError(
            f'The first line of "{file.name}" says what separates fields',
            "Only Excel reads such a line; the names of the columns stand in the first one",
            "Remove that line",
        )
    if any(name.startswith(_OTHER_QUOTES) for name in names):
        raise ConfigError(
            f'Names in the first line of "{file.name}" begin with a quotation mark',
            'Fields of a CSV file are quoted by " alone',
            'Write the file with " as its quotation mark',
        )
    if any(_is_number(name) for name in names):
        raise ConfigError(
            f'The first line of "{file.name}" holds numbers',
            "It is read as the names of columns, and shown; values must not be",
            "Write a line of names above it",
        )


def _is_number(text: str) -> bool:
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return True


def _checked(names: Iterable[str]) -> tuple[str, ...]:
    columns = tuple(names)
    if not columns or len(columns) > _MOST_COLUMNS:
        raise DataError("The source has no columns, or too many", f"It has 1 to {_MOST_COLUMNS}", "Choose another file")
    for position, name in enumerate(columns, 1):
        if not name.strip():
            raise DataError(f"Column {position} has no name", "A column is known by its name", "Name it in the source")
        if name != name.strip() or len(name) > _LONGEST_NAME or any(map(is_hidden, name)):
            raise DataError(
                f"Column {position} has a name that cannot be shown",
                f"A name is printable text of at most {_LONGEST_NAME} characters, without spaces around it",
                "Rename it in the source",
            )
        if name in columns[: position - 1]:
            raise DataError(f'Two columns are named "{name}"', "Names of columns differ", "Rename one in the source")
    return columns
