"""Zarr arrays on a local file system: written so that damage shows, checked for completeness, digested by content.

Zarr reads a chunk that is not there as the fill value, without a word. Everything written here therefore stores all its
chunks, even those equal to the fill value, with a checksum each; and :func:`missing_chunks` finds what is not there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import zarr
from numpy.typing import ArrayLike
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.dtype import parse_dtype
from zarr.storage import LocalStore

from blockveil.pipeline.data import zarr_thread

zarr_thread.wait_at_exit()  # all that stores, ingests and releases import this module

CHUNK_SIDE = 1024
"""Largest side of a chunk of a written array: 8 MiB of float64 for a matrix."""

_PADDED = 1.05
"""Entries of all chunks over those of the array from which they are compressed for their padding."""

_EMPTY = np.uint64(2**64 - 1)
TEXT = "text"
"""Canonical name of the type of text."""


class LayoutError(ValueError):
    """A stored array is laid out in a way that cannot be checked for completeness."""


class ArrayLikeOnDisk(Protocol):
    """Anything with a shape and a dtype whose rows can be read by a slice: a NumPy or a Zarr array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""

    @property
    def dtype(self) -> Any:
        """Type of an element."""

    def __getitem__(self, key: Any) -> Any:
        """A part as a NumPy array."""


class ChunkFiles(Protocol):
    """The files of a stored array, by their name relative to it."""

    def size(self, name: str) -> int | None:
        """Bytes of a file, or None where there is none."""

    def read(self, name: str, start: int, length: int) -> bytes:
        """Bytes of a file from ``start`` on, at most ``length``."""


