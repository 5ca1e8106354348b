"""Where workers may spill un-noised values: a folder of this user's alone, gone after the run.

A run holds the lock of its folder; see :mod:`.staging`.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from blockveil.pipeline.base import staging
from blockveil.pipeline.base.errors import StoreError


@contextmanager
def private_folder() -> Iterator[Path]:
    """Folder (mode 0700) of one run, removed at its end; what dead runs left is removed first.

    Raises
    ------
    StoreError
        It cannot be made.
    """
    folder = _make()
    try:
        yield folder.path
    finally:
        folder.discard()


def sweep() -> None:
    """Remove what dead runs left where that can be done, for a run that spills nothing itself."""
    with suppress(OSError):
        for home in _homes():
            staging.sweep(home)


def _make() -> staging.Held:
    try:
        homes = _homes()
        for home in homes:
            home.chmod(0o700)
            staging.sweep(home)
        # Others may take any name that they can foresee, but none that is drawn.
        home = homes[0] if homes else Path(tempfile.mkdtemp(prefix=f"{_usual().name}-"))
        return staging.Held(home, "scratch")
    except OSError as error:
        problem = os.strerror(error.errno or 0)
    raise StoreError(
        f'"{tempfile.gettempdir()}" cannot hold what workers spill: {problem}',
        "Un-noised values may be spilled only where nobody else can read",
        "Set TMPDIR to a folder with free space that this account may write to",
    )


def _usual() -> Path:
    return Path(tempfile.gettempdir()) / f"blockveil-{os.getuid()}"


def _homes() -> list[Path]:
    """Folders of this user's alone that hold those of runs: that of the usual name, and those that were drawn."""
    usual = _usual()
    with suppress(FileExistsError):
        usual.mkdir(mode=0o700)
    return [home for home in (usual, *sorted(usual.parent.glob(f"{usual.name}-*"))) if _is_own(home)]


def _is_own(home: Path) -> bool:
    """Whether it is a folder of this user: one or a link that somebody else put there could show them raw values."""
    try:
        status = home.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


@contextmanager
def private_files() -> Iterator[None]:
    """Make new files of this process, and of processes that it starts, their user's alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
