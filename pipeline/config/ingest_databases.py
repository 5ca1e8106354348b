"""``[source]`` of an ingest that reads a table of a database by a query; :mod:`.query_reading` says which queries."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from blockveil.pipeline.base.extras import MissingExtra
from blockveil.pipeline.base.printable import is_hidden
from blockveil.pipeline.config.query_refusal import QueryRefused
from blockveil.pipeline.sections.fields import Label, LocalPath, Location, Reference, Section, Whole, refusal, rule

if TYPE_CHECKING:
    from blockveil.pipeline.config.row_query import Dialect, RowQuery


class PublicTable(Section):
    """A table that everybody may know, which no person's record changes."""

    table: Label
    """the name of the table, or schema.name"""
    key: Label
    """the column that identifies its rows: no two rows have the same value"""


class ArrivalSection(Section):
    """The dates by which a store grows from a table."""

    column: Label
    """the column of the table that says on which date a row was written: a date, or a time whose date counts"""
    first: date
    """the first date whose rows are read"""


class DatabaseSource(Section):
    """One table of a database, of which each row is read by itself."""

    dialect: ClassVar[Dialect]
    """the SQL of the database"""
    query: Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
    """one SELECT from one table: columns, a filter, and what is computed within one row"""
    public: tuple[PublicTable, ...] = ()
    """public tables that the query may join by LEFT JOIN on their key; none by default"""
    arrival: ArrivalSection | None = None
    """with append only, and required there: each run reads the rows of the dates that are over since the last one"""

    @property
    def checked(self) -> RowQuery:
        """The query as it was accepted."""
        try:
            from blockveil.pipeline.config.query_reading import checked
        except ModuleNotFoundError as missing:
            raise MissingExtra.of(missing) or missing from None
        return checked(self.query, self.dialect, tuple((one.table, one.key) for one in self.public))

    @property
    def filters(self) -> bool:
        """Whether a record may be left out for its own values."""
        # By arrival, too: a record with a date before the first one, or to come, is not in the store.
        return self.checked.filters or self.arrival is not None

    @rule
    def _row_by_row(self) -> None:
        if any(is_hidden(mark) for mark in self.query if mark not in "\n\t"):
            raise refusal("query", "a character that cannot be seen", "A query is plain text", "Remove it")
        try:
            _ = self.checked
        except QueryRefused as error:
            failure = error
        else:
            return
        raise refusal("query", failure.problem, failure.rule, failure.remedy)


class DuckdbSource(DatabaseSource):
    """A table in a DuckDB file."""

    dialect = "duckdb"
    kind: Literal["duckdb"]
    """the database"""
    file: LocalPath
    """the database file, relative to the config file"""


class SqliteSource(DatabaseSource):
    """A table in an SQLite file."""

    dialect = "sqlite"
    kind: Literal["sqlite"]
    """the database"""
    file: LocalPath
    """the database file, relative to the config file"""


class PostgresSource(DatabaseSource):
    """A table on a PostgreSQL server."""

    dialect = "postgres"
    kind: Literal["postgresql"]
    """the database"""
    address: Reference
    """where its address is kept, which may hold a password: "env:NAME" or "file:PATH" """


class DeltaSource(Section):
    """A Delta table, of which the Parquet files are read that its log names."""

    kind: Literal["delta"]
    """the format of the table"""
    table: Location
    """the folder of the table, relative to the config file or in an object store"""
    version: Annotated[Whole, Field(ge=0, lt=2**63)] | None = None
    """the version of the table; the newest where it is not given"""


class IcebergSource(Section):
    """An Iceberg table, of which the Parquet files are read that one of its snapshots names."""

    kind: Literal["iceberg"]
    """the format of the table"""
    table: Location
    """the folder of the table or one of its metadata files, relative to the config file or in an object store; with
    catalog its name there, such as "clinic.visits" """
    catalog: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,100}$")] | None = None
    """the name of a catalog, as the environment or the file of PyIceberg describes it; none by default"""
    snapshot: Annotated[Whole, Field(ge=0, lt=2**63)] | None = None
    """the number of a snapshot; the newest where it is not given"""


def check_grows(source: object, append: bool, late: str | None) -> None:
    """Refuse a store that grows by a table without dates of arrival, and such dates where nothing grows.

    Parameters
    ----------
    source
        What is read.
    append
        Whether the store grows.
    late
        What becomes of records that come late.
    """
    arrives = isinstance(source, DatabaseSource) and source.arrival is not None
    if isinstance(source, DeltaSource | IcebergSource) and late == "refuse":
        raise refusal(
            "ingest.late",
            f'"refuse" with source.kind = "{source.kind}"',
            "What is appended to such a table follows what was there before: no record of it comes late",
            'Set late = "next": records count from the next release on',
        )
    if append and isinstance(source, DatabaseSource) and not arrives:
        # Two queries may select the same row: it would be stored twice, and a unit would exceed its bound.
        raise refusal(
            "ingest.append",
            "true with a table",
            "A store grows by files, by what is appended to a Delta or Iceberg table, or by the dates on which rows of "
            "another table were written: so each row is stored once",
            "Set source.arrival, write each night's rows to a file of their own, or leave append out",
        )
    if arrives and not append:
        raise refusal(
            "source.arrival",
            "given without append",
            "Rows are read by their dates of arrival where a store grows",
            "Set ingest.append = true, or leave arrival out",
        )


def check_inputs(source: DatabaseSource, inputs: tuple[str, ...], only: str | None) -> None:
    """Refuse columns that a query does not give, and a part of the records by a column that it computes.

    Parameters
    ----------
    source
        The query.
    inputs
        Columns that are read.
    only
        Column whose value decides which records are kept, if there is one.
    """
    lacking = source.checked.lacks(inputs)
    if lacking:
        raise refusal(
            "columns", f'"{lacking[0]}"', "A column is one that source.query selects", "Correct the name, or the query"
        )
    if only is not None and not source.checked.is_plain(only):
        # Parts by two computed columns of one name could hold the same record, and be charged as disjoint.
        raise refusal(
            "ingest.partition.column",
            f'"{only}", which source.query computes or renames',
            "Parts of the records are disjoint by a column of the table itself",
            "Select the column under its own name",
        )
