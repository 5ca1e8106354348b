"""Sparse records on the disk: a Zarr group of three arrays, as AnnData and others write compressed sparse rows.

The group has the attributes ``encoding-type = "csr_matrix"`` and ``shape``, and holds ``data`` and ``indices`` (one
entry for each value other than zero) and ``indptr`` (first entry of each row, and the end of the last).

**Source**: the on-disk format of AnnData, sparse arrays, version 0.1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import zarr

from blockveil.engine.answers.sparse_rows import SparseRows
from blockveil.pipeline.base.errors import DataError, StoreError, guard
from blockveil.pipeline.data.conventions import require_plain
from blockveil.pipeline.data.grown_rows import PARTED, GrownEntries, GrownRows, Manifest, PartRows
from blockveil.pipeline.data.stores import Location, open_array, open_node, open_stored, unreadable

PARTS = ("data", "indices", "indptr")
ENCODING = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0"}


class StoredRows(SparseRows):
    """Sparse records in a Zarr group.

    Attributes
    ----------
    parts
        Its arrays.
    attrs
        Attributes of the group.
    """

    def __init__(self, parts: dict[str, zarr.Array[Any]], attrs: dict[str, Any]) -> None:
        super().__init__(parts["data"], parts["indices"], parts["indptr"], int(attrs["shape"][1]))
        self.parts, self.attrs = parts, attrs


Stored = zarr.Array[Any] | StoredRows | GrownRows
"""Records as an array of rows and columns, as their values other than zero, or in parts of either kind."""


def open_rows(location: Location, member: str, name: str, key: str = "data.array") -> Stored:
    """Open records read-only; parameters and errors as for :func:`.stores.open_stored`.

    Raises DataError where a sparse group, or one of parts, is not what its attributes say.
    """
    node = open_node(location, member, name, key)
    if isinstance(node, zarr.Array):
        return node
    attributes = _attributes(node, member)
    if attributes["encoding-type"] == PARTED:
        return _grown(location, member, attributes, name)
    parts = {part: open_stored(location, f"{member}/{part}", name, key) for part in PARTS}
    if _fits(parts, attributes):
        return StoredRows(parts, attributes)
    raise DataError(
        f"{name} holds sparse records whose parts do not fit together",
        "data and indices have one entry a value, indptr one a row and one more, and shape says rows and columns",
        "Write the records again",
    )


@dataclass(frozen=True)
class Form:
    """What the metadata of stored records say, but for how many records there are.

    Attributes
    ----------
    dtype
        Type of an element.
    ndim
        Number of axes.
    shape
        Rows, which are left out, and columns; only where there are two axes.
    attrs
        Attributes.
    """

    dtype: np.dtype[Any]
    ndim: int
    shape: tuple[None, int]
    attrs: Mapping[str, Any]


def open_form(location: Location, member: str, name: str) -> Form:
    """What the metadata of records say; nothing but metadata is read or looked for.

    Parameters and errors as for :func:`.stores.open_stored`.
    """
    node = open_node(location, member, name)
    if isinstance(node, zarr.Array):
        columns = int(node.shape[1]) if node.ndim == 2 else 0
        return Form(np.dtype(node.dtype), node.ndim, (None, columns), dict(node.attrs))
    attributes = _attributes(node, member)
    if attributes["encoding-type"] == PARTED:
        manifest = _manifest(attributes, name)
        return Form(np.dtype(manifest.dtype), 2, (None, manifest.columns), attributes)
    shape, values = attributes.get("shape"), open_stored(location, f"{member}/data", name)
    columns = shape[1] if isinstance(shape, list) and len(shape) == 2 and type(shape[1]) is int else 0
    return Form(np.dtype(values.dtype), 2, (None, columns), attributes)


def parts_of(array: Stored) -> list[zarr.Array[Any]]:
    """Arrays that records are stored in."""
    if isinstance(array, GrownRows):
        return [member for part in array.parts for member in parts_of(cast("zarr.Array[Any] | StoredRows", part))]
    return [array.parts[name] for name in PARTS] if isinstance(array, StoredRows) else [array]


def open_part(location: Location, member: str, sparse: bool, name: str, columns: int) -> PartRows:
    """Open a part of records that grow; what a library raises is not put into words."""
    if not sparse:
        return open_array(location, f"{member}/{name}")
    parts = {part: open_array(location, f"{member}/{name}/{part}") for part in PARTS}
    return StoredRows(parts, {"shape": [int(parts["indptr"].shape[0]) - 1, columns]})


def _grown(location: Location, member: str, attributes: dict[str, Any], name: str) -> GrownRows:
    manifest = _manifest(attributes, name)
    kind = GrownEntries if manifest.sparse else GrownRows
    records = kind(manifest, partial(open_part, location, member, manifest.sparse), attributes)

    def check() -> None:
        for array in parts_of(records):  # each is there, and is what the manifest says
            require_plain(array, name)

    guard(check, lambda error: unreadable(name, error))
    return records


def _manifest(attributes: dict[str, Any], name: str) -> Manifest:
    manifest = Manifest.read(attributes)
    if manifest is None:
        raise DataError(
            f"{name} holds records in parts, and the list of the parts is damaged",
            "The list gives each part and how many records it has",
            "Restore the store from a backup, or ingest the records again",
        )
    return manifest


def _attributes(group: zarr.Group, member: str) -> dict[str, Any]:
    """Attributes of a group that encodes records."""
    attributes = dict(group.attrs)
    if attributes["encoding-type"] not in (ENCODING["encoding-type"], PARTED):
        raise StoreError(
            f'"{member}" is an encoded group and holds no compressed sparse rows',
            f'Sparse records are a group with encoding-type = "csr_matrix", records that grow one with "{PARTED}"',
            "Correct data.array, or write the records by rows",
        )
    return attributes


def _fits(parts: dict[str, zarr.Array[Any]], attributes: dict[str, Any]) -> bool:
    data, indices, indptr = (parts[name] for name in PARTS)
    shape = attributes.get("shape")
    if not isinstance(shape, list) or len(shape) != 2 or not all(type(n) is int and n >= 0 for n in shape):
        return False
    flat = data.ndim == indices.ndim == indptr.ndim == 1
    whole = indices.dtype.kind in "iu" and indptr.dtype.kind in "iu"
    return flat and whole and data.shape == indices.shape and indptr.shape == (shape[0] + 1,)
