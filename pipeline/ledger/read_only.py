"""Reads a ledger in a file with read permission alone, and writes nothing.

Entries that were committed may lie in the journal beside the file, so a way of reading that does not see the journal is
taken only where there is none:

* Where a journal is there, SQLite reads both, with the shared memory that the writers made.
* Where none is, all entries are in the file. It is copied to memory, and the copy counts only if nobody has written
  meanwhile: the file is the same by size and times, no journal has come up, and the file was quiet before, so that a
  write in between would have changed its times.

**Source**: SQLite, "Write-Ahead Logging", sections "Read-Only Databases" and "The WAL File"; file URIs, ``immutable``.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from urllib.parse import quote

from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.base.permissions import JOURNALS, beside

_QUIET_SECONDS = 0.05
"""Longer than a tick of the clock that file systems take times from."""

_TRIES = 100
_PAUSE_SECONDS = 0.05


def connect(path: Path) -> sqlite3.Connection:
    """Connection in a transaction that sees all entries that were committed before it.

    Parameters
    ----------
    path
        The ledger's file, with links resolved.

    Raises
    ------
    StoreError
        A journal cannot be read, or the file is written all the time.
    sqlite3.Error
        The file is no database, or may not be read.
    """
    for _ in range(_TRIES):
        connection = _through_journal(path) if _has_journal(path) else _copied(path)
        if connection is not None:
            return connection
        time.sleep(_PAUSE_SECONDS)
    raise StoreError(
        f'The ledger "{path.name}" cannot be read without write permission now',
        "Entries that were committed may lie in the journal beside it, which this account cannot read",
        "Let its owner look at it once (blockveil ledger verify), then try again",
    )


def _has_journal(path: Path) -> bool:
    return any(beside(path, ending).exists() for ending in JOURNALS)


def _through_journal(path: Path) -> sqlite3.Connection | None:
    """Connection that reads the journal too; None where that is gone meanwhile, or cannot be read."""
    connection = _opened(path, "mode=ro")
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # from here on nobody takes it away
    except sqlite3.OperationalError:
        connection.close()
        return None
    return connection


def _copied(path: Path) -> sqlite3.Connection | None:
    """Copy in memory of a file without a journal; None where somebody has written meanwhile."""
    before = _state(path)
    if before is None:
        return None
    source = _opened(path, "mode=ro&immutable=1")
    copy = sqlite3.connect(":memory:", isolation_level=None)
    try:
        source.backup(copy)
    except sqlite3.Error:
        copy.close()
        if _state(path) == before:
            raise
        return None
    finally:
        source.close()
    if _state(path) != before:
        copy.close()
        return None
    copy.execute("PRAGMA query_only=ON")
    copy.execute("BEGIN")
    return copy


def _opened(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, timeout=1.0, isolation_level=None)


def _state(path: Path) -> tuple[int, ...] | None:
    """What tells whether a file was written; None where that cannot be known, or a journal is beside it."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if _has_journal(path) or 0 <= time.time() - status.st_mtime < _QUIET_SECONDS:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
