"""A ledger that has forgotten charges: neither the mark of this account nor a release may know more than it does.

An older copy of a ledger that is put back would let what was spent since be spent again. Its hash chain is sound. What
shows it are the mark (:mod:`.marks`) and, on a machine without one, what was published meanwhile: each release names
the entry that paid for it.
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
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.ledger.restoring import is_lost
from blockveil.pipeline.releases.destination import Destination, destination_of

LONGEST_REASON = 200
"""Characters of what a person says of a loss."""

_WHY = "The releases in output.root show whether the ledger has forgotten what it paid for"


def problem(loaded: LoadedConfig, ledger: Ledger) -> str | None:
    """Why a ledger cannot be the one that this account saw and that paid for the releases of a config, or None.

    The release with the highest entry is looked up. As each entry holds the hash of the one before, a ledger with that
    entry has all before it. One whose charge was booked after a loss is known too.

    Parameters
    ----------
    loaded
        The config whose releases are in ``output.root``, and in ``output.upload`` where there is one.
    ledger
        The ledger that it names.
    """
    folder = loaded.output_root / loaded.config.release.dataset / loaded.config.release.name
    there = ledger if ledger.exists() else None
    return (there and there.missing()) or _problem(folder, there, destination_of(loaded))


def _problem(folder: Path, ledger: Ledger | None, sent: Destination | None) -> str | None:
    here = [each for each in looked_into(folder, _WHY) if each.suffix == ".json"]
    entries = [_paid(pointer) for pointer in here]
    if sent is not None:  # the disk may be another one than that of the nights before
        others = sent.pointers(folder.parent.name, folder.name, but=[pointer.name for pointer in here])
        entries += [_paid_by(content) for content in others]
    valid_entries = [each for each in entries if each is not None]
    if not valid_entries:
        return None
    if _has(ledger, max(valid_entries)):
        return None
    bookings = _booked(ledger)
    newest = max((each for each in valid_entries if each[3] not in bookings), default=None)
    if newest is None or _has(ledger, newest):
        return None
    sequence, _, release_id, _ = newest
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
    if there and (missing := ledger.missing()) is not None:
        raise LedgerError(
            missing,
            "A budget that is granted in an older copy spends again what was spent since",
            "Restore the newest copy. Where there is none, run `blockveil ledger admin reconcile CONFIG` first",
        )
    sent = destination_of(loaded)
    names = {each.name for each in looked_into(releases, _WHY)}
    names |= set() if sent is None else set(sent.names(releases.name))
    for name in sorted(names):
        discrepancy = _problem(releases / name, ledger if there else None, sent)
        if discrepancy is None:
            continue
        raise LedgerError(
            discrepancy,
            "A budget that is granted in its place spends again what was spent for the releases in output.root",
            "Restore the newest copy of the ledger. Where there is none, give --after-loss REASON, which the ledger "
            "keeps, and book what was forgotten with `blockveil ledger charge`",
        )


def require_none(loaded: LoadedConfig, ledger: Ledger) -> None:
    """Refuse to go on with a ledger that has forgotten what it paid for.

    Raises
    ------
    LedgerError
        It has, or it is another ledger.
    """
    discrepancy = problem(loaded, ledger)
    if discrepancy is not None:
        raise LedgerError(
            discrepancy,
            "An older copy of a ledger has forgotten charges, which would be spent a second time",
            "Restore the newest copy. Where there is none, run `blockveil ledger admin reconcile CONFIG`, which "
            "books what this account has seen. What it has not seen is booked with `blockveil ledger charge`, and the "
            "releases that the ledger does not know are moved out of output.root",
        )


def _has(ledger: Ledger | None, paid: tuple[int, str, str, str]) -> bool:
    _, row_hash, release_id, _ = paid
    return ledger is not None and any(entry.hash == row_hash for entry in ledger.history(release_id=release_id))


def _booked(ledger: Ledger | None) -> set[str | None]:
    """Charges that an older copy had lost, and that were booked again."""
    entries = [] if ledger is None else ledger.history()
    return {entry.charge_id for entry in entries if entry.kind == State.RESERVED and is_lost(entry)}


def _paid(pointer: Path) -> tuple[int, str, str, str] | None:
    """Sequence and hash of the entry that paid for a release, its id and its charge; None for what is no pointer."""
    content = stated(pointer)
    return None if content is None else _entry(content)


def _paid_by(content: bytes) -> tuple[int, str, str, str] | None:
    """The same as :func:`_paid`, from the content of a pointer."""
    try:
        pointer = json.loads(content)
    except ValueError:
        return None
    return _entry(pointer) if isinstance(pointer, dict) else None


def _entry(content: Mapping[str, Any]) -> tuple[int, str, str, str] | None:
    try:
        ledger = content["ledger"]
        charge_id = str(ledger.get("charge_id", ""))
        return int(ledger["sequence"]), str(ledger["row_hash"]), str(content["release_id"]), charge_id
    except (KeyError, TypeError, ValueError):
        return None
