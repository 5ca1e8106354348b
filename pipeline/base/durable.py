"""Files that survive a power loss, and file-system errors in words."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from blockveil.pipeline.base import staging
from blockveil.pipeline.base.errors import BlockveilError, DiskFull, StoreError, StoreUnreachable

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_TRANSIENT = {
    errno.EIO, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.ETIMEDOUT, errno.ENOTCONN,
    errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN,
    errno.ENETUNREACH, errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS,
}  # fmt: skip
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


_WRITES = "Blockveil must be able to write to {}"
_REFUSED = (
    (
        _FULL,
        "the disk or quota is full",
        "What is made is written whole or not at all",
        "Free some space under {} and run again",
    ),
    ({errno.EROFS}, "the file system is read-only", _WRITES, "Mount it for writing, or name another place"),
    ({errno.EACCES, errno.EPERM}, "no permission", _WRITES, "Give the user that runs Blockveil write permission there"),
    (
        {errno.ENOTDIR, errno.EEXIST, errno.EISDIR},
        "a file is where a folder is needed",
        "{} is in a folder",
        "Move the file away, or correct {}",
    ),
    ({errno.ENOENT}, "a folder is missing", "{} must be there", "Make the folder, or correct its path"),
    (
        {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS},
        "the file system has no locks",
        "A lock shows which attempt still works on an unfinished release",
        "Put {} on another file system, or mount this one with locks",
    ),
)
"""Error numbers, what they say of a folder, the rule, and the remedy; {} stands for the key that names the folder."""


def sync(path: str | Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Bring all files and folders below a folder, and the folder itself, to the disk."""
    for folder, _, files in os.walk(root, topdown=False):
        for name in files:
            sync(os.path.join(folder, name))
        sync(folder)


def sync_names(folder: Path) -> None:
    """Bring the name of a folder to the disk, and the names of those above it, which may have been made with it.

    It ends where a file system begins, or above what this account may read: nothing of a release made those.
    """
    for parent in folder.absolute().parents:
        try:
            sync(parent)
        except PermissionError:
            return
        if os.path.ismount(parent):
            return


@contextlib.contextmanager
def replacing(target: Path, scratch: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give a file new content: a reader sees the old or the new, never a part, also after a power loss.

    Parameters
    ----------
    target
        File to replace or create.
    scratch
        Name for the unfinished file, in the same folder.
    mode
        Mode of the new file, less what the umask takes away.

    Yields
    ------
    BinaryIO
        All of the new content is written here.
    """
    with _unfinished(scratch, mode) as file:
        yield file
        file.flush()
        sync(scratch)
        scratch.replace(target)
    sync(target.parent)


def replace_file(target: Path, content: bytes, scratch: Path) -> None:
    """Give a file new content at once, ``content``; the rest as for :func:`replacing`."""
    with replacing(target, scratch) as file:
        file.write(content)


def write_new(target: Path, content: bytes, what: str, rule: str) -> None:
    """Write a file that does not exist yet: whole or not at all, also after a power loss.

    Parameters
    ----------
    target
        Its path.
    content
        All of it.
    what
        What it is, such as "the matrix".
    rule
        Why an existing one is not overwritten.

    Raises
    ------
    StoreError
        The file exists or cannot be written.
    """
    scratch = staging.scratch_path(target.parent, "new")
    try:
        with _unfinished(scratch, 0o666) as file:
            file.write(content)
            file.flush()
            sync(scratch)
            _name(scratch, target)
        sync(target.parent)
    except FileExistsError:
        failure = StoreError(f'"{target.name}" exists', rule, "Choose another name")
    except OSError as error:
        failure = store_error(error, f"{what} cannot be written", f'the folder of "{target.name}"')
    else:
        return
    raise failure


@contextlib.contextmanager
def _unfinished(scratch: Path, mode: int) -> Iterator[BinaryIO]:
    """A file that no sweep takes meanwhile, and that is gone if anything is raised."""
    with os.fdopen(staging.claim(scratch, mode), "wb") as file:
        try:
            file.truncate(0)
            yield file
        except BaseException:
            with contextlib.suppress(OSError):
                scratch.unlink()
            raise


def _name(scratch: Path, target: Path) -> None:
    """Give a finished file its name, where nothing has it; FileExistsError otherwise."""
    try:
        target.hardlink_to(scratch)
        scratch.unlink()
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(target):
            raise FileExistsError from None
        scratch.replace(target)


def kind_of(error: OSError) -> type[StoreError]:
    """Class of the error that stands for a file-system failure: it says whether the failure may pass."""
    if error.errno in _FULL:
        return DiskFull
    return StoreUnreachable if error.errno in _TRANSIENT else StoreError


def unreadable(error: OSError | ValueError, failure: BlockveilError) -> BlockveilError:
    """Error for a file that cannot be read: ``failure``, or one of a disk or share that may be there again."""
    kind = kind_of(error) if isinstance(error, OSError) else StoreError
    return kind(failure.value, failure.rule, "Repair the disk or share, and run again") if kind.passes else failure


def store_error(error: OSError, doing: str, place: str = "output.root") -> StoreError:
    """Error for a file-system failure.

    Parameters
    ----------
    error
        The error of the operating system.
    doing
        What was attempted, such as "the release cannot be written".
    place
        Key of the config that names the folder.
    """
    for numbers, problem, rule, remedy in _REFUSED:
        if error.errno in numbers:
            return kind_of(error)(f"{doing}: {problem}", rule.format(place), remedy.format(place))
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    rule = f"{place} must be on a working file system"
    return kind_of(error)(f"{doing}: {reason}", rule, "Repair it and run again")
