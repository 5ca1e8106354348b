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
        It cannot be made, or somebody else prepared its place.
    """
    held = _make(Path(tempfile.gettempdir()) / f"blockveil-{os.getuid()}")
    try:
        yield held.path
    finally:
        held.discard()


def sweep() -> None:
    """Remove what dead runs left where that can be done, for a run that spills nothing itself."""
    with suppress(StoreError), private_folder():
        pass


def _make(home: Path) -> staging.Held:
    problem = "it is not a folder of this user"
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        found = home.lstat()
        # A folder or a link that somebody else put there could show them un-noised values.
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
            home.chmod(0o700)
            staging.sweep(home)
            return staging.Held(home, "scratch")
    except FileExistsError:
        pass
    except OSError as error:
        problem = os.strerror(error.errno or 0)
    raise StoreError(
        f'"{home}" cannot hold what workers spill: {problem}',
        "Un-noised values may be spilled only where nobody else can read",
        "Remove it, or set TMPDIR to a private folder with free space",
    )


@contextmanager
def private_files() -> Iterator[None]:
    """Make new files of this process, and of processes that it starts, their user's alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
