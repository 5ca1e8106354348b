"""What charges cost together: exact sums of whole numbers for each part of the records, added up by the database."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from blockveil.pipeline.budget.filter import Ticks
from blockveil.pipeline.budget.parts import Part, Tally
from blockveil.pipeline.ledger.schema import entry

_DRAWN = ("COMMITTED", "RELEASED")
_HALF = 2**32


def plain_text(text: str) -> str:
    """Text for a pattern whose escape is a slash, in which nothing stands for anything else."""
    return text.replace("/", "//").replace("%", "/%").replace("_", "/_")


@cache
def not_void(row: Any) -> sa.ColumnElement[bool]:
    """Whether a RESERVED row's charge stands: nothing gave it back, or it was committed, after which nothing can."""
    other = entry.alias()
    of_charge = sa.select(sa.literal(1)).where(other.c.charge_id == row.c.charge_id)
    same = (other.c.dataset == row.c.dataset, other.c.release_id == row.c.release_id)
    names = ("loss_ticks", "sampler_ticks", "pure_ticks", "failure_ticks")
    sizes = [other.c[name] == -row.c[name] for name in names]
    given_back = of_charge.where(other.c.kind == "VOID", *same, *sizes).exists()
    return sa.or_(~given_back, of_charge.where(other.c.kind.in_(_DRAWN)).exists())


@dataclass(frozen=True)
class Sums:
    """The number of rows of each part of the records, and sums of their sizes, in two ways.

    Attributes
    ----------
    quick
        The sizes as they are, and a number that is below zero where any size is.
    halves
        Two halves of each size, where one below zero counts as none: exact whatever the sizes are.
    """

    quick: sa.Select[Any]
    halves: sa.Select[Any]

    @classmethod
    def of(cls, *wanted: sa.ColumnElement[bool]) -> Sums:
        """Sums over the rows that are wanted."""
        loss, sampler, pure, failure = sizes = (
            entry.c.loss_ticks,
            entry.c.sampler_ticks,
            entry.c.pure_ticks,
            entry.c.failure_ticks,
        )
        signs = loss.bitwise_or(sampler).bitwise_or(pure).bitwise_or(failure)
        counted = [sa.case((size > 0, size), else_=0) for size in sizes]
        halves = [half for size in counted for half in (size // _HALF, size % _HALF)]
        return cls(
            _by_part(sa.func.min(signs), sa.func.count(), *map(sa.func.sum, sizes)).where(*wanted),
            _by_part(sa.func.count(), *map(sa.func.sum, halves)).where(*wanted),
        )

    def read(self, connection: sa.Connection, values: dict[str, str]) -> list[tuple[Part | None, Ticks, int]]:
        """Exact sums, and the number of rows, of each part; None stands for all records."""
        try:
            rows = connection.execute(self.quick, values).all()
        except sa.exc.OperationalError as error:
            # SQLite refuses a sum beyond 64 bits; PostgreSQL has none that is too large.
            if "integer overflow" not in str(error.orig):
                raise
        else:
            # SQLite's sum is a float, which is not exact, where somebody put something else than a whole number.
            if all(sign >= 0 and not any(isinstance(one, float) for one in sums) for _, sign, _, *sums in rows):
                return [(Part.read(part), _ticks(sums), int(count)) for part, _, count, *sums in rows]
        rows = connection.execute(self.halves, values).all()
        totals = []
        for part, count, *halves in rows:
            sizes = (int(high) * _HALF + int(low) for high, low in zip(halves[::2], halves[1::2], strict=True))
            totals.append((Part.read(part), _ticks(sizes), int(count)))
        return totals


def _by_part(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    return sa.select(entry.c.part, *columns).group_by(entry.c.part)


def _ticks(sizes: Iterable[Any]) -> Ticks:
    return Ticks(*(int(size) for size in sizes))


_RESERVED = (entry.c.dataset == sa.bindparam("dataset"), entry.c.kind == "RESERVED")
_VOIDS = sa.select(entry.c.charge_id).where(entry.c.dataset == sa.bindparam("dataset"), entry.c.kind == "VOID")
# What was given back is looked up by its reservation: a VOID row after the commit gives nothing back, whoever wrote it,
# nor does one that says other sizes.
_UNDONE = (entry.c.charge_id.in_(_VOIDS), entry.c.kind == "RESERVED", ~not_void(entry))
# By place in the chain, not by what a row says of its time: one that was dated back counts too.
_SINCE = entry.c.sequence >= (
    sa.select(sa.func.min(entry.c.sequence)).where(entry.c.time >= sa.bindparam("start")).scalar_subquery()
)
_ALL = (Sums.of(*_RESERVED), Sums.of(*_UNDONE))
_LATE = (Sums.of(*_RESERVED, _SINCE), Sums.of(*_UNDONE, _SINCE))


def spent(connection: sa.Connection, dataset: str, start: str | None = None) -> Tally:
    """Charges of a budget that stand, all or those that were reserved since a time."""
    booked, undone = _ALL if start is None else _LATE
    values = {"dataset": dataset} | ({} if start is None else {"start": start})
    tally = Tally()
    for part, ticks, count in booked.read(connection, values):
        tally.add(ticks, part, count)
    for part, ticks, count in undone.read(connection, values):
        tally.add(-ticks, part, -count)
    return tally
