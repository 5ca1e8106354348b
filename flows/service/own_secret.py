"""Secrets that this program makes for itself, each one line in a file that its user alone may read."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import StoreError

_RANDOM = r"[A-Za-z0-9_-]{43}"


def kept(path: Path, what: str, begin: str = "") -> str:
    """Secret of a file; made from the operating system's randomness where there is none.

    Parameters
    ----------
    path
        The file, in a folder that is there.
    what
        What the secret is called in messages.
    begin
        What stands before the random part.

    Raises
    ------
    StoreError
        The file cannot be made or read, or others could have read or changed it.
    """
    if not os.path.lexists(path):
        _make(path, what, begin)
    return _read(path, what, begin)


def _make(path: Path, what: str, begin: str) -> None:
    """Write a new secret; where another process is faster, its secret counts."""
    unfinished = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{begin}{secrets.token_urlsafe(32)}\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(unfinished, path)  # whole and for the first time, or not at all
        finally:
            unfinished.unlink()
        durable.sync(path.parent)
    except OSError as error:
        failure = durable.store_error(error, f"The {what} cannot be kept", "PREFECT_HOME")
    else:
        return
    raise failure


def _read(path: Path, what: str, begin: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
            text = file.read(1000).decode("ascii", "replace").strip() if private else ""
    except OSError as error:
        if durable.kind_of(error).passes:
            raise durable.store_error(error, f"The {what} cannot be read", "PREFECT_HOME") from None
        private, text = False, ""
    if not re.fullmatch(re.escape(begin) + _RANDOM, text):
        raise StoreError(
            f"{path} is no {what} of this user alone" if not private else f"{path} does not hold a {what}",
            f"The {what} is a file that only the user of this home can read or change, and no link",
            f"Stop the service, remove the file, and start it again: a new {what} is made",
        )
    return text
