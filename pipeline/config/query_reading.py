"""A query that may read an ingest's source: one table, each record computed from one of its rows by itself.

**Claim.** Let a query be accepted here. Over any table, its result holds for each row of the table at most one
record, in the order in which rows are read, and whether there is one and what it holds is a function of that row, of
the declared public tables and of the text of the query alone.

**Proof.** A query is a tree of nodes. Each kind of node, and each part that a node may have, is on the list of
:mod:`.query_nodes`; all else is refused, known or not. What is listed is the selection from one table, a filter,
columns of that table, literals, and operators and functions that map the values of one row to one value, without side
effects, clock or chance. By induction over the tree, every expression is a function of one row. A joined table is
public, is never the table itself, and is read by a scalar subquery with an equality on its key: one value a row, so a
join neither multiplies rows nor drops them. Nothing else can put two rows together: there is no window, aggregate,
grouping, order, limit, sampling, set operation, other subquery or table function on the list. QED.

What is sent to the database is the text of the tree that was checked: see :mod:`.row_query`.

**Source**: group privacy and stability of row-wise transformations as in McSherry, "Privacy integrated queries", 2009,
section 3: select and where have stability one, join and group by have not.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from blockveil.pipeline.config.query_nodes import check_parts, words_of
from blockveil.pipeline.config.query_refusal import QueryRefused
from blockveil.pipeline.config.row_query import ALIAS, Dialect, Lookup, Node, RowQuery, TableName, quoted

# It warns of what it parses as a mere command, which is refused here in words of our own.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_SYSTEM = re.compile(r"(pg_|sqlite_|duckdb_|information_schema$|system$|temp$)", re.IGNORECASE)


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
        query = _understood(tree, dialect, dict(public))
        query.sql(tuple(query.outputs) or ("x",), "main")
    except (SqlglotError, RecursionError, ValueError):
        problem = "a text that is not one SELECT of this database"
    else:
        return query
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
    table, alias = _table_name(source.this)
    lookups = _lookups(tree, table, alias, public)
    for column in tree.find_all(exp.Column):
        column.set("table", quoted(_owner(column, alias, lookups)))
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
        return ALIAS
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
    lookups: dict[str, Lookup] = {}
    for join in tree.args.get("joins") or ():
        if not isinstance(join.this, exp.Table) or join.args.get("side") != "LEFT":
            raise QueryRefused("a join other than LEFT JOIN of a table", _JOINED)
        right, alias = _table_name(join.this)
        if right.folded == table.folded or right.name.casefold() == table.name.casefold():
            raise QueryRefused("a join of the table with itself", _JOINED)
        if right not in keys:
            raise QueryRefused(f'a join of the table "{right.name}"', _JOINED, "Declare it there if it is public")
        if alias == ALIAS or alias.casefold() in {called.casefold(), *map(str.casefold, lookups)}:
            raise QueryRefused("two tables of one name", _JOINED, "Give each another alias")
        lookups[alias] = Lookup(right, keys[right], _looked_up(join.args.get("on"), alias, keys[right], called))
    return lookups


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
