"""A queue of writers before a ledger in a file: who comes first is served first, or nearly so.

SQLite lets a writer who finds the file locked sleep and try again, for longer each time: of many at once, the unlucky
wait for long, or in vain. Here each waits in the kernel for the lock of another file, and is woken when it is free.

No guarantee rests on the queue: SQLite's own lock keeps two writers apart. Where a file system has no such locks, or
the file cannot be made, writers go on without it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from blockveil.pipeline.ledger.database import WAIT_SECONDS, Locked


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Wait until nobody else is served, then be served alone; the place in the queue ends with the process too.

    Parameters
    ----------
    path
        File that stands for the queue; made where it is missing.

    Raises
    ------
    LedgerError
        One's turn has not come in time.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        _wait(descriptor)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # also where a process that was forked meanwhile holds a copy
        os.close(descriptor)


def _wait(descriptor: int) -> None:
    """Wait in a thread, which has no limit of its own: after a close, a lock that is granted late is let go of."""
    served = threading.Event()

    def stand() -> None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        served.set()

    threading.Thread(target=stand, name="ledger line", daemon=True).start()
    if not served.wait(WAIT_SECONDS):
        raise Locked()