class LocalFiles:
    """The files of an array on a local file system."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def size(self, name: str) -> int | None:
        """Bytes of a file, or None where there is none."""
        file = self._root / name
        return file.stat().st_size if file.is_file() else None

    def read(self, name: str, start: int, length: int) -> bytes:
        """Bytes of a file from ``start`` on, at most ``length``."""
        with open(self._root / name, "rb") as stream:
            stream.seek(start)
            return stream.read(length)


def create_group(path: Path, attributes: Mapping[str, Any]) -> zarr.Group:
    """Create an empty Zarr format 3 group in a folder that does not exist yet; attributes are plain JSON values."""
    return zarr.create_group(path, zarr_format=3, attributes=dict(attributes))


def write_array(group: zarr.Group, name: str, values: ArrayLike, dimensions: tuple[str, ...]) -> None:
    """Write a whole array.

    Parameters
    ----------
    group
        Group to write to.
    name
        Name of the array.
    values
        Real numbers, booleans or text, any shape. Text is stored as variable-length UTF-8.
    dimensions
        Name of each axis, all different.

    Raises
    ------
    ValueError
        The names do not fit the axes.
    TypeError
        The elements are neither real numbers, booleans nor text.
    OSError
        The file system refuses.
    """
    array = np.asarray(values)
    if len(dimensions) != array.ndim or len(set(dimensions)) != array.ndim:
        raise ValueError(f"array '{name}' has {array.ndim} axes; give each axis a name of its own")
    kind = kind_of(array.dtype)
    target = create_array(group, name, array.shape, array.dtype, dimensions)
    target[...] = array.astype(object) if kind == TEXT else array


def create_array(
    group: zarr.Group,
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    dimensions: tuple[str, ...],
    chunks: tuple[int, ...] | None = None,
    *,
    shrinks: bool = True,
) -> zarr.Array[Any]:
    """Create an array to be written in blocks; blocks that share no chunk may be written at the same time.

    Parameters
    ----------
    group, name, dimensions
        As for :func:`write_array`.
    shape, dtype
        Of the array.
    chunks
        Sides of a chunk; where none are given ``CHUNK_SIDE``, and of more than two axes as large as those of two.
    shrinks
        Whether its values are worth compressing. They are compressed too where much of the last chunks is padding.
    """
    dtype, chunks = np.dtype(dtype), chunks or _chunks(shape)
    padded_size = math.prod(-(-length // side) * side for length, side in zip(shape, chunks, strict=True))
    shrinks = shrinks or padded_size > _PADDED * math.prod(shape)
    return group.create_array(
        name,
        shape=shape,
        chunks=chunks,
        dtype=_stored_type(dtype),
        # A float chunk that got lost reads as NaN, not as a plausible zero.
        fill_value=float("nan") if dtype.kind == "f" else None,
        compressors=(ZstdCodec(level=1), Crc32cCodec()) if shrinks else (Crc32cCodec(),),
        dimension_names=dimensions,
        config={"write_empty_chunks": True},
    )


@cache
def _stored_type(dtype: np.dtype[Any]) -> Any:
    """Type of the elements as Zarr knows it, which it would look up among all of its types for each array."""
    return parse_dtype(str if kind_of(dtype) == TEXT else dtype.newbyteorder("<"), zarr_format=3)


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Chunks of up to ``CHUNK_SIDE`` a side and ``CHUNK_SIDE**2`` entries, whole along the last axes first."""
    sides, entries = list[int](), CHUNK_SIDE**2
    for length in reversed(shape):
        sides.append(min(max(length, 1), CHUNK_SIDE, entries))
        entries = max(1, entries // sides[-1])
    return tuple(reversed(sides))


def folder(array: zarr.Array[Any]) -> Path:
    """Folder of an array on a local file system; LayoutError where the array is stored elsewhere."""
    store = array.store_path.store
    if not isinstance(store, LocalStore):
        raise LayoutError("the array is not on a local file system")
    return Path(store.root) / array.store_path.path


def chunk_files(array: zarr.Array[Any]) -> Iterator[str]:
    """File of each chunk (each shard, where there are shards) that a complete array has, relative to its folder."""
    for position in _positions(array):
        yield array.metadata.encode_chunk_key(position)


def missing_chunks(array: zarr.Array[Any], files: ChunkFiles | None = None) -> int:
    """Return how many chunks are not stored, counting those inside shards.

    Raises
    ------
    LayoutError
        The array is not on a local file system and ``files`` is not given, or a shard has an unusual index or is cut
        short.
    OSError
        A shard cannot be read.
    """
    files, missing = files or LocalFiles(folder(array)), 0
    codecs = codecs_of(array)
    for name, position in zip(chunk_files(array), _positions(array), strict=True):
        # After a power loss a file may be there without its bytes.
        size = files.size(name)
        if not size:
            missing += 1
        elif array.shards is not None:
            missing += _missing_in_shard(files, name, size, array, codecs[0]["configuration"], position)
    return missing


def codecs_of(array: zarr.Array[Any]) -> list[dict[str, Any]]:
    """Codecs as the metadata of an array states them, each with its name; none of Zarr's second format."""
    return [codec.to_dict() for codec in getattr(array.metadata, "codecs", ())]


def kind_of(dtype: Any) -> str:
    """Canonical name of an element type."""
    dtype = np.dtype(dtype)
    if dtype.kind in "TU":
        return TEXT
    if dtype.kind not in "biuf":
        raise TypeError(f"elements of type {dtype} cannot be stored; use real numbers, booleans or text")
    return str(dtype.newbyteorder("<").str)


def _positions(array: zarr.Array[Any]) -> Iterator[tuple[int, ...]]:
    sides = array.shards or array.chunks
    return itertools.product(*(range(-(-n // side)) for n, side in zip(array.shape, sides, strict=True)))


def _missing_in_shard(
    files: ChunkFiles,
    name: str,
    size: int,
    array: zarr.Array[Any],
    sharding: dict[str, Any],
    position: tuple[int, ...],
) -> int:
    """Count inner chunks that overlap the array and have no bytes in the shard: its index marks them as empty."""
    codecs = [(each["name"], each.get("configuration", {})) for each in sharding["index_codecs"]]
    if codecs != [("bytes", {"endian": "little"}), ("crc32c", {})] or array.shards is None:
        raise LayoutError("the index of its shards is stored in an unusual way")
    grid = [shard // chunk for shard, chunk in zip(array.shards, array.chunks, strict=True)]
    length = 16 * int(np.prod(grid))
    at_end = sharding["index_location"] == "end"
    content = files.read(name, max(0, size - length - 4) if at_end else 0, length)
    if len(content) < length:
        raise LayoutError("a shard is cut short")
    index = np.frombuffer(content, dtype="<u8").reshape(*grid, 2)
    axes = zip(array.shape, array.shards, array.chunks, position, strict=True)
    inside = tuple(slice(0, -(-(n - p * shard) // chunk)) for n, shard, chunk, p in axes)
    return int(np.count_nonzero(index[inside][..., 0] == _EMPTY))
