"""Who may write to a ledger in a file, and read a secret: its owner and the machine's administrator, and nobody else.

Who may reach what is published is as around it, but that all the world never writes.

Whoever may write to the file can take charges back, and whoever may write to its folder can put another file in its
place, or a journal beside it that SQLite would play into it. A sticky folder keeps others from the former only. Whoever
may write to a folder above that is not sticky can put another folder there, such as a backup with fewer charges.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from blockveil.pipeline.base.errors import LedgerError

JOURNALS = ("-wal", "-journal")
"""Endings of files that may hold entries which the ledger's own file does not hold yet."""

COMPANIONS = (*JOURNALS, "-shm", "-lock")
"""Endings of all files that stand beside the ledger's own."""

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0


def beside(path: Path, ending: str) -> Path:
    """File that stands beside a ledger's."""
    return path.with_name(path.name + ending)


def resolved(path: Path) -> Path:
    """A ledger's file with links followed; SQLite keeps the files beside it there."""
    return Path(os.path.realpath(path))


def check(path: Path, *, writing: bool) -> Path:
    """Refuse a ledger that other accounts may write to; its file with links followed, as :func:`resolved`.

    The file may be a link, and need not be there yet. Where it is to be written, all of it must belong to this account
    or to root; whoever only reads relies on its owner.

    Raises
    ------
    LedgerError
        With the command that puts it right.
    """
    # Every session of a ledger does this, so it is done with texts: objects of paths would take most of its time.
    real = os.path.realpath(path)
    folders = dict.fromkeys(map(os.path.dirname, (os.fspath(path.absolute()), real)))
    for folder in folders:
        _check(folder, "folder", writing=writing)
    for above in dict.fromkeys(above for folder in folders for above in _folders_above(folder)):
        _check_above(above)
    for ending in ("", *COMPANIONS):
        _check(real + ending, "file", writing=writing)
    return Path(real)


def open_as(folder: Path, around: Path) -> None:
    """Let those reach a finished folder who reach the folder around it; but all the world never writes to it."""
    folder.chmod(stat.S_IMODE(around.stat().st_mode) & ~(stat.S_IWOTH | stat.S_ISVTX))


def private_problem(found: os.stat_result, *, public: bool) -> str | None:
    """What keeps a file from being a secret, or a public key, of this account; None where nothing does.

    Parameters
    ----------
    found
        State of the open file.
    public
        Whether all may read it; nobody else may write it in either case.

    Returns
    -------
    str or None
        Words for a message, which follow the name of the file.
    """
    mode, others = stat.S_IMODE(found.st_mode), stat.S_IRWXG | stat.S_IRWXO
    # As PostgreSQL has it for keys: a group may read what root owns, for that is how secrets reach a container.
    allowed = 0o555 if public else 0o050 if found.st_uid == _ROOT else 0
    if found.st_uid not in (_ROOT, os.geteuid()):
        return f"belongs to another account (number {found.st_uid})"
    if mode & others & ~allowed:
        return f"has mode {mode:04o}: other accounts may {'change' if mode & _OTHERS else 'read'} it"
    return None


def _folders_above(folder: str) -> Iterator[str]:
    while (above := os.path.dirname(folder)) != folder:
        yield above
        folder = above


def _check(path: str, what: str, *, writing: bool) -> None:
    try:
        status = os.stat(path)
    except OSError:  # it is not there; or nobody may look, and then SQLite says so
        return
    mode, name = stat.S_IMODE(status.st_mode), os.path.basename(path)
    if mode & _OTHERS:
        raise LedgerError(
            f'The ledger\'s {what} "{name}" has mode {mode:04o}: other accounts may write to it',
            "Whoever may write there can take charges back",
            f"Find out who wrote there, then let its owner run chmod {mode & ~_OTHERS:04o} on it",
        )
    if writing and status.st_uid not in (_ROOT, os.geteuid()):
        raise LedgerError(
            f'The ledger\'s {what} "{name}" belongs to another account (number {status.st_uid})',
            "Whoever owns it can take charges back, so it belongs to the account that releases, or to root",
            "Run as its owner, or give it to the account that releases with chown",
        )


def _check_above(folder: str) -> None:
    try:
        mode = stat.S_IMODE(os.stat(folder).st_mode)
    except OSError:
        return
    name = os.path.basename(folder)
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise LedgerError(
            f'The folder "{name}" above the ledger\'s has mode {mode:04o}: all may rename what is in it',
            "Whoever may do so can put an older ledger in place of this one, and so take charges back",
            f"Find out who wrote there, then let its owner run chmod {mode & ~stat.S_IWOTH:04o} on it, or chmod +t",
        )
