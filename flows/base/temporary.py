"""Whether the Prefect server that this process talks to ends with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_temporary: ContextVar[bool] = ContextVar("temporary", default=False)


def is_temporary() -> bool:
    """Whether the server of this process is one that ends with it."""
    return _temporary.get()


@contextmanager
def talking_to_one() -> Iterator[None]:
    """Note, for as long as the block runs, that the server is such a one."""
    token = _temporary.set(True)
    try:
        yield
    finally:
        _temporary.reset(token)
