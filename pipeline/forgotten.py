"""A ledger that has forgotten charges: each release names the entry that paid for it, which must still be there.

An older copy of a ledger that is put back would let what was spent since be spent again. Its hash chain is sound; what
shows it is what was published meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.config import LoadedConfig
from pipeline.errors import LedgerError, StoreError
from pipeline.ledger import Ledger
from pipeline.reading import read_json


def problem(loaded: LoadedConfig, ledger: Ledger) -> str | None:
    """Why a ledger cannot be the one that paid for the releases of a config, or None where it can.

    The release with the highest entry is looked up. As each entry holds the hash of the one before, a ledger with that
    entry has all before it.

    Parameters
    ----------
    loaded
        The config whose releases are in ``output.root``.
    ledger
        The ledger that it names.
    """
    section = loaded.config.release
    paid = [_paid(pointer) for pointer in (loaded.output_root / section.dataset / section.name).glob("*.json")]
    known = [each for each in paid if each is not None]
    if not known:
        return None
    sequence, row_hash, release_id = max(known)
    if ledger.exists() and any(entry.hash == row_hash for entry in ledger.history(release_id=release_id)):
        return None
    return f"Entry {sequence}, which paid for {release_id}, is not in this ledger"


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
    try:
        content: Mapping[str, Any] = read_json(pointer)
        ledger = content["ledger"]
        return int(ledger["sequence"]), str(ledger["row_hash"]), str(content["release_id"])
    except (StoreError, KeyError, TypeError, ValueError):
        return None
