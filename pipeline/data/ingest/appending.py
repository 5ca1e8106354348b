"""An ingest that appends: new files of the source become a new part of a store that grows.

The order is what makes a kill harmless::

    lock staging -> which files are new? -> read them -> write a part -> check -> new state beside the store
    -> rename the part into the store -> replace the manifest -> remove the old state and the staging

* Until the manifest is replaced, which is one file, the store is the old one, with its old state. What was prepared for
  the new one is then of no store, and the next run removes it or goes on with it.
* Files and parts that a manifest names never change, so a night that began before goes on with the records that it
  found, and its records are a prefix of all later ones, bit for bit (:mod:`.grown_rows`).
* A file is known by where it is. One with the same content is passed over, one with another content is refused; so is a
  new file that holds all or most rows of another one (:mod:`.repeated_rows`). The content decides nothing else: see
  the proof in :mod:`.unit_bound`.
* Of a database's table the rows of the dates that are over since the last append are new: :mod:`.arrivals`. Of a Delta
  or Iceberg table those of the files that were appended to it: :mod:`.table_growth`.
* A new file whose name comes before that of a stored one is late. Whether it is taken in is decided by its name alone,
  so neither what is stored nor a refusal says how many records were late.
* An append reads the new files, twice: for their digests and for their records. Of those that are stored already it
  looks at the metadata only, as long as these have not changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import BlockveilError, StoreError
from blockveil.pipeline.config.ingest_file import ChosenRows
from blockveil.pipeline.data.grown_rows import Manifest, is_part, part_name
from blockveil.pipeline.data.ingest import growth_state, release_list
from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest.arrivals import taken_in
from blockveil.pipeline.data.ingest.growth_state import GrowthState, HeldFile
from blockveil.pipeline.data.ingest.new_files import new_files, taken_in_up_to
from blockveil.pipeline.data.ingest.readers import Readable
from blockveil.pipeline.data.ingest.repeated_rows import HeldRows, RowSets
from blockveil.pipeline.data.ingest.source_rows import ALGORITHM, Source, Tell
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.data.ingest.store_filling import contract_of, fill
from blockveil.pipeline.data.ingest.store_writer import layout
from blockveil.pipeline.data.ingest.unit_bound import UnitBound, carried, file_name, written
from blockveil.pipeline.data.sparse_store import open_form

METADATA, _UNFINISHED = "zarr.json", "zarr.json.new"
_WHERE = ("table", "catalog", "version", "snapshot")  # a table is known by what it calls itself
_DECIDES_NOTHING: Any = {
    "ingest": {"memory_gib", "store", "late", "accept_repeated_rows"},
    "source": {"files", *_WHERE},
}
"""Keys that may change from one append to the next: a record is the same under any of their values."""

Before = tuple[Manifest, GrowthState]


def append(source: Source, tell: Tell) -> str:
    """Make a store that grows, or append to it what is new in the source; what was done, in words.

    Raises
    ------
    BlockveilError
        With what to change; the store is as it was then.
    """
    target = source.loaded.target
    with scratch.locked(target) as root:
        try:
            before = store_before(source, root)
            files = new_files(source, None if before is None else before[1], tell)
        except BlockveilError:
            scratch.remove(root)  # as where what is read is at fault
            raise
        if before is not None and not files:
            _keep_point(source, before[1])
            scratch.remove(root)
            part = "file" if source.config.arrival is None else "date that is over"
            return f"the store holds every {part} of the source already; nothing was read"
        growing = _growing(source, before, files)
        staging = scratch.resumed(root, growing.spec)
        resumed = staging.progress != scratch.IngestProgress(growing.spec)
        _grow(growing, staging, before, files, tell)
        scratch.remove(root)
    if resumed:
        return "went on where an earlier run had stopped"
    return "read the whole source" if before is None else "appended what was new in the source"


def discard(target: Path, array: str) -> bool:
    """Remove what an unfinished append left, in the store and beside it; whether there was anything.

    Raises StoreError where an ingest works on it, it cannot be removed, or what is kept beside the store is lost.
    """
    leftovers = scratch.discard(target)
    with scratch.locked(target) as root:
        if not target.exists():
            leftovers |= growth_state.forget(target)
        elif (store := _opened(target, array)) is not None:
            release_list.require_erased(target)
            state = growth_state.read(target, store[1])
            leftovers |= tidied(target / array, store[0])
            growth_state.tidy(growth_state.state_path(target), state)
        scratch.remove(root)
    return leftovers


def store_before(source: Source, root: Path) -> Before | None:
    """Manifest and state of the store as it is; None where there is none. What a killed run left is removed.

    Raises StoreError where the store does not grow, was made by other rules, or what is kept beside it is lost.
    """
    target, section = source.loaded.target, source.config.ingest
    if not target.exists():
        return None
    store = _opened(target, section.array)
    if store is None:
        raise StoreError(
            f'ingest.store "{section.store}" exists and is not a store that grows',
            "Records are appended to a store that was made with append = true",
            "Name another store, and ingest all files into it",
        )
    release_list.require_erased(target)
    manifest, spec = store
    state = growth_state.read(target, spec)
    differences = _differences(state.rules, _rules(source))
    if differences:
        raise StoreError(
            f'ingest.store "{section.store}" was made with another {", ".join(differences)}',
            "All records of a store are made by the same rules",
            "Restore them in the config, or name another store and ingest all files into it",
        )
    if tidied(target / section.array, manifest):
        scratch.Staging(root, scratch.IngestProgress(spec)).wipe()  # its part was in the store already
    growth_state.tidy(growth_state.opened(target), state)
    return manifest, state


def _opened(target: Path, array: str) -> tuple[Manifest, str] | None:
    """Manifest of a store and what it says of itself; None where it does not grow."""
    try:
        form = open_form(target, array, "ingest.store")  # no part is opened: there is one for each append before
    except StoreError:
        return None
    contract, manifest = Contract.of(form), Manifest.read(form.attrs)
    return None if contract is None or manifest is None else (manifest, contract.spec)


def tidied(folder: Path, manifest: Manifest) -> bool:
    """Remove parts that no manifest names: only an append that was killed can have left them."""
    names = {name for name, _ in manifest.parts}
    others = [entry for entry in folder.iterdir() if entry.name not in names]
    leftovers = [entry for entry in others if is_part(entry.name) or entry.name == _UNFINISHED]
    for entry in leftovers:
        if entry.is_dir():
            scratch.remove(entry)
        else:
            entry.unlink()
    return bool(leftovers)


def _rules(source: Source) -> dict[str, Any]:
    """The part of the config that decides what becomes of a row."""
    # Without what has its default: keys of later versions do not part a store from its config.
    return source.config.model_dump(mode="json", exclude=_DECIDES_NOTHING, exclude_defaults=True)


def _differences(stored: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Keys of a config that differ, by section."""
    keys = []
    for section in sorted({*stored, *found}):
        one, other = stored.get(section), found.get(section)
        if isinstance(one, dict) and isinstance(other, dict):
            keys += [f"{section}.{key}" for key in sorted({*one, *other}) if one.get(key) != other.get(key)]
        elif one != other:
            keys.append(section)
    return keys


