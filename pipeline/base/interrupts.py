"""What must be done although a person or a service manager asks the process to end, and asks again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress


def to_the_end(work: Callable[[], object]) -> None:
    """Do something to its end although interrupts go on arriving; they reach the main thread only.

    Its own failure is not shown: the one before it is the one to show, and the next run settles what is held.
    """
    completion = threading.Event()  # Thread.join that is interrupted forgets that the thread still runs

    def quietly() -> None:
        try:
            with suppress(Exception):
                work()
        finally:
            completion.set()

    try:
        threading.Thread(target=quietly, name="settle").start()
    except RuntimeError:  # there can be no more threads
        quietly()
    while not completion.is_set():
        with suppress(BaseException):
            completion.wait()
