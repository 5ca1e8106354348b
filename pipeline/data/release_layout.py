"""What the files of a release may be: exactly the chunks of its arrays, in the one form in which they are written.

Nothing is decoded before this was checked, so that reading a release takes time and memory in proportion to what is
stored of it. Files that are not of the release are refused: another reader could take them for a part of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numcodecs import Zstd

from blockveil.pipeline.base.foreign_files import MOST_METADATA, NotPlain, parse_json
from blockveil.pipeline.base.printable import is_hidden

METADATA = "zarr.json"
MOST_ARRAYS = 20_000
MOST_CHUNK = 2**26
"""Bytes of a chunk; 8 MiB is what a release writes."""

_ROOM, _RATIO = 2**30, 64
"""Decoded bytes that a release may have however little is stored, and for each stored byte."""

_CHECKSUM = 4
_LONGEST_TEXT = 4096
"""Bytes of a text, on average over a chunk."""

_MOST_AXES = 32
_TYPES = {"bool": 1, **{f"{kind}int{8 * size}": size for size in (1, 2, 4, 8) for kind in ("", "u")}}
_TYPES |= {"float16": 2, "float32": 4, "float64": 8}
_TEXT = "string"
_GROUP_KEYS = {"zarr_format", "node_type", "attributes"}
_ARRAY_KEYS = {
    *_GROUP_KEYS, "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "dimension_names",
    "storage_transformers",
}  # fmt: skip


class NoLayout(NotPlain):
    """The files are not those of a release."""


@dataclass(frozen=True)
class ChunkForm:
    """How the chunks of an array are stored.

    Attributes
    ----------
    entries
        Elements of a chunk.
    size
        Bytes of a decoded chunk; of text the most that it may have.
    is_text, is_packed, has_checksum
        Whether elements are text, whether chunks are compressed, and whether a checksum follows.
    """

    entries: int
    size: int
    is_text: bool
    is_packed: bool
    has_checksum: bool

    def check_size(self, size: int) -> None:
        """Refuse a stored chunk that cannot be one by its size alone; raises NoLayout."""
        body = size - _CHECKSUM * self.has_checksum
        whole = self.is_text or self.is_packed
        if body < 0 or (body > self.size + self.size // 64 + 1024 if whole else body != self.size):
            raise NoLayout("a chunk has another size than its array says")

    def check(self, content: bytes) -> None:
        """Refuse a stored chunk that would become more than it may when it is decoded; raises NoLayout."""
        self.check_size(len(content))
        body = content[: len(content) - _CHECKSUM * self.has_checksum]
        if self.is_packed:
            size = _frame_bytes(body)
            if size is None or (size > self.size if self.is_text else size != self.size):
                raise NoLayout("a chunk does not say that it becomes what its array says")
            if self.is_text:
                body = bytes(Zstd().decode(body))
        if self.is_text and int.from_bytes(body[:4], "little") != self.entries:
            raise NoLayout("a chunk of texts does not hold as many as its array says")


def attributes_of(files: Mapping[str, int], read: Callable[[str], bytes]) -> dict[str, Any]:
    """Return the attributes of a release from its own metadata.

    Raises ValueError where they are missing or not those of a group without arrays described in it.

    Parameters
    ----------
    files
        Bytes of each file, by its name below the release.
    read
        Content of one of them.
    """
    metadata = _said(METADATA, files, read)
    nothing = {"consolidated_metadata"} if metadata.get("consolidated_metadata", 0) is None else set()
    if metadata.keys() != _GROUP_KEYS | nothing or (metadata["zarr_format"], metadata["node_type"]) != (3, "group"):
        raise NoLayout("its metadata are not those of a group of arrays, each described beside its chunks")
    return _table(metadata["attributes"])


def chunk_forms(files: Mapping[str, int], read: Callable[[str], bytes]) -> dict[str, ChunkForm]:
    """Check which files there are, and return the form of the chunks of each array.

    Raises
    ------
    ValueError
        A file is missing or is one too many, or an array is stored in another form than releases are.
    """
    arrays = sorted(name.removesuffix(f"/{METADATA}") for name in files if name.endswith(f"/{METADATA}"))
    if len(arrays) > MOST_ARRAYS:
        raise NoLayout(f"it has more than {MOST_ARRAYS:,} arrays")
    chunks: dict[str, list[str]] = {name: [] for name in arrays}
    for file in files:
        name, slash, rest = file.partition("/")
        if slash and name in chunks and rest != METADATA:
            chunks[name].append(rest)
        elif file != METADATA and rest != METADATA:
            raise NoLayout("it holds a file that is of none of its arrays")
    forms, decoded_bytes = {}, 0
    for name in arrays:
        if "/" in name or name.startswith(".") or any(map(is_hidden, name)):
            raise NoLayout("an array has no name that could be one")
        forms[name], count = _form(_said(f"{name}/{METADATA}", files, read), chunks[name])
        decoded_bytes += forms[name].size * count
        for chunk in chunks[name]:
            forms[name].check_size(files[f"{name}/{chunk}"])
    if decoded_bytes > _ROOM + _RATIO * sum(files.values()):
        raise NoLayout("its arrays would be far larger than what is stored of them")
    return forms


def _form(said: Mapping[str, Any], chunks: list[str]) -> tuple[ChunkForm, int]:
    """Form of an array's chunks and their number, where these are all of its chunks and nothing else."""
    if said.keys() - {"dimension_names"} != _ARRAY_KEYS - {"dimension_names"} or said["storage_transformers"]:
        raise NoLayout("the metadata of an array say what those of a release do not")
    if (said["zarr_format"], said["node_type"]) != (3, "array") or not isinstance(said["attributes"], dict):
        raise NoLayout("the metadata of an array are not those of one")
    kind, shape = said["data_type"], _lengths(said["shape"], 0)
    grid, keys = _table(said["chunk_grid"]), _table(said["chunk_key_encoding"])
    sides = _lengths(_table(grid["configuration"])["chunk_shape"], 1)
    if grid["name"] != "regular" or len(sides) != len(shape) or keys["name"] != "default":
        raise NoLayout("an array is not divided into chunks as those of a release are")
    if _table(keys.get("configuration", {"separator": "/"})).get("separator", "/") != "/":
        raise NoLayout("the chunks of an array are not named as those of a release are")
    counts = [-(-length // side) for length, side in zip(shape, sides, strict=True)]
    if math.prod(counts) != len(chunks):
        raise NoLayout("files of an array are missing, or are too many")
    # As many as are stored: their names are compared only then.
    if set(chunks) != {"/".join(["c", *map(str, at)]) for at in itertools.product(*map(range, counts))}:
        raise NoLayout("chunks of an array are missing")
    names = [_table(codec).get("name") for codec in said["codecs"]]
    first = "vlen-utf8" if kind == _TEXT else "bytes"
    packed, checked = "zstd" in names, "crc32c" in names
    if names != [first, *["zstd"] * packed, *["crc32c"] * checked] or kind not in {_TEXT, *_TYPES}:
        raise NoLayout("the elements of an array are not stored as those of a release are")
    _check_fill(kind, said["fill_value"])
    entries = math.prod(sides)
    size = _CHECKSUM + _LONGEST_TEXT * entries if kind == _TEXT else entries * _TYPES[kind]
    if size > MOST_CHUNK:
        raise NoLayout(f"a chunk of an array has more than {MOST_CHUNK:,} bytes")
    return ChunkForm(entries, size, kind == _TEXT, packed, checked), len(chunks)


def _check_fill(kind: str, fill: Any) -> None:
    # Some readers take elements that equal the fill value for missing ones.
    usual: Any = "" if kind == _TEXT else False if kind == "bool" else "NaN" if kind.startswith("float") else 0
    if fill != usual or type(fill) is not type(usual):
        raise NoLayout("the fill value of an array is not that of a release")


def _said(name: str, files: Mapping[str, int], read: Callable[[str], bytes]) -> dict[str, Any]:
    if files.get(name, 0) > MOST_METADATA:
        raise NoLayout(f"its metadata have more than {MOST_METADATA:,} bytes")
    return _table(parse_json(read(name)))


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NoLayout("metadata are not tables where they must be")
    return value


def _lengths(value: Any, least: int) -> list[int]:
    right = isinstance(value, list) and len(value) <= _MOST_AXES
    if not right or not all(type(each) is int and least <= each < 2**53 for each in value):
        raise NoLayout("lengths of an array are not such numbers")
    return list(value)


def _frame_bytes(frame: bytes) -> int | None:
    """Bytes that a Zstandard frame says it becomes; None where it does not say so. **Source**: RFC 8878, 3.1.1."""
    if len(frame) < 6 or frame[:4] != b"\x28\xb5\x2f\xfd":
        return None
    single = frame[4] >> 5 & 1
    width = (single, 2, 4, 8)[frame[4] >> 6]
    start = 5 + (1 - single) + (0, 1, 2, 4)[frame[4] & 3]
    field = frame[start : start + width]
    if not width or len(field) < width:
        return None
    return int.from_bytes(field, "little") + 256 * (width == 2)