def _growing(source: Source, before: Before | None, files: dict[HeldFile, Readable]) -> Source:
    """The source of this append alone."""
    key = growth_state.key_of(source.loaded.target)
    spec = {
        "algorithm": ALGORITHM,
        "before": None if before is None else before[1].spec,
        "rules": _rules(source),
        "files": [[file.location, file.identity] for file in files],
    }
    if (rows := taken_in(files.values())) is not None:  # an append goes on with the rows that it began with
        spec["rows"] = key.digest_of_bytes(rows.tobytes())
    return replace(
        source,
        files=tuple(files.values()),
        spec=key.digest(spec),
        store_id=key.store_id,
        continues=before is not None,
    )


def _grow(
    source: Source,
    staging: scratch.Staging,
    before: Before | None,
    files: dict[HeldFile, Readable],
    tell: Tell,
) -> None:
    """Write the part, the state and the manifest, in this order."""
    target, array = source.loaded.target, source.config.ingest.array
    manifest = _empty(source) if before is None else before[0]
    state = GrowthState("", _rules(source)) if before is None else before[1]
    number = manifest.next_part
    folder, name = growth_state.opened(target), part_name(number)
    bound = None
    if isinstance(source.config.unit, ChosenRows):
        bound = UnitBound(folder, state.units, staging.root / "units")
    rows, row_sets = fill(source, staging, (staging.store / array, name), tell, bound, (folder, state.taken))
    units, owners = state.units, state.owners
    if bound is not None:
        own = written(folder / file_name(number, 1), 1, bound.kept())
        units, owners = carried(folder, (*units, own), number), (*owners, own)
    # Dates are one stretch with those before.
    stored_files = (*state.files, *files) if source.config.arrival is None else tuple(files)
    rows_in = taken_in(files.values())
    row_file = None if rows_in is None else growth_state.with_rows(folder, rows_in, state.rows)
    point, (row_files, accepted) = taken_in_up_to(source), _with_taken(source, state, folder, number, row_sets)
    new_state = GrowthState(source.spec, state.rules, stored_files, units, owners, row_file, point, row_files, accepted)
    growth_state.write(folder, new_state)
    manifest = replace(manifest, parts=(*manifest.parts, (name, rows)))
    if before is None:
        _publish_first(staging.store, target, array, metadata_of(source, manifest))
    else:
        publish_parts([staging.store / array / name], source, manifest)
    growth_state.tidy(folder, new_state)


