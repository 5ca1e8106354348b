"""The state of a database that lies in a file, and what is beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from blockveil.pipeline.base.durable import kind_of
from blockveil.pipeline.base.errors import DataError, StoreError, guard


def state_of(file: Path, beside: str) -> str:
    """What changes with the content of a database: size and time of its file, and of its log of changes.

    Raises StoreError where there is no such file, or it is a folder, or may not be looked at.
    """
    status = guard(
        file.stat,
        lambda error: kind_of(error)(
            f'source.file "{file.name}" cannot be read ({os.strerror(error.errno or 0)})',
            "It names a file of the database",
            "Correct it, or its permissions; a relative path starts from the config's folder",
        ),
        OSError,
    )
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f'source.file "{file.name}" is not a file', "It names a file", "Correct it")
    return f"{status.st_size} {status.st_mtime_ns} {_log(file.with_name(file.name + beside))}"


def _log(file: Path) -> str:
    try:
        status = file.stat()
    except OSError:
        return "-"
    return f"{status.st_size} {status.st_mtime_ns}" if status.st_size else "-"


def not_stored(shown: str) -> DataError:
    """Error for what is read like a table and is none."""
    return DataError(
        f"{shown} is not a table that the database itself stores",
        "A view, a foreign or a virtual table may put rows of several persons into one",
        "Read the table that it is made from, or store its rows in a table",
    )


def changed(file: Path) -> DataError:
    """Error for a database that is not of one state."""
    return DataError(
        f'Database "{file.name}" changed while it was read',
        "An ingest is of one state of its source",
        "Run again when nothing writes to the source",
    )
