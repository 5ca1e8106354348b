"""The group of a release as files of a stranger: checked before Zarr opens them, and as they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

import zarr
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore, ObjectStore

from blockveil.pipeline.base.errors import guard
from blockveil.pipeline.base.foreign_files import MOST_METADATA, open_regular, read_regular, regular_below
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.answering_store import NAME, AnsweringStore
from blockveil.pipeline.data.release_layout import METADATA, ChunkForm, attributes_of, chunk_forms
from blockveil.pipeline.data.stores import Location

Members = dict[str, zarr.Array[Any]]


class ReleaseFiles(LocalStore):
    """A release on the disk; reads regular files alone, and no chunk that would become more than its array says."""

    def __init__(self, root: Path, forms: Mapping[str, ChunkForm]) -> None:
        super().__init__(root, read_only=True)
        self.forms = dict(forms)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Content of a file, checked; None where there is none.

        Parameters
        ----------
        key
            Its name.
        prototype
            Kind of memory that it is read into.
        byte_range
            Nothing: chunks of a release are read whole.

        Raises
        ------
        ValueError
            It is not what the release says.
        """
        if prototype is None or byte_range is not None:
            raise ValueError("chunks of a release are read whole")
        try:
            content = await asyncio.to_thread(self.content_of, key)
        except FileNotFoundError:
            return None
        return prototype.buffer.from_bytes(content)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Contents of files; raises as :meth:`get`."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    def content_of(self, key: str) -> bytes:
        """Content of a file, checked; raises OSError or ValueError."""
        form = _form_of(key, self.forms)
        content = read_regular(self.root / key, MOST_METADATA if form is None else form.size * 2 + 4096)
        if form is not None:
            form.check(content)
        return content

    @staticmethod
    def opened(file: Path) -> FileIO:
        """A file of the release, opened to be read piece by piece; raises OSError."""
        return open_regular(file)


class SentRelease(AnsweringStore):
    """A release in an object store, as :class:`ReleaseFiles`."""

    forms: Mapping[str, ChunkForm]

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Content of an object, checked; parameters and errors as for :meth:`ReleaseFiles.get`."""
        buffer, form = await super().get(key, prototype, byte_range), _form_of(key, self.forms)
        if buffer is not None and form is not None:
            form.check(buffer.to_bytes())
        return buffer


def opened_release(location: Location) -> tuple[Members, dict[str, Any]]:
    """Return the arrays of a release by name, which are read as they are asked for, and its attributes.

    Raises
    ------
    ValueError, OSError, StoreError
        The files are not those of a release, or cannot be read; or anything that Zarr raises.
    """
    if isinstance(location, Path):
        files = dict(regular_below(location))
        attributes, forms = _described(files, lambda name: read_regular(location / name, MOST_METADATA))
        store: ReleaseFiles | SentRelease = ReleaseFiles(location, forms)
    else:
        place = objects.client(location)
        store_objects = guard(lambda: objects.Objects(place, ""), lambda error: objects.unreachable(NAME, error))
        files = store_objects.sizes
        attributes, forms = _described(files, lambda name: store_objects.read(name, 0, MOST_METADATA))
        store = SentRelease(ObjectStore(place, read_only=True))
        store.forms = forms
    members = {name: zarr.open_array(store, path=name, mode="r", zarr_format=3) for name in sorted(forms)}
    return members, attributes


def _described(files: Mapping[str, int], read: Callable[[str], bytes]) -> tuple[dict[str, Any], dict[str, ChunkForm]]:
    return attributes_of(files, read), chunk_forms(files, read)


def _form_of(key: str, forms: Mapping[str, ChunkForm]) -> ChunkForm | None:
    """Form of a chunk; None of metadata."""
    name, _, rest = key.partition("/")
    return None if rest in ("", METADATA) else forms[name]
