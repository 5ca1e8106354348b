"""Files of strangers: only regular ones are read, through no link, and no more of them than was asked for.

A pipe in place of a file would let a reader wait for ever, and a device or a text nested without end would take its
memory.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

MOST_METADATA = 16 * 2**20
"""Bytes of a file that describes a release: enough for 100,000 named features."""

_DEEPEST = 64
_MOST_DIGITS = 100


class NotPlain(ValueError):
    """A file of a stranger is not what a reader can take."""


def open_regular(path: str | os.PathLike[str]) -> FileIO:
    """Open a regular file for reading, unbuffered.

    Raises
    ------
    NotPlain
        It is a link, a folder, a pipe or a device.
    OSError
        It cannot be opened.
    """
    try:
        file = open(path, "rb", buffering=0, opener=_opened)  # noqa: SIM115 - the caller closes it
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link, a socket, a folder
            raise NotPlain("a file is none, but a link, a socket or a folder") from None
        raise
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise NotPlain("a file is none, but a pipe or a device")


def _opened(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe waits for somebody who writes to it.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file.

    Raises
    ------
    NotPlain
        It has more, or as for :func:`open_regular`.
    OSError
        It cannot be read.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise NotPlain(f"a file has more than {most:,} bytes")
        parts, remainder = [], most + 1
        while remainder > 0 and (part := file.read(min(remainder, 2**22))):
            parts.append(part)
            remainder -= len(part)
    if remainder <= 0:
        raise NotPlain(f"a file has more than {most:,} bytes")
    return b"".join(parts)


def regular_below(folder: Path) -> Iterator[tuple[str, int]]:
    """Name, with slashes, and bytes of every file below a folder; a link at the folder itself is followed.

    Raises
    ------
    NotPlain
        Something below it is neither a folder nor a regular file.
    OSError
        It cannot be looked into.
    """
    waiting = [("", os.fspath(folder))]
    while waiting:
        above, place = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    waiting.append((f"{above}{entry.name}/", entry.path))
                elif stat.S_ISREG(status.st_mode):
                    yield above + entry.name, status.st_size
                else:
                    raise NotPlain("something in it is neither a folder nor a regular file")


def parse_json(content: bytes) -> Any:
    """Return what a JSON text says, if every reader understands it alike.

    Raises
    ------
    ValueError
        It is no JSON; NotPlain where it is nested too deeply, holds a number that no float holds or a name twice.
    """
    try:
        tree = json.loads(
            content, object_pairs_hook=_object, parse_int=_integer, parse_float=_finite, parse_constant=_finite
        )
    except RecursionError:
        raise NotPlain("a text is nested too deeply") from None
    level = [tree]
    for _ in range(_DEEPEST):
        if not level:
            return tree
        level = [item for each in level if isinstance(each, dict | list) for item in _items(each)]
    raise NotPlain("a text is nested too deeply")


def _items(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):  # one reader would take the first of two, another one the last
        raise NotPlain("a name stands twice")
    return table


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise NotPlain("a number has too many digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NotPlain("a number is not finite")
    return number
