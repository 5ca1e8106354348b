"""Which kinds of nodes a query may be made of, and which parts each may have; :mod:`.query_reading` has the proof.

A node that is added here must map the values of one row to one value, whatever other rows there are, without side
effects, clock or chance, in each database that is read.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from blockveil.pipeline.config.query_refusal import QueryRefused

_PAIR = ("this", "expression")
_ONE = ("this",)

ALLOWED: dict[type[Any], tuple[str, ...]] = {
    **dict.fromkeys((exp.From, exp.Where, exp.TableAlias, exp.Paren, exp.Neg, exp.Not, exp.Boolean), _ONE),
    **dict.fromkeys((exp.And, exp.Or, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE), _PAIR),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv), _PAIR),
    **dict.fromkeys((exp.Abs, exp.Ceil, exp.Floor, exp.Sqrt, exp.Ln, exp.Exp, exp.Sign), _ONE),
    **dict.fromkeys((exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.Year, exp.Month, exp.Day), _ONE),
    **dict.fromkeys((exp.Nullif, exp.Pow, exp.Left, exp.Right, exp.Extract), _PAIR),
    **dict.fromkeys((exp.Is, exp.Like, exp.ILike), (*_PAIR, "negate")),
    exp.Null: (),
    exp.Star: (),
    exp.Literal: ("this", "is_string"),
    exp.Identifier: ("this", "quoted"),
    exp.Column: ("this", "table"),
    exp.Table: ("this", "db", "alias"),
    exp.Alias: ("this", "alias"),
    exp.Div: (*_PAIR, "typed", "safe"),
    exp.DPipe: (*_PAIR, "safe"),
    exp.Between: ("this", "low", "high"),
    exp.In: ("this", "expressions"),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.Coalesce: ("this", "expressions"),
    exp.Round: ("this", "decimals"),
    exp.Substring: ("this", "start", "length"),
    exp.StrPosition: ("this", "substr"),
    exp.Replace: ("this", "expression", "replacement"),
    exp.Cast: ("this", "to"),
    exp.TryCast: ("this", "to", "safe"),
    exp.DataType: ("this", "expressions"),
    exp.DataTypeParam: _ONE,
    exp.Var: _ONE,
    exp.Join: ("this", "side", "on"),
    exp.Select: ("expressions", "from_", "where", "joins"),
}
"""Each kind of node that is accepted, and the parts that it may have."""

_TYPES = frozenset(
    {
        *(exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT, exp.DType.DECIMAL, exp.DType.BOOLEAN),
        *(exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.VARCHAR, exp.DType.TEXT, exp.DType.DATE, exp.DType.TIMESTAMP),
    }
)
_DATED = frozenset((exp.DType.DATE, exp.DType.TIMESTAMP))
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?", re.ASCII)
_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?", re.ASCII)
_UNITS = frozenset(["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "DOW", "ISODOW", "DOY"])
_CLOCK = re.compile(r"(?<![^\W_])(now|today|tomorrow|yesterday)(?![^\W_])", re.IGNORECASE)
_PHYSICAL = frozenset(["rowid", "_rowid_", "oid", "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"])
"""Columns that no table declares: places and times of rows, which depend on the rows before them."""

WORDS = {
    exp.Subquery: "a subquery",
    exp.Select: "a subquery",
    exp.Exists: "a subquery",
    exp.SetOperation: "a set operation",
    exp.Window: "a window",
    exp.AggFunc: "an aggregate",
    exp.Anonymous: "a function that is not on the list",
    exp.Func: "a function that is not on the list",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.Collate: "a collation",
    exp.Tuple: "a row value",
    exp.Lateral: "a lateral table",
    exp.Distinct: "DISTINCT",
}
"""What kinds of nodes are called for a person; the others by their class."""


def check_parts(tree: exp.Select) -> None:
    """Refuse every node, and every part of one, that is not on the list; QueryRefused."""
    for node in tree.walk():
        parts = ALLOWED.get(type(node))
        if parts is None or (isinstance(node, exp.Select) and node is not tree):
            raise QueryRefused(words_of(node))
        for key, value in node.args.items():
            if key not in parts and value not in (None, False, [], ()):
                raise QueryRefused(f"{key.strip('_').upper()} in {words_of(node, whole=True)}")
        _check_value(node)


def _check_value(node: exp.Expr) -> None:
    """Refuse a value of a node that means more than it looks like."""
    match node:
        case exp.Literal(is_string=False) if not _NUMBER.fullmatch(node.name):
            raise QueryRefused("a number in a rare spelling", remedy="Write it with decimal digits")
        case exp.Literal(is_string=True) if _CLOCK.search(node.name):
            rule = 'A text such as "now" is the clock where a date is compared with it'
            raise QueryRefused("a text that may stand for the time of day", rule, "Write a date such as '2026-11-20'")
        case exp.Column(this=exp.Star()):
            raise QueryRefused("a qualified *", remedy="Write * or names of columns")
        case exp.Column() if node.name.casefold() in _PHYSICAL:
            rule = "Where a row lies depends on the rows before it"
            raise QueryRefused(f'the column "{node.name}"', rule, "Select columns that the table declares")
        case exp.Star() if not isinstance(node.parent, exp.Select):
            raise QueryRefused("* within an expression")
        case exp.Var() if not (isinstance(node.parent, exp.Extract) and node.name.upper() in _UNITS):
            raise QueryRefused("a bare word", remedy=f"Extract one of {', '.join(sorted(_UNITS))}")
        case exp.DataTypeParam() if not (isinstance(node.this, exp.Literal) and re.fullmatch("[0-9]+", node.name)):
            raise QueryRefused("a type with a parameter that is not a whole number")
        case exp.Cast() | exp.TryCast():
            _check_cast(node)


def _check_cast(node: exp.Expr) -> None:
    kind = node.args["to"]
    if not isinstance(kind, exp.DataType) or kind.this not in _TYPES:
        types = "whole numbers, real numbers, decimals, booleans and texts"
        raise QueryRefused("a cast to a type that is not on the list", f"Values may be cast to {types}")
    literal = isinstance(node.this, exp.Literal) and bool(_ISO.fullmatch(node.this.name))
    if kind.this in _DATED and not literal:
        rule = "A text read as a date may stand for the clock, and a time zone for a setting"
        remedy = "Leave the cast out: the column's declaration reads texts and times as dates"
        raise QueryRefused("a cast of a column to a date or a time", rule, remedy)


def words_of(node: Any, whole: bool = False) -> str:
    """What a node is called for a person; as the ``whole`` that a part is found in, by its class."""
    if whole:
        return "a query" if isinstance(node, exp.Select) else type(node).__name__
    for kind in type(node).__mro__:
        if kind in WORDS:
            return WORDS[kind]
    return f"{type(node).__name__.upper()}, which is not on the list"
