"""One ingest, start to end, as plain functions: look at the source, read, publish.

The order is what makes a kill harmless::

    identify the source -> lock staging -> read (and sort by unit) -> write blocks -> check -> rename -> remove staging

* The store appears whole, by one rename; one that exists is never touched, unless it is one that grows
  (:mod:`.appending`).
* Each finished block or run is recorded after it is on the disk. A re-run goes on behind it; the blocks that it writes
  again are the same bits, because a row of the store is a function of the source, the config and its place alone.
* Whatever is wrong with the source wipes the staging folder; a full disk, an interrupt or a kill keep it for a re-run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import StoreError, guard
from blockveil.pipeline.config.ingest_databases import DatabaseSource, DeltaSource, IcebergSource
from blockveil.pipeline.config.ingest_file import IngestConfig, LoadedIngest, ZarrSource
from blockveil.pipeline.data.ingest import appending, known_sources
from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest.column_faults import ColumnFault
from blockveil.pipeline.data.ingest.database_table import SourceTable, open_table
from blockveil.pipeline.data.ingest.delta_files import open_delta
from blockveil.pipeline.data.ingest.files import find, require_each_once
from blockveil.pipeline.data.ingest.iceberg_files import open_iceberg
from blockveil.pipeline.data.ingest.networks import networks
from blockveil.pipeline.data.ingest.readers import SUFFIXES, Readable
from blockveil.pipeline.data.ingest.source_rows import ALGORITHM, Source, Tell, run_bytes, with_further_faults
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.data.ingest.store_filling import fill
from blockveil.pipeline.data.ingest.stored import find_arrays
from blockveil.pipeline.data.ingest.table_growth import GrowingTable
from blockveil.pipeline.data.sparse_store import open_rows


@dataclass(frozen=True)
class IngestOutcome:
    """A finished ingest: no number of rows, which is private.

    Attributes
    ----------
    path
        The Zarr group.
    message
        What was done, in words.
    """

    path: Path
    message: str


def look(loaded: LoadedIngest, *, needed: bool = True, before: date | None = None) -> Source:
    """List and identify the files of a source; reads no record.

    Parameters
    ----------
    loaded
        Config of the ingest.
    needed
        Whether each path, pattern or folder of files must name something; else what is gone is left out.
    before
        The first date that is not over, for a table whose rows are read by their dates of arrival.

    Raises
    ------
    StoreError
        A file is not there or cannot be reached.
    DataError
        A Zarr array is incomplete, or a file is named twice.
    ConfigError
        The memory is too little, or a public network is not the declared one.
    MissingExtra
        A public network needs a library that is not installed.
    """
    config, base = loaded.config, loaded.path.parent
    run_bytes(config)  # before anything is read
    networks(config, base)  # they can be had
    files: tuple[Readable, ...]
    table: GrowingTable | None = None
    if isinstance(config.source, DatabaseSource):
        files = (open_table(loaded),)
    elif isinstance(config.source, DeltaSource | IcebergSource):
        lake = _open_lake(config, config.source, base)
        files, table = ((), lake) if config.ingest.append else (tuple(lake.files()), None)
    elif isinstance(config.source, ZarrSource):
        files = tuple(find_arrays(config.source, base))
    else:
        files = tuple(find(config.source.files, base, SUFFIXES[config.source.kind], needed=needed))
    if not config.ingest.append:  # a store that grows passes over what it holds, and compares contents
        require_each_once(file.location for file in files if not isinstance(file, SourceTable))
    # A key without a value is left out: a store from before it was known is still the same.
    unset = {key for key in ("partition", "append", "late") if not getattr(config.ingest, key)}
    unread = {"arrival"} if config.arrival is None else set()
    decides = config.model_dump(
        mode="json", exclude={"ingest": {"memory_gib", "accept_repeated_rows", *unset}, "source": unread}
    )
    spec = {"algorithm": ALGORITHM, "config": decides, "files": [[file.location, file.identity] for file in files]}
    return Source(loaded, files, digest(spec), before, table=table)


def _open_lake(config: IngestConfig, source: DeltaSource | IcebergSource, base: Path) -> GrowingTable:
    """A Delta or Iceberg table at the version that a config names."""
    return open_delta(source, base) if isinstance(source, DeltaSource) else open_iceberg(source, base, config.inputs)


def ingest(source: Source, tell: Tell, *, remembered: bool = True) -> IngestOutcome:
    """Make the store, append to one that grows, or go on where a killed run stopped.

    Parameters
    ----------
    source
        What is read.
    tell
        Receives progress in the user's words.
    remembered
        Whether later ingests of this account are told of the store.

    Raises
    ------
    BlockveilError
        With what to change; nothing is published then.
    """
    try:
        outcome = guard(lambda: _ingested(source, tell), scratch.not_written, OSError)
    except ColumnFault as fault:
        # A table of a database is read once, and of a store that grows only what is new.
        again = not source.config.ingest.append and not any(isinstance(file, SourceTable) for file in source.files)
        failure = with_further_faults(source, fault) if again else fault
    else:
        if remembered:
            known_sources.remember(source.loaded)
        return outcome
    finally:
        for file in source.files:
            if isinstance(file, SourceTable):
                file.close()  # however it ended: others may wait for the table
    raise failure


def _ingested(source: Source, tell: Tell) -> IngestOutcome:
    target = source.loaded.target
    if source.config.ingest.append:
        return IngestOutcome(target, appending.append(source, tell))
    if _already(source):
        scratch.discard(target)  # a run that was killed after the rename has left it
        return IngestOutcome(target, "the store holds these very records already; nothing was read")
    with scratch.locked(target) as root:
        staging = scratch.resumed(root, source.spec)
        if _already(source):  # another run has just finished it
            scratch.remove(staging.root)
            return IngestOutcome(target, "another run has just made the store")
        resumed = staging.progress != scratch.IngestProgress(source.spec)
        fill(replace(source, store_id=staging.store_id()), staging, (staging.store, source.config.ingest.array), tell)
        staging.store.chmod(0o700)
        durable.sync_tree(staging.store)
        staging.store.rename(target)
        durable.sync(target.parent)
        scratch.remove(staging.root)
    return IngestOutcome(target, "went on where an earlier run had stopped" if resumed else "read the whole source")


def discard(loaded: LoadedIngest) -> bool:
    """Remove what an unfinished ingest left; whether there was anything.

    Raises
    ------
    StoreError
        An ingest works on it, it cannot be removed, or what is kept beside a store that grows is lost.
    """
    if loaded.config.ingest.append:
        return appending.discard(loaded.target, loaded.config.ingest.array)
    return scratch.discard(loaded.target)


def _already(source: Source) -> bool:
    """Whether the store is there and made of the same source by the same config; another one there is refused."""
    target, section = source.loaded.target, source.config.ingest
    if not target.exists():
        return False
    try:
        contract = Contract.of(open_rows(target, section.array, "ingest.store", "ingest.array"))
    except StoreError:
        contract = None
    if contract is not None and contract.spec == source.spec:
        return True
    raise StoreError(
        f'ingest.store "{section.store}" exists and is not of this config and source',
        "A store is never overwritten",
        "Move it away or remove it, or name another one",
    )
