"""A signal ends a run as an exception, so that the run gives back what it holds."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AT_ONCE_SECONDS = 2.0
"""Signals within this time are one: a second one would meet the run on its way out, before it gives back."""


@contextmanager
def by_exception() -> Iterator[None]:
    """Raise an exception where a signal asks this process to end: KeyboardInterrupt for Ctrl-C, else SystemExit.

    By itself the other signals end a process at once. For the main thread. A signal that is ignored (as ``nohup`` has
    it) stays so.
    """
    signal_times = [float("-inf")]

    def stop(number: int, _: FrameType | None) -> None:
        if time.monotonic() - signal_times[-1] < _AT_ONCE_SECONDS:
            return
        signal_times.append(time.monotonic())
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    numbers = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])
