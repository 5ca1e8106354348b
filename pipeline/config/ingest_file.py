"""The config of one ingest: from files of records to the Zarr array that releases read.

What becomes of a missing value, of an unknown category, of a value outside the bins and of a unit's many rows has no
default: each is a decision about people's records.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.base.spelling import UnitType
from blockveil.pipeline.config.explain import validated
from blockveil.pipeline.config.ingest_columns import (
    Column,
    Missing,
    NumberColumn,
    check_different,
    declared_texts,
    repeated,
)
from blockveil.pipeline.config.ingest_databases import (
    ArrivalSection,
    DatabaseSource,
    DeltaSource,
    DuckdbSource,
    IcebergSource,
    PostgresSource,
    SqliteSource,
    check_grows,
    check_inputs,
)
from blockveil.pipeline.config.ingest_part import OnlySection
from blockveil.pipeline.config.listed_values import with_listed_values
from blockveil.pipeline.config.map_columns import FourierColumn, GradientsColumn, OnnxColumn
from blockveil.pipeline.config.toml import read_toml
from blockveil.pipeline.sections.fields import Label, LocalPath, Location, Number, Section, Whole, refusal, rule

DType = Literal["float32", "float64", "int8", "int16", "int32", "int64"]

_MEMBER = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"


class IngestSection(Section):
    """``[ingest]``: what is made."""

    store: LocalPath
    """the folder of the Zarr group to make, relative to the config file"""
    array: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")] = "records"
    """the name of the array in it"""
    layout: Literal["rows", "entries"] = "rows"
    """how records are stored: whole rows, or of sparse records the values other than zero"""
    dtype: DType = "float32"
    """the type of a stored element"""
    chunk_rows: Annotated[Whole, Field(ge=1, le=2**31)] | None = None
    """the rows of a chunk; about 8 MiB where it is not given"""
    memory_gib: Annotated[Number, Field(ge=0.6, le=1e6)] = 1.0
    """the memory to work in, in GiB"""
    partition: OnlySection | None = None
    """the partition of the records that the store holds; all records by default"""
    append: bool = False
    """whether the store grows: files that it does not hold yet, what was appended to a Delta or Iceberg table, or rows
    of dates that are over since the last run, are added behind the records that it holds"""
    late: Literal["next", "refuse"] | None = None
    """with append only, and without a default there: what becomes of a new file whose name comes before that of a
    stored one, or of rows of a table that are written later under a date that was read. "next": these records are
    added as any new ones, and count from the next release on; "refuse": the ingest stops"""
    accept_repeated_rows: Label | None = None
    """why a file may hold all or most rows of another one, which is refused by default: a reason that is kept with the
    store. Records that are stored twice count twice"""


class _Files(Section):
    """Files in the order in which they are read: as listed, and within a folder or a pattern by name."""

    files: Annotated[tuple[Location, ...], Field(min_length=1)]
    """paths, patterns with * or folders, local or in an object store"""


class ParquetSource(_Files):
    """Parquet files; folders named ``column=value`` give columns of text."""

    kind: Literal["parquet"]
    """the format of the files"""


class CsvSource(_Files):
    """CSV files with a header line, UTF-8, also compressed (.gz, .bz2, .zst); folders as for Parquet."""

    kind: Literal["csv"]
    """the format of the files"""
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] = ","
    """the character between fields"""
    missing_values: tuple[str, ...] = ("",)
    """the texts that stand for a missing value"""


class Names(Section):
    """Columns of one kind: ``name1`` to ``name84``."""

    name: Label
    """the common part of the names"""
    count: Annotated[Whole, Field(ge=1, le=10**6)]
    """the number of columns"""


class _Arrays(_Files):
    """Arrays without column names."""

    names: Annotated[tuple[Label | Names, ...], Field(min_length=1)]
    """the names of all columns in their order; { name = "x", count = 84 } stands for x1 to x84"""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns."""
        groups = ((part,) if isinstance(part, str) else repeated(part.name, part.count) for part in self.names)
        return tuple(name for group in groups for name in group)

    @rule
    def _different(self) -> None:
        check_different("names", self.columns)


