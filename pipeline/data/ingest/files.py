"""The files of a source, in the order in which they are read, each with an identity that changes with its content.

Files are read as listed in the config; a folder or a pattern stands for its files by name. Where each row is a unit,
this is the order of the store, so it does not depend on the machine.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import unquote

from blockveil.pipeline.base.durable import kind_of
from blockveil.pipeline.base.errors import ConfigError, DataError, StoreError, guard
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.stores import is_of_objects

_PATTERN = frozenset("*?[")
_LOG = re.compile(r"(^|/)(_delta_log/|metadata/[^/]+\.metadata\.json$)")
"""What a table in an object store has beside its files."""
_OTHER_COMPRESSIONS = (".7z", ".br", ".lz4", ".lzo", ".rar", ".snappy", ".xz", ".z", ".zip")
_HIVE_MISSING = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class SourceFile:
    """One file.

    Attributes
    ----------
    location
        Absolute path or address.
    size
        Bytes.
    identity
        Changes with the content: size and modification time, or the entity tag of an object.
    keys
        Values that stand in the names of its folders (``column=value``); None for a missing one.
    """

    location: str
    size: int
    identity: str
    keys: tuple[tuple[str, str | None], ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """Last part of the location; folders may be named after people."""
        return self.location.rstrip("/").rpartition("/")[2]

    @property
    def remote(self) -> bool:
        """Whether it is an object."""
        return objects.is_remote(self.location)

    def open(self) -> BinaryIO:
        """Open for reading, seekable."""
        if not self.remote:
            return open(self.location, "rb")
        bucket, path = objects.split(self.location)
        blob = objects.Found(path, self.size, self.identity)
        return cast(BinaryIO, objects.opened(objects.client(bucket), blob))

    def content_digest(self) -> str:
        """SHA-256 of the content; StoreError where it cannot be read."""

        def digest() -> str:
            with self.open() as stream:
                return hashlib.file_digest(cast(io.BufferedReader, stream), "sha256").hexdigest()

        return guard(digest, lambda error: unreadable(f'File "{self.name}"', error))

    def check_unchanged(self) -> None:
        """Refuse a file that changed since it was listed; DataError where it changed or is gone."""
        try:
            same = file_at(self.location).identity == self.identity
        except (OSError, StoreError):
            same = False
        if not same:
            raise DataError(
                f'File "{self.name}" changed while it was read',
                "An ingest is of one state of its source",
                "Run again when nothing writes to the source",
            )


def find(locations: tuple[str, ...], base: Path, suffixes: tuple[str, ...], *, needed: bool = True) -> list[SourceFile]:
    """Files of a source in reading order.

    Parameters
    ----------
    locations
        Paths, patterns or folders, local (relative to ``base``) or in an object store.
    base
        Folder that relative paths start from.
    suffixes
        What file names in a folder end with, in lower or upper case; other files there are not read.
    needed
        Whether each location must name a file.

    Raises
    ------
    ConfigError
        A folder or pattern is of a table whose log says which of its files count.
    StoreError
        A file or folder is not there, cannot be read, or holds no file of the format.
    """
    return [file for location in locations for file in _at(location, base, suffixes, needed)]


def _at(location: str, base: Path, suffixes: tuple[str, ...], needed: bool) -> list[SourceFile]:
    label = f'source.files "{location}"'

    def listed() -> list[SourceFile]:
        return list(_remote(location, suffixes) if objects.is_remote(location) else _local(location, base, suffixes))

    files = guard(listed, lambda error: unreadable(label, error))
    if needed and not files:
        raise StoreError(
            f"{label}: there is no such file",
            f"It names a file, a pattern or a folder with files that end with {' or '.join(suffixes)}",
            "Correct it; a relative path starts from the config's folder",
        )
    return files


def require_each_once(locations: Iterable[str]) -> None:
    """Refuse a file or folder that is named twice, by overlapping patterns or links too; DataError.

    Its records would be stored twice, and where each row is a unit, one record would be two.
    """
    places = set[object]()
    for location in locations:
        place: object = location
        if not objects.is_remote(location):
            with suppress(OSError):  # it is gone, and whoever reads it says so
                state = os.stat(location)
                place = state.st_dev, state.st_ino
        if place in places:
            raise DataError(
                f'"{location.rstrip("/").rpartition("/")[2]}" is named twice in the source',
                "Each record is stored once: a unit would have more rows than are protected together",
                "Name each file once, by paths, folders and patterns that do not overlap",
            )
        places.add(place)


def unreadable(shown: str, error: BaseException) -> StoreError:
    """Error of which only the kind is shown."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, FileNotFoundError):
        problem = f"{shown} cannot be read ({os.strerror(error.errno)})"
        return kind_of(error)(problem, "The source must be readable", "Check permissions")
    if is_of_objects(error) or isinstance(error, FileNotFoundError | ConnectionError | TimeoutError):
        return objects.unreachable(shown, error)
    return StoreError(
        f"{shown} cannot be read ({type(error).__name__})",
        "The source must be readable",
        "Look at the memory of this machine and its packages, and run again",
    )


def not_utf8(name: str) -> DataError:
    """Error of a text file in another encoding."""
    return DataError(
        f'File "{name}" is not UTF-8 text',
        "A CSV file is UTF-8 text, with or without a byte order mark",
        'Save it as UTF-8 (in Excel, "CSV UTF-8"), or convert it, such as by iconv',
    )


