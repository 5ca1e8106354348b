"""Digest of a release: one tree over everything that a reader uses, the same however its arrays are stored.

::

    leaf     SHA-256 of  0 | elements of one tile
    node     SHA-256 of  1 | left | right                                      (RFC 9162, section 2.1)
    array    SHA-256 of  2 | name, type, shape, names of axes, attributes, root of its leaves
    release  SHA-256 of  3 | attributes, root of its arrays

The byte in front tells what is hashed, and each field follows its own length, so that no two contents are written
alike. Tiles are fixed by the shape alone, never by stored chunks: an array is taken as a matrix whose columns are its
last axis, and cut after every ``TILE_COLUMNS`` columns, and after as many rows as give at most ``TILE_ENTRIES``
elements. A worker that holds a tile computes its leaf without the rest.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.hash_tree import tree_root
from blockveil.pipeline.data.plain_rows import NotAsWritten, RowMemory, pieces_of, tile_pieces_of
from blockveil.pipeline.data.zarr_arrays import TEXT, ArrayLikeOnDisk, kind_of

TILE_COLUMNS = 2**10
TILE_ENTRIES = 2**20
"""Of float64 a tile has at most 8 MiB."""

UNCOVERED = frozenset(("output_digest", "signature"))
"""Attributes of a release that follow from its digest."""

_SLAB_BYTES = 16 * 2**20
_THREADS = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@dataclass(frozen=True, eq=False)
class Labelled:
    """An array, and what a reader is told of it.

    Attributes
    ----------
    values
        NumPy or Zarr array of real numbers, booleans or text.
    axes
        Name of each axis; none where they have no names.
    attributes
        Plain JSON values.
    """

    values: ArrayLikeOnDisk
    axes: tuple[str | None, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, array: ArrayLikeOnDisk, values: ArrayLikeOnDisk | None = None) -> Labelled:
        """Labels of a stored array; with ``values`` in place of its own, as after reading them; none of others."""
        metadata = getattr(array, "metadata", None)
        axes = getattr(metadata, "dimension_names", None) or ()
        attributes = getattr(metadata, "attributes", None) or {}
        return cls(array if values is None else values, tuple(axes), dict(attributes))


def content_digest(arrays: Mapping[str, Labelled], attributes: Mapping[str, Any]) -> str:
    """Return the digest of a release, 64 hexadecimal digits.

    Arrays are read by tiles or slabs of rows; ``output_digest`` and ``signature`` of the attributes are left out.

    Raises
    ------
    TypeError
        An array or an attribute of another type.
    ValueError
        An attribute is not a finite number.
    """
    return release_digest({name: array_digest(name, array) for name, array in arrays.items()}, attributes)


def release_digest(arrays: Mapping[str, str], attributes: Mapping[str, Any]) -> str:
    """Return the digest of a release from those of its arrays, by name; raises as :func:`content_digest`."""
    content = canonical_json({name: value for name, value in attributes.items() if name not in UNCOVERED})
    root = tree_root([bytes.fromhex(arrays[name]) for name in sorted(arrays)])
    return _hashed(b"\x03", content, len(arrays).to_bytes(8, "little"), root).hex()


def array_digest(name: str, array: Labelled) -> str:
    """Return the digest of an array and of its labels, 64 hexadecimal digits; raises as :func:`content_digest`."""
    try:
        leaves = _leaves(array.values, RowMemory())
    except NotAsWritten:  # Zarr says what is wrong
        leaves = _leaves(array.values, None)
    return array_digest_of(name, array, leaves)


def array_digest_of(name: str, array: Labelled, leaves: Sequence[bytes]) -> str:
    """Return the digest of an array whose leaves are known; no element is read.

    Parameters
    ----------
    name, array
        As for :func:`array_digest`.
    leaves
        Of all its tiles, in the order of :func:`tiles`.
    """
    shape = tuple(int(length) for length in array.values.shape)
    labels = canonical_json([name, kind_of(array.values.dtype), shape, array.axes, array.attributes])
    return _hashed(b"\x02", labels, len(leaves).to_bytes(8, "little"), tree_root(leaves)).hex()


def tiles(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of each tile, of an array of this shape as a matrix: along the columns first."""
    rows, columns = _matrix(shape)
    height = _height(columns)
    for top in range(0, rows, height):
        for left in range(0, columns, TILE_COLUMNS):
            yield slice(top, min(top + height, rows)), slice(left, min(left + TILE_COLUMNS, columns))


def leaf(tile: NDArray[Any]) -> bytes:
    """Return the SHA-256 of the elements of one tile, in C order: little-endian, or UTF-8 with its length before it."""
    total = hashlib.sha256(b"\x00")
    _update(total, tile)
    return total.digest()


