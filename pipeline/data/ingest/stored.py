"""Zarr arrays as a source: put side by side, checked for completeness, identified like the records of a release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zarr

from blockveil.pipeline.base.errors import DataError, guard
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.config.ingest_file import ZarrSource
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.content import Labelled, content_digest
from blockveil.pipeline.data.fingerprint import fingerprint
from blockveil.pipeline.data.stores import check_complete, open_stored, unreadable


@dataclass(frozen=True, repr=False)
class StoredArrays:
    """Arrays of one location, side by side.

    Attributes
    ----------
    location
        Absolute folder or address.
    arrays
        The arrays, opened read-only.
    size
        Bytes when decompressed, for progress.
    identity
        Fingerprints of the arrays.
    """

    location: str
    arrays: tuple[zarr.Array[Any], ...]
    size: int
    identity: str

    @property
    def name(self) -> str:
        """Last part of the location."""
        return self.location.rstrip("/").rpartition("/")[2]

    def parts(self) -> list[Any]:
        """Arrays to read by a slice."""
        return list(self.arrays)

    def content_digest(self) -> str:
        """SHA-256 of the content; StoreError where it cannot be read."""
        arrays = {str(position): Labelled(array) for position, array in enumerate(self.arrays)}
        return guard(lambda: content_digest(arrays, {}), lambda error: unreadable(f'"{self.name}"', error))

    def check_unchanged(self) -> None:
        """Refuse arrays that changed since they were opened; DataError."""
        if _identity(self.arrays, self.name) != self.identity:
            raise DataError(
                f'"{self.name}" changed while it was read',
                "An ingest is of one state of its source",
                "Run again when nothing writes to the source",
            )


def find_arrays(source: ZarrSource, base: Path) -> list[StoredArrays]:
    """Arrays of a source in reading order.

    Raises
    ------
    StoreError
        There is no readable Zarr array.
    DataError
        An array is incomplete, or has another form than rows and columns.
    """
    return [_opened(location, source, base) for location in source.files]


def _opened(location: str, source: ZarrSource, base: Path) -> StoredArrays:
    label = f'source.files "{location}"'
    place = location if objects.is_remote(location) else absolute(base / location, "source.files")
    arrays = tuple(open_stored(place, member, label, "source.arrays") for member in source.arrays or ("",))
    for array in arrays:
        if array.ndim not in (1, 2) or array.dtype.kind not in "biufUT":
            raise DataError(
                f"{label} is an array of type {array.dtype} with {array.ndim} axes",
                "An array holds numbers, booleans or text, in rows and columns",
                "Convert it",
            )
        check_complete(array)
    size = sum(array.size * max(1, array.dtype.itemsize) for array in arrays)
    return StoredArrays(str(place), arrays, size, _identity(arrays, label))


def _identity(arrays: tuple[zarr.Array[Any], ...], shown: str) -> str:
    return guard(lambda: " ".join(fingerprint(array) for array in arrays), lambda error: unreadable(shown, error))
