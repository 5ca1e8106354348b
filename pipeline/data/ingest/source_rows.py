"""Rows of a source as they are to be stored: read, encoded, and sorted by unit, from where an earlier run stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base.errors import BlockveilError, ConfigError, DataError, guard
from blockveil.pipeline.config.ingest_file import AggregatedRows, ChosenRows, IngestConfig, LoadedIngest
from blockveil.pipeline.data.ingest.batches import Batch, having
from blockveil.pipeline.data.ingest.column_faults import ColumnFault, Unfit
from blockveil.pipeline.data.ingest.columns import Encoder
from blockveil.pipeline.data.ingest.database_table import SourceTable
from blockveil.pipeline.data.ingest.ingest_staging import IngestProgress, Staging
from blockveil.pipeline.data.ingest.operator_counts import MatchedLists, OperatorCounts
from blockveil.pipeline.data.ingest.readers import Readable, Reader
from blockveil.pipeline.data.ingest.repeated_rows import TakenRows
from blockveil.pipeline.data.ingest.runs import Runs
from blockveil.pipeline.data.ingest.store_writer import BLOCK_BYTES, Saved, layout
from blockveil.pipeline.data.ingest.table_growth import GrowingTable
from blockveil.pipeline.data.ingest.unit_bound import UnitBound
from blockveil.pipeline.data.ingest.units import Digester, Keys, keyed

Tell = Callable[[str, float | None], None]
Bounded = ChosenRows | AggregatedRows
Rows = NDArray[Any]
Places = NDArray[np.int64]
ToStore = tuple[Rows, int, Places]
"""Rows, and where to go on after each: a file and its next row, or a range of units and its next row."""

ALGORITHM = "blockveil ingest 1"
"""Anything that changes a bit of a store changes this, and so starts an unfinished ingest from the beginning."""

PIECE_ROWS = 2**16
"""Rows of a range of units that are handed to the writer at once."""

MOST_FAULTS = 20
"""Columns at fault that are named."""

MOST_ROWS = 2_000_000
"""Rows in which each further fault is looked for."""

_BASE_BYTES = 560 * 2**20
"""Batches, blocks and the buffers of libraries, as measured with row groups of 50 MiB."""

_READING, _SORTING, _WRITING = "reading and writing", "reading and sorting by unit", "writing the rows of each unit"


@dataclass(frozen=True)
class Source:
    """The files of an ingest, identified; a run reads these and no others.

    Attributes
    ----------
    loaded
        Config.
    files
        What is read, in order.
    spec
        Digest of everything that decides the store; of one that grows under its private key. Private, as the store is.
    store_id
        Random name of the store; empty until the ingest has begun.
    before
        The first date that is not over, where rows are read by their dates of arrival.
    continues
        Whether there is a store already that these files are added to.
    table
        Where a store grows by a Delta or Iceberg table, that table: which of its files are read depends on the store.
    counts
        What a run counts, for the person at the terminal alone.
    matched
        Declared lists of which the source held a value.
    """

    loaded: LoadedIngest
    files: tuple[Readable, ...]
    spec: str
    before: date | None = None
    continues: bool = False
    table: GrowingTable | None = None
    counts: OperatorCounts = field(default_factory=OperatorCounts, compare=False)
    matched: MatchedLists = field(default_factory=MatchedLists, compare=False)
    store_id: str = ""

    @property
    def config(self) -> IngestConfig:
        """The validated config."""
        return self.loaded.config


def to_store(
    source: Source, staging: Staging, tell: Tell, bound: UnitBound | None, taken: TakenRows
) -> tuple[Iterator[ToStore], Saved]:
    """What remains to be stored, and how to record that some of it is.

    Parameters
    ----------
    source, staging, tell, bound
        As for :func:`.store_filling.fill`.
    taken
        Where to note the rows that are read.
    """

    def saved(written: int, part: int, row: int) -> None:
        taken.sync()
        staging.save(written=written, part=part, row=row, matched=source.matched.so_far)

    unit, progress = source.config.bounded, staging.progress
    source.matched.add(progress.matched)
    if source.config.ingest.layout == "entries":
        saved = _unsaved
    if unit is None:
        return _read(source, progress, tell, taken), saved
    digester = Digester(unit.seed)
    if progress.phase == "read":
        runs = _sort(source, digester, staging, tell, (bound, taken))
    else:
        runs = Runs(staging.runs, progress.runs, run_bytes(source.config))
    if runs.count == 0:  # held in memory: a kill starts again, which is cheap
        progress_in_memory = IngestProgress(source.spec, ranges=_ranges(source.config, 0, bound))
        return _merged(source, unit, runs, progress_in_memory, tell, bound), _unsaved
    return _merged(source, unit, runs, staging.progress, tell, bound), saved


def _unsaved(written: int, part: int, row: int) -> None:
    """Record nothing: what is written is written again after a kill."""


def _read(source: Source, progress: IngestProgress, tell: Tell, taken: TakenRows) -> Iterator[ToStore]:
    """Rows of the source from where the last run stopped."""
    for rows, _, part, after in _encoded(source, progress, tell, _READING, None):
        taken.add(part, rows, None)
        yield rows, part, after


def _sort(
    source: Source,
    digester: Digester,
    staging: Staging,
    tell: Tell,
    noted: tuple[UnitBound | None, TakenRows],
) -> Runs:
    """Sort the rows by unit: into runs of a bounded size on the disk, or in memory where one run holds them all."""
    progress, budget, (bound, row_log) = staging.progress, run_bytes(source.config), noted
    runs = Runs(staging.runs, progress.runs, budget)
    parts: list[tuple[Keys, Rows]] = []
    size, place = 0, dict[str, Any]()

    def write(parts: list[tuple[Keys, Rows]], **place: Any) -> None:
        runs.append(*_joined(parts))
        row_log.sync()
        staging.save(runs=runs.count, matched=source.matched.so_far, **place)

    with ThreadPoolExecutor(1, "blockveil-sort") as pool:  # reading goes on meanwhile
        busy: Future[None] | None = None
        for rows, keys, at, after in _encoded(source, staging.progress, tell, _SORTING, digester):
            parts.append((keys, rows))
            size += rows.nbytes + keys.nbytes
            row_log.add(at, rows, keys)
            place = {"part": at, "row": int(after[-1]), "taken": row_log.count}
            if size >= budget:
                if busy is not None:
                    busy.result()
                busy = pool.submit(write, parts, **place)
                parts, size = [], 0
        if busy is not None:
            busy.result()
    if runs.count == 0 and parts:
        runs.hold(*_joined(parts))
    if runs.count == 0:
        return runs
    if parts:
        write(parts, **place)
    staging.save(phase="merge", part=0, row=0, ranges=_ranges(source.config, runs.size, bound))
    return runs


def _ranges(config: IngestConfig, size: int, bound: UnitBound | None) -> int:
    """Ranges of units that each fit in memory, however many rows single units have."""
    return max(1, ceil((size + (0 if bound is None else bound.size)) / run_bytes(config)))


def _joined(parts: list[tuple[Keys, Rows]]) -> tuple[Keys, Rows]:
    """Put batches together and let go of them."""
    batch = np.concatenate([keys for keys, _ in parts]), np.concatenate([rows for _, rows in parts])
    parts.clear()
    return batch


def _encoded(
    source: Source, progress: IngestProgress, tell: Tell, stage: str, digester: Digester | None
) -> Iterator[tuple[Rows, Any, int, Places]]:
    """Encoded rows that are kept, what they are sorted by, their file, and the row of the file behind each."""
    config = source.config
    reader, encoder, only = Reader(config), Encoder(config, source.loaded.path.parent), config.ingest.partition
    total, before = max(1, sum(file.size for file in source.files)), 0
    for part, file in enumerate(source.files):
        start = progress.row if part == progress.part else 0
        if part >= progress.part:
            for batch, share in reader.read(file, start):
                after = np.arange(start + 1, start + batch.rows + 1)
                start += batch.rows
                if only is not None:  # before anything else: of other records only this column is looked at
                    mask = _checked(lambda batch=batch: having(batch, only.column, only.value, only.type), file)  # type: ignore[misc]
                    batch, after = batch.taken(mask), after[mask]
                rows, keep = _checked(lambda batch=batch: encoder.encode(batch), file)  # type: ignore[misc]
                digests = None
                if digester is not None and config.bounded is not None:
                    keep, digests = _units(config.bounded, batch, keep, digester, file)
                if keep is not None:
                    rows, after = rows[keep], after[keep]
                source.counts.batch(batch.rows, len(rows))
                if len(rows):
                    yield rows, None if digests is None else keyed(digests, rows), part, after
                source.matched.add(encoder.matched)
                tell(stage, None if share is None else min(1.0, (before + share * file.size) / total))
        before += file.size


def _units(unit: Bounded, batch: Batch, keep: Any, digester: Digester, file: Readable) -> tuple[Any, Any]:
    identifiers = _checked(lambda: batch.identifiers(unit.column, unit.type), file)
    if identifiers.null_count:
        if unit.missing == "refuse":
            raise _unfit(Unfit(unit.column, "holds a missing unit", 'Its policy is "refuse"'), file)
        valid = identifiers.is_valid().to_numpy(zero_copy_only=False)
        keep = valid if keep is None else keep & valid
    if keep is not None:
        identifiers = identifiers.filter(keep)
    return keep, digester.digests(identifiers)


def _merged(
    source: Source, unit: Bounded, runs: Runs, progress: IngestProgress, tell: Tell, bound: UnitBound | None
) -> Iterator[ToStore]:
    """What is stored for each unit, range by range, from where the last run stopped."""
    dtype = np.dtype(source.config.ingest.dtype)
    for number, rows in runs.merged(unit, dtype, progress.ranges, progress.part, source.counts, bound):
        first = progress.row if number == progress.part else 0
        for start in range(first, len(rows), PIECE_ROWS):
            part = rows[start : start + PIECE_ROWS]
            yield part, number, np.arange(start + 1, start + len(part) + 1)
        tell(_WRITING, (number + 1) / progress.ranges)


def with_further_faults(source: Source, first: ColumnFault) -> DataError:
    """The first fault of a source, together with those of its other columns, so that a person corrects all at once.

    The source is read again without the columns at fault, until no other one is found; no value is told of them.
    """
    faults, rest = [first], _without(source, first.column)
    while rest is not None and len(faults) < MOST_FAULTS:
        next_fault = _first_fault(rest, MOST_ROWS)
        if next_fault is None:
            break
        faults.append(next_fault)
        rest = _without(rest, next_fault.column)
    order = {name: place for place, name in enumerate(source.config.inputs)}
    ordered = sorted(faults, key=lambda fault: order.get(fault.column, -1))
    plain = [DataError(fault.value, fault.rule, fault.remedy) for fault in ordered]
    return DataError(plain[0].value, plain[0].rule, plain[0].remedy, plain[1:])


def _without(source: Source, column: str) -> Source | None:
    """The source without what is declared of a column; None where nothing is left, or it is of no such declaration."""
    config = source.config
    columns = tuple(each for each in config.columns if column not in each.inputs)
    if not columns or len(columns) == len(config.columns):
        return None
    narrower = config.model_copy(update={"columns": columns})
    return replace(source, loaded=replace(source.loaded, config=narrower))


def _first_fault(source: Source, most: int) -> ColumnFault | None:
    """What the first column is at fault for that does not fit its declaration, in so many rows; stores nothing."""
    unit, rows_read = source.config.bounded, 0
    digester = None if unit is None else Digester(unit.seed)
    apart = replace(source, counts=OperatorCounts(), matched=MatchedLists())
    try:
        for rows, *_ in _encoded(apart, IngestProgress(source.spec), lambda *_: None, _READING, digester):
            rows_read += len(rows)
            if rows_read >= most:
                break
    except ColumnFault as fault:
        return fault
    except BlockveilError:
        return None  # what no column is at fault for is told when the others are correct
    return None


def run_bytes(config: IngestConfig) -> int:
    """Bytes of a run, and of a range of units; ConfigError where the memory is too little for blocks of that size.

    Beside what libraries, batches and blocks hold, a run is there three times (as batches, put together and sorted, or
    the next one as batches), a range four times (as it is read, folded, put together and chosen).
    """
    width = len(config.outputs)
    block = layout(config.ingest, width)[1] * width * np.dtype(config.ingest.dtype).itemsize
    room = int(config.ingest.memory_gib * 2**30) - _BASE_BYTES - 4 * max(0, block - BLOCK_BYTES)
    if room < 0:
        raise ConfigError(
            f"[ingest] memory_gib = {config.ingest.memory_gib:g} with blocks of {block / 2**30:.2g} GiB",
            "Some blocks of whole chunks are held at once",
            "Raise memory_gib, or lower chunk_rows",
        )
    return max(2**22, room // 4)


def _checked(work: Callable[[], Any], file: Readable) -> Any:
    def failure(error: Exception) -> BlockveilError:
        if isinstance(error, Unfit):
            return _unfit(error, file)
        return DataError(
            f"{_called(file)} cannot be encoded ({type(error).__name__})",
            "Its columns are of the kinds that the config declares",
            "Correct the config or the file",
        )

    return guard(work, failure)


def _called(file: Readable) -> str:
    return file.shown if isinstance(file, SourceTable) else f'File "{file.name}"'


def _unfit(error: Unfit, file: Readable) -> ColumnFault:
    problem = f'{_called(file)}, column "{error.column}" {error.problem}'
    return ColumnFault.of(error.column, problem, error.rule, error.remedy)
