"""Where workers may spill un-noised values: a folder of this user's alone, gone after the run.

A run holds a lock on its folder. The number of a process would not do as a sign of life: numbers are used again, in
containers soon.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline import staging
from pipeline.errors import StoreError


@contextmanager
def private_folder() -> Iterator[Path]:
    """Folder (mode 0700) of one run, removed at its end; what dead runs left is removed first.

    Raises
    ------
    StoreError
        It cannot be made, or somebody else prepared its place.
    """
    scratch, held = _make(Path(tempfile.gettempdir()) / f"blockveil-{os.getuid()}")
    try:
        yield scratch
    finally:
        staging.remove(scratch)
        os.close(held)


def sweep() -> None:
    """Remove what dead runs left where that can be done, for a run that spills nothing itself."""
    with suppress(StoreError), private_folder():
        pass


def _make(home: Path) -> tuple[Path, int]:
    problem = "it is not a folder of this user"
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        found = home.lstat()
        # A folder or a link that somebody else put there could show them un-noised values.
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
            home.chmod(0o700)
            return _make_inside(home)
    except FileExistsError:
        pass
    except OSError as error:
        problem = os.strerror(error.errno or 0)
    raise StoreError(
        f'"{home}" cannot hold what workers spill: {problem}',
        "Un-noised values may be spilled only where nobody else can read",
        "Remove it, or set TMPDIR to a private folder with free space",
    )


def _make_inside(home: Path) -> tuple[Path, int]:
    """Remove what nobody holds, then make a folder; also its open descriptor, which holds it."""
    turn = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)  # nobody removes a folder between its making and its lock
        for left in home.glob(".staging-*"):
            if _nobody_holds(left):
                staging.remove(left)
        scratch = staging.scratch_path(home, "scratch")
        scratch.mkdir(mode=0o700)
        held = os.open(scratch, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        return scratch, held
    finally:
        os.close(turn)


def _nobody_holds(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # gone with its run
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextmanager
def private_files() -> Iterator[None]:
    """Make new files of this process, and of processes that it starts, their user's alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
