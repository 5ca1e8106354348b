"""The identity of stored records: equal fingerprints mean the same data, on any machine and after any copy.

It is never written down as it is: whoever can guess all the records could test the guess. The ledger has a digest of it
under a private key (:mod:`.content_key`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import zarr
from zarr.storage import LocalStore

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.data.grown_rows import GrownRows
from blockveil.pipeline.data.objects import Objects
from blockveil.pipeline.data.sparse_store import Stored, StoredRows, parts_of
from blockveil.pipeline.data.stores import chunk_objects, metadata_of
from blockveil.pipeline.data.zarr_arrays import chunk_files, folder

CONTENT_BYTES = 256 * 2**20
"""Stores up to this size are identified by the content of their chunks; reading it takes well under a second."""


def fingerprint(array: Stored, content_bytes: int = CONTENT_BYTES) -> str:
    """Return the identity of an array's records.

    Raises OSError or ValueError where a file cannot be read, or the metadata is not JSON.

    Parameters
    ----------
    array
        Complete Zarr array. Sparse records are identified by their shape and the arrays that hold them, records that
        grow by their parts in order. In an object store, chunks are identified by size and entity tag, whatever their
        size.
    content_bytes
        Stored size up to which chunks are identified by their content. Above it they are identified by size and
        modification time, so that a copy that does not keep times counts as other data.

    Returns
    -------
    64 hexadecimal digits: SHA-256 over the metadata without attributes, and over each chunk file's name and identity in
    sorted order.
    """
    if isinstance(array, GrownRows):
        by_content = content_bytes if _stored_bytes(array) <= content_bytes else -1
        return _of_parts([fingerprint(cast(Stored, part), by_content) for part in array.parts])
    if isinstance(array, StoredRows):
        identities = [repr(array.shape), *(fingerprint(part, content_bytes) for part in parts_of(array))]
        return hashlib.sha256("\n".join(["blockveil records 1 sparse", *identities]).encode()).hexdigest()
    names, remote = sorted(chunk_files(array)), chunk_objects(array)
    if remote is not None:
        return _by_tags(array, names, remote)
    root = folder(array)
    states = [(root / name).stat() for name in names]
    by_content = sum(state.st_size for state in states) <= content_bytes
    total = hashlib.sha256(b"blockveil records 1 content\n" if by_content else b"blockveil records 1 times\n")
    total.update(_metadata(array, None) + b"\n")
    for name, state in zip(names, states, strict=True):
        identity = _file_digest(root / name) if by_content else f"{state.st_size} {state.st_mtime_ns}"
        total.update(f"{name} {identity}\n".encode())
    return total.hexdigest()


def prefixes(array: GrownRows) -> list[str]:
    """Identities of the records of the first part, of the first two, and so on: all that these records have had.

    Raises
    ------
    OSError, ValueError
        As :func:`fingerprint`.
    """
    parts = [cast(Stored, part) for part in array.parts]
    sizes = list(accumulate(_stored_bytes(part) for part in parts))
    small = sum(size <= CONTENT_BYTES for size in sizes)
    fingerprints = list[str]()
    for limit, first, last in ((CONTENT_BYTES, 1, small), (-1, small + 1, len(parts))):
        each = [fingerprint(part, limit) for part in parts[:last]] if first <= last else []
        fingerprints += [_of_parts(each[:count]) for count in range(first, last + 1)]
    return fingerprints


def _of_parts(found: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(["blockveil records 1 parts", *found]).encode()).hexdigest()


def _stored_bytes(array: Stored) -> int:
    """Size of all chunks on a local file system; nothing where they are identified by tags."""
    arrays = [part for part in parts_of(array) if isinstance(part.store_path.store, LocalStore)]
    return sum((folder(part) / name).stat().st_size for part in arrays for name in chunk_files(part))


def _by_tags(array: zarr.Array[Any], names: list[str], remote: Objects) -> str:
    total = hashlib.sha256(b"blockveil records 1 tags\n" + _metadata(array, remote) + b"\n")
    for name in names:
        total.update(f"{name} {remote.size(name)} {remote.identity(name)}\n".encode())
    return total.hexdigest()


def _metadata(array: zarr.Array[Any], remote: Objects | None) -> bytes:
    """Metadata that give the chunks their meaning; attributes are remarks and may change."""
    return canonical_json({name: value for name, value in metadata_of(array, remote).items() if name != "attributes"})


def _file_digest(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