def _local(location: str, base: Path, suffixes: tuple[str, ...]) -> Iterator[SourceFile]:
    path = base / location
    if path.is_file():
        yield file_at(str(path.resolve()))
    elif path.is_dir():
        root = str(path.resolve())
        below: list[str] = []
        for folder, folders, names in os.walk(root, onerror=_raise):
            folders[:] = [name for name in folders if not name.startswith((".", "_"))]
            _require_all_read(location, names, suffixes)
            if any(os.path.islink(os.path.join(folder, name)) for name in folders):
                raise _passed_over(location, "a link to a folder", "Name the folder that it stands for")
            below += [os.path.join(folder, name) for name in names if _wanted(name, suffixes)]
        _require_no_table(location, below)
        for name in sorted(below, key=lambda name: name.split("/")):
            yield file_at(name, root)
    elif _PATTERN & set(location):
        like = [os.path.abspath(name) for name in glob.glob(str(path), recursive=True)]
        _require_no_table(location, like)
        for name in sorted(like, key=lambda name: name.split("/")):
            if os.path.isfile(name):
                yield file_at(os.path.abspath(name), str(base))


def _require_no_table(location: str, names: Iterable[str]) -> None:
    """Refuse files that lie in the folder of a table, whose log alone says which of them count."""
    for folder in {parent for name in names for parent in Path(name).parents}:
        if (folder / "_delta_log").is_dir() or next(folder.glob("metadata/*.metadata.json"), None) is not None:
            raise _of_a_table(location)


def _of_a_table(location: str) -> ConfigError:
    # Rows that were replaced would be read beside the new ones: a unit would have more than it is charged for.
    return ConfigError(
        f'source.files "{location}" names files of a Delta or Iceberg table',
        "Its folder keeps rows that were deleted or replaced, and its log alone says which of them count",
        'Read it with source.kind = "delta" or "iceberg", as docs/ingest.md says',
    )


def _raise(error: OSError) -> None:
    raise error


def _remote(address: str, suffixes: tuple[str, ...]) -> Iterator[SourceFile]:
    bucket, path = objects.split(address)
    place = objects.client(bucket)
    if _PATTERN & set(path):
        prefix = path[: min(path.index(mark) for mark in _PATTERN & set(path))].rpartition("/")[0]
        blobs = list(objects.listed(place, prefix))
        if any(_LOG.search(e.path) for e in blobs):
            raise _of_a_table(address)
        entries = [e for e in blobs if _matches(e.path, path)]
    elif (one := objects.looked_up(place, path)) is not None:
        entries = [one]
    else:
        blobs = list(objects.listed(place, path))
        if any(_LOG.search(e.path) for e in blobs):
            raise _of_a_table(address)
        _require_all_read(address, (e.path.rpartition("/")[2] for e in blobs), suffixes)
        entries = [e for e in blobs if _wanted(e.path.rpartition("/")[2], suffixes)]
    for entry in sorted(entries, key=lambda entry: entry.path.split("/")):
        yield SourceFile(f"{bucket}/{entry.path}", entry.size, entry.identity, _keys(entry.path))


def _matches(path: str, pattern: str) -> bool:
    """Whether a path matches as in a shell: a star stays within one folder, two stars go through folders."""
    parts, pattern_parts = path.split("/"), pattern.split("/")

    def match(i: int, j: int) -> bool:
        if j == len(pattern_parts):
            return i == len(parts)
        if pattern_parts[j] == "**":
            return any(match(k, j + 1) for k in range(i, len(parts) + 1))
        return i < len(parts) and fnmatch.fnmatchcase(parts[i], pattern_parts[j]) and match(i + 1, j + 1)

    return match(0, 0)


def _require_all_read(location: str, names: Iterable[str], suffixes: tuple[str, ...]) -> None:
    """Refuse files of the format that nobody could read: their rows would be missing without a word."""
    packed = tuple(f"{suffix}{ending}" for suffix in suffixes for ending in _OTHER_COMPRESSIONS)
    if any(_wanted(name, packed) for name in names):
        raise _passed_over(location, "a file in a compression that is not read", "Decompress it, or take it away")


def _passed_over(location: str, what: str, remedy: str) -> ConfigError:
    return ConfigError(f'source.files "{location}" holds {what}', "A folder stands for all of its files", remedy)


def _wanted(name: str, suffixes: tuple[str, ...]) -> bool:
    return name.lower().endswith(suffixes) and not name.startswith((".", "_"))


def file_at(location: str, above: str = "") -> SourceFile:
    """A file or an object by its path or address, with the values in the names of its folders below another one.

    Raises
    ------
    OSError
        It is not there, or may not be looked at.
    StoreError
        It is no regular file, or its store does not answer.
    """
    if objects.is_remote(location):
        bucket, path = objects.split(location)
        entry = objects.looked_up(objects.client(bucket), path)
        if entry is None:
            raise FileNotFoundError
        return SourceFile(location, entry.size, entry.identity)
    state = os.stat(location)
    if not stat.S_ISREG(state.st_mode):
        raise StoreError(f'"{Path(location).name}" is not a regular file', "A source is made of files", "Remove it")
    keys = _keys(os.path.relpath(location, above)) if above else ()
    return SourceFile(location, state.st_size, f"{state.st_size} {state.st_mtime_ns}", keys)


def _keys(path: str) -> tuple[tuple[str, str | None], ...]:
    """Values in the names of folders, as Hive and Spark write them."""
    pairs = [part.partition("=") for part in path.split("/")[:-1]]
    return tuple(
        (unquote(name), None if value == _HIVE_MISSING else unquote(value)) for name, equals, value in pairs if equals
    )
