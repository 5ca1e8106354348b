"""What a store that grows has taken in: its files, and how many rows it holds of each unit.

It lies in a folder beside the store (mode 0700, files 0600), never in it: those who may read the records learn neither
from which files they are nor whose they are. All of it is encrypted with the private key of the store
(:mod:`.identity_key`), as it speaks of erased units too.

There is one file of state for each state of the store, named after the digest that the store holds itself. So an append
writes its new state beside the old one, then replaces the manifest of the store, and a kill between the two leaves the
old store with its old state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import guard
from blockveil.pipeline.data.ingest import identity_key, ingest_staging
from blockveil.pipeline.data.ingest.identity_key import EncryptedFile, IdentityKey, replace_private
from blockveil.pipeline.data.ingest.repeated_rows import HeldRows
from blockveil.pipeline.data.ingest.unit_bound import UnitFile, check, lost, written
from blockveil.pipeline.data.ingest.units import DIGEST, Digests

PENDING = "erasure"
"""File of an erasure that is to be finished (:mod:`.erasing`)."""

RELEASES = "release-"
"""Begin of the names of files that each hold the config of a release (:mod:`.release_list`)."""


@dataclass(frozen=True)
class HeldFile:
    """A file of the source whose records are stored; of a table, the dates whose rows are.

    Attributes
    ----------
    location
        Where it is: below the folder of the config if it is there, else as a whole. Of a table the first date and the
        first one behind them, with a slash between.
    identity
        What changes with the content, as far as a look at the file's metadata tells; of a table the snapshot.
    digest
        SHA-256 of the content; of a table how many rows have these dates.
    """

    location: str
    identity: str
    digest: str


@dataclass(frozen=True)
class TablePoint:
    """How far a store holds a Delta or Iceberg table.

    Attributes
    ----------
    name
        What the table calls itself.
    version
        The version up to which what was appended is stored.
    erased
        The version up to which rows may have been deleted, where units were erased from the store since; None else.
    """

    name: str
    version: str
    erased: str | None = None


@dataclass(frozen=True)
class GrowthState:
    """What a store holds.

    Attributes
    ----------
    spec
        Digest of everything that decides the store, as its contract has it.
    rules
        The part of the config that decides what becomes of a row.
    files
        Files of the source in the order in which they were taken in.
    units
        Files of how many rows are stored of each unit.
    owners
        For each part of the store, a file of how many of its rows are of which unit, in the order of the rows.
    rows
        A file of the digests of all rows that were taken in, where rows of a table may come late.
    table
        How far a Delta or Iceberg table is stored; None for other sources.
    taken
        Which rows the files of each append have.
    accepted
        Why files may have held all rows of others, where they may have.
    """

    spec: str
    rules: dict[str, Any]
    files: tuple[HeldFile, ...] = ()
    units: tuple[UnitFile, ...] = ()
    owners: tuple[UnitFile, ...] = ()
    rows: UnitFile | None = None
    table: TablePoint | None = None
    taken: tuple[HeldRows, ...] = ()
    accepted: tuple[str, ...] = ()

    @property
    def beside(self) -> tuple[UnitFile, ...]:
        """All files that belong to it."""
        return (*self.units, *self.owners, *self.others)

    @property
    def others(self) -> tuple[UnitFile, ...]:
        """Those of rows, whose units nobody knows."""
        return (*(() if self.rows is None else (self.rows,)), *(one.file for one in self.taken))


def state_path(target: Path) -> Path:
    """Folder of the state of a store."""
    return target.parent / f".grown-{target.name}"


def opened(target: Path) -> Path:
    """The folder of the state, made with the private key of the store where there is none.

    Raises
    ------
    StoreError
        Somebody else's folder or a link is there, or the key is gone.
    OSError
        It cannot be made.
    """
    folder = state_path(target)
    folder.mkdir(mode=0o700, exist_ok=True)
    ingest_staging.require_private(folder)
    guard(lambda: IdentityKey.load_or_create(folder), lambda _: lost(folder.name), (FileNotFoundError, ValueError))
    return folder


def key_of(target: Path) -> IdentityKey:
    """The private key of a store, drawn where nothing is kept beside it yet; raises as :func:`opened`."""
    return IdentityKey.load(opened(target))


def read(target: Path, spec: str) -> GrowthState:
    """State of a store that says ``spec`` of itself.

    Raises StoreError where it is missing, damaged, or that of another state of the store.
    """
    folder = state_path(target)
    try:
        ingest_staging.require_private(folder)
        fields = json.loads(IdentityKey.load(folder).unsealed((folder / _name(spec)).read_bytes()))
        state = GrowthState(
            fields["spec"],
            fields["rules"],
            tuple(HeldFile(**file) for file in fields["files"]),
            tuple(UnitFile(**file) for file in fields["units"]),
            tuple(UnitFile(**file) for file in fields["owners"]),
            None if fields["rows"] is None else UnitFile(**fields["rows"]),
            None if fields["table"] is None else TablePoint(**fields["table"]),
            tuple(HeldRows.of(one) for one in fields["taken"]),
            tuple(fields["accepted"]),
        )
        valid = state.spec == spec
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError):
        valid = False
    if not valid:
        raise lost(folder.name)
    check(folder, (*state.units, *state.others))
    return state


def rows_of(target: Path, state: GrowthState) -> Digests | None:
    """Digests of all rows that were taken in, in order; None where they are not kept."""
    return None if state.rows is None else _rows_in(state_path(target) / state.rows.name)


def with_rows(folder: Path, digests: Digests, before: UnitFile | None) -> UnitFile:
    """A file of the digests of all rows that were taken in, which is on the disk: the one before, or a new one."""
    # Under a new name: the file that the state names stays as it is.
    if before is not None and np.array_equal(_rows_in(folder / before.name), digests):
        return before
    return written(folder / f"rows-{token_hex(16)}", 1, iter([digests.tobytes()]))


def _rows_in(file: Path) -> Digests:
    with EncryptedFile(file) as stream:
        return np.frombuffer(stream.read(0, stream.size), DIGEST)


def write(folder: Path, state: GrowthState) -> None:
    """Write a state beside the others; it is on the disk when this returns."""
    replace_private(folder / _name(state.spec), IdentityKey.load(folder).sealed(canonical_json(asdict(state))))


def tidy(folder: Path, state: GrowthState) -> None:
    """Remove all but one state: what an append that was killed has left, and what the last one has replaced."""
    _remove_others(folder, {identity_key.NAME, PENDING, _name(state.spec), *(file.name for file in state.beside)})


def forget(target: Path) -> bool:
    """Remove the state of a store that is gone; whether there was any."""
    folder = state_path(target)
    if not folder.exists():
        return False
    ingest_staging.require_private(folder)
    _remove_others(folder, ())
    folder.rmdir()
    return True


def _remove_others(folder: Path, kept: Iterable[str]) -> None:
    names = set(kept)
    for entry in folder.iterdir():
        if entry.name not in names and not (names and entry.name.startswith(RELEASES)):
            entry.unlink()


def _name(spec: str) -> str:
    return f"state-{spec[:32]}"
