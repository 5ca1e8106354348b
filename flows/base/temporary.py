"""Whether the Prefect server that this process talks to ends with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

is_temporary: ContextVar[bool] = ContextVar("is_temporary", default=False)
"""Whether the server of this process is one that ends with it."""


@contextmanager
def talking_to_one() -> Iterator[None]:
    """Note, for as long as the block runs, that the server is such a one."""
    token = is_temporary.set(True)
    try:
        yield
    finally:
        is_temporary.reset(token)
