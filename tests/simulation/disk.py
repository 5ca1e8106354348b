"""A disk in memory that forgets: a power loss may lose, tear or reorder what ``fsync`` has not brought to it.

The model is what POSIX promises and no more. Bytes of a file are safe once the file was synced; a name in a folder is
safe once the folder was synced, whatever happened to the file. Of the changes of names that were not synced, any subset
may have reached the disk, so that renames overtake one another; a single rename is done or not. Bytes that were not
synced may be there, be missing, or be there in part.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator
from typing import Any

Change = tuple[str, str, "Node | None", str]
"""Kind of a change of names ("link", "unlink" or "rename"), the name, the node, and the name before a rename."""


_FOLDER, _FILE = stat.S_IFDIR, stat.S_IFREG


class Node:
    """A file or a folder.

    Attributes
    ----------
    number
        Its inode.
    entries
        Names in a folder; None for a file.
    content
        Bytes of a file as every process sees them.
    locked_by
        Descriptor that holds its lock.
    """

    __slots__ = ("changes", "content", "ctime", "entries", "links", "locked_by", "mode", "mtime", "number", "safe")

    def __init__(self, number: int, mode: int, folder: bool, now: int) -> None:
        self.number, self.mode, self.mtime, self.ctime = number, mode, now, now
        self.entries: dict[str, Node] | None = {} if folder else None
        self.content = bytearray()
        self.safe: Any = {} if folder else None
        self.changes: list[Change] = []
        self.links, self.locked_by = 0, None

    @property
    def folder(self) -> dict[str, Node]:
        """Names in it; NotADirectoryError for a file."""
        if self.entries is None:
            raise NotADirectoryError(errno.ENOTDIR, "not a folder")
        return self.entries

    @property
    def kind(self) -> int:
        """Type and mode as ``stat`` gives them."""
        return (_FOLDER if self.entries is not None else _FILE) | self.mode

    def sync(self) -> None:
        """Bring it to the disk: bytes of a file, names of a folder; never what a name stands for."""
        if self.entries is None:
            self.safe = bytes(self.content)
        else:
            self.safe, self.changes = dict(self.entries), []


class Disk:
    """A tree of nodes below one folder.

    Parameters
    ----------
    chance
        Returns a number in [0, 1); decides what a power loss leaves.
    """

    def __init__(self, chance: Any) -> None:
        self._chance, self._numbers, self.now = chance, 1, 0
        self.root = self._new(0o755, True)
        self.root.links = 1

    def _new(self, mode: int, folder: bool) -> Node:
        self._numbers += 1
        return Node(self._numbers, mode, folder, self.now)

    def find(self, parts: tuple[str, ...]) -> Node:
        """Node of a path; FileNotFoundError where there is none."""
        node = self.root
        for part in parts:
            entries = node.entries
            found = (node.folder if entries is None else entries).get(part)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, "nothing there", "/".join(parts))
            node = found
        return node

    def has(self, parts: tuple[str, ...]) -> bool:
        """Whether there is something at a path."""
        try:
            self.find(parts)
        except FileNotFoundError:
            return False
        return True

    def parent(self, parts: tuple[str, ...]) -> Node:
        """Folder that a path lies in."""
        return self.find(parts[:-1])

    def create(self, parts: tuple[str, ...], mode: int, folder: bool = False) -> Node:
        """Make a node; FileExistsError where there is one."""
        place, name = self.parent(parts), parts[-1]
        if name in place.folder:
            raise FileExistsError(errno.EEXIST, "it exists", name)
        node = self._new(mode, folder)
        self._enter(place, name, node)
        return node

    def _enter(self, place: Node, name: str, node: Node) -> None:
        place.folder[name] = node
        node.links += 1
        place.changes.append(("link", name, node, ""))
        self.touch(place)

    def touch(self, node: Node) -> None:
        """Note that it was changed now."""
        node.mtime = node.ctime = self.now

    def link(self, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Give a file a second name."""
        node, place = self.find(old), self.parent(new)
        if new[-1] in place.folder:
            raise FileExistsError(errno.EEXIST, "it exists", new[-1])
        node.ctime = self.now
        self._enter(place, new[-1], node)

    def unlink(self, parts: tuple[str, ...], folder: bool = False) -> None:
        """Take a name away."""
        node, place = self.find(parts), self.parent(parts)
        if folder != (node.entries is not None):
            raise (
                IsADirectoryError(errno.EISDIR, "a folder")
                if node.entries is not None
                else NotADirectoryError(errno.ENOTDIR, "a file")
            )
        if node.entries:
            raise OSError(errno.ENOTEMPTY, "not empty")
        del place.folder[parts[-1]]
        node.links -= 1
        place.changes.append(("unlink", parts[-1], None, ""))
        self.touch(place)

    def rename(self, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Move a node to a name, in place of a file or an empty folder that has it."""
        node, source, target = self.find(old), self.parent(old), self.parent(new)
        there = target.folder.get(new[-1])
        if there is node:
            return
        if there is not None:
            if there.entries:
                raise OSError(errno.ENOTEMPTY, "not empty")
            if (there.entries is None) != (node.entries is None):
                raise OSError(errno.EISDIR if node.entries is None else errno.ENOTDIR, "of another kind")
            there.links -= 1
        del source.folder[old[-1]]
        target.folder[new[-1]] = node
        if source is target:
            source.changes.append(("rename", new[-1], node, old[-1]))
        else:
            source.changes.append(("unlink", old[-1], None, ""))
            target.changes.append(("link", new[-1], node, ""))
        node.ctime = self.now
        self.touch(source)
        self.touch(target)

    def lose_power(self) -> None:
        """Leave what has reached the disk: all that was synced, and any part of the rest."""
        seen: set[int] = set()
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if node.number in seen:
                continue
            seen.add(node.number)
            node.locked_by, node.links = None, 0
            if node.entries is None:
                self._tear(node)
            else:
                self._forget_names(node)
                waiting += node.entries.values()
        for _, node in self.walk():
            node.links += 1

    def _forget_names(self, folder: Node) -> None:
        left = dict(folder.safe)
        # Some losses take all that was not synced, and some nothing: both ends matter more than the middle.
        share = (0.0, 0.5, 0.5, 1.0)[int(4 * self._chance())]
        for kind, name, node, before in folder.changes:
            if self._chance() >= share:
                continue
            if kind == "unlink":
                left.pop(name, None)
                continue
            if kind == "rename":
                left.pop(before, None)
            if node is not None:
                left[name] = node
        folder.entries = left
        folder.sync()

    def _tear(self, file: Node) -> None:
        old, new = file.safe or b"", bytes(file.content)
        if file.safe is not None and old == new:
            return
        outcome = int(3 * self._chance())
        if outcome == 0:
            found = old
        elif outcome == 1:
            found = new
        else:
            cut = int(self._chance() * (len(new) + 1))
            rest = old[cut:] if len(old) >= len(new) else bytes(len(new) - cut)
            found = new[:cut] + rest
        file.content = bytearray(found)
        file.mtime = file.ctime = self.now
        file.sync()

    def put_back(self, name: str, node: Node | None) -> None:
        """Put a copy of a folder in place of what is there; all of it is safe."""
        for entries in (self.root.folder, self.root.safe):
            entries.pop(name, None)
            if node is not None:
                entries[name] = node
        self.root.changes = [change for change in self.root.changes if name not in (change[1], change[3])]
        if node is not None:
            for _, each in self.walk((name,)):
                each.sync()
            node.sync()

    def walk(self, start: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
        """Path and node of everything below a folder."""
        waiting = [(start, self.find(start))]
        while waiting:
            path, node = waiting.pop()
            for name, inner in (node.entries or {}).items():
                yield (*path, name), inner
                waiting.append(((*path, name), inner))