def _with_taken(
    source: Source, state: GrowthState, folder: Path, number: int, found: RowSets | None
) -> tuple[tuple[HeldRows, ...], tuple[str, ...]]:
    """Which rows the files of all appends have, and why files may have held all rows of others."""
    reason, row_files = source.config.ingest.accept_repeated_rows, state.taken
    if found is not None:
        file = written(folder / f"taken-{number:06d}", 1, found.entries())
        row_files = (*row_files, HeldRows(file, tuple(one.name for one in source.files), found.borders))
    return row_files, tuple(dict.fromkeys((*state.accepted, *(() if reason is None else (reason,)))))


def _keep_point(source: Source, state: GrowthState) -> None:
    """Remember how far a table was looked at in which nothing was new: its history is not kept for ever."""
    point = taken_in_up_to(source)
    if point != state.table:
        growth_state.write(growth_state.opened(source.loaded.target), replace(state, table=point))


def _empty(source: Source) -> Manifest:
    """Manifest of a store without records."""
    section, columns = source.config.ingest, len(source.config.outputs)
    dtype = np.dtype(section.dtype).newbyteorder("<").str
    return Manifest((), columns, dtype, layout(section, columns)[0][0], section.layout == "entries")


def metadata_of(source: Source, manifest: Manifest) -> bytes:
    """Metadata of the group of the parts: shape, parts and contract in one file."""
    attributes = {**manifest.attributes(), **contract_of(source)}
    fields = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    return json.dumps(fields, indent=2).encode()


def _publish_first(staged: Path, target: Path, array: str, metadata: bytes) -> None:
    """Publish a store of one part, by one rename."""
    group = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}).encode()
    durable.replace_file(staged / METADATA, group, staged / _UNFINISHED)
    durable.replace_file(staged / array / METADATA, metadata, staged / array / _UNFINISHED)
    staged.chmod(0o700)
    durable.sync_tree(staged)
    staged.rename(target)
    durable.sync(target.parent)


def publish_parts(staged: Sequence[Path], source: Source, manifest: Manifest) -> None:
    """Publish further parts of a store, by one replaced file.

    Parameters
    ----------
    staged
        Where the parts that are new were written, each under its name.
    source
        The store's config, and the digest that the store is to have.
    manifest
        All parts that the store has then.
    """
    move_in(staged, source)
    publish_metadata(source.loaded.target / source.config.ingest.array, metadata_of(source, manifest))


def move_in(staged: Sequence[Path], source: Source) -> None:
    """Move finished parts into a store; no reader knows of them yet."""
    folder = source.loaded.target / source.config.ingest.array
    for part in staged:
        durable.sync_tree(part)
        part.rename(folder / part.name)
    durable.sync(folder)


def publish_metadata(folder: Path, metadata: bytes) -> None:
    """Replace the manifest: every new reader knows of its parts."""
    durable.replace_file(folder / METADATA, metadata, folder / _UNFINISHED)
