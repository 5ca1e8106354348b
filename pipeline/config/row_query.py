"""A query that was accepted: which columns it reads, and the text of it that a database is sent.

What is sent is not the text that was written but the text of the tree that was checked (:mod:`.query_reading`), with
all names quoted and columns qualified, and it is parsed and compared once more. So comments, hints and spellings that a
database reads in another way than the parser never reach it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import sqlglot
from sqlglot import exp

from blockveil.pipeline.config.query_dates import Dates, dated, undated
from blockveil.pipeline.config.query_refusal import QueryRefused

Dialect = Literal["duckdb", "sqlite", "postgres"]
Node = exp.Expression

ALIAS = "t"
"""What expressions call the table that is read."""


@dataclass(frozen=True, order=True)
class TableName:
    """A table of a database.

    Attributes
    ----------
    schema
        Its schema; an empty text stands for the usual one.
    name
        Its name.
    """

    schema: str
    name: str

    @property
    def folded(self) -> tuple[str, str]:
        """What is equal where a database may take two spellings for one table."""
        return self.schema.casefold(), self.name.casefold()


@dataclass(frozen=True)
class Lookup:
    """A public table that is joined on its key."""

    table: TableName
    key: str
    column: str


@dataclass(frozen=True, eq=False)
class RowQuery:
    """A query that was accepted.

    Attributes
    ----------
    dialect
        Of the database.
    table
        What is read.
    star
        Whether all columns of the table are selected.
    outputs
        Name and expression of each column that is selected by itself.
    where
        The filter, if there is one.
    lookups
        Public tables by the name that expressions call them.
    """

    dialect: Dialect
    table: TableName
    star: bool
    outputs: dict[str, Node]
    where: Node | None
    lookups: dict[str, Lookup]

    @property
    def filters(self) -> bool:
        """Whether a row may be left out for its own values."""
        return self.where is not None

    def lacks(self, names: Iterable[str]) -> list[str]:
        """Those of some names that are surely no columns of the result."""
        return [] if self.star else [name for name in names if name not in self.outputs]

    def is_plain(self, name: str) -> bool:
        """Whether a column of the result is the column of that very name of the table."""
        expression = self.outputs.get(name)
        if expression is None:
            return self.star
        return isinstance(expression, exp.Column) and expression.table == ALIAS and expression.name == name

    def columns(self, names: Sequence[str]) -> dict[TableName, set[str]]:
        """Columns of each table that are read for some columns of the result."""
        by_table: dict[TableName, set[str]] = {self.table: {lookup.column for lookup in self.lookups.values()}}
        for lookup in self.lookups.values():
            by_table.setdefault(lookup.table, set()).add(lookup.key)
        for node in (*(self._expression(name) for name in names), *([self.where] if self.where else [])):
            for column in node.find_all(exp.Column):
                origin = self.lookups.get(column.table)
                by_table[self.table if origin is None else origin.table].add(column.name)
        return by_table

    def sql(self, names: Sequence[str], schema: str, catalog: str = "") -> str:
        """The text to send, whose columns are those of ``names`` in their order.

        Parameters
        ----------
        names
            Columns of the result, of which :meth:`lacks` finds none.
        schema, catalog
            The usual schema, and where tables lie if the database has several.

        Raises
        ------
        QueryRefused
            The database could read the text in another way than it was checked.
        """
        place = (schema, catalog)
        selection = [
            exp.Alias(this=self._sent(self._expression(name), place), alias=quoted(f"c{number}"))
            for number, name in enumerate(names)
        ]
        tree = self._selected(selection, place)
        text = tree.sql(dialect=self.dialect, identify=True, comments=False)
        if sqlglot.parse_one(text, dialect=self.dialect) != tree:
            raise QueryRefused("a part that this database writes in another way", remedy="Write it in a simpler way")
        return text

    def _selected(self, expressions: list[exp.Alias], place: tuple[str, str]) -> exp.Select:
        tree = exp.Select(expressions=expressions, from_=exp.From(this=self._table(self.table, ALIAS, place)))
        if self.dialect == "sqlite":
            tree.args["from_"].this.set("indexed", False)  # rows in their own order, whatever indexes there are
        if self.where is not None:
            tree.set("where", exp.Where(this=self._condition(self._sent(self.where, place))))
        return tree

    def arrived(self, column: str, dates: Dates) -> RowQuery:
        """The query of those rows alone whose column has one of some dates: a function of the row, as any filter."""
        term = dated(_column(column, ALIAS), dates, self.dialect)
        where = (
            term if self.where is None else exp.And(this=exp.Paren(this=self.where), expression=exp.Paren(this=term))
        )
        return replace(self, where=where)

    def arrivals(self, column: str, stretches: Sequence[Dates], place: tuple[str, str]) -> str:
        """A query of one row of numbers: rows without a date, and rows of each stretch of dates.

        Parameters
        ----------
        column
            A column of the table.
        stretches
            Dates.
        place
            The usual schema, and where tables lie if the database has several, as for :meth:`sql`.
        """
        day = _column(column, ALIAS)
        conditions = [undated(day, self.dialect), *(dated(day, dates, self.dialect) for dates in stretches)]
        counts = [
            exp.Alias(
                this=exp.Count(this=exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))])),
                alias=quoted(f"c{number}"),
            )
            for number, condition in enumerate(conditions)
        ]
        return self._selected(counts, place).sql(dialect=self.dialect, identify=True, comments=False)

    def _condition(self, where: Node) -> Node:
        """A filter that PostgreSQL serves by no index where it may use one to look up public tables."""
        if self.dialect != "postgres" or not self.lookups:
            return where
        branch = exp.If(this=exp.Paren(this=where), true=exp.Boolean(this=True))
        return exp.Case(ifs=[branch], default=exp.Boolean(this=False))

    def locks(self, schema: str) -> list[str]:
        """Statements of PostgreSQL that keep others from changing the tables as a whole."""
        tables = dict.fromkeys([self.table, *(lookup.table for lookup in self.lookups.values())])
        names = [
            f"{quoted(table.schema or schema).sql('postgres')}.{quoted(table.name).sql('postgres')}" for table in tables
        ]
        return [f"LOCK TABLE {name} IN ACCESS SHARE MODE" for name in names]

    def repeated(self, lookup: Lookup, schema: str, catalog: str = "") -> str:
        """A query that has a row if two rows of a public table have the same key."""
        key = _column(lookup.key, "p")
        has_key, place = exp.Not(this=exp.Is(this=key, expression=exp.Null())), (schema, catalog)
        several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
        tree = exp.select(key).from_(self._table(lookup.table, "p", place)).where(has_key).group_by(key).having(several)
        return tree.limit(1).sql(dialect=self.dialect)

    def _expression(self, name: str) -> Node:
        return self.outputs.get(name) or _column(name, ALIAS)

    def _sent(self, node: Node, place: tuple[str, str]) -> Node:
        """An expression with each column of a public table as the scalar subquery that looks it up."""

        def replaced(part: Node) -> Node:
            if not isinstance(part, exp.Column) or part.table not in self.lookups:
                return part
            lookup = self.lookups[part.table]
            alias = f"p{list(self.lookups).index(part.table)}"
            on = exp.EQ(this=_column(lookup.key, alias), expression=_column(lookup.column, ALIAS))
            inner = exp.Select(
                expressions=[_column(part.name, alias)],
                from_=exp.From(this=self._table(lookup.table, alias, place)),
                where=exp.Where(this=on),
            )
            return exp.Subquery(this=inner)

        return node.copy().transform(replaced)

    def _table(self, table: TableName, alias: str, place: tuple[str, str]) -> exp.Table:
        schema, catalog = place
        node = exp.Table(this=quoted(table.name), alias=exp.TableAlias(this=quoted(alias)))
        node.set("db", quoted(table.schema or schema))
        if catalog:
            node.set("catalog", quoted(catalog))
        return node


def quoted(text: str) -> exp.Identifier:
    """A name as it is sent, in quotation marks."""
    return exp.Identifier(this=text, quoted=True)


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(this=quoted(name), table=quoted(table))
