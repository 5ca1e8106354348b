"""Conditions on the date of a row, as each database reads them."""

from __future__ import annotations

from datetime import date

from sqlglot import exp

Dates = tuple[date, date]
"""A stretch of dates: the first, and the first behind them."""

_SQLITE = "sqlite"


def dated(day: exp.Column, dates: Dates, dialect: str) -> exp.Expression:
    """Whether a date, or the date of a time, is in a stretch.

    Parameters
    ----------
    day
        The column; SQLite keeps dates and times as texts, which have the same order.
    dates
        The stretch.
    dialect
        Of the database.
    """
    first, end = (_date(one, dialect) for one in dates)
    return exp.And(this=exp.GTE(this=day.copy(), expression=first), expression=exp.LT(this=day.copy(), expression=end))


def undated(day: exp.Column, dialect: str) -> exp.Expression:
    """Whether a column has no date: none at all, an infinite one, or in SQLite, which takes any value, another text."""
    missing = exp.Is(this=day.copy(), expression=exp.Null())
    if dialect != _SQLITE:
        too_early = exp.LT(this=day.copy(), expression=_read("0001-01-01"))
        too_late = exp.GTE(this=day.copy(), expression=_read("10000-01-01"))
        return exp.Or(this=missing, expression=exp.Or(this=too_early, expression=too_late))
    start = exp.Substring(this=day.copy(), start=exp.Literal.number(1), length=exp.Literal.number(10))
    as_date = exp.Anonymous(this="DATE", expressions=[day.copy()])
    return exp.Or(this=missing, expression=exp.NullSafeNEQ(this=as_date, expression=start))


def _date(day: date, dialect: str) -> exp.Expression:
    return exp.Literal.string(day.isoformat()) if dialect == _SQLITE else _read(day.isoformat())


def _read(text: str) -> exp.Cast:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=exp.DType.DATE))
