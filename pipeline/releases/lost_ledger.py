"""A ledger that has forgotten charges: each release names the entry that paid for it, which must still be there.

An older copy of a ledger that is put back would let what was spent since be spent again. Its hash chain is sound; what
shows it is what was published meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.base.places import looked_into
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.pointers import stated
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.releases.destination import Destination
from blockveil.pipeline.releases.uploading import destination_of

LONGEST_REASON = 200
"""Characters of what a person says of a loss."""

_WHY = "The releases in output.root show whether the ledger has forgotten what it paid for"


def problem(loaded: LoadedConfig, ledger: Ledger) -> str | None:
    """Why a ledger cannot be the one that paid for the releases of a config, or None where it can.

    The release with the highest entry is looked up. As each entry holds the hash of the one before, a ledger with that
    entry has all before it.

    Parameters
    ----------
    loaded
        The config whose releases are in ``output.root``, and in ``output.upload`` where there is one.
    ledger
        The ledger that it names.
    """
    folder = loaded.output_root / loaded.config.release.dataset / loaded.config.release.name
    return _problem(folder, ledger if ledger.exists() else None, destination_of(loaded))


def _problem(folder: Path, ledger: Ledger | None, sent: Destination | None) -> str | None:
    here = [each for each in looked_into(folder, _WHY) if each.suffix == ".json"]
    paid = [_paid(pointer) for pointer in here]
    if sent is not None:  # the disk may be another one than that of the nights before
        others = sent.pointers(folder.parent.name, folder.name, but=[pointer.name for pointer in here])
        paid += [_paid_by(content) for content in others]
    known = [each for each in paid if each is not None]
    if not known:
        return None
    sequence, row_hash, release_id = max(known)
    if ledger is not None and any(entry.hash == row_hash for entry in ledger.history(release_id=release_id)):
        return None
    return f"Entry {sequence}, which paid for {release_id}, is not in this ledger"


def check_grant(loaded: LoadedConfig, ledger: Ledger, after_loss: str | None) -> None:
    """Refuse to grant a budget in a ledger that has forgotten charges of the data set, unless a person says why.

    Parameters
    ----------
    loaded
        The config whose budget is granted; releases of its data set under any name count.
    ledger
        The ledger that it names, lost, empty or an older copy.
    after_loss
        The reason that the person gives, to be recorded; None where none is given.

    Raises
    ------
    LedgerError
        Charges are forgotten and no reason is given, or one that cannot be shown.
    """
    if after_loss is not None:
        if not (after_loss.strip() and after_loss.isprintable() and len(after_loss) <= LONGEST_REASON):
            raise LedgerError(
                "--after-loss does not say a reason",
                f"A reason is a line of at most {LONGEST_REASON} printable characters, which the ledger keeps for ever",
                "Say what was lost, and who decided",
            )
        return
    path, releases = loaded.ledger_path, loaded.output_root / loaded.config.release.dataset
    there = ledger.exists() and (path is None or path.stat().st_size > 0)
    sent = destination_of(loaded)
    names = {each.name for each in looked_into(releases, _WHY)}
    names |= set() if sent is None else set(sent.names(releases.name))
    for name in sorted(names):
        found = _problem(releases / name, ledger if there else None, sent)
        if found is None:
            continue
        raise LedgerError(
            found,
            "A budget that is granted in its place spends again what was spent for the releases in output.root",
            "Restore the newest copy of the ledger. Where there is none, give --after-loss REASON, which the ledger "
            "keeps, and book what was forgotten with `blockveil budget charge`",
        )


def require_none(loaded: LoadedConfig, ledger: Ledger) -> None:
    """Refuse to go on with a ledger that has forgotten what it paid for.

    Raises
    ------
    LedgerError
        It has, or it is another ledger.
    """
    found = problem(loaded, ledger)
    if found is not None:
        raise LedgerError(
            found,
            "An older copy of a ledger has forgotten charges, which would be spent a second time",
            "Restore the newest copy. Where there is none, book what was forgotten with `blockveil budget charge` and "
            "move the releases that it does not know out of output.root",
        )


def _paid(pointer: Path) -> tuple[int, str, str] | None:
    """Sequence and hash of the entry that paid for a release, and its id; None for what is no pointer."""
    found = stated(pointer)
    return None if found is None else _entry(found)


def _paid_by(content: bytes) -> tuple[int, str, str] | None:
    """The same as :func:`_paid`, from the content of a pointer."""
    try:
        found = json.loads(content)
    except ValueError:
        return None
    return _entry(found) if isinstance(found, dict) else None


def _entry(content: Mapping[str, Any]) -> tuple[int, str, str] | None:
    try:
        ledger = content["ledger"]
        return int(ledger["sequence"]), str(ledger["row_hash"]), str(content["release_id"])
    except (KeyError, TypeError, ValueError):
        return None
