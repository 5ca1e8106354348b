"""Records of a store that grows: parts that never change, and one small manifest that says which of them count.

The records are those of the parts, one part after the other. An append writes a new part beside the others and then
replaces the manifest, which is one file. So whoever has read a manifest reads the same records for ever: an append
meanwhile touches none of the files that it names. The records of an earlier manifest are a prefix of those of a later
one, bit for bit, unless an erasure came in between: it puts other parts in the place of those that held records of the
unit, under names of their own.

The manifest is the metadata of a Zarr group, with the attribute ``encoding-type = "blockveil-parts"``; a part is a Zarr
array in that group, or a group of sparse records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.sparse import Entries, EntrySource
from blockveil.pipeline.data.plain_rows import rows_of

PARTED = "blockveil-parts"
"""Value of ``encoding-type``."""

_VERSION = "1"
_NAME = re.compile(r"part-\d{6,9}")


class PartRows(Protocol):
    """Records of one part."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    @property
    def dtype(self) -> Any:
        """Type of an element."""

    def __getitem__(self, key: Any) -> Any:
        """Some of the records; the key is a slice of rows and one of columns."""


@dataclass(frozen=True)
class Manifest:
    """Which parts make up the records.

    Attributes
    ----------
    parts
        Name and number of rows of each part, in order.
    columns
        Number of columns.
    dtype
        Type of an element, such as ``<f4``.
    chunk_rows
        Rows that are read at once where parts are large enough.
    sparse
        Whether parts hold the values other than zero.
    """

    parts: tuple[tuple[str, int], ...]
    columns: int
    dtype: str
    chunk_rows: int
    sparse: bool

    @classmethod
    def read(cls, attributes: Mapping[str, Any]) -> Manifest | None:
        """Manifest in the attributes of a group; None where they hold none that is whole."""
        try:
            rows, columns = attributes["shape"]
            parts = tuple((name, count) for name, count in attributes["parts"])
            manifest = cls(parts, columns, attributes["dtype"], attributes["chunk_rows"], attributes["sparse"])
            whole = all(type(number) is int and number >= 0 for number in (rows, columns, *(n for _, n in parts)))
            named = all(is_part(name) for name, _ in parts) and len({name for name, _ in parts}) == len(parts)
            valid = whole and named and rows == manifest.rows and columns > 0
            valid &= np.dtype(manifest.dtype).str == manifest.dtype
            valid &= type(manifest.chunk_rows) is int and manifest.chunk_rows > 0 and type(manifest.sparse) is bool
            valid &= attributes["encoding-version"] == _VERSION
        except (KeyError, TypeError, ValueError):
            return None
        return manifest if valid else None

    @property
    def rows(self) -> int:
        """Number of records."""
        return sum(rows for _, rows in self.parts)

    @property
    def borders(self) -> tuple[int, ...]:
        """Where the records of each part begin, and where those of the last one end."""
        return tuple(accumulate((rows for _, rows in self.parts), initial=0))

    @property
    def next_part(self) -> int:
        """Number of the next part that is made; no part had it before."""
        return 1 + max((int(name.rpartition("-")[2]) for name, _ in self.parts), default=-1)

    def attributes(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "encoding-type": PARTED,
            "encoding-version": _VERSION,
            "shape": [self.rows, self.columns],
            "dtype": self.dtype,
            "chunk_rows": self.chunk_rows,
            "sparse": self.sparse,
            "parts": [list(part) for part in self.parts],
        }


def is_part(name: str) -> bool:
    """Whether a name is that of a part."""
    return _NAME.fullmatch(name) is not None


def part_name(number: int) -> str:
    """Name of the part of a number, counted from 0."""
    return f"part-{number:06d}"


