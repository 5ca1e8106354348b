"""Digest of arrays by content: the same however they are stored."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.data.plain_rows import NotAsWritten, RowMemory, pieces_of
from blockveil.pipeline.data.zarr_arrays import TEXT, ArrayLikeOnDisk, kind_of

_SLAB_BYTES = 16 * 2**20


def content_digest(arrays: Mapping[str, ArrayLikeOnDisk]) -> str:
    """Return the SHA-256 of arrays by content: names, types, shapes and elements, whatever chunks or codecs they have.

    Parameters
    ----------
    arrays
        NumPy or Zarr arrays of real numbers, booleans or text. Read a slab of rows at a time.

    Returns
    -------
    64 hexadecimal digits. The digest covers, sorted by name, the name, the little-endian type, the shape, and the
    elements in C order as little-endian bytes (text: UTF-8 preceded by its length).

    Raises
    ------
    TypeError
        An array of another type.
    """
    try:
        return _digest(_parts(arrays, RowMemory()))
    except NotAsWritten:
        return _digest(_parts(arrays, None))


def _digest(parts: Iterable[bytes | memoryview]) -> str:
    total = hashlib.sha256(b"blockveil content 1")
    for part in _ahead(parts):
        total.update(part)
    return total.hexdigest()


def _parts(arrays: Mapping[str, ArrayLikeOnDisk], room: RowMemory | None) -> Iterator[bytes | memoryview]:
    """What is hashed, in order; a part is good until the second one after it. All is read by Zarr without a room."""
    for name in sorted(arrays):
        array = arrays[name]
        kind = kind_of(array.dtype)
        yield b"".join(_field(field.encode()) for field in (name, kind, ",".join(map(str, array.shape))))
        pieces = None if room is None else pieces_of(array, room)
        for slab in _slabs(array) if pieces is None else pieces:
            if kind == TEXT:
                yield b"".join(_field(str(text).encode()) for text in slab.ravel().tolist())
            else:
                yield np.ascontiguousarray(slab, dtype=kind).reshape(-1).view(np.uint8).data


def _field(field: bytes) -> bytes:
    # A length before each field keeps two different sequences of fields from having the same bytes.
    return len(field).to_bytes(8, "little") + field


def _ahead(parts: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The same parts, each read while the one before it is hashed, of one array or of the next."""
    each = iter(parts)
    with ThreadPoolExecutor(1, "blockveil-slab") as pool:
        following = pool.submit(next, each, None)
        while (part := following.result()) is not None:
            following = pool.submit(next, each, None)
            yield part


def _slabs(array: ArrayLikeOnDisk) -> Iterable[NDArray[Any]]:
    if len(array.shape) == 0:
        yield np.asarray(array[()])
        return
    # Along the leading axes where a chunk has one entry and the rest is larger than a slab, entry by entry.
    sides, inner = getattr(array, "chunks", (1,) * len(array.shape)), 0
    while inner < len(array.shape) - 1 and sides[inner] == 1 and _bytes(array, inner + 1) > _SLAB_BYTES:
        inner += 1
    chunk_rows = int(sides[inner])
    step = max(1, _SLAB_BYTES // (max(1, _bytes(array, inner + 1)) * chunk_rows)) * chunk_rows
    for lead in itertools.product(*map(range, array.shape[:inner])):
        for start in range(0, array.shape[inner], step):
            rows = slice(start, start + step)
            yield np.asarray(array[(*lead, rows)] if lead else array[rows])


def _bytes(array: ArrayLikeOnDisk, axis: int) -> int:
    """Bytes of one entry of the axes before this one."""
    return math.prod(array.shape[axis:]) * int(np.dtype(array.dtype).itemsize)
