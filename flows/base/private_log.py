"""Details of failed computations, for whoever operates this machine.

What a person, Prefect or a log sees of an unexpected error is its kind and a random number. Here, under that number,
the kinds and the lines of code are kept, without messages and values, because both could quote a record. The files are
in the folder ``blockveil-errors`` of the Prefect home (``~/.prefect`` unless ``PREFECT_HOME`` says otherwise).
"""

from __future__ import annotations

import contextlib
import os
import traceback
from pathlib import Path

_KEPT = 200


def folder() -> Path:
    """Folder of the files."""
    return Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect") / "blockveil-errors"


def keep(error: BaseException, error_id: str) -> None:
    """Write the kinds and code lines of an error and its causes to a file of this user's alone; never fails."""
    parts: list[str] = []
    identities: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in identities:
        identities.add(id(link))
        parts += [
            f"{type(link).__module__}.{type(link).__qualname__}\n",
            *traceback.format_tb(link.__traceback__),
            "\n",
        ]
        link = link.__cause__ or link.__context__
    with contextlib.suppress(OSError, RuntimeError):  # no room, or an account without a home
        place = folder()
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.mkdir(exist_ok=True, mode=0o700)
        target = place / f"{error_id}.txt"
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(parts)
        for old in sorted(place.glob("*.txt"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink()
