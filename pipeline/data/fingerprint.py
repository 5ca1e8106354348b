"""The identity of stored records: equal fingerprints mean the same data, on any machine and after any copy.

The fingerprint stays in the ledger and is never published: whoever can guess all the records could test the guess.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import zarr

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.data.objects import Objects
from blockveil.pipeline.data.sparse_store import Stored, StoredRows, parts_of
from blockveil.pipeline.data.stores import chunk_objects, metadata_of
from blockveil.pipeline.data.zarr_arrays import chunk_files, folder

CONTENT_BYTES = 256 * 2**20
"""Stores up to this size are identified by the content of their chunks; reading it takes well under a second."""


def fingerprint(array: Stored, content_bytes: int = CONTENT_BYTES) -> str:
    """Return the identity of an array's records.

    Parameters
    ----------
    array
        Complete Zarr array. Sparse records are identified by their shape and the arrays that hold them. In an object
        store, chunks are identified by size and entity tag, whatever their size.
    content_bytes
        Stored size up to which chunks are identified by their content. Above it they are identified by size and
        modification time, so that a copy that does not keep times counts as other data.

    Returns
    -------
    64 hexadecimal digits: SHA-256 over the metadata without attributes, and over each chunk file's name and identity in
    sorted order.

    Raises
    ------
    OSError, ValueError
        A file cannot be read, or the metadata is not JSON.
    """
    if isinstance(array, StoredRows):
        found = [repr(array.shape), *(fingerprint(part, content_bytes) for part in parts_of(array))]
        return hashlib.sha256("\n".join(["blockveil records 1 sparse", *found]).encode()).hexdigest()
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
