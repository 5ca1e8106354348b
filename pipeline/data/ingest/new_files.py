"""What of a source a store that grows does not hold yet: files, files that a table's own log adds, or dates of a table.

A file is known by where it is, and a file of a Delta or Iceberg table by the commit that added it
(:mod:`.table_growth`). The content of a file that is stored decides nothing but whether it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.data.ingest.arrivals import Arrived, counted_again, new_dates
from blockveil.pipeline.data.ingest.database_table import SourceTable
from blockveil.pipeline.data.ingest.growth_state import GrowthState, HeldFile, TablePoint
from blockveil.pipeline.data.ingest.readers import Readable
from blockveil.pipeline.data.ingest.source_rows import Source, Tell

_COMPARING = "comparing the files with those of the store"


def new_files(source: Source, state: GrowthState | None, tell: Tell) -> dict[HeldFile, Readable]:
    """Files, or rows of a table, that the store does not hold, in the order in which they are read.

    Parameters
    ----------
    source
        The source as it is.
    state
        What the store holds; None where there is none.
    tell
        Receives progress in the user's words.

    Raises
    ------
    DataError
        What is stored has changed, a file is late and may not be, or a table does not say what was added to it.
    StoreError
        A file cannot be read.
    """
    arrival, table = source.config.arrival, source.files[0] if source.files else None
    if arrival is not None and isinstance(table, SourceTable):
        if source.before is None:
            raise AssertionError("a table is read up to a date")
        earlier = Arrived.of(source.loaded.target, state)
        arrivals = new_dates(table, arrival, earlier, source.before, source.config.ingest.late)
        table.taken_in = arrivals.rows
        return dict.fromkeys(arrivals.files, table)
    if source.table is None:
        return _unknown(source, source.files, state, tell)
    point = None if state is None else state.table
    return _unknown(source, source.table.files() if point is None else source.table.since(point), state, tell)


def _unknown(
    source: Source, files: Sequence[Readable], state: GrowthState | None, tell: Tell
) -> dict[HeldFile, Readable]:
    base = source.loaded.path.parent
    earlier = {} if state is None else {file.location: file for file in state.files}
    newest = max((_by_name(location) for location in earlier), default=[])
    locations, new = set[str](), dict[HeldFile, Readable]()
    for number, file in enumerate(files):
        if isinstance(file, SourceTable):
            raise AssertionError("a table is read by dates")
        location, identity = _location(file.location, base), file.identity
        earlier_file = earlier.get(location)
        if location in locations or (earlier_file is not None and earlier_file.identity == identity):
            locations.add(location)
            continue
        locations.add(location)
        current_file = HeldFile(location, identity, file.content_digest())
        if earlier_file is None:
            if source.config.ingest.late == "refuse" and _by_name(location) < newest:
                raise _late(file.name)
            new[current_file] = file
        elif earlier_file.digest != current_file.digest:
            raise _other(file.name)
        tell(_COMPARING, (number + 1) / len(files))
    source.counts.new_files, source.counts.held_files = len(new), len(locations) - len(new)
    return new


def held_again(source: Source, state: GrowthState) -> Arrived:
    """Files that the store holds, as they are now where the source has them still; of a table, its rows as they are."""
    base, arrival, files = source.loaded.path.parent, source.config.arrival, state.files
    for file in source.files:
        if arrival is not None and isinstance(file, SourceTable):
            return counted_again(file, arrival, Arrived.of(source.loaded.target, state))
    there = {_location(file.location, base): file for file in source.files if not isinstance(file, SourceTable)}
    stale = {each for each in files if each.location in there and there[each.location].identity != each.identity}
    now = (
        HeldFile(each.location, there[each.location].identity, there[each.location].content_digest())
        if each in stale
        else each
        for each in files
    )
    return Arrived(tuple(now))


def taken_in_up_to(source: Source) -> TablePoint | None:
    """How far a store holds a Delta or Iceberg table once what is new was added; None for another source."""
    return None if source.table is None else TablePoint(source.table.name, source.table.version)


def erased_up_to(source: Source, state: GrowthState) -> TablePoint | None:
    """What :func:`taken_in_up_to` was, with leave for the rows that were deleted from the table since.

    Raises DataError where the table does not say what was added to it since.
    """
    if source.table is None or state.table is None:
        return state.table
    point = TablePoint(state.table.name, state.table.version, source.table.version)
    source.table.since(point)  # the next append will ask for it
    return point


def _location(location: str, base: Path) -> str:
    """Where a file is, below the folder of the config if it is there: a folder may be moved with its config."""
    path = Path(location)
    below = [folder for folder in (base, base.resolve()) if path.is_relative_to(folder)]
    return str(path.relative_to(below[0])) if below else location


def _by_name(location: str) -> list[str]:
    """Files in the order in which a folder or a pattern lists them."""
    return location.split("/")


def _late(name: str) -> DataError:
    return DataError(
        f'File "{name}" is late: its name comes before that of a file that is stored',
        'The config says late = "refuse"',
        'Take the file away, or set late = "next": its records then count from the next release on',
    )


def _other(name: str) -> DataError:
    return DataError(
        f'File "{name}" has changed since its records were stored',
        "Records that are stored never change: a release may have been made of them",
        "Restore the file; put new records into a file of its own, or ingest all files into another store",
    )
