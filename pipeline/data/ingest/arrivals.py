"""Rows of a database's table that a store has not taken in yet: those of the dates that are over since the last append.

A row is stored by the append whose dates hold its own, so by what it says itself and by public dates. Stretches of
dates are disjoint and leave no gap, so no row is read twice, whatever the table does meanwhile.

A row that is written, changed or deleted later under a date that was read would be missing, or stored as it no longer
is. The number of rows under those dates is kept, and an append stops where it is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.config.ingest_databases import ArrivalSection
from blockveil.pipeline.config.ingest_file import IngestConfig
from blockveil.pipeline.data.ingest.database_table import SourceTable
from blockveil.pipeline.data.ingest.growth_state import HeldFile

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


def new_dates(
    table: SourceTable, arrival: ArrivalSection, held: Sequence[HeldFile], before: date
) -> tuple[HeldFile, ...]:
    """Restrict a table to the rows that are new; what the store then holds of it, or nothing where no date is over.

    Parameters
    ----------
    table
        The table, opened.
    arrival
        By which column, from which date on.
    held
        What the store holds: nothing, or one stretch of dates.
    before
        The first date that is not over.

    Raises
    ------
    DataError
        A row has no date, the rows of dates that were read are others than then, or no date is over yet.
    """
    read = _stretch(arrival, held)
    if before <= read[1]:
        if not held:
            raise DataError(
                f"No date from {arrival.first} on is over before {before}",
                "A store begins with the rows of one date at least",
                "Wait until source.arrival.first is over, or name an earlier date there",
            )
        return ()
    undated, earlier, new = table.counted(arrival.column, read, (read[1], before))
    if undated:
        raise DataError(
            f'{table.shown}, column "{arrival.column}" holds rows without a date',
            "The date of a row says with which run it is stored",
            "Let the database fill the column as it writes a row, and correct the rows that have none",
        )
    if earlier != sum(int(one.digest) for one in held):
        raise DataError(
            f"{table.shown} has other rows than before under dates that were read",
            "The rows of a date are read once, when it is over, and what is stored never changes",
            "Restore those rows, and give rows that came late the date on which they were written",
        )
    table.restrict(arrival.column, (read[1], before))
    return (HeldFile(f"{arrival.first}/{before}", table.identity, str(earlier + new)),)


def counted_again(table: SourceTable, arrival: ArrivalSection, held: tuple[HeldFile, ...]) -> tuple[HeldFile, ...]:
    """What the store holds of a table from which rows were deleted; parameters and errors as :func:`new_dates`."""
    _, rows = table.counted(arrival.column, _stretch(arrival, held))
    return tuple(HeldFile(one.location, one.identity, str(rows)) for one in held)


def _stretch(arrival: ArrivalSection, held: Sequence[HeldFile]) -> Dates:
    """Dates that were read."""
    ends = [date.fromisoformat(one.location.rpartition("/")[2]) for one in held]
    return arrival.first, max(ends, default=arrival.first)
