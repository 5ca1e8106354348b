"""Zarr arrays by their location: a local folder, or an address in an object store.

Error messages name a location as the config does, and hold only the kind of a library's error.
"""

from __future__ import annotations

import json
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import zarr
from zarr.storage import ObjectStore

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import DataError, StoreError, guard
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.conventions import require_plain
from blockveil.pipeline.data.zarr_arrays import LayoutError, folder, missing_chunks

T = TypeVar("T")

Location = Path | str
"""A local folder, or the address of one in an object store."""

Node = zarr.Array[Any] | zarr.Group
"""What Zarr opens."""


def open_node(location: Location, member: str, name: str, key: str = "data.array") -> Node:
    """Open what holds the records read-only, once: an array, or a group of arrays that encode them.

    Parameters
    ----------
    location
        An array, or a group that holds ``member``.
    member
        Name of the array, or of the encoding group, in a group.
    name
        How to call the location in messages.
    key
        Key of the config that names the member.

    Raises
    ------
    StoreError
        There is neither, or it cannot be read. A group encodes records where it has an ``encoding-type``.
    """

    def opened() -> tuple[Node | None, Node | None, bool]:
        nodes = _nodes(location, ("", member))
        node = whole = next(nodes)
        if isinstance(whole, zarr.Group):
            node = next(nodes)
        encodes = not isinstance(node, zarr.Group) or "encoding-type" in node.attrs
        return whole, node if encodes else None, isinstance(location, Path) and location.exists()

    whole, node, there = guard(opened, lambda error: unreadable(name, error))
    if node is None:
        raise _no_store(name, there) if whole is None else _no_array(name, member, key)
    if isinstance(node, zarr.Array):
        require_plain(node, name)
    return node


def open_stored(location: Location, member: str, name: str, key: str = "data.array") -> zarr.Array[Any]:
    """Open an array read-only; parameters as for :func:`open_node`.

    Raises StoreError where there is no readable Zarr array.
    """
    node = open_node(location, member, name, key)
    if isinstance(node, zarr.Array):
        return node
    raise _no_array(name, member, key)


def _no_array(name: str, member: str, key: str) -> StoreError:
    return StoreError(f'{name} has no array "{member}"', "The records are one array", f"Correct {key}")


def _no_store(name: str, there: bool) -> StoreError:
    return StoreError(
        f"{name} is {'not a Zarr store' if there else 'not there'}",
        "The records are a Zarr array, or an array in a Zarr group, in a local folder or an object store",
        "Correct it; a relative path starts from the config's folder",
    )


def check_complete(array: zarr.Array[Any]) -> None:
    """Refuse an array of which a chunk is not stored: it would be read as the fill value, without a word.

    Raises
    ------
    DataError
        A chunk is missing.
    StoreError
        It cannot be checked.
    """

    def failure(error: Exception) -> StoreError:
        if not isinstance(error, LayoutError):
            return unreadable("The store of the records", error)
        return StoreError(
            f"The records cannot be checked for completeness: {error}",
            "A missing chunk would be read as zeros",
            "Write the array again with Zarr's default layout",
        )

    if guard(lambda: missing_chunks(array, chunk_objects(array)), failure):
        raise DataError(
            "The stored records are incomplete: a chunk is missing",
            "A missing chunk would be read as the fill value, as if its records were all equal",
            "Write the array again, with write_empty_chunks switched on",
        )


def chunk_objects(array: zarr.Array[Any]) -> objects.Objects | None:
    """Objects of an array in an object store, listed now; None for one on a local file system."""
    store = array.store_path.store
    return objects.Objects(store.store, array.store_path.path) if isinstance(store, ObjectStore) else None


def metadata_of(array: zarr.Array[Any], files: objects.Objects | None) -> dict[str, Any]:
    """Stored metadata of an array; ``files`` are its objects, where it is in an object store.

    Raises OSError or ValueError where they cannot be read, or are not JSON.
    """
    if files is None:
        root = folder(array)
        file = root / "zarr.json" if (root / "zarr.json").is_file() else root / ".zarray"
        content = file.read_bytes()
    else:
        name = "zarr.json" if files.size("zarr.json") is not None else ".zarray"
        content = files.read(name, 0, files.size(name) or 0)
    metadata = json.loads(content)
    if not isinstance(metadata, dict):
        raise ValueError("the metadata of the array are not a table")
    return metadata


def unreadable(name: str, error: Exception) -> StoreError:
    """Error of which only the kind is shown: its text could hold parts of files."""
    if is_of_objects(error):
        return objects.unreachable(name, error)
    number = error.errno if isinstance(error, OSError) else None
    reason = os.strerror(number) if number else type(error).__name__
    kind = durable.kind_of(error) if isinstance(error, OSError) else StoreError
    return kind(
        f"{name} cannot be read ({reason})",
        "The records must be a readable Zarr array",
        "Check its permissions, and that its metadata and all its chunks are there",
    )


def guarded(work: Callable[[], T]) -> T:
    """Return what reading the records gives; where it fails, StoreError of which only the kind is shown."""
    return guard(work, lambda error: unreadable("The store of the records", error))


def is_of_objects(error: BaseException) -> bool:
    """Whether an object store, or the way to it, has failed."""
    return type(error).__module__.startswith("obstore")


def is_damage(error: BaseException) -> bool:
    """Whether content could not be decoded: it is cut short, or not what was written.

    Libraries have no class of errors for that. A system's own failure has a number, which a decoder's has not.
    """
    if isinstance(error, OSError):
        return error.errno is None and not isinstance(error, ConnectionError | TimeoutError)
    if isinstance(error, RuntimeError):  # of the codecs of Zarr
        return "decompress" in str(error).lower()
    return isinstance(error, ValueError | EOFError | KeyError | zlib.error | lzma.LZMAError | zipfile.BadZipFile)


def open_array(location: Location, member: str) -> zarr.Array[Any]:
    """Open an array read-only; what a library raises where there is none is not put into words."""
    # By its own path: consolidated metadata of a group could describe an earlier state.
    if isinstance(location, Path):
        return zarr.open_array(location / member, mode="r")
    return zarr.open_array(ObjectStore(objects.client(location), read_only=True), path=member, mode="r")


def _nodes(location: Location, members: Iterable[str]) -> Iterator[Node | None]:
    """What there is below a location, opened one by one by the same client; None where nothing is of Zarr."""
    store = None if isinstance(location, Path) else ObjectStore(objects.client(location), read_only=True)
    for member in members:
        try:
            if isinstance(location, Path):
                path = location / member
                yield zarr.open(path, mode="r", use_consolidated=False) if path.is_dir() else None
            else:
                yield zarr.open(store, path=member, mode="r", use_consolidated=False)
        except FileNotFoundError:
            yield None