class GrownRows:
    """Records in parts, read like an array of rows and columns.

    Parameters
    ----------
    manifest
        Which parts make up the records.
    opener
        Opens the part of a name; can be pickled, so that each process opens its own.
    attributes
        What the store says of its records.
    """

    ndim = 2

    def __init__(
        self, manifest: Manifest, opener: Callable[[str, int], PartRows], attributes: Mapping[str, Any]
    ) -> None:
        self.manifest, self._opener, self.attrs = manifest, opener, dict(attributes)
        self.shape: tuple[int, ...] = (manifest.rows, manifest.columns)
        self._opened: dict[int, PartRows] = {}

    def __repr__(self) -> str:
        """Show nothing."""
        return f"{type(self).__name__}()"

    def __getstate__(self) -> dict[str, Any]:
        """Without what is open: little travels, and each process opens what it reads."""
        return {**self.__dict__, "_opened": {}}

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""
        return np.dtype(self.manifest.dtype)

    @property
    def chunks(self) -> tuple[int, int]:
        """Rows and columns to read at once."""
        return self.manifest.chunk_rows, self.shape[1]

    @property
    def parts(self) -> list[PartRows]:
        """The parts, opened."""
        return [self.part(position) for position in range(len(self.manifest.parts))]

    def part(self, position: int) -> PartRows:
        """One part, opened; ValueError where it has another form than the manifest says."""
        if position not in self._opened:
            name, rows = self.manifest.parts[position]
            array = self._opener(name, self.shape[1])
            if array.shape != (rows, self.shape[1]) or np.dtype(array.dtype) != self.dtype:
                raise ValueError("a part of the records is not what their manifest says")
            self._opened[position] = array
        return self._opened[position]

    def first(self, parts: int) -> GrownRows:
        """The records of the first parts alone: those that the store had when it had no others."""
        fields = {**self.manifest.__dict__, "parts": self.manifest.parts[:parts]}
        return type(self)(Manifest(**fields), self._opener, self.attrs)

    def of(self, attributes: Mapping[str, Any]) -> GrownRows:
        """The records of another manifest of the same store; ValueError where it is none."""
        manifest = Manifest.read(attributes)
        if manifest is None:
            raise ValueError("no manifest of records in parts")
        return type(self)(manifest, self._opener, attributes)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Rows, or a block of rows and columns; both are slices without steps."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        start, stop, step = rows.indices(self.shape[0])
        first, last, apart = columns.indices(self.shape[1])
        if step != 1 or apart != 1:
            raise IndexError("rows and columns are read one after the other")
        columns = slice(first, last)
        pieces = list(self._pieces(start, stop))
        if len(pieces) == 1:
            part, inside = pieces[0]
            return np.asarray(rows_of(part, (inside, columns)))
        block = np.empty((max(0, stop - start), max(0, last - first)), self.dtype)
        at = 0
        for part, inside in pieces:
            block[at : at + inside.stop - inside.start] = rows_of(part, (inside, columns))
            at += inside.stop - inside.start
        return block

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[PartRows, slice]]:
        """Parts that hold rows ``start <= row < stop``, and which of their own rows these are."""
        position = int(np.searchsorted(self._borders, start, side="right")) - 1
        while start < stop:
            first, beyond = int(self._borders[position]), int(self._borders[position + 1])
            if start < beyond:
                yield self.part(position), slice(start - first, min(stop, beyond) - first)
                start = beyond
            position += 1

    @cached_property
    def _borders(self) -> NDArray[np.int64]:
        return np.array(self.manifest.borders, np.int64)


class GrownEntries(GrownRows):
    """Records in parts that hold the values other than zero."""

    @property
    def chunks(self) -> tuple[int, int]:
        """A row is the smallest part that can be read."""
        return 1, self.shape[1]

    def entry_blocks(self, start: int, stop: int, most: int) -> Iterator[Entries]:
        """See :class:`.sparse.EntrySource`."""
        for part, inside in self._pieces(start, stop):
            yield from cast(EntrySource, part).entry_blocks(inside.start, inside.stop, most)