class NpySource(_Arrays):
    """NPY files, each of rows and columns."""

    kind: Literal["npy"]
    """the format of the files"""


class NpzSource(_Arrays):
    """NPZ files, whose arrays are put side by side."""

    kind: Literal["npz"]
    """the format of the files"""
    arrays: Annotated[tuple[str, ...], Field(min_length=1)]
    """the arrays of each file, side by side"""


class ScipySource(_Arrays):
    """Sparse matrices by rows, as ``scipy.sparse.save_npz`` writes them."""

    kind: Literal["scipy"]
    """the format of the files"""


class ZarrSource(_Arrays):
    """Zarr arrays, or groups whose arrays are put side by side."""

    kind: Literal["zarr"]
    """the format of the files"""
    arrays: tuple[Annotated[str, StringConstraints(pattern=_MEMBER)], ...] = ()
    """the arrays of each group, side by side; none where files are arrays"""


FileSource = ParquetSource | CsvSource | NpySource | NpzSource | ScipySource | ZarrSource
Source = Annotated[
    FileSource | DeltaSource | IcebergSource | DuckdbSource | SqliteSource | PostgresSource, Field(discriminator="kind")
]


class RowUnit(Section):
    """Each row is a unit of its own."""

    kind: Literal["row"]
    """how rows belong to units"""
    name: Label
    """what one row stands for; releases must name the same unit"""


class _OfColumn(Section):
    name: Label
    """what a unit is, such as "one person"; releases must name the same unit"""
    column: Label
    """the column that identifies the unit"""
    type: UnitType
    """what the column holds: "whole" numbers, of which 7, 7.0 and 07 are one, or "text"; a unit of which it is in doubt
    whether another spelling is the same one is refused"""
    missing: Missing
    """what to do with a row that has no unit"""
    seed: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """any text: it fixes which rows are chosen and the order of units; the guarantee does not rest on its secrecy"""


class ChosenRows(_OfColumn):
    """A declared number of rows of each unit at most, chosen by what they hold and never by their order."""

    kind: Literal["choose"]
    """how rows belong to units"""
    rows_at_most: Annotated[Whole, Field(ge=1, le=10**6)]
    """the largest number of rows of one unit; further rows are dropped"""


class AggregatedRows(_OfColumn):
    """All rows of a unit become one record."""

    kind: Literal["aggregate"]
    """how rows belong to units"""
    by: Literal["sum", "mean"]
    """how the rows of a unit are combined in a column"""


Unit = Annotated[RowUnit | ChosenRows | AggregatedRows, Field(discriminator="kind")]


