"""The operating system's calls on files, answered by the simulated disk for every path below one folder.

The code under test calls ``os``, ``io.open`` and ``fcntl`` as always. Here these functions are replaced for the time
of a schedule: what is below :data:`MOUNT` goes to the disk of the world, and everything else to the machine.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.disk import Node
    from tests.simulation.world import Process, World

MOUNT = "/blockveil-simulation"
_FIRST_DESCRIPTOR = 1 << 24
_REAL = {
    name: getattr(os, name)
    for name in (
        "access", "chmod", "close", "fstat", "fsync", "link", "listdir", "lstat", "mkdir", "open", "remove", "rename",
        "replace", "rmdir", "scandir", "stat", "unlink",
    )
}  # fmt: skip
_REAL_OPEN, _REAL_FLOCK = io.open, fcntl.flock


def parts_of(path: Any) -> tuple[str, ...] | None:
    """Parts below the mounted folder, or None where a path is elsewhere."""
    if isinstance(path, int):
        return None
    return _parts(os.fspath(path))


@lru_cache(maxsize=8192)
def _parts(text: Any) -> tuple[str, ...] | None:
    if not isinstance(text, str) or not text.startswith(MOUNT):
        return None
    return tuple(part for part in text[len(MOUNT) :].split("/") if part and part != ".")


class Opened:
    """What a descriptor stands for."""

    __slots__ = ("append", "node", "owner", "place", "reads", "writes")

    def __init__(self, node: Node, owner: Process, reads: bool, writes: bool) -> None:
        self.node, self.owner, self.place, self.reads, self.writes, self.append = node, owner, 0, reads, writes, False


class VirtualFile(io.RawIOBase):
    """A file of the simulated disk, as ``open`` returns it without a buffer."""

    def __init__(self, calls: Calls, descriptor: int) -> None:
        super().__init__()
        self._calls, self._descriptor = calls, descriptor
        self._opened = calls.opened[descriptor]

    def readable(self) -> bool:
        return self._opened.reads

    def writable(self) -> bool:
        return self._opened.writes

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return False

    def tell(self) -> int:
        return self._opened.place

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._opened.place, len(self._opened.node.content))[whence]
        self._opened.place = max(0, base + offset)
        return self._opened.place

    def truncate(self, size: int | None = None) -> int:
        size = self._opened.place if size is None else size
        if self._calls.may_write(self._opened, "truncate"):
            content = self._opened.node.content
            del content[size:]
            content.extend(bytes(size - len(content)))
        return size

    def readinto(self, buffer: Any) -> int:
        opened = self._opened
        found = bytes(opened.node.content[opened.place : opened.place + len(buffer)])
        buffer[: len(found)] = found
        opened.place += len(found)
        return len(found)

    def readall(self) -> bytes:
        opened = self._opened
        found = bytes(opened.node.content[opened.place :])
        opened.place += len(found)
        return found

    def write(self, data: Any) -> int:
        return self._calls.write(self._opened, bytes(data))

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._calls.forget(self._descriptor)


class Calls:
    """The calls, on the disk of a world and in the name of whichever of its processes runs.

    Parameters
    ----------
    world
        Its disk, its processes, and what goes wrong next.
    """

    def __init__(self, world: World) -> None:
        self._world, self._next = world, _FIRST_DESCRIPTOR
        self.opened: dict[int, Opened] = {}

    # ---- descriptors -------------------------------------------------------------------------------------------

    def _descriptor(self, node: Node, reads: bool, writes: bool) -> int:
        self._next += 1
        self.opened[self._next] = Opened(node, self._world.current, reads, writes)
        return self._next

    def forget(self, descriptor: int) -> None:
        """End a descriptor, and the lock that it holds."""
        opened = self.opened.pop(descriptor, None)
        if opened is not None and opened.node.locked_by == descriptor:
            opened.node.locked_by = None

    def end(self, process: Process) -> None:
        """End all descriptors of a process, as the operating system does when it is gone."""
        for descriptor in [number for number, each in self.opened.items() if each.owner is process]:
            self.forget(descriptor)

    def may_write(self, opened: Opened, what: str) -> bool:
        """Whether a write has an effect; OSError where the disk is full. Nothing that a dead process holds has one."""
        if opened.owner.dead:
            return False
        self._world.step(what)
        self._world.disk.touch(opened.node)
        return True

    def write(self, opened: Opened, data: bytes) -> int:
        """Write where the descriptor stands; a full disk may take a part."""
        if opened.owner.dead:
            return len(data)
        self._world.step("write")
        node, full = opened.node, self._world.disk_refuses()
        taken = data[: int(len(data) * self._world.chance())] if full else data
        end = opened.place + len(taken)
        if len(node.content) < opened.place:
            node.content.extend(bytes(opened.place - len(node.content)))
        node.content[opened.place : end] = taken
        opened.place = end
        self._world.disk.touch(node)
        if full:
            raise OSError(errno.ENOSPC, "no space left")
        return len(data)

    # ---- what the product calls --------------------------------------------------------------------------------

    def open(self, path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        parts = parts_of(path)
        if parts is None:
            return _REAL["open"](path, flags, mode, **options)
        self._world.step("open", path)
        return self._open(parts, flags, mode)

    def _open(self, parts: tuple[str, ...], flags: int, mode: int) -> int:
        disk, writes = self._world.disk, bool(flags & (os.O_WRONLY | os.O_RDWR))
        try:
            node = disk.find(parts)
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise FileExistsError(errno.EEXIST, "it exists", parts[-1])
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            if self._world.disk_refuses():
                raise OSError(errno.ENOSPC, "no space left") from None
            node = disk.create(parts, mode & ~0o022)
        if writes and node.entries is not None:
            raise IsADirectoryError(errno.EISDIR, "a folder")
        if flags & os.O_TRUNC and writes:
            node.content.clear()
            disk.touch(node)
        return self._descriptor(node, not flags & os.O_WRONLY, writes)

    def open_file(
        self, file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *rest: Any, **named: Any
    ) -> Any:
        if isinstance(file, int) and file in self.opened:
            return self._wrapped(file, mode, buffering)
        parts = parts_of(file)
        if parts is None:
            return _REAL_OPEN(file, mode, buffering, encoding, *rest, **named)
        plus, kind = "+" in mode, mode.strip("bt+")
        flags = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT}[kind]
        flags |= os.O_RDWR if plus else (os.O_RDONLY if kind == "r" else os.O_WRONLY)
        self._world.step(f"open-{kind}", file)
        return self._wrapped(self._open(parts, flags, 0o666), mode, buffering)

    def _wrapped(self, descriptor: int, mode: str, buffering: int) -> Any:
        raw = VirtualFile(self, descriptor)
        if "a" in mode:
            raw.seek(0, 2)
        if buffering == 0:
            return raw
        if "+" in mode:
            buffered: Any = io.BufferedRandom(raw)
        else:
            buffered = io.BufferedWriter(raw) if raw.writable() and not raw.readable() else _buffered(raw, mode)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding="utf-8")

    def close(self, descriptor: int) -> None:
        if descriptor not in self.opened:
            if descriptor < _FIRST_DESCRIPTOR:
                _REAL["close"](descriptor)
            return
        self.forget(descriptor)

    def fsync(self, descriptor: int) -> None:
        opened = self.opened.get(descriptor)
        if opened is None:
            _REAL["fsync"](descriptor)
            return
        self._world.step("fsync")
        if self._world.sync_refuses():
            raise OSError(errno.EIO, "input/output error")
        opened.node.sync()

    def flock(self, descriptor: Any, operation: int) -> None:
        opened = self.opened.get(descriptor) if isinstance(descriptor, int) else None
        if opened is None:
            _REAL_FLOCK(descriptor, operation)
            return
        node = opened.node
        if operation & fcntl.LOCK_UN:
            if node.locked_by == descriptor:
                node.locked_by = None
            return
        self._world.step("flock")
        if node.locked_by not in (None, descriptor) and operation & fcntl.LOCK_NB:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked")
        self._world.wait(lambda: node.locked_by in (None, descriptor), "flock")
        node.locked_by = descriptor

    def fstat(self, descriptor: int) -> Any:
        opened = self.opened.get(descriptor)
        return _REAL["fstat"](descriptor) if opened is None else Stat(opened.node)

    def stat(self, path: Any, **options: Any) -> Any:
        parts = _parts(path) if type(path) is str else parts_of(path)
        if parts is None:
            if isinstance(path, int) and path in self.opened:
                return self.fstat(path)
            return _REAL["stat"](path, **options)
        self._world.alive()
        return Stat(self._world.disk.find(parts))

    def lstat(self, path: Any, **options: Any) -> Any:
        return _REAL["lstat"](path, **options) if parts_of(path) is None else self.stat(path)

    def access(self, path: Any, mode: int, **options: Any) -> bool:
        parts = parts_of(path)
        if parts is None:
            return bool(_REAL["access"](path, mode, **options))
        try:
            self._world.disk.find(parts)
        except OSError:
            return False
        return True

    def mkdir(self, path: Any, mode: int = 0o777, **options: Any) -> None:
        parts = parts_of(path)
        if parts is None:
            _REAL["mkdir"](path, mode, **options)
            return
        self._world.step("mkdir", path)
        if not parts:
            raise FileExistsError(errno.EEXIST, "it exists", MOUNT)
        if self._world.disk_refuses():
            raise OSError(errno.ENOSPC, "no space left")
        self._world.disk.create(parts, mode & ~0o022, folder=True)

    def chmod(self, path: Any, mode: int, **options: Any) -> None:
        parts = parts_of(path)
        if parts is None:
            _REAL["chmod"](path, mode, **options)
            return
        self._world.step("chmod", path)
        self._world.disk.find(parts).mode = mode

    def unlink(self, path: Any, **options: Any) -> None:
        parts = parts_of(path)
        if parts is None:
            _REAL["unlink"](path, **options)
            return
        self._world.step("unlink", path)
        self._world.disk.unlink(parts)
        self._world.removed(parts)

    def rmdir(self, path: Any, **options: Any) -> None:
        parts = parts_of(path)
        if parts is None:
            _REAL["rmdir"](path, **options)
            return
        self._world.step("rmdir", path)
        self._world.disk.unlink(parts, folder=True)
        self._world.removed(parts)

    def link(self, old: Any, new: Any, **options: Any) -> None:
        source, target = parts_of(old), parts_of(new)
        if source is None or target is None:
            _REAL["link"](old, new, **options)
            return
        self._world.step("link", new)
        if self._world.disk_refuses():
            raise OSError(errno.ENOSPC, "no space left")
        self._world.disk.link(source, target)
        self._world.ambush()

    def rename(self, old: Any, new: Any, **options: Any) -> None:
        source, target = parts_of(old), parts_of(new)
        if source is None or target is None:
            _REAL["rename"](old, new, **options)
            return
        self._world.step("rename", new)
        self._world.disk.rename(source, target)
        self._world.renamed(target)

    def listdir(self, path: Any = ".") -> list[str]:
        parts = parts_of(path)
        if parts is None:
            return list(_REAL["listdir"](path))
        self._world.alive()
        return list(self._world.disk.find(parts).folder)

    def scandir(self, path: Any = ".") -> Any:
        parts = parts_of(path)
        if parts is None:
            return _REAL["scandir"](path)
        self._world.step("scandir", path)
        return _Listing(os.fspath(path), self._world.disk.find(parts))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Answer the calls for the time of a block."""
        here: dict[str, Callable[..., Any]] = {name: getattr(self, name, self.rename) for name in _REAL}
        here["remove"] = self.unlink
        by_descriptor = getattr(shutil, "_use_fd_functions", None)
        try:
            for name, function in here.items():
                setattr(os, name, function)
            io.open = builtins.open = self.open_file  # type: ignore[assignment]
            fcntl.flock = self.flock  # type: ignore[assignment]
            if by_descriptor is not None:
                shutil._use_fd_functions = False  # type: ignore[attr-defined]
            yield
        finally:
            for name, function in _REAL.items():
                setattr(os, name, function)
            io.open = builtins.open = _REAL_OPEN
            fcntl.flock = _REAL_FLOCK
            if by_descriptor is not None:
                shutil._use_fd_functions = by_descriptor  # type: ignore[attr-defined]


