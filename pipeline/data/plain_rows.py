"""Rows of a Zarr array whose chunks lie on the disk as they lie in memory, read straight to where they are wanted.

Zarr reads a chunk into memory of its own and copies it from there, which for records that do not shrink takes longer
than all else that is done with a record of few features. An ingest writes such records in chunks of whole rows, and a
run the matrices of a large release in square chunks, without compression and with a checksum. Those are read here, and
small arrays of numbers, for which Zarr takes longer than for their bytes.
Whatever has another form, and whatever is not as it should be, such as a chunk that is missing, cut short or damaged,
is left to Zarr, which says what is wrong with it.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numcodecs import Zstd
from numpy.typing import NDArray
from zarr.storage import LocalStore

from blockveil.pipeline.base.foreign_files import NotPlain
from blockveil.pipeline.data.zarr_arrays import codecs_of, folder

_CHECKSUM_BYTES = 4
PIECE_BYTES = 2**20
"""Of rows that are read only to go through them: what fits a processor's own cache needs no way through memory."""


class NotAsWritten(Exception):
    """A chunk is missing, cut short or damaged, as is seen once its rows have been given; Zarr says what is wrong."""


class RowMemory:
    """Memory that rows are read into by turns: what was read stands until the second reading after it.

    Memory that is new for each reading takes as long to get as the reading itself.
    """

    def __init__(self) -> None:
        self._turn, self._kept = 0, dict[str, NDArray[np.uint8]]()

    def next(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Memory of the next reading."""
        self._turn = 1 - self._turn
        return self._of(f"rows {self._turn}", shape, dtype)

    def aside(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Memory of one chunk, for the time of a reading."""
        return self._of("chunk", shape, dtype)

    def _of(self, name: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
        size = shape[0] * shape[1] * dtype.itemsize
        if name not in self._kept or self._kept[name].size < size:
            self._kept[name] = np.empty(size, np.uint8)
        return self._kept[name][:size].view(dtype).reshape(shape)


def rows_of(array: Any, key: Any, room: RowMemory | None = None) -> Any:
    """What ``array[key]`` is, without the detour through Zarr where whole rows of plain chunks are wanted.

    Parameters
    ----------
    array
        Zarr array, or anything else that is read by slices.
    key
        A slice of rows, or one of rows and one of columns.
    room
        Memory to read into, of which the caller keeps nothing; None gives what is read memory of its own.
    """
    rows = _plain(array, key, room or RowMemory())
    return array[key] if rows is None else rows


def _plain(array: Any, key: Any, room: RowMemory) -> NDArray[Any] | None:
    """The rows, checked; None where this is Zarr's work."""
    if not _is_plain(array):
        return None
    rows, columns = key if isinstance(key, tuple) and len(key) == 2 else (key, slice(None))
    if not (isinstance(rows, slice) and isinstance(columns, slice)):
        return None
    start, stop, step = rows.indices(array.shape[0])
    if step != 1 or columns.indices(array.shape[1]) != (0, array.shape[1], 1):
        return None
    dtype, (height, width) = np.dtype(array.dtype), array.chunks
    block, aside = room.next((max(0, stop - start), array.shape[1]), dtype), room.aside((height, width), dtype)
    for number in range(start // height, -(-stop // height)):
        first, low, high = number * height, max(start, number * height), min(stop, (number + 1) * height)
        for across in range(-(-array.shape[1] // width)):
            target = block[low - start : high - start, across * width : (across + 1) * width]
            straight = target.shape == (height, width) and target.flags.c_contiguous
            # Chunks at the edges are stored whole, with rows and columns that the array does not have.
            whole = target if straight else aside
            if not _filled(whole, array, folder(array) / array.metadata.encode_chunk_key((number, across))):
                return None
            if not straight:
                target[...] = whole[low - first : high - first, : target.shape[1]]
    return block


def pieces_of(array: Any, room: RowMemory) -> Iterator[NDArray[Any]] | None:
    """All rows of a plain array in order, a few at a time; None where this is Zarr's work.

    Parameters
    ----------
    array
        Zarr array, or anything else that is read by slices.
    room
        Memory to read into by turns.

    Raises
    ------
    NotAsWritten
        While the pieces are read: what was given so far is not to be used.
    """
    small = _small(array)
    if small is not None:
        return iter([small])
    if not _is_plain(array):
        return None
    height, step = array.chunks[0], max(1, PIECE_BYTES // (array.shape[1] * np.dtype(array.dtype).itemsize))
    if step < height:
        bands = range(-(-array.shape[0] // height))
        return (piece for number in bands for piece in _pieces_of_chunks(array, number, step, room))
    step -= step % height
    return (rows_of(array, slice(start, start + step), room) for start in range(0, array.shape[0], step))


def _pieces_of_chunks(array: Any, number: int, step: int, room: RowMemory) -> Iterator[NDArray[Any]]:
    """Rows of one row of chunks, ``step`` at a time; each file is read once, and its checksum goes along."""
    dtype, (height, width), columns = np.dtype(array.dtype), array.chunks, array.shape[1]
    remaining, across = array.shape[0] - number * height, range(-(-columns // width))
    names = [folder(array) / array.metadata.encode_chunk_key((number, each)) for each in across]
    with ExitStack() as stack:
        try:
            files = [stack.enter_context(_opened(array, name)) for name in names]
            checksums = [0] * len(files)
            for start in range(0, height, step):
                rows, there = min(step, height - start), max(0, min(step, height - start, remaining - start))
                # Chunks at the edges are stored whole, with rows and columns that the array does not have.
                piece = room.next((there, columns), dtype) if there else np.empty((0, columns), dtype)
                for each in across:
                    target = piece[:, each * width : (each + 1) * width]
                    straight = target.shape == (rows, width) and target.flags.c_contiguous
                    part = target if straight else room.aside((rows, width), dtype)
                    content = part.reshape(-1).view(np.uint8)
                    if files[each].readinto(content.data) != content.size:
                        raise NotAsWritten
                    checksums[each] = google_crc32c.extend(checksums[each], content)
                    if not straight:
                        target[...] = part[:there, : target.shape[1]]
                if there:
                    yield piece
            ends = [file.read(_CHECKSUM_BYTES + 1) for file in files]
        except (OSError, NotPlain):
            raise NotAsWritten from None
    if ends != [checksum.to_bytes(_CHECKSUM_BYTES, "little") for checksum in checksums]:
        raise NotAsWritten


def tile_pieces_of(array: Any, sides: tuple[int, int]) -> list[Iterator[NDArray[Any]]] | None:
    """Each tile of a matrix whose chunks are its tiles, in order, some rows at a time; None where this is Zarr's work.

    Raises
    ------
    NotAsWritten
        While the pieces are read: what was given so far is not to be used.
    """
    packed = _packed(array)
    if packed is None or array.ndim != len(sides) or math.prod(array.shape) == 0:
        return None
    axes = tuple(zip(array.shape, array.chunks, sides, strict=True))
    if not all(side == chunk or min(side, chunk) >= length for length, chunk, side in axes):
        return None
    grid = itertools.product(*(range(-(-length // chunk)) for length, chunk, _ in axes))
    return [_tile_pieces(array, position, packed) for position in grid]


def _tile_pieces(array: Any, position: tuple[int, ...], packed: bool) -> Iterator[NDArray[Any]]:
    """Rows of one chunk, without the entries at the edges that the array does not have."""
    dtype, (height, width) = np.dtype(array.dtype), array.chunks
    rows, columns = (
        min(side, length - at * side) for at, side, length in zip(position, array.chunks, array.shape, strict=True)
    )
    if packed:
        chunk = _chunk(array, position, packed)
        if chunk is None:
            raise NotAsWritten
        yield chunk[:rows, :columns]
        return
    name, step, checksum = folder(array) / array.metadata.encode_chunk_key(position), 0, 0
    step = min(height, max(1, PIECE_BYTES // (width * dtype.itemsize)))
    piece = np.empty((step, width), dtype)
    try:
        with _opened(array, name) as file:
            for start in range(0, height, step):
                part = piece[: min(step, height - start)]
                content = part.reshape(-1).view(np.uint8)
                if file.readinto(content.data) != content.size:
                    raise NotAsWritten
                checksum = google_crc32c.extend(checksum, content)
                if start < rows:
                    yield part[: rows - start, :columns]
            end = file.read(_CHECKSUM_BYTES + 1)
    except (OSError, NotPlain):
        raise NotAsWritten from None
    if end != checksum.to_bytes(_CHECKSUM_BYTES, "little"):
        raise NotAsWritten


def _packed(array: Any) -> bool | None:
    """Whether chunks of an array of numbers with checksums are compressed; None where this is Zarr's work."""
    if not _is_local(array):
        return None
    for packed in (False, True):
        if _as_in_memory(array, ("bytes", *["zstd"] * packed, "crc32c")):
            return packed
    return None


def _chunk(array: Any, position: tuple[int, ...], packed: bool) -> NDArray[Any] | None:
    """A whole chunk; None where it is missing or damaged."""
    try:
        key, store = array.metadata.encode_chunk_key(position), array.store_path.store
        reader = getattr(store, "content_of", None)  # of a release
        content = (folder(array) / key).read_bytes() if reader is None else reader(f"{array.store_path.path}/{key}")
        values, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
        if checksum != google_crc32c.value(values).to_bytes(_CHECKSUM_BYTES, "little"):
            return None
        if packed:
            values = Zstd().decode(values)
        return np.frombuffer(values, array.dtype).reshape(array.chunks)
    except (AttributeError, OSError, RuntimeError, ValueError):  # Zarr says what is wrong with it
        return None


def _small(array: Any) -> NDArray[Any] | None:
    """All of an array of few numbers, compressed or not; None where this is Zarr's work."""
    packed = _packed(array)
    if packed is None or math.prod(array.shape) * np.dtype(array.dtype).itemsize > PIECE_BYTES:
        return None
    values = np.empty(array.shape, array.dtype)
    axes = tuple(zip(array.shape, array.chunks, strict=True))
    for position in itertools.product(*(range(-(-length // side)) for length, side in axes)):
        place = tuple(slice(at * side, at * side + side) for at, (_, side) in zip(position, axes, strict=True))
        chunk = _chunk(array, position, packed)
        if chunk is None:
            return None
        # Chunks at the edges are stored whole, with entries that the array does not have.
        values[place] = chunk[tuple(slice(length - part.start) for (length, _), part in zip(axes, place, strict=True))]
    return values


def _is_plain(array: Any) -> bool:
    """Whether chunks are a matrix's, as this machine holds them, with a checksum and nothing else."""
    return _is_local(array) and array.ndim == 2 and array.shape[1] > 0 and _as_in_memory(array, ("bytes", "crc32c"))


def _is_local(array: Any) -> bool:
    return isinstance(array, zarr.Array) and isinstance(array.store_path.store, LocalStore)


def _as_in_memory(array: zarr.Array[Any], wanted: tuple[str, ...]) -> bool:
    """Whether elements are numbers in the order of this machine, stored by these codecs and no others."""
    dtype, codecs = np.dtype(array.dtype), codecs_of(array)
    if tuple(codec["name"] for codec in codecs) != wanted:
        return False
    own_order = dtype.itemsize == 1 or codecs[0]["configuration"]["endian"] == sys.byteorder
    return dtype.kind in "iuf" and dtype.isnative and own_order


def _opened(array: Any, name: Path) -> FileIO:
    """A file of an array; of a release only a regular one."""
    opener = getattr(array.store_path.store, "opened", None)
    file: FileIO = (opener or partial(open, mode="rb", buffering=0))(name)
    return file


def _filled(chunk: NDArray[Any], array: Any, name: Path) -> bool:
    """Whether a file of an array holds this chunk and its checksum, and nothing else; the chunk is written to."""
    content = chunk.reshape(-1).view(np.uint8)
    try:
        with _opened(array, name) as stream:
            complete = stream.readinto(content.data) == content.size
            checksum = stream.read(_CHECKSUM_BYTES + 1)
    except (OSError, NotPlain):
        return False
    return complete and checksum == google_crc32c.value(content).to_bytes(_CHECKSUM_BYTES, "little")
