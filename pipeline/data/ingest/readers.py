"""Readers of each format: batches of a file from a given row on, in bounded memory.

What a library says about a file it cannot read may quote the file, so only the kind of its error is shown.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet

from blockveil.pipeline.base.errors import BlockveilError, ConfigError, DataError
from blockveil.pipeline.config.ingest_columns import (
    FALSE,
    TRUE,
    BinsColumn,
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
)
from blockveil.pipeline.config.ingest_databases import DeltaSource, IcebergSource
from blockveil.pipeline.config.ingest_file import (
    CsvSource,
    IngestConfig,
    NpySource,
    NpzSource,
    ParquetSource,
    RowUnit,
    ScipySource,
)
from blockveil.pipeline.config.map_columns import CrossColumn, FourierColumn, GradientsColumn, OnnxColumn
from blockveil.pipeline.data.ingest.batches import Batch, MatrixBatch, TableBatch
from blockveil.pipeline.data.ingest.column_faults import ColumnFault
from blockveil.pipeline.data.ingest.database_table import SourceTable, rows_from
from blockveil.pipeline.data.ingest.files import SourceFile, not_utf8, unreadable
from blockveil.pipeline.data.ingest.npy import NpyStream, check_form
from blockveil.pipeline.data.ingest.sparse_files import SparseStream
from blockveil.pipeline.data.ingest.stored import StoredArrays
from blockveil.pipeline.data.stores import is_damage

Readable = SourceFile | StoredArrays | SourceTable
"""What is read from its first row to its last."""

BATCH_BYTES = 16 * 2**20
"""Bytes of a batch as float64: a few fit beside the blocks that are written."""

_CSV_BLOCK = 8 * 2**20
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
SUFFIXES = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".csv.gz", ".csv.bz2", ".csv.zst"),
    "npy": (".npy",),
    "npz": (".npz",),
    "scipy": (".npz",),
}


class Piece(NamedTuple):
    """A batch and how much of its file was read with it, between 0 and 1; None where that is unknown."""

    batch: Batch
    share: float | None


class Reader:
    """Reads the files of one config."""

    def __init__(self, config: IngestConfig) -> None:
        self._config = config
        self._batch_rows = max(1, BATCH_BYTES // (8 * len(config.inputs)))

    def read(self, file: Readable, start: int) -> Iterator[Piece]:
        """Batches of a file from row ``start`` on, counted as the file has them.

        Raises
        ------
        DataError
            The file is not of its format, or lacks a column.
        StoreError
            It cannot be read.
        """
        try:
            yield from self._pieces(file, start)
        except BlockveilError:
            raise
        except pa.ArrowInvalid as error:
            failure: BlockveilError = self._refused(file, str(error))
        except Exception as error:  # noqa: BLE001 - a reader of foreign files may raise anything
            if isinstance(error, pa.ArrowException) or is_damage(error):
                failure = _broken(file)
            else:
                failure = unreadable(f'File "{file.name}"', error)
        else:
            return
        # Raised outside the handlers: the text of what was caught could quote a record.
        raise failure

    def _pieces(self, file: Readable, start: int) -> Iterator[Piece]:
        if isinstance(file, SourceTable):
            return (Piece(*fields) for fields in file.pieces(start, self._batch_rows))
        if isinstance(file, StoredArrays):
            return self._matrix(file.parts(), start, file.name)
        match self._config.source:
            case ParquetSource() | DeltaSource() | IcebergSource():
                return self._parquet(file, start)
            case CsvSource() as source:
                return self._csv(file, start, source)
            case NpySource():
                return self._npy(file, start)
            case NpzSource() as source:
                return self._npz(file, start, source)
            case ScipySource():
                return self._scipy(file, start)
        raise AssertionError("arrays and tables are opened as a whole")

    def _parquet(self, file: SourceFile, start: int) -> Iterator[Piece]:
        inside = [name for name in self._config.inputs if name not in dict(file.keys)]
        # Old writers count nanoseconds in 96 bits, of which 64 would hold the years 1678 to 2261 alone, others wrapped.
        with (
            closing(file.open()) as stream,
            arrow_parquet.ParquetFile(stream, coerce_int96_timestamp_unit="us") as table,
        ):
            names = table.schema_arrow.names
            _check_columns(file, names, inside)
            total, rows_before = table.metadata.num_rows, 0
            for group in range(table.num_row_groups):
                rows = table.metadata.row_group(group).num_rows
                if rows_before + rows > start:
                    # One at a time: asked for several, the library holds all that it has read.
                    batches = table.iter_batches(self._batch_rows, row_groups=[group], columns=inside)
                    for part, behind in rows_from(batches, start - rows_before, self._batch_rows):
                        yield Piece(_table(part, file, inside), (rows_before + behind) / total)
                rows_before += rows

    def _csv(self, file: SourceFile, start: int, source: CsvSource) -> Iterator[Piece]:
        inside = [name for name in self._config.inputs if name not in dict(file.keys)]
        with closing(file.open()) as stream:
            plain = _decompressed(file, stream)
            header = _header(file, plain, source.delimiter)
            _check_columns(file, header, inside)
            stream.seek(0)
            types = {name: kind for name, kind in _csv_types(self._config).items() if name in inside}
            csv_reader = arrow_csv.open_csv(
                _decompressed(file, stream),
                read_options=arrow_csv.ReadOptions(block_size=_CSV_BLOCK),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=source.delimiter,
                    newlines_in_values=True,
                    # Where there is one column, programs write a missing value as an empty line: a row like any other.
                    ignore_empty_lines=len(header) > 1,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=inside or header[:1],
                    column_types=types,
                    null_values=list(source.missing_values),
                    strings_can_be_null=True,
                    true_values=list(TRUE),
                    false_values=list(FALSE),
                ),
            )
            with csv_reader as reader:  # its threads end before the file is closed
                for part, _ in rows_from(reader, start, self._batch_rows):
                    yield Piece(_table(part, file, inside), min(1.0, stream.tell() / max(1, file.size)))

    def _npy(self, file: SourceFile, start: int) -> Iterator[Piece]:
        if not file.remote:
            memory_map = np.load(file.location, mmap_mode="r", allow_pickle=False)
            check_form(file.name, memory_map.dtype, memory_map.shape)
            if not memory_map.flags.c_contiguous:
                yield from self._matrix([memory_map.reshape(memory_map.shape[0], -1)], start, file.name)
                return
        # Read, not mapped: pages of a map that were read stay in memory.
        with closing(file.open()) as stream:
            yield from self._streams(file, [stream], start)

    def _npz(self, file: SourceFile, start: int, source: NpzSource) -> Iterator[Piece]:
        with closing(file.open()) as stream, zipfile.ZipFile(stream) as bundle:
            inside = set(bundle.namelist())
            for name in source.arrays:
                if f"{name}.npy" not in inside:
                    raise _lacks(file, f'array "{name}"', "source.arrays")
            yield from self._streams(file, [bundle.open(f"{name}.npy") for name in source.arrays], start)

    def _scipy(self, file: SourceFile, start: int) -> Iterator[Piece]:
        with closing(file.open()) as stream, zipfile.ZipFile(stream) as bundle:
            matrix = SparseStream(bundle, file.name)
            places = self._places(file.name, matrix.columns)
            matrix.skip(start)
            for first in range(start, matrix.rows, self._batch_rows):
                count = min(self._batch_rows, matrix.rows - first)
                yield Piece(MatrixBatch([matrix.take(count)], places), (first + count) / matrix.rows)

    def _streams(self, file: SourceFile, streams: list[Any], start: int) -> Iterator[Piece]:
        """Arrays side by side, from streams."""
        most_values = int(self._config.ingest.memory_gib * 2**30) // 8
        parts = [NpyStream(stream, file.name, most_values) for stream in streams]
        rows = _common_rows(file.name, [part.rows for part in parts])
        places = self._places(file.name, sum(part.width for part in parts))
        for part in parts:
            part.skip(start)
        for first in range(start, rows, self._batch_rows):
            count = min(self._batch_rows, rows - first)
            yield Piece(MatrixBatch([part.take(count) for part in parts], places), (first + count) / rows)

    def _matrix(self, parts: list[Any], start: int, name: str) -> Iterator[Piece]:
        """Arrays that can be read by a slice: memory maps and Zarr arrays."""
        rows = _common_rows(name, [part.shape[0] for part in parts])
        widths = [1 if len(part.shape) == 1 else part.shape[1] for part in parts]
        places = self._places(name, sum(widths))
        step = self._batch_rows
        chunk = max(getattr(part, "chunks", (1,))[0] for part in parts)
        if step >= chunk:
            step -= step % chunk  # a chunk is read once
        first = start
        while first < rows:
            stop = min(rows, (first // step + 1) * step)
            read = [np.asarray(part[first:stop]).reshape(stop - first, -1) for part in parts]
            yield Piece(MatrixBatch(read, places), stop / rows)
            first = stop

    def _places(self, name: str, width: int) -> dict[str, int]:
        names = getattr(self._config.source, "columns", ())
        if len(names) != width:
            raise DataError(
                f'"{name}" has {width} columns and source.names has {len(names)}',
                "Each column of an array has a name",
                "Correct source.names or source.arrays",
            )
        return {column: position for position, column in enumerate(names)}

    def _refused(self, file: Readable, text: str) -> DataError:
        """What a CSV reader says quotes the value; the number of the column alone is taken from it."""
        if "invalid UTF8" in text:
            return not_utf8(file.name)
        number = re.match(r"In CSV column #(\d+)", text)
        if number is None or not isinstance(file, SourceFile):
            return _broken(file, isinstance(self._config.source, CsvSource))
        try:
            with closing(file.open()) as stream:
                header = _header(file, _decompressed(file, stream), getattr(self._config.source, "delimiter", ","))
            column = header[int(number[1])]
        except Exception:  # noqa: BLE001 - the column's name is a help, not a need
            column = f"number {int(number[1]) + 1}"
        kind = _CALLED.get(_csv_types(self._config).get(column), "value of its type")
        return ColumnFault.of(
            column,
            f'File "{file.name}", column "{column}" holds a text that is not a {kind}',
            "A value is of the kind that the config declares, with a point before decimals, or one of "
            "source.missing_values",
            "Correct the file, the column's kind, or source.missing_values",
        )


_LONG = pa.decimal128(28, 9)
"""Every whole number of 64 bits, and the zeros behind its point that programs write where a column has gaps."""

_CALLED = {pa.float64(): "number", _LONG: "number of 64 bits", pa.bool_(): "boolean", pa.string(): "text"}
"""Types of CSV columns for a person."""


def _csv_types(config: IngestConfig) -> dict[str, pa.DataType]:
    types: dict[str, pa.DataType] = {}
    if not isinstance(config.unit, RowUnit):
        types[config.unit.column] = pa.string()
    if config.ingest.partition is not None:
        # Always as it is written: a spelling that is not the one of its value is then seen, and refused.
        types[config.ingest.partition.column] = pa.string()
    for column in config.columns:
        kind = _csv_type(column, config.integer)
        for name in column.inputs:
            types[name] = _common(name, types.get(name, kind), kind)
    return types


def _csv_type(column: Column, long: bool) -> pa.DataType:
    """What a column of the store reads from a CSV file: whole numbers as floats unless the store holds long ones."""
    match column:
        case NumberColumn() | BinsColumn() | FourierColumn() | GradientsColumn() | OnnxColumn():
            return pa.float64()
        case CrossColumn() if isinstance(column.columns[0].categories[0], str):
            return pa.string()
        case BooleanColumn():
            return pa.bool_()
        case CategoryColumn() if isinstance(column.categories[0], str):
            return pa.string()
        case DateColumn():
            return pa.string()
    return _LONG if long else pa.float64()


def _common(name: str, known: pa.DataType, kind: pa.DataType) -> pa.DataType:
    """The type that serves both declarations of a column; whole numbers are numbers, and can be binned."""
    if known == kind:
        return known
    if {known, kind} == {pa.float64(), _LONG}:
        return _LONG
    raise ConfigError(
        f'Column "{name}" is declared as two types that a CSV file cannot give at once',
        "A column of a CSV file is read as text, whole numbers, real numbers or booleans",
        "Declare it once, or put the values into two columns of the file",
    )


def _table(found: pa.RecordBatch, file: SourceFile, inside: list[str]) -> TableBatch:
    columns = {name: found.column(name) for name in inside}
    for name, value in file.keys:
        columns[name] = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(found.num_rows, np.int32), mask=np.full(found.num_rows, value is None)),
            pa.array([value or ""], pa.string()),
        )
    return TableBatch(columns, found.num_rows)


def _decompressed(file: SourceFile, stream: BinaryIO) -> Any:
    codec = _COMPRESSED.get("." + file.name.rpartition(".")[2].lower())
    return stream if codec is None else pa.CompressedInputStream(stream, codec)


def _header(file: SourceFile, plain: Any, delimiter: str) -> list[str]:
    text = io.StringIO(plain.read(2**20).decode("utf-8-sig", "replace"), newline="")
    if set(text.readline()) & {"\ufffd", "\0"}:  # another encoding, or two bytes a letter
        raise not_utf8(file.name)
    text.seek(0)
    header = next(csv.reader(text, delimiter=delimiter), None)
    if not header:
        raise DataError(f'File "{file.name}" is empty', "A CSV file starts with a line of column names", "Remove it")
    return header


def _check_columns(file: SourceFile, names: list[str], wanted: list[str]) -> None:
    for name in wanted:
        if names.count(name) != 1:
            problem = f'column "{name}"' if name not in names else f'only one column "{name}"'
            raise _lacks(file, problem, "columns")


def _lacks(file: SourceFile, what: str, key: str) -> DataError:
    return DataError(
        f'File "{file.name}" does not have {what}',
        "Every file holds every column that the config names, once",
        f"Correct {key}, or the file",
    )


def _broken(file: Readable, lines: bool = False) -> DataError:
    what = 'is not UTF-8 text, has lines of different length or fields not quoted by ", or is' if lines else "is"
    return DataError(
        f'File "{file.name}" cannot be read in its format: it {what} cut short, damaged or of another format',
        "Each file of a source is whole and of its format",
        "Restore the file, or correct source.kind",
    )


def _common_rows(name: str, rows: list[int]) -> int:
    if len(set(rows)) != 1:
        raise DataError(f'The arrays of "{name}" have different lengths', "They are put side by side", "Correct them")
    return rows[0]
