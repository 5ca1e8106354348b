"""Files at places that a person names: whole or not at all, over no ledger, and through no link of another account.

A file is written beside its place, brought to the disk and renamed, so that a reader sees what was there before or all
of the new one. It gets a mode of its own: what the file before it was open to does not count, unless it was open to
fewer accounts.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from blockveil.pipeline.base import durable, staging
from blockveil.pipeline.base.errors import ConfigError, LedgerError
from blockveil.pipeline.base.permissions import JOURNALS

_DATABASE = b"SQLite format 3"
_MOST_LINKS = 40
_ROOT = 0


@contextmanager
def writing(path: Path, what: str, *, private: bool = False) -> Iterator[BinaryIO]:
    """Write a file of a person's choice; it is there when all of it is.

    Parameters
    ----------
    path
        Its place; links of this account and of root are followed.
    what
        What it is, such as "the head".
    private
        Whether it is for this account alone, whatever the umask.

    Yields
    ------
    BinaryIO
        What it shall hold is written here.

    Raises
    ------
    ConfigError, LedgerError, StoreError
        As :func:`check`, or the file system refuses.
    """
    place = check(path)
    try:
        staging.sweep(place.parent)
        with durable.replacing(
            place, staging.scratch_path(place.parent, "file"), _mode(place, private=private)
        ) as file:
            yield file
    except OSError as error:
        failure = durable.store_error(error, f"{what} cannot be written", f'the folder of "{place.name}"')
    else:
        return
    raise failure


def write(path: Path, content: bytes, what: str, *, private: bool = False) -> None:
    """Write a file of a person's choice at once; parameters and errors as :func:`writing`."""
    with writing(path, what, private=private) as file:
        file.write(content)


def check(path: Path) -> Path:
    """Place of a file that may be written, with links followed.

    Raises
    ------
    ConfigError
        A link of another account is there, or something that is no file, such as a folder or a device.
    LedgerError
        A database is there, which may be a ledger or its backup, or the journal of one.
    StoreError
        Nobody may look.
    """
    try:
        place = _followed(path)
        there = _state(place)
        if there is not None and not stat.S_ISREG(there.st_mode):
            raise ConfigError(
                f'"{place.name}" is no file', "A file is written beside its place and put there", "Name a file"
            )
        if any(_is_database(each) for each in (place, *_of_journal(place))):
            raise LedgerError(
                f'"{place.name}" is a database or belongs to one',
                "A ledger and its backups are never written over",
                "Name another file",
            )
    except OSError as error:
        failure = durable.store_error(error, f'"{path.name}" cannot be written', "its folder")
    else:
        return place
    raise failure


def _followed(path: Path) -> Path:
    """The place to which links of this account and of root lead."""
    place = path
    for _ in range(_MOST_LINKS):
        there = _state(place)
        if there is None or not stat.S_ISLNK(there.st_mode):
            return place
        if there.st_uid not in (_ROOT, os.geteuid()):
            break
        place = place.parent / place.readlink()
    raise ConfigError(
        f'"{path.name}" is a link that leads in a circle, or one of another account',
        "A file is written through nobody else's link",
        "Name the file itself, or remove the link",
    )


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _of_journal(path: Path) -> list[Path]:
    """Database to which a file belongs by its name; none for most names."""
    return [path.with_name(path.name.removesuffix(each)) for each in JOURNALS if path.name.endswith(each)]


def _is_database(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE


def _mode(place: Path, *, private: bool) -> int:
    """Mode of the new file, before the umask: for no more accounts than the one that it replaces."""
    mode, there = 0o600 if private else 0o666, _state(place)
    if there is not None and there.st_uid == os.geteuid():
        mode &= stat.S_IMODE(there.st_mode) | stat.S_IRUSR | stat.S_IWUSR
    return mode
