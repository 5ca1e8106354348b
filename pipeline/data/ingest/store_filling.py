"""Fills the staging folder of an ingest: all rows of its source, written, checked, and ready to be renamed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError
from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest.ingest_staging import Staging
from blockveil.pipeline.data.ingest.source_rows import Source, Tell, to_store
from blockveil.pipeline.data.ingest.sparse_files import EntryWriter
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.data.ingest.store_writer import Rows, Saved, Writer
from blockveil.pipeline.data.ingest.unit_bound import UnitBound
from blockveil.pipeline.data.sparse_store import open_rows, parts_of
from blockveil.pipeline.data.zarr_arrays import missing_chunks


def fill(source: Source, staging: Staging, place: tuple[Path, str], tell: Tell, bound: UnitBound | None = None) -> int:
    """Write the rows of a source, or go on where a killed run stopped; how many there are.

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

    Raises
    ------
    BlockveilError
        The source is at fault; the staging folder is removed.
    """
    try:
        return _fill(source, staging, place, tell, bound)
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
    return {**contract.attributes(), "software": f"blockveil {version('blockveil')}"}


def _fill(source: Source, staging: Staging, place: tuple[Path, str], tell: Tell, bound: UnitBound | None) -> int:
    if staging.progress.written == 0 and staging.store.exists():
        scratch.remove(staging.store)
    stored, saved = to_store(source, staging, tell, bound)
    with _writer(place, source, staging.progress.written, saved) as writer:
        for rows, part, after in stored:
            source.counts.stored += len(rows)
            writer.add(rows, part, after)
        for file in source.files:
            file.check_unchanged()
        count = writer.finish(contract_of(source))
    if count == 0 and not source.continues:
        raise DataError(
            "The source holds no record to store", "A store holds records", "Correct the source, or ingest.only"
        )
    if not source.continues:
        source.matched.require(source.config)
    _require_complete(place)
    return count


def _require_complete(place: tuple[Path, str]) -> None:
    made = open_rows(place[0], place[1], "ingest.store", "ingest.array")
    if any(missing_chunks(part) for part in parts_of(made)):
        raise StoreError("The staged store is incomplete", "Each chunk must be on the disk", "Run again")


def _writer(place: tuple[Path, str], source: Source, written: int, saved: Saved) -> Writer | EntryWriter:
    """What writes the store; entries are written from the start, so that a run that goes on has none of them."""
    config = source.config
    if config.ingest.layout == "entries":
        return EntryWriter(*place, config.ingest, config.outputs)
    return Writer(*place, config.ingest, config.outputs, written, saved)
