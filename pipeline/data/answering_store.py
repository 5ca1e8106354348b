"""A Zarr store at an address in an object store, whose failures are reported in words, whenever values are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, TypeVar

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import ObjectStore, WrapperStore

from blockveil.pipeline.data import objects

T = TypeVar("T")

NAME = "The release's store"


class AnsweringStore(WrapperStore[ObjectStore[Any]]):
    """Reads as the store that it wraps; what that raises may quote addresses with signatures, and is not shown."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Content of an object, or None where there is none.

        Parameters
        ----------
        key
            Its name.
        prototype
            Kind of memory that it is read into.
        byte_range
            Part of it that is wanted; None for all.

        Raises
        ------
        StoreError
            The store does not give it.
        """
        return await _answered(super().get(key, prototype, byte_range))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Parts of objects; raises as :meth:`get`."""
        return await _answered(super().get_partial_values(prototype, key_ranges))

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names directly below a prefix; raises as :meth:`get`."""
        for name in await _answered(self._names(prefix)):
            yield name

    async def _names(self, prefix: str) -> list[str]:
        return [name async for name in super().list_dir(prefix)]


async def _answered(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - an object store may raise anything, and its text may hold keys
        failure = objects.unreachable(NAME, error)
    raise failure
