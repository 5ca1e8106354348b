"""The end of an erasure: what is written down once, and then done however often it is begun.

Its order is that of :mod:`.erasing`. A ledger takes a renewal by its random name, so that booking it again changes
nothing; a manifest, a key and a file are replaced or removed as often as one likes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.data.grown_rows import GrownRows, Manifest
from blockveil.pipeline.data.ingest import appending, growth_state, release_list
from blockveil.pipeline.data.ingest.source_rows import Source
from blockveil.pipeline.data.ingest.store_contract import ATTRIBUTE
from blockveil.pipeline.data.ingest.unit_bound import lost
from blockveil.pipeline.data.sparse_store import open_rows


class Ledgers(Protocol):
    """Where releases of the records stand: digests of them are replaced there before the records are."""

    @property
    def more(self) -> Sequence[Path]:
        """Configs of releases that could not enter themselves beside the store."""

    def check(self, releases: Sequence[Path], change: StoreChange) -> None:
        """Refuse an erasure after which something in a ledger could not go on; BlockveilError."""

    def book(self, releases: Sequence[Path], renewal_id: str, change: StoreChange) -> None:
        """Make a new key, and book the digests under it, in each ledger that does not have the renewal of this name.

        Raises BlockveilError where a ledger cannot take it in.
        """

    def has(self, releases: Sequence[Path], renewal_id: str) -> bool:
        """Whether any ledger has the renewal of a name."""

    def destroy(self, releases: Sequence[Path], renewal_id: str) -> None:
        """Destroy the keys that the renewal of a name has replaced; silent where they are gone."""


@dataclass(frozen=True, eq=False)
class StoreChange:
    """Records before and after an erasure.

    Attributes
    ----------
    store
        The store.
    before, after
        The records; each has as many parts as the other.
    """

    store: Path
    before: GrownRows
    after: GrownRows


def decide(source: Source, before: appending.Before, manifest: Manifest, ledgers: Ledgers, *, changed: bool) -> None:
    """Write down what is to be done with a store whose new parts and state are on the disk.

    Parameters
    ----------
    source
        The store's config, and the digest that the store is to have.
    before
        Manifest and state as they are.
    manifest
        All parts that the store is to have.
    ledgers
        Ledgers of the releases that read the store.
    changed
        Whether any record goes; else all digests of records stay as they are.

    Raises
    ------
    BlockveilError
        A ledger does not allow it; the store is as it was.
    """
    folder = growth_state.opened(source.loaded.target)
    releases = [*release_list.entered(folder), *(one.absolute() for one in ledgers.more)] if changed else []
    metadata = appending.metadata_of(source, manifest).decode()
    try:
        if releases:
            ledgers.check(releases, _change(source, metadata))
    except BaseException:
        appending.tidied(source.loaded.target / source.config.ingest.array, before[0])
        growth_state.tidy(folder, before[1])
        raise
    rest = {"metadata": metadata, "renewal": token_hex(16), "releases": [str(one) for one in releases]}
    release_list.write_pending(folder, rest)


def finish(source: Source, ledgers: Ledgers) -> None:
    """Do what is left of an erasure once it was written down; each step again changes nothing."""
    target, array = source.loaded.target, source.config.ingest.array
    folder = growth_state.opened(target)
    rest = release_list.pending(folder)
    if rest is None:
        return
    releases, name, metadata = [Path(one) for one in rest["releases"]], rest["renewal"], rest["metadata"].encode()
    if (target / array / appending.METADATA).read_bytes() != metadata:
        try:
            if releases:
                ledgers.book(releases, name, _change(source, rest["metadata"]))
        except BlockveilError:
            if not ledgers.has(releases, name):  # nothing has begun: the next run finds the store as it was
                (folder / growth_state.PENDING).unlink()
            raise
        appending.publish_metadata(target / array, metadata)
    if releases:
        ledgers.destroy(releases, name)
    attributes = json.loads(metadata)["attributes"]
    manifest, spec = Manifest.read(attributes), attributes[ATTRIBUTE]["spec"]
    if manifest is None:
        raise lost(folder.name)
    appending.tidied(target / array, manifest)
    growth_state.tidy(folder, growth_state.read(target, spec))
    (folder / growth_state.PENDING).unlink()
    durable.sync(folder)


def _change(source: Source, metadata: str) -> StoreChange:
    """The records as they are, and as they will be."""
    target, array = source.loaded.target, source.config.ingest.array
    before = open_rows(target, array, "ingest.store", "ingest.array")
    if not isinstance(before, GrownRows):
        raise TypeError(array)
    return StoreChange(target, before, before.of(json.loads(metadata)["attributes"]))
