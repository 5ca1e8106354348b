"""How far a task has come, reported to whoever runs it: a hook of this process and the share that is done.

Only shares travel, in steps of a twentieth: under add-remove the number of records is private, and finer steps would
count chunks. Fewer than twenty chunks per task still show, as they do in the time that a run takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local

Listener = Callable[[str, float], None]
"""Receives the public name of a task and the share of it that is done."""

_STEPS = 20

_listeners: list[Listener] = []
_here = local()


def listen(listener: Listener | None) -> None:
    """Make one listener the only one of this process; None reports to nobody."""
    _listeners[:] = [] if listener is None else [listener]


@contextmanager
def task(name: str) -> Iterator[None]:
    """Name the task that :func:`advance` reports in this thread inside this block; its end is reported too."""
    _here.name, _here.reported, _here.range = name, 0, (0.0, 1.0)
    try:
        yield
        advance(1.0)
    finally:
        _here.name = None


@contextmanager
def within(low: float, high: float) -> Iterator[None]:
    """Take what :func:`advance` reports in this thread inside this block for a part of the task, between two shares."""
    before = _range()
    _here.range = low, high
    try:
        yield
    finally:
        _here.range = before


def _range() -> tuple[float, float]:
    span: tuple[float, float] = getattr(_here, "range", (0.0, 1.0))
    return span


def advance(share: float) -> None:
    """Report how much of the task is done, between 0 and 1."""
    low, high = _range()
    name, steps = getattr(_here, "name", None), int((low + share * (high - low)) * _STEPS)
    if name is not None and steps > _here.reported:
        _here.reported = steps
        for listener in _listeners:
            listener(name, steps / _STEPS)
