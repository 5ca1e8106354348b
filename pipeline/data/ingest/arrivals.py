"""Rows of a database's table that a store has not taken in yet: those of the dates that are over since the last append.

A row is stored by the append whose dates hold its own, so by what it says itself and by public dates. Stretches of
dates are disjoint and leave no gap, so no row is read twice, whatever the table does meanwhile.

A row that is written, changed or deleted later under a date that was read would be missing, or stored as it no longer
is. With ``late = "refuse"`` the number of rows under those dates is kept, and an append stops where it is another one.
With ``late = "next"`` an append reads the rows of all dates that are over, takes in those that are not stored yet, and
stops where one that is stored is no longer there: :mod:`.late_rows` has the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.config.ingest_databases import ArrivalSection
from blockveil.pipeline.config.ingest_file import IngestConfig
from blockveil.pipeline.data.ingest import growth_state
from blockveil.pipeline.data.ingest.database_table import SourceTable
from blockveil.pipeline.data.ingest.growth_state import GrowthState, HeldFile
from blockveil.pipeline.data.ingest.late_rows import among
from blockveil.pipeline.data.ingest.units import Digests

if TYPE_CHECKING:
    from blockveil.pipeline.config.query_dates import Dates


def up_to(config: IngestConfig, asked: date | None, today: date) -> date | None:
    """The first date whose rows may not all be there: the one that is asked for, else today; None without dates.

    Parameters
    ----------
    config
        Of the ingest.
    asked
        What is asked for; None for today.
    today
        The date of the night, or of this machine.

    Raises
    ------
    DataError
        It is still to come: rows that are written until then would be missed, since a date is read once.
    """
    if config.arrival is None:
        return None
    if asked is None or asked <= today:
        return asked or today
    raise DataError(
        f"{asked} is still to come", "A date is read once, when it is over", f"Name a date up to {today}, or wait"
    )


@dataclass(frozen=True)
class Arrived:
    """What a store holds of a table once its new rows are added.

    Attributes
    ----------
    files
        The dates whose rows it holds, as one stretch; nothing where no further date is over.
    rows
        Digests of these rows, where some may come late; None where none may.
    """

    files: tuple[HeldFile, ...] = ()
    rows: Digests | None = None

    @classmethod
    def of(cls, target: Path, state: GrowthState | None) -> Arrived:
        """What a store holds now; nothing where there is none."""
        return cls() if state is None else cls(state.files, growth_state.rows_of(target, state))


def new_dates(table: SourceTable, arrival: ArrivalSection, held: Arrived, before: date, late: str | None) -> Arrived:
    """Restrict a table to the rows that are new.

    Parameters
    ----------
    table
        The table, opened.
    arrival
        By which column, from which date on.
    held
        What the store holds.
    before
        The first date that is not over.
    late
        What becomes of rows that come late: "next" or "refuse".

    Raises
    ------
    DataError
        A row has no date, the rows of dates that were read are others than then, or no date is over yet.
    """
    read = _stretch(arrival, held.files)
    if before <= read[1]:  # whether rows are late does not decide whether there is an append
        if not held.files:
            raise DataError(
                f"No date from {arrival.first} on is over before {before}",
                "A store begins with the rows of one date at least",
                "Wait until source.arrival.first is over, or name an earlier date there",
            )
        return Arrived()
    undated, earlier, new = table.counted(arrival.column, read, (read[1], before))
    if undated:
        raise DataError(
            f'{table.shown}, column "{arrival.column}" holds rows without a date',
            "The date of a row says with which run it is stored",
            "Let the database fill the column as it writes a row, and correct the rows that have none",
        )
    as_before, location = earlier == sum(int(one.digest) for one in held.files), f"{arrival.first}/{before}"
    if late == "next":
        if held.rows is None and not as_before:  # before the choice was changed nobody kept which rows they were
            raise _others(table)
        stored = table.digests(arrival.column, read) if held.rows is None else held.rows
        rows = table.digests(arrival.column, (arrival.first, before))
        if among(stored, rows).size != stored.size:
            raise _others(table)
        table.restrict(arrival.column, (arrival.first, before), stored)
        return Arrived((HeldFile(location, table.identity, str(rows.size)),), rows)
    if not as_before:
        raise _others(table)
    table.restrict(arrival.column, (read[1], before))
    return Arrived((HeldFile(location, table.identity, str(earlier + new)),))


def _others(table: SourceTable) -> DataError:
    return DataError(
        f"{table.shown} has other rows than before under dates that were read",
        "The rows of a date are read when it is over, and what is stored never changes",
        'Restore those rows, and give rows that came late the date on which they were written, or set late = "next" '
        "before they come",
    )


def taken_in(read: Iterable[object]) -> Digests | None:
    """Digests of all rows that the store holds once what is read is added, where rows of a table may come late."""
    return next((table.taken_in for table in read if isinstance(table, SourceTable)), None)


def counted_again(table: SourceTable, arrival: ArrivalSection, held: Arrived) -> Arrived:
    """What the store holds of a table from which rows were deleted; parameters and errors as :func:`new_dates`."""
    read = _stretch(arrival, held.files)
    if held.rows is None:
        _, number = table.counted(arrival.column, read)
        rows = None
    else:  # rows that came late meanwhile are not stored, and are taken in next
        rows = among(held.rows, table.digests(arrival.column, read))
        number = rows.size
    return Arrived(tuple(HeldFile(one.location, one.identity, str(number)) for one in held.files), rows)


def _stretch(arrival: ArrivalSection, held: Sequence[HeldFile]) -> Dates:
    """Dates that were read."""
    ends = [date.fromisoformat(one.location.rpartition("/")[2]) for one in held]
    return arrival.first, max(ends, default=arrival.first)
