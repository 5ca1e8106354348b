"""Rows of a Zarr array whose chunks lie on the disk as they lie in memory, read straight to where they are wanted.

Zarr reads a chunk into memory of its own and copies it from there, which for records that do not shrink takes longer
than all else that is done with a record of few features. An ingest writes such records in chunks of whole rows, and a
run the matrices of a large release in square chunks, without compression and with a checksum. Those are read here.
Whatever has another form, and whatever is not as it should be, such as a chunk that is missing, cut short or damaged,
is left to Zarr, which says what is wrong with it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BytesCodec, Crc32cCodec
from zarr.storage import LocalStore

from blockveil.pipeline.data.zarr_arrays import folder

_CHECKSUM_BYTES = 4


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
    found = _plain(array, key, room or RowMemory())
    return array[key] if found is None else found


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
    found, aside = room.next((max(0, stop - start), array.shape[1]), dtype), room.aside((height, width), dtype)
    for number in range(start // height, -(-stop // height)):
        first, low, high = number * height, max(start, number * height), min(stop, (number + 1) * height)
        for across in range(-(-array.shape[1] // width)):
            wanted = found[low - start : high - start, across * width : (across + 1) * width]
            straight = wanted.shape == (height, width) and wanted.flags.c_contiguous
            # Chunks at the edges are stored whole, with rows and columns that the array does not have.
            whole = wanted if straight else aside
            if not _filled(whole, folder(array) / array.metadata.encode_chunk_key((number, across))):
                return None
            if not straight:
                wanted[...] = whole[low - first : high - first, : wanted.shape[1]]
    return found


def _is_plain(array: Any) -> bool:
    """Whether chunks are a matrix's, as this machine holds them, with a checksum and nothing else."""
    if not (isinstance(array, zarr.Array) and isinstance(array.store_path.store, LocalStore) and array.ndim == 2):
        return False
    dtype, codecs = np.dtype(array.dtype), tuple(getattr(array.metadata, "codecs", ()))
    if tuple(type(codec) for codec in codecs) != (BytesCodec, Crc32cCodec):
        return False
    own_order = dtype.itemsize == 1 or codecs[0].endian.value == sys.byteorder
    return dtype.kind in "iuf" and dtype.isnative and own_order and array.shape[1] > 0


def _filled(chunk: NDArray[Any], name: Path) -> bool:
    """Whether a file holds this chunk and its checksum, and nothing else; the chunk is written to."""
    content = chunk.reshape(-1).view(np.uint8)
    try:
        with open(name, "rb", buffering=0) as stream:
            complete = stream.readinto(content.data) == content.size
            checksum = stream.read(_CHECKSUM_BYTES + 1)
    except OSError:
        return False
    return complete and checksum == google_crc32c.value(content).to_bytes(_CHECKSUM_BYTES, "little")
