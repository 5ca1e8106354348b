"""A release that proved wrong is withdrawn: in the ledger first, then wherever readers find it.

The ledger gets an entry for good, and the budget remains spent: what was published cannot be taken back from whoever
has read it. A notice replaces the pointer, so that readers are refused in words, and the pages are removed. The values
stay under their content's name unless they are to be removed too. Each step may be repeated, so that a withdrawal that
was cut off is finished by asking for it again.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blockveil.pipeline.base import durable, staging
from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import ConfigError, LedgerError, StoreError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.pointers import RELEASE_FOLDER, read_json, split_release_id
from blockveil.pipeline.ledger import Charge, Ledger, State
from blockveil.pipeline.ledger.entries import WITHDRAWN
from blockveil.pipeline.releases.destination import destination_of

LONGEST_REASON = 200
"""Characters of what a curator says of a withdrawal."""


@dataclass(frozen=True)
class Withdrawn:
    """A release that was withdrawn.

    Attributes
    ----------
    release_id
        ``dataset/name/date``.
    reason
        Why; the first reason that was given stays.
    day
        When, UTC.
    removed
        Whether its values were removed.
    """

    release_id: str
    reason: str
    day: str
    removed: bool


def withdraw(loaded: LoadedConfig, release_id: str, reason: str, *, remove: bool) -> Withdrawn:
    """Withdraw a release of a config for good; its budget remains spent.

    Parameters
    ----------
    loaded
        A config with the release's ledger and folder of releases.
    release_id
        ``dataset/name/date``.
    reason
        Why, in one printable line that everybody may read.
    remove
        Whether its values are removed, here and where they were sent.

    Raises
    ------
    ConfigError
        The release is not one of the config's, or the reason is not a line.
    LedgerError
        The ledger does not know it as released.
    StoreError
        The notice cannot be written. Asking again goes on.
    """
    _check(loaded, release_id, reason)
    ledger = Ledger(loaded.ledger_url)
    charge = ledger.withdraw(release_id, reason)
    entries = {each.kind: each for each in ledger.history(release_id=release_id) if each.charge_id == charge.charge_id}
    withdrawal = Withdrawn(release_id, str(charge.withdrawn), entries[WITHDRAWN].time[:10], remove)
    dataset, name, night = split_release_id(release_id)
    folder = loaded.output_root / dataset / name
    content = _notice(withdrawal, charge, entries[State.RELEASED].payload) | _promise(folder / f"{night}.json")
    notice = canonical_json(content) + b"\n"
    try:
        _replace_here(folder, night, notice, remove=remove)
    except OSError as error:
        failure = durable.store_error(error, f"the notice that {release_id} was withdrawn cannot be written")
    else:
        sent = destination_of(loaded)
        if sent is not None:
            sent.withdraw(release_id, notice, values=remove)
        return withdrawal
    raise failure


def _check(loaded: LoadedConfig, release_id: str, reason: str) -> None:
    of = f"{loaded.config.release.dataset}/{loaded.config.release.name}"
    try:
        mine = release_id.rpartition("/")[0] == of and bool(split_release_id(release_id))
    except ValueError:
        mine = False
    if not mine:
        raise ConfigError(
            f"'{release_id[:200]}' is no release of this config",
            f"A config withdraws what it releases: {of}/YYYY-MM-DD",
            "Name one of its releases, or the config that made it",
        )
    if not (reason.strip() and reason.isprintable() and len(reason) <= LONGEST_REASON):
        raise LedgerError(
            "--why does not say a reason",
            f"A reason is a line of at most {LONGEST_REASON} printable characters, which everybody may read for ever",
            "Say what proved wrong, without a value of a record",
        )


def _notice(found: Withdrawn, charge: Charge, released: dict[str, Any]) -> dict[str, Any]:
    return {
        "release_id": found.release_id,
        "output_digest": released["output_digest"],
        "withdrawn": {"reason": found.reason, "date": found.day},
        "ledger": {"charge_id": charge.charge_id, "sequence": charge.sequence, "row_hash": charge.row_hash},
    }


def _promise(pointer: Path) -> dict[str, Any]:
    """What the pointer, or an earlier notice, says of the loss: it is needed where a ledger is lost."""
    try:
        guarantee = read_json(pointer).get("guarantee")
    except StoreError:
        guarantee = None
    return {} if guarantee is None else {"guarantee": guarantee}


def _replace_here(folder: Path, night: str, notice: bytes, *, remove: bool) -> None:
    """Put the notice in place of the pointer, then remove the pages, and the values on request."""
    folder.mkdir(parents=True, exist_ok=True)
    pointer = folder / f"{night}.json"
    if not _stands(pointer, notice):
        durable.replace_file(pointer, notice, staging.scratch_path(folder, "pointer"))
    for each in sorted(folder.glob(f"{night}-*")):
        if not RELEASE_FOLDER.fullmatch(each.name):
            with suppress(IsADirectoryError):
                each.unlink(missing_ok=True)
        elif remove:
            shutil.rmtree(each)
    durable.sync(folder)


def _stands(pointer: Path, notice: bytes) -> bool:
    try:
        return canonical_json(read_json(pointer)) + b"\n" == notice
    except StoreError:
        return False
