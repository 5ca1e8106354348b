"""Old releases are removed; their ledger entries never are.

A pruned night stays charged and released: running it again neither draws its noise anew nor publishes it, because its
key was destroyed when it was sealed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from blockveil.pipeline.base import durable
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.pointers import withdrawal_of
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.releases.catch_up import charges_of
from blockveil.pipeline.releases.destination import Destination, destination_of
from blockveil.pipeline.releases.growing import needed_later


@dataclass(frozen=True)
class Old:
    """A released night that is older than what is kept.

    Attributes
    ----------
    release_id
        ``dataset/name/date``.
    files
        Its pointer first, then the release and its pages.
    size
        Bytes on the disk.
    sent
        Place in an object store that it was sent to, or None.
    """

    release_id: str
    files: tuple[Path, ...]
    size: int
    sent: Destination | None = None


def old_releases(loaded: LoadedConfig, before: date) -> list[Old]:
    """Sealed nights of a config before a date that still have files, oldest first; never its newest release.

    What the ledger does not know as released is left alone: it may be a release that is under way. So is what later
    nights of a series that has not ended are read with.
    """
    section, ledger = loaded.config.release, Ledger(loaded.ledger_url)
    if not ledger.exists():
        return []
    nights = charges_of(ledger, section)
    sealed = sorted(night for night, state in nights.items() if state is State.RELEASED)
    folder, sent = loaded.output_root / section.dataset / section.name, destination_of(loaded)
    needed_nights, releases = needed_later(loaded, ledger, before), []
    for night in sealed[:-1]:
        # The notice of a withdrawal stays for good.
        leaves = night in needed_nights or withdrawal_of(folder / f"{night.isoformat()}.json") is not None
        files = _files(folder, night) if night < before and not leaves else ()
        if files:
            release_id = f"{section.dataset}/{section.name}/{night.isoformat()}"
            releases.append(Old(release_id, files, sum(map(_size, files)), sent))
    return releases


def prune(old: Sequence[Old]) -> None:
    """Remove old releases, each pointer before what it points to, so that no reader meets half of one.

    Raises
    ------
    StoreError
        A file or an object cannot be removed. Pruning again goes on.
    """
    for each in old:
        if each.sent is not None:  # first, for what is found again is what the disk still has
            each.sent.remove(each.release_id)
        try:
            for path in each.files:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
                durable.sync(path.parent)
        except OSError as error:
            failure = durable.store_error(error, f"release {each.release_id} cannot be removed")
        else:
            continue
        raise failure


def _files(folder: Path, night: date) -> tuple[Path, ...]:
    pointer = folder / f"{night.isoformat()}.json"
    others = sorted(folder.glob(f"{night.isoformat()}-*"))
    return (*([pointer] if pointer.exists() else []), *others)


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
