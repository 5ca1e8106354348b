"""Which releases read a store that grows: their ledgers hold digests of its records, which an erasure must replace.

A release enters its config beside the store before it reads records. An erasure reads the list while no release can
enter it, so none is missed; and as long as an erasure is unfinished, no release begins.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.data.ingest import growth_state
from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest.growth_state import PENDING, RELEASES
from blockveil.pipeline.data.ingest.identity_key import IdentityKey, replace_private


def enter(target: Path, config: Path, *, required: bool) -> None:
    """Enter a release in the list of a store, if one is kept beside it; on the disk when this returns.

    Parameters
    ----------
    target
        The store.
    config
        Config of the release.
    required
        Whether an erasure that knows nothing of the release would end nights that are paid for.

    Raises
    ------
    StoreError
        An ingest or an erasure works on the store, another account ingests it, or it is required and this account
        cannot write beside the store.
    """
    folder = growth_state.state_path(target)
    try:
        if not folder.exists():
            return  # it is no store that grows, or a copy of one
        if (owner := folder.lstat().st_uid) != os.getuid():
            raise _of_another_account(target, owner)
        growth_state.opened(target)
        place = os.path.relpath(config.resolve(), folder.parent.resolve())  # a folder may be moved with its configs
        file = folder / f"{RELEASES}{IdentityKey.load(folder).digest(place)[:32]}"
        if file.exists():
            return
        with scratch.locked(target) as root:
            _write(file, place.encode())
            if {entry.name for entry in root.iterdir()} == {"lock"}:
                scratch.remove(root)
        return
    except OSError as error:
        if not required:
            return
        failure = durable.store_error(error, f'"{folder.name}" cannot take in the release', "data.store")
    raise failure


def entered(folder: Path) -> list[Path]:
    """Configs of the releases that were entered, in order."""
    key, base = IdentityKey.load(folder), folder.parent.resolve()
    places = [key.unsealed(file.read_bytes()).decode() for file in folder.glob(f"{RELEASES}*")]
    return sorted((base / place).resolve() for place in places)


def require_erased(target: Path) -> None:
    """Refuse to begin while an erasure is unfinished; StoreError."""
    if (growth_state.state_path(target) / PENDING).exists():
        raise StoreError(
            f'An erasure of units from "{target.name}" is unfinished',
            "Until it is finished the ledger may know other digests of the records than the store has",
            "Run `blockveil service erase` again, with the same config and units",
        )


def pending(folder: Path) -> dict[str, Any] | None:
    """What an unfinished erasure wrote down; None where there is none."""
    try:
        content = (folder / PENDING).read_bytes()
    except FileNotFoundError:
        return None
    erasure: dict[str, Any] = json.loads(IdentityKey.load(folder).unsealed(content))
    return erasure


def write_pending(folder: Path, content: dict[str, Any]) -> None:
    """Write down what an erasure is to do; it is on the disk when this returns."""
    _write(folder / PENDING, canonical_json(content))


def _write(file: Path, content: bytes) -> None:
    replace_private(file, IdentityKey.load(file.parent).sealed(content))


def _of_another_account(target: Path, owner: int) -> StoreError:
    return StoreError(
        f'"{target.name}" grows, and account number {owner} ingests it',
        "An erasure by that account must find the ledger of every release, and none begins while it is unfinished",
        "Run as that account, or let the release read a copy of the store and name its config with "
        "`blockveil service erase --release CONFIG`",
    )