class IngestConfig(Section):
    """Everything that is declared of one ingest."""

    ingest: IngestSection
    """what is made"""
    source: Source
    """what is read"""
    unit: Unit
    """whose rows they are, and how many of them one unit may have"""
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]
    """the columns of the store, in their order"""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of the store."""
        return tuple(name for column in self.columns for name in column.outputs)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of the source that are read, each once."""
        unit = () if isinstance(self.unit, RowUnit) else (self.unit.column,)
        only = () if self.ingest.partition is None else (self.ingest.partition.column,)
        return tuple(dict.fromkeys((*unit, *only, *(name for column in self.columns for name in column.inputs))))

    @property
    def drops(self) -> bool:
        """Whether a record may be left out."""
        policies = getattr(self.unit, "missing", None) == "drop" or any(column.drops for column in self.columns)
        has_filter = isinstance(self.source, DatabaseSource) and self.source.filters
        return policies or has_filter or self.ingest.partition is not None

    @property
    def arrival(self) -> ArrivalSection | None:
        """Dates by which the store grows from a table; None where it does not."""
        return self.source.arrival if isinstance(self.source, DatabaseSource) else None

    @property
    def bounded(self) -> ChosenRows | AggregatedRows | None:
        """What is done with the rows of a unit; None where each row is a unit."""
        return None if isinstance(self.unit, RowUnit) else self.unit

    @property
    def rows_per_unit(self) -> int:
        """Rows of the store that one unit can have."""
        return self.unit.rows_at_most if isinstance(self.unit, ChosenRows) else 1

    @property
    def integer(self) -> bool:
        """Whether elements are stored as whole numbers."""
        return self.ingest.dtype.startswith("int")

    @rule
    def _one_absence(self) -> None:
        if not isinstance(self.source, CsvSource):
            return
        text_values = [(name, values) for column in self.columns for name, values in declared_texts(column)]
        if self.ingest.partition is not None:
            only = self.ingest.partition
            text_values.append((only.column, frozenset(only.values or {only.value})))
        for name, values in text_values:
            for text in self.source.missing_values:
                if {text, _number_of(text)} & values:
                    raise refusal(
                        "source.missing_values",
                        f'"{text}", which is also a declared value of column "{name}"',
                        "A text stands for a missing value or for a value: it would be taken for a missing one",
                        "Take it off source.missing_values, or declare the column without it",
                    )

    @rule
    def _coherent(self) -> None:
        check_different("columns", self.outputs)
        check_grows(self.source, self.ingest.append, self.ingest.late)
        if isinstance(self.source, DatabaseSource):
            only = self.ingest.partition
            check_inputs(self.source, self.inputs, None if only is None else only.column)
        if isinstance(self.source, _Arrays):
            unknown = set(self.inputs) - set(self.source.columns)
            if unknown:
                raise refusal(
                    "columns", f'"{min(unknown)}"', "Columns of arrays are named in source.names", "Correct the name"
                )
        if self.ingest.layout == "entries" and self.ingest.chunk_rows:
            raise refusal(
                "ingest.layout",
                '"entries" with chunk_rows',
                "Entries have chunks of their own",
                "Leave chunk_rows out",
            )
        if self.ingest.append != (self.ingest.late is not None):
            raise refusal(
                "ingest.late",
                "missing with append" if self.ingest.append else f'"{self.ingest.late}" without append',
                "Whether records that come late are stored is decided beforehand, where a store grows and only there",
                'Set late = "next" or "refuse"' if self.ingest.append else "Leave late out, or set append = true",
            )
        if self.ingest.append and isinstance(self.unit, AggregatedRows):
            raise refusal(
                "ingest.append",
                'true with unit.kind = "aggregate"',
                "Records that are stored never change, and the record of a unit would with its next row",
                'Set unit.kind = "choose", or leave append out and ingest all files again',
            )
        real = NumberColumn | FourierColumn | GradientsColumn | OnnxColumn
        if self.integer and (isinstance(self.unit, AggregatedRows) or any(isinstance(c, real) for c in self.columns)):
            raise refusal(
                "ingest.dtype",
                f'"{self.ingest.dtype}" with real numbers or aggregated rows',
                "They are stored as floats",
                'Set dtype = "float32" or "float64"',
            )


def _number_of(text: str) -> str:
    """The own digits of a text that is a whole number, as a CSV file is read; other texts as they are."""
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text


@dataclass(frozen=True)
class LoadedIngest:
    """A config of an ingest and where it was found.

    Attributes
    ----------
    config
        The validated values.
    path
        Absolute path of the config file; relative paths in the config start from its folder.
    """

    config: IngestConfig
    path: Path

    @property
    def target(self) -> Path:
        """Folder of the Zarr group to make."""
        return absolute(self.path.parent / self.config.ingest.store, "ingest.store")


def load_ingest(path: str | os.PathLike[str]) -> LoadedIngest:
    """Read and validate the config of an ingest.

    Raises
    ------
    ConfigError
        The file cannot be read or parsed, or a key is unknown, missing or has a value that is not allowed.
    """
    file = Path(path)
    tree: dict[str, Any] = with_listed_values(read_toml(file), file.parent)
    config = validated(IngestConfig, tree, file.name, file)
    loaded = LoadedIngest(config, absolute(file, "The config"))
    _ = loaded.target  # there can be such a place
    return loaded
