"""Unfinished releases: folders that a lock of the operating system owns, removed once nobody holds it.

Name: ``.staging-<attempt>-<random>``, and beside it the same with ``.lock``. Each attempt has its own, because a retry
may run beside an attempt that only seems dead. The lock falls with the process that holds it, however that ends; names
of machines and numbers of processes say nothing, because containers use them again. The lock is a file of its own,
because network file systems lock no folders. An unfinished file, which replaces another one, is its own lock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import weakref
from pathlib import Path

_LOCK = ".lock"
_NAME = re.compile(r"\.staging-\w+-[0-9a-f]{12}")


class Held:
    """An unfinished folder and the lock that owns it.

    Attributes
    ----------
    path
        The folder, mode 0700.
    release
        Ends the ownership, as the end of the process and the last reference to this object do. The folder stays,
        under a new name if it has got one; under its own the next sweep removes it.
    """

    def __init__(self, parent: Path, attempt: str) -> None:
        self.path = scratch_path(parent, attempt)
        lock = self.path.with_name(self.path.name + _LOCK)
        self.release = weakref.finalize(self, _let_go, lock, claim(lock))
        try:
            self.path.mkdir(mode=0o700)
        except BaseException:
            self.release()
            raise

    def discard(self) -> None:
        """Remove the folder, and end the ownership."""
        remove(self.path)
        self.release()


def scratch_path(folder: Path, attempt: str) -> Path:
    """Return an unused name for an unfinished file or folder."""
    word = re.sub(r"\W", "_", attempt, flags=re.ASCII)[:64] or "_"
    return folder / f".staging-{word}-{secrets.token_hex(6)}"


def claim(path: Path, mode: int = 0o600) -> int:
    """Make a file and lock it; its descriptor, which holds the lock.

    Parameters
    ----------
    path
        The file.
    mode
        Its mode, less what the umask takes away. Whoever may read a file can hold its lock, and so keep others waiting
        for it; therefore a file that is a lock and no more is its owner's alone.

    Raises
    ------
    OSError
        The file cannot be made, or the file system has no locks.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # between the two steps it looked as if nobody held it, and was swept


def remove(path: Path) -> None:
    """Remove an unfinished file or folder; silent when it is gone or cannot be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def sweep(folder: Path) -> list[Path]:
    """Remove what dead attempts left in a folder; return what was removed.

    Raises
    ------
    OSError
        The file system has no locks, so that nobody knows which attempt lives.
    """
    names = {path.name.removesuffix(_LOCK) for path in folder.glob(".staging-*")}
    staged = [folder / name for name in sorted(names) if _NAME.fullmatch(name)]
    return [path for path in staged if _removed(path)]


def require_locks(folder: Path) -> None:
    """Check that a folder can be written and that its file system has locks.

    Raises
    ------
    OSError
        It cannot, or has none.
    """
    lock = scratch_path(folder, "locks")
    _let_go(lock, claim(lock))


def _removed(path: Path) -> bool:
    """Remove what nobody holds; whether it was removed."""
    lock = path.with_name(path.name + _LOCK)
    if not lock.exists() and path.is_file():
        lock = path
    try:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            if not path.exists():  # gone meanwhile
                return False
            # Another sweep took a lock that was not held yet, and the attempt makes it again just now. Whoever has the
            # lock knows.
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.ELOOP):
            raise
        return False  # another user's: this one could not remove it either; or a link, which no attempt makes
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_still(descriptor, lock):
            return False
        was = _gone(path)
        remove(lock)
        return was
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def _gone(path: Path) -> bool:
    there = path.exists()
    remove(path)
    return there and not path.exists()


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _let_go(lock: Path, descriptor: int) -> None:
    remove(lock)
    os.close(descriptor)
