"""Paths that people write: made absolute, refused in words where no file system could hold them, or looked into."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError, StoreError

_LONGEST_NAME = 255
_LONGEST_PATH = 4095
_IMPOSSIBLE = {errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}


def absolute(path: str | os.PathLike[str], key: str) -> Path:
    """Return the absolute path without symbolic links; nothing needs to be there.

    Raises
    ------
    ConfigError
        Symbolic links lead in a circle, or a name or the whole is too long for a file system.
    """
    problem = _problem(Path(path))
    if problem is None:
        return Path(os.path.realpath(path))
    raise ConfigError(
        f"{key}: {problem}",
        f"A name has at most {_LONGEST_NAME} bytes, a path {_LONGEST_PATH}, and links lead to a file or folder",
        "Correct the path",
    )


_LOOK = "Give this account permission to read it, and all that is in it"


def looked_into(folder: Path, why: str, remedy: str = _LOOK) -> list[Path]:
    """What a folder holds, sorted; nothing where it is no folder, or is no longer there.

    The library's own search leaves out what an account may not look into, as if nothing were there.

    Parameters
    ----------
    folder
        An absolute path.
    why
        Why all of it must be seen, as the rule of the error.
    remedy
        What helps.

    Raises
    ------
    StoreError
        This account may not look into it, or the file system fails.
    """
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        failure = durable.unreadable(error, StoreError(f'"{folder}" cannot be looked into ({reason})', why, remedy))
    raise failure


def _problem(path: Path) -> str | None:
    try:
        texts = [os.fsencode(part) for part in (str(path), *path.parts)]
    except UnicodeEncodeError:
        return "the path holds what is not text"
    if any(b"\0" in part for part in texts):
        return "the path holds a zero byte"
    if len(texts[0]) > _LONGEST_PATH or any(len(name) > _LONGEST_NAME for name in texts[1:]):
        return "the path is too long"
    try:
        path.stat()
    except OSError as error:
        if error.errno in _IMPOSSIBLE:
            return f"the path cannot be followed ({os.strerror(error.errno)})"
    return None
