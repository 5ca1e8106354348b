"""A query that may read an ingest's source: one table, each record computed from one of its rows by itself.

**Claim.** Let a query be accepted here. Over any table, its result holds for each row of the table at most one
record, in the order in which rows are read, and whether there is one and what it holds is a function of that row, of
the declared public tables and of the text of the query alone.

**Proof.** A query is a tree of nodes. Each kind of node, and each part that a node may have, is on the list below;
all else is refused, known or not. What is listed is the selection from one table, a filter, columns of that table,
literals, and operators and functions that map the values of one row to one value, without side effects, clock or
chance. By induction over the tree, every expression is a function of one row. A joined table is public, is never the
table itself, and is read by a scalar subquery with an equality on its key: one value a row, so a join neither
multiplies rows nor drops them. Nothing else can put two rows together: there is no window, aggregate, grouping,
order, limit, sampling, set operation, other subquery or table function on the list. QED.

What is sent to the database is not the text that was written but the text of the tree that was checked, with all
names quoted and columns qualified, and it is parsed and compared once more. So comments, hints and spellings that a
database reads in another way than the parser never reach it. **Source**: group privacy and stability of row-wise
transformations as in McSherry, "Privacy integrated queries", 2009, section 3: select and where have stability one,
join and group by have not.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from blockveil.pipeline.config.query_dates import Dates, dated, undated
from blockveil.pipeline.config.query_nodes import check_parts, words_of
from blockveil.pipeline.config.query_refusal import QueryRefused

# It warns of what it parses as a mere command, which is refused here in words of our own.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

Dialect = Literal["duckdb", "sqlite", "postgres"]
Node = exp.Expression

_ALIAS = "t"
_SYSTEM = re.compile(r"(pg_|sqlite_|duckdb_|information_schema$|system$|temp$)", re.IGNORECASE)


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
    """A public table that is joined on its key.

    Attributes
    ----------
    table, key
        The table and the column that identifies its rows.
    column
        The column of the source's table that is looked up.
    """

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
        found = self.outputs.get(name)
        if found is None:
            return self.star
        return isinstance(found, exp.Column) and found.table == _ALIAS and found.name == name

    def columns(self, names: Sequence[str]) -> dict[TableName, set[str]]:
        """Columns of each table that are read for some columns of the result."""
        found: dict[TableName, set[str]] = {self.table: {lookup.column for lookup in self.lookups.values()}}
        for lookup in self.lookups.values():
            found.setdefault(lookup.table, set()).add(lookup.key)
        for node in (*(self._expression(name) for name in names), *([self.where] if self.where else [])):
            for column in node.find_all(exp.Column):
                joined = self.lookups.get(column.table)
                found[self.table if joined is None else joined.table].add(column.name)
        return found

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
        selected = [
            exp.Alias(this=self._sent(self._expression(name), place), alias=_name(f"c{number}"))
            for number, name in enumerate(names)
        ]
        tree = self._selected(selected, place)
        text = tree.sql(dialect=self.dialect, identify=True, comments=False)
        if sqlglot.parse_one(text, dialect=self.dialect) != tree:
            raise QueryRefused("a part that this database writes in another way", remedy="Write it in a simpler way")
        return text

    def _selected(self, expressions: list[exp.Alias], place: tuple[str, str]) -> exp.Select:
        tree = exp.Select(expressions=expressions, from_=exp.From(this=self._table(self.table, _ALIAS, place)))
        if self.dialect == "sqlite":
            tree.args["from_"].this.set("indexed", False)  # rows in their own order, whatever indexes there are
        if self.where is not None:
            tree.set("where", exp.Where(this=self._condition(self._sent(self.where, place))))
        return tree

    def arrived(self, column: str, dates: Dates) -> RowQuery:
        """The query of those rows alone whose column has one of some dates: a function of the row, as any filter.

        Parameters
        ----------
        column
            A column of the table.
        dates
            The dates.
        """
        kept = dated(_column(column, _ALIAS), dates, self.dialect)
        where = (
            kept if self.where is None else exp.And(this=exp.Paren(this=self.where), expression=exp.Paren(this=kept))
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
        day = _column(column, _ALIAS)
        conditions = [undated(day, self.dialect), *(dated(day, dates, self.dialect) for dates in stretches)]
        counted = [
            exp.Alias(
                this=exp.Count(this=exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))])),
                alias=_name(f"c{number}"),
            )
            for number, condition in enumerate(conditions)
        ]
        return self._selected(counted, place).sql(dialect=self.dialect, identify=True, comments=False)

    def _condition(self, where: Node) -> Node:
        """A filter that PostgreSQL serves by no index where it may use one to look up public tables."""
        if self.dialect != "postgres" or not self.lookups:
            return where
        held = exp.If(this=exp.Paren(this=where), true=exp.Boolean(this=True))
        return exp.Case(ifs=[held], default=exp.Boolean(this=False))

    def locks(self, schema: str) -> list[str]:
        """Statements of PostgreSQL that keep others from changing the tables as a whole."""
        tables = dict.fromkeys([self.table, *(lookup.table for lookup in self.lookups.values())])
        names = [
            f"{_name(table.schema or schema).sql('postgres')}.{_name(table.name).sql('postgres')}" for table in tables
        ]
        return [f"LOCK TABLE {name} IN ACCESS SHARE MODE" for name in names]

    def repeated(self, lookup: Lookup, schema: str, catalog: str = "") -> str:
        """A query that has a row if two rows of a public table have the same key."""
        key = _column(lookup.key, "p")
        known, place = exp.Not(this=exp.Is(this=key, expression=exp.Null())), (schema, catalog)
        several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
        tree = exp.select(key).from_(self._table(lookup.table, "p", place)).where(known).group_by(key).having(several)
        return tree.limit(1).sql(dialect=self.dialect)

    def _expression(self, name: str) -> Node:
        return self.outputs.get(name) or _column(name, _ALIAS)

    def _sent(self, node: Node, place: tuple[str, str]) -> Node:
        """An expression with each column of a public table as the scalar subquery that looks it up."""

        def replaced(part: Node) -> Node:
            if not isinstance(part, exp.Column) or part.table not in self.lookups:
                return part
            lookup = self.lookups[part.table]
            alias = f"p{list(self.lookups).index(part.table)}"
            on = exp.EQ(this=_column(lookup.key, alias), expression=_column(lookup.column, _ALIAS))
            inner = exp.Select(
                expressions=[_column(part.name, alias)],
                from_=exp.From(this=self._table(lookup.table, alias, place)),
                where=exp.Where(this=on),
            )
            return exp.Subquery(this=inner)

        return node.copy().transform(replaced)

    def _table(self, table: TableName, alias: str, place: tuple[str, str]) -> exp.Table:
        schema, catalog = place
        found = exp.Table(this=_name(table.name), alias=exp.TableAlias(this=_name(alias)))
        found.set("db", _name(table.schema or schema))
        if catalog:
            found.set("catalog", _name(catalog))
        return found


def _name(text: str) -> exp.Identifier:
    return exp.Identifier(this=text, quoted=True)


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(this=_name(name), table=_name(table))


@lru_cache(maxsize=64)
def checked(text: str, dialect: Dialect, public: tuple[tuple[str, str], ...] = ()) -> RowQuery:
    """The query of a text, if each record of its result follows from one row.

    Parameters
    ----------
    text
        One SELECT.
    dialect
        Of the database.
    public
        Public tables (``name`` or ``schema.name``) and the key of each.

    Raises
    ------
    QueryRefused
        It is anything else; see the proof above.
    """
    try:
        tree = _parsed(text, dialect)
        check_parts(tree)
        found = _understood(tree, dialect, dict(public))
        found.sql(tuple(found.outputs) or ("x",), "main")
    except (SqlglotError, RecursionError, ValueError):
        problem = "a text that is not one SELECT of this database"
    else:
        return found
    raise QueryRefused(problem, remedy="Write SELECT columns FROM table WHERE condition")


def _parsed(text: str, dialect: Dialect) -> exp.Select:
    # A statement of another kind may be parsed as a mere command, with a line in the log.
    first = next(iter(sqlglot.tokenize(text, dialect=dialect)), None)
    if first is None or first.text.upper() != "SELECT":
        raise QueryRefused("a statement other than SELECT", remedy="Write SELECT columns FROM table WHERE condition")
    trees = sqlglot.parse(text, dialect=dialect)
    if len(trees) != 1:
        raise QueryRefused("several statements", remedy="Write one SELECT")
    if not isinstance(trees[0], exp.Select):
        raise QueryRefused(words_of(trees[0]))
    return trees[0]


def _understood(tree: exp.Select, dialect: Dialect, public: dict[str, str]) -> RowQuery:
    """Names resolved, folded as the database folds them, and quoted."""
    source = tree.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table):
        raise QueryRefused("no table", remedy="Write FROM and the name of a table")
    for identifier in tree.find_all(exp.Identifier):
        if dialect == "postgres" and not identifier.args.get("quoted"):
            identifier.set("this", identifier.name.lower())
        identifier.set("quoted", True)
    table, called = _table_name(source.this)
    lookups = _lookups(tree, table, called, public)
    for column in tree.find_all(exp.Column):
        column.set("table", _name(_owner(column, called, lookups)))
    star, outputs = _outputs(tree)
    where = tree.args.get("where")
    return RowQuery(dialect, table, star, outputs, None if where is None else where.this, lookups)


def _table_name(table: exp.Table) -> tuple[TableName, str]:
    """A table's name and what expressions call it."""
    if not isinstance(table.this, exp.Identifier):
        raise QueryRefused("a table function", remedy="Name a table")
    if _SYSTEM.match(table.name) or _SYSTEM.match(table.db):
        raise QueryRefused("a table of the database itself", "What it says of records is about many of them")
    return TableName(table.db, table.name), table.alias or table.name


