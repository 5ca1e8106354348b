"""Unfinished releases: folders named after the attempt that writes them, removed once that attempt is dead.

Name: ``.staging-<attempt>-<host>-<process>-<random>``. Each attempt has its own, because a retry may run beside an
attempt that only seems dead. An attempt counts as dead when its process no longer exists on the same host.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import socket
from pathlib import Path

_PATTERN = re.compile(r"\.staging-(\w+)-(\w+)-(\d+)-[0-9a-f]+")


def scratch_path(folder: Path, attempt: str) -> Path:
    """Return an unused name for an unfinished file or folder."""
    return folder / f".staging-{_word(attempt)}-{_host()}-{os.getpid()}-{secrets.token_hex(6)}"


def remove(path: Path) -> None:
    """Remove an unfinished file or folder; silent when it is gone or cannot be removed."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def sweep(folder: Path, attempt: str | None = None) -> list[Path]:
    """Remove what dead attempts left in a folder, and what ``attempt`` itself left; return what was removed."""
    own = None if attempt is None else _word(attempt)
    removed = []
    for path in sorted(folder.glob(".staging-*")):
        parts = _PATTERN.fullmatch(path.name)
        if parts and (parts[1] == own or (parts[2] == _host() and not _alive(int(parts[3])))):
            remove(path)
            removed.append(path)
    return removed


def _word(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII)[:64] or "_"


def _host() -> str:
    return _word(socket.gethostname())


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