def _leaves(array: ArrayLikeOnDisk, room: RowMemory | None) -> list[bytes]:
    """Leaves of all tiles; everything is read by Zarr without a room."""
    rows, columns = _matrix(array.shape)
    if isinstance(array, np.ndarray) and array.size:
        matrix = array.reshape(rows, columns)
        return [leaf(matrix[of_rows, of_columns]) for of_rows, of_columns in tiles(array.shape)]
    height = _height(columns)
    tile_pieces = None if room is None else tile_pieces_of(array, (height, TILE_COLUMNS))
    if tile_pieces is not None:
        with ThreadPoolExecutor(_THREADS, "blockveil-tile") as pool:
            return list(pool.map(_leaf_of_pieces, tile_pieces))
    pieces = None if room is None else pieces_of(array, room)
    return list(_leaves_of_rows(array, _ahead(_slabs(array) if pieces is None else pieces)))


def _leaf_of_pieces(pieces: Iterable[NDArray[Any]]) -> bytes:
    total = hashlib.sha256(b"\x00")
    for piece in pieces:
        _update(total, piece)
    return total.digest()


def _leaves_of_rows(array: ArrayLikeOnDisk, slabs: Iterable[NDArray[Any]]) -> Iterator[bytes]:
    """Leaves of an array that comes in C order, some rows at a time."""
    rows, columns = _matrix(array.shape)
    height, at = _height(columns), 0
    lefts = range(0, columns, TILE_COLUMNS)
    band = [hashlib.sha256(b"\x00") for _ in lefts]
    for slab in slabs:
        matrix = slab.reshape(-1, columns) if columns else slab.reshape(0, 0)
        start = 0
        while start < len(matrix):
            stop = min(len(matrix), start + height - at % height)
            for total, left in zip(band, lefts, strict=True):
                _update(total, matrix[start:stop, left : left + TILE_COLUMNS])
            at, start = at + stop - start, stop
            if at % height == 0 or at == rows:
                yield from (total.digest() for total in band)
                band = [hashlib.sha256(b"\x00") for _ in lefts]


def _update(total: Any, part: NDArray[Any]) -> None:
    kind = kind_of(part.dtype) if part.dtype != object else TEXT
    if kind == TEXT:
        total.update(b"".join(_field(str(text).encode()) for text in part.ravel().tolist()))
    else:
        total.update(np.ascontiguousarray(part, dtype=kind).reshape(-1).view(np.uint8).data)


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of an array as a matrix: the last axis has the columns, a vector is one column."""
    if len(shape) < 2:
        return math.prod(shape), 1
    return math.prod(shape[:-1]), int(shape[-1])


def _height(columns: int) -> int:
    """Rows of a tile: a power of two, so that blocks of as many rows hold whole tiles."""
    return TILE_ENTRIES >> (max(1, min(columns, TILE_COLUMNS)) - 1).bit_length()


def _hashed(kind: bytes, *fields: bytes) -> bytes:
    return hashlib.sha256(kind + b"".join(map(_field, fields))).digest()


def _field(content: bytes) -> bytes:
    # A length before each field keeps two different sequences of fields from having the same bytes.
    return len(content).to_bytes(8, "little") + content


def _ahead(parts: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    """The same parts, each read while the one before it is hashed."""
    each = iter(parts)
    with ThreadPoolExecutor(1, "blockveil-slab") as pool:
        following = pool.submit(next, each, None)
        while (part := following.result()) is not None:
            following = pool.submit(next, each, None)
            yield part


def _slabs(array: ArrayLikeOnDisk) -> Iterator[NDArray[Any]]:
    """All of an array in C order, some entries of its leading axes at a time."""
    if len(array.shape) == 0:
        yield np.asarray(array[()])
        return
    # Along the leading axes where a chunk has one entry and the rest is larger than a slab, entry by entry.
    sides, inner = getattr(array, "chunks", (1,) * len(array.shape)), 0
    while inner < len(array.shape) - 1 and sides[inner] == 1 and _bytes(array, inner + 1) > _SLAB_BYTES:
        inner += 1
    chunk_rows = int(sides[inner])
    step = max(1, _SLAB_BYTES // (max(1, _bytes(array, inner + 1)) * chunk_rows)) * chunk_rows
    for lead in np.ndindex(*array.shape[:inner]):
        for start in range(0, array.shape[inner], step):
            rows = slice(start, start + step)
            yield np.asarray(array[(*lead, rows)] if lead else array[rows])


def _bytes(array: ArrayLikeOnDisk, axis: int) -> int:
    """Bytes of one entry of the axes before this one."""
    return math.prod(array.shape[axis:]) * int(np.dtype(array.dtype).itemsize)