def _owner(column: exp.Column, called: str, lookups: dict[str, Lookup]) -> str:
    name = column.table
    if not name or name.casefold() == called.casefold():
        return _ALIAS
    if name not in lookups:
        raise QueryRefused(f'the table "{name}", which the query does not name')
    return name


def _outputs(tree: exp.Select) -> tuple[bool, dict[str, Node]]:
    star, outputs = False, dict[str, Node]()
    for node in tree.expressions:
        if isinstance(node, exp.Star):
            star = True
            continue
        name = node.alias if isinstance(node, exp.Alias) else node.name if isinstance(node, exp.Column) else ""
        if not name or name in outputs:
            raise QueryRefused("a column without a name of its own", remedy="Name each expression with AS, once")
        outputs[name] = node.this if isinstance(node, exp.Alias) else node
    return star, outputs


_JOINED = "Only a public table that source.public declares is joined, by LEFT JOIN ... ON column = its key"


def _lookups(tree: exp.Select, table: TableName, called: str, public: dict[str, str]) -> dict[str, Lookup]:
    keys = {_public_name(name): key for name, key in public.items()}
    found: dict[str, Lookup] = {}
    for join in tree.args.get("joins") or ():
        if not isinstance(join.this, exp.Table) or join.args.get("side") != "LEFT":
            raise QueryRefused("a join other than LEFT JOIN of a table", _JOINED)
        joined, alias = _table_name(join.this)
        if joined.folded == table.folded or joined.name.casefold() == table.name.casefold():
            raise QueryRefused("a join of the table with itself", _JOINED)
        if joined not in keys:
            raise QueryRefused(f'a join of the table "{joined.name}"', _JOINED, "Declare it there if it is public")
        if alias == _ALIAS or alias.casefold() in {called.casefold(), *map(str.casefold, found)}:
            raise QueryRefused("two tables of one name", _JOINED, "Give each another alias")
        found[alias] = Lookup(joined, keys[joined], _looked_up(join.args.get("on"), alias, keys[joined], called))
    return found


def _public_name(text: str) -> TableName:
    schema, _, name = text.rpartition(".")
    return TableName(schema, name)


def _looked_up(on: Any, alias: str, key: str, called: str) -> str:
    """The column of the source's table that a join compares with the key."""
    if isinstance(on, exp.EQ) and isinstance(on.this, exp.Column) and isinstance(on.expression, exp.Column):
        for one, other in ((on.this, on.expression), (on.expression, on.this)):
            ours = other.table.casefold() == called.casefold()
            if (one.table, one.name) == (alias, key) and ours:
                return other.name
    raise QueryRefused("a join on something else than the key", _JOINED, "Write ON table.column = public.key")