def _buffered(raw: VirtualFile, mode: str) -> Any:
    return io.BufferedWriter(raw) if "w" in mode else io.BufferedReader(raw)


class Stat:
    """What ``stat`` returns, as far as the product looks at it; ``os.stat_result`` takes long to make."""

    __slots__ = (
        "st_atime_ns", "st_ctime_ns", "st_dev", "st_gid", "st_ino", "st_mode", "st_mtime_ns", "st_nlink", "st_size",
        "st_uid",
    )  # fmt: skip

    def __init__(self, node: Node) -> None:
        self.st_mode, self.st_ino, self.st_dev, self.st_nlink = node.kind, node.number, 1, max(node.links, 0)
        self.st_uid, self.st_gid, self.st_size = _USER, _GROUP, len(node.content)
        self.st_mtime_ns = self.st_atime_ns = node.mtime
        self.st_ctime_ns = node.ctime


_USER, _GROUP = os.geteuid(), os.getegid()


class _Listing:
    """What ``scandir`` returns."""

    def __init__(self, path: str, folder: Node) -> None:
        self._found = iter([_Entry(path, name, node) for name, node in folder.folder.items()])

    def __iter__(self) -> Iterator[Any]:
        return self._found

    def __next__(self) -> Any:
        return next(self._found)

    def __enter__(self) -> _Listing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held."""


class _Entry:
    """One name of a folder."""

    __slots__ = ("_node", "name", "path")

    def __init__(self, path: str, name: str, node: Node) -> None:
        self.name, self.path, self._node = name, f"{path}/{name}", node

    def __fspath__(self) -> str:
        return self.path

    def is_dir(self, **_: Any) -> bool:
        return self._node.entries is not None

    def is_file(self, **_: Any) -> bool:
        return self._node.entries is None

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False

    def inode(self) -> int:
        return self._node.number

    def stat(self, **_: Any) -> Any:
        return Stat(self._node)
