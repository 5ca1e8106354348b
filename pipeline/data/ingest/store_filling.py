"""Fills the staging folder of an ingest: all rows of its source, written, checked, and ready to be renamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError
from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest.ingest_staging import Staging
from blockveil.pipeline.data.ingest.repeated_rows import HeldRows, RowSets, TakenRows, refused, repetition
from blockveil.pipeline.data.ingest.source_rows import Source, Tell, run_bytes, to_store
from blockveil.pipeline.data.ingest.sparse_files import EntryWriter
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.data.ingest.store_writer import Rows, Saved, Writer
from blockveil.pipeline.data.ingest.unit_bound import UnitBound
from blockveil.pipeline.data.sparse_store import open_rows, parts_of
from blockveil.pipeline.data.zarr_arrays import missing_chunks


def fill(
    source: Source,
    staging: Staging,
    place: tuple[Path, str],
    tell: Tell,
    bound: UnitBound | None = None,
    earlier: tuple[Path, Sequence[HeldRows]] = (Path(), ()),
) -> tuple[int, RowSets | None]:
    """Write the rows of a source, or go on where a killed run stopped.

    Parameters
    ----------
    source, staging
        What is read, and where to work.
    place
        Zarr group to make below the staging folder, and the name of the records in it.
    tell
        Receives progress.
    bound
        How many rows of each unit are stored already; None where none are.
    earlier
        Where the rows of files lie that are stored already, and which.

    Returns
    -------
    How many rows there are, and which each file has; None where the source is read once and is one file.

    Raises
    ------
    BlockveilError
        The source is at fault; the staging folder is removed.
    """
    try:
        return _fill(source, staging, place, tell, bound, earlier)
    except BlockveilError:
        # The source is at fault: raw records need not lie about until it is whole, or there again. Where the disk is
        # full, nothing is wrong with what was read.
        scratch.remove(staging.root)
        raise


def refill(source: Source, place: tuple[Path, str], pieces: Iterator[Rows]) -> int:
    """Write rows that were stored already; ``place`` as for :func:`fill`. How many there are."""
    with _writer(place, source, 0, lambda *_: None) as writer:
        for rows in pieces:
            writer.add(rows, 0, np.arange(1, len(rows) + 1))
        count = writer.finish(contract_of(source))
    _require_complete(place)
    return count


def contract_of(source: Source) -> dict[str, Any]:
    """Attributes of a store, or of a part of one: what its records were ingested for, and by which version."""
    contract = Contract.made(source.config, source.spec, source.store_id)
    reason = source.config.ingest.accept_repeated_rows
    accepted = {} if reason is None else {"accepted repeated rows": reason}
    return {**contract.attributes(), **accepted, "software": f"blockveil {version('blockveil')}"}


def _fill(
    source: Source,
    staging: Staging,
    place: tuple[Path, str],
    tell: Tell,
    bound: UnitBound | None,
    earlier: tuple[Path, Sequence[HeldRows]],
) -> tuple[int, RowSets | None]:
    if staging.progress.written == 0 and staging.store.exists():
        scratch.remove(staging.store)
    config, progress = source.config, staging.progress
    repeatable = config.ingest.append or len(source.files) > 1
    row_count = progress.written if config.bounded is None else progress.taken
    row_log = TakenRows(staging.taken if repeatable else None, row_count)
    stored, saved = to_store(source, staging, tell, bound, row_log)
    with _writer(place, source, staging.progress.written, saved) as writer:
        for rows, part, after in stored:
            source.counts.stored += len(rows)
            writer.add(rows, part, after)
        for file in source.files:
            file.check_unchanged()
        count = writer.finish(contract_of(source))
    if count == 0 and not source.continues:
        raise DataError(
            "The source holds no record to store", "A store holds records", "Correct the source, or ingest.partition"
        )
    if not source.continues:
        source.matched.require(source.config)
    row_sets = row_log.divided(len(source.files), run_bytes(config))
    if row_sets is not None and config.ingest.accept_repeated_rows is None:
        source.counts.repeated = repetition(row_sets, [file.name for file in source.files], *earlier)
        if source.counts.repeated is not None:
            raise refused()
    _require_complete(place)
    return count, row_sets


def _require_complete(place: tuple[Path, str]) -> None:
    rows = open_rows(place[0], place[1], "ingest.store", "ingest.array")
    if any(missing_chunks(part) for part in parts_of(rows)):
        raise StoreError("The staged store is incomplete", "Each chunk must be on the disk", "Run again")


def _writer(place: tuple[Path, str], source: Source, written: int, saved: Saved) -> Writer | EntryWriter:
    """What writes the store; entries are written from the start, so that a run that goes on has none of them."""
    config = source.config
    if config.ingest.layout == "entries":
        return EntryWriter(*place, config.ingest, config.outputs)
    return Writer(*place, config.ingest, config.outputs, written, saved)
