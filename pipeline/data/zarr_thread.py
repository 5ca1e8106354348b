"""The thread in which Zarr reads and writes, at the end of a process.

Zarr ends it as the process exits, gives it 0.2 s, and then closes its event loop in any case. Where other processes
keep the processors busy, the thread may get no turn so soon, and Python prints a traceback that says nothing about the
work, which is done. Here it is given the time that it needs.
"""

from __future__ import annotations

import atexit
from contextlib import suppress

from zarr.core import sync

_LONGEST = 60.0
"""Seconds, after which Zarr does what it would have done."""


def wait_at_exit() -> None:
    """Have this process, as it ends, wait for Zarr's thread; however often it is called, it waits once."""
    # Functions run in reverse order: after the import of Zarr, which registers its own, this one runs before that.
    atexit.unregister(_end)
    atexit.register(_end)


def _end() -> None:
    with suppress(AttributeError, IndexError, RuntimeError):  # another Zarr, which may keep them elsewhere
        if sync._executor is not None:
            sync._executor.shutdown(wait=True, cancel_futures=True)
        loop, thread = sync.loop[0], sync.iothread[0]
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_LONGEST)
