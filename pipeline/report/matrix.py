"""The released matrix, read by tiles: whatever its kind and size, only a few tiles are in memory at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.layout import split
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.data.derived_noise import DerivedDeviations
from blockveil.pipeline.data.zarr_arrays import CHUNK_SIDE, ArrayLikeOnDisk
from blockveil.pipeline.report.presenter import OF_ANY_MATRIX, presenter_of

Array = NDArray[np.float64]
Span = tuple[int, int]
_Along = tuple[int, list[str] | None]

_SLAB = 2**23
"""Entries of a part that is read at once where columns cannot be cut: 64 MiB."""

_BAND = 2**15
"""Entries of a band that is worked on at once: 256 KiB."""

_MOST_COLUMNS = 2**18
"""Columns of an array of more than two axes; each of them takes a few numbers of memory."""


class Shown(Protocol):
    """A release, in memory or on the disk."""

    @property
    def arrays(self) -> Mapping[str, ArrayLikeOnDisk]:
        """Values by name."""

    @property
    def dimensions(self) -> dict[str, tuple[str, ...]]:
        """Name of each axis, by array."""

    @property
    def attributes(self) -> dict[str, Any]:
        """Guarantee, parameters and provenance."""


@dataclass(frozen=True)
class EntriesTile:
    """Entries of some rows and columns; ``mirrored`` where they stand for the entries across the diagonal too."""

    rows: Span
    columns: Span
    mirrored: bool

    @property
    def on_diagonal(self) -> bool:
        """Whether the tile straddles the diagonal of a square matrix."""
        return self.rows == self.columns


class ReleasedMatrix:
    """The matrix that a release is about, as two axes, and the standard deviation of its noise.

    A vector is one column, a line of counts one row; an array of more axes has its first as rows, and all combinations
    of the others as columns. Where these would be too many, more of the axes are rows.

    Raises StoreError where it names no matrix, or not the noise of it.
    """

    def __init__(self, release: Shown) -> None:
        self._arrays, self._dimensions, self.release = release.arrays, release.dimensions, release
        self._diagonals = dict[str, Array]()
        self.attributes = release.attributes
        self.kind = str(release.attributes.get("matrix"))
        if self.kind not in self._arrays or f"{self.kind}_standard_deviation" not in self._arrays:
            raise StoreError(
                f"The release has no array '{self.kind}' with the standard deviation of its noise",
                "A release names its matrix and says its noise",
                "Give the folder or the pointer of a release that Blockveil has published",
            )
        self._stored = tuple(int(length) for length in self._arrays[self.kind].shape)
        self.presenter = presenter_of(self.attributes)
        self._lying = self.presenter.in_a_line and len(self._stored) == 1
        self._down = 0 if self._lying else 1
        if len(self._stored) > 2 and prod(self._stored[1:]) > _MOST_COLUMNS:
            self._down = split(self._stored)
        self.shape = prod(self._stored[: self._down]), prod(self._stored[self._down :])
        axes = self._axes()
        self.symmetric = len(axes) == 2 and axes[1] == f"{axes[0]}_" and self.shape[0] == self.shape[1]
        if self.presenter.symmetric and not self.symmetric:
            self.presenter = OF_ANY_MATRIX

    @property
    def entries(self) -> int:
        """Number of distinct entries."""
        rows, columns = self.shape
        return rows * (rows + 1) // 2 if self.symmetric else rows * columns

    def tiles(self) -> Iterator[EntriesTile]:
        """Tiles that cover the matrix; of a symmetric one those on and above the diagonal."""
        height, width = self._tile_shape()
        for top in range(0, self.shape[0], height):
            for left in range(top if self.symmetric else 0, self.shape[1], width):
                rows, columns = (top, min(top + height, self.shape[0])), (left, min(left + width, self.shape[1]))
                yield EntriesTile(rows, columns, self.symmetric and left > top)

    def value(self, rows: Span, columns: Span) -> Array:
        """Released entries, shape (rows, columns)."""
        return self._read(self.kind, rows, columns)

    def bands(self, tile: EntriesTile) -> Iterator[tuple[EntriesTile, Array, Array]]:
        """Some rows of a tile at a time: their entries, and the standard deviations of the noise.

        All are read once, and a band is worked on in a core's cache. A tile on the diagonal stays whole.
        """
        deviations, value = self._arrays[f"{self.kind}_standard_deviation"], self.value(tile.rows, tile.columns)
        derived = deviations if isinstance(deviations, DerivedDeviations) else None
        stored = None if derived is not None else self.deviation(tile.rows, tile.columns)
        top, bottom = tile.rows
        step = bottom - top if tile.on_diagonal else max(1, _BAND // max(value.shape[1], 1))
        for start in range(top, bottom, step):
            rows = start, min(start + step, bottom)
            inside = slice(rows[0] - top, rows[1] - top)
            if derived is not None:
                deviation = derived.beside(value[inside], rows, tile.columns)
            else:
                assert stored is not None  # noqa: S101 - for the type checker
                deviation = stored[inside]
            yield EntriesTile(rows, tile.columns, tile.mirrored), value[inside], deviation

    def signal(self, rows: Span, columns: Span) -> Array:
        """Released entries less what is released without records: the public origin of records, else zero."""
        return self.centred(self.value(rows, columns), rows, columns)

    def centred(self, value: Array, rows: Span, columns: Span) -> Array:
        """The same of a block whose entries have been read."""
        return value if self.centre is None else value - np.broadcast_to(self.centre, self.shape)[_block(rows, columns)]

    def deviation(self, rows: Span, columns: Span) -> Array:
        """Standard deviation of the noise of entries, shape (rows, columns)."""
        return self._read(f"{self.kind}_standard_deviation", rows, columns)

    def diagonal(self, name: str) -> Array:
        """Diagonal of a symmetric array, its entries (``kind``) or their noise (``deviation``)."""
        array = {"kind": self.kind, "deviation": f"{self.kind}_standard_deviation"}[name]
        if array not in self._diagonals:
            spans = [(start, min(start + CHUNK_SIDE, self.shape[0])) for start in range(0, self.shape[0], CHUNK_SIDE)]
            entries = np.concatenate([np.diagonal(self._read(array, span, span)) for span in spans])
            entries.setflags(write=False)
            self._diagonals[array] = entries
        return self._diagonals[array]

    def name(self, axis: int, position: int) -> str:
        """Name of a row (axis 0) or column (axis 1); its number from 1 where the release has none."""
        along = self._names[axis]
        places = np.unravel_index(position, [length for length, _ in along]) if along else ()
        labels = [
            str(int(place) + 1) if names is None else names[int(place)]
            for place, (_, names) in zip(places, along, strict=True)
        ]
        return ", ".join(labels) if labels else str(position + 1)

    def names(self, axis: int, most: int) -> list[str]:
        """The first names along an axis."""
        return [self.name(axis, i) for i in range(min(most, self.shape[axis]))]

    def array(self, name: str) -> NDArray[Any] | None:
        """Another array of the release, whole; None where there is none."""
        return None if name not in self._arrays else np.asarray(self._arrays[name][...])

    def vectors(self) -> dict[str, tuple[Array, Array]]:
        """Other released numbers and lists with their noise, such as a mean, by name.

        Those of stages by which the shape was learned are about a centre of their own, and no answer; nor are those
        that errors of coefficients follow from.
        """
        vectors, stages = {}, tuple(f"{stage}_" for stage in self.attributes.get("learned", {}).get("stages", ()))
        stages += ("fisher_",) if "fisher" in self.attributes.get("mechanism", {}) else ()
        for name, array in self._arrays.items():
            if stages and name.startswith(stages):
                continue
            noise = self._arrays.get(f"{name}_standard_deviation")
            if name != self.kind and noise is not None and len(array.shape) < 2:
                vectors[name] = (np.asarray(array[...], np.float64), np.asarray(noise[...], np.float64))
        return vectors

    def labels(self, name: str) -> list[str]:
        """Names of the entries of a list; empty where the release has none."""
        axes, shape = self._dimensions.get(name, ()), self._arrays[name].shape
        return (self._axis_names(axes[0], int(shape[0])) or []) if len(axes) == 1 else []

    @cached_property
    def centre(self) -> Array | None:
        """What is released where records say nothing, shape (1, n) or (m, 1); None for zero."""
        return self.presenter.centre(self)

    @cached_property
    def _names(self) -> tuple[list[_Along], list[_Along]]:
        """Length and names of the entries along each axis that makes up the rows, and the columns."""
        along = [
            (length, self._axis_names(axis, length)) for axis, length in zip(self._axes(), self._stored, strict=True)
        ]
        return along[: self._down], along[self._down :]

    def _axes(self) -> tuple[str, ...]:
        return tuple(self._dimensions.get(self.kind, ())) or tuple(f"axis {i}" for i in range(len(self._stored)))

    def _axis_names(self, axis: str, length: int) -> list[str] | None:
        """Names along an axis: the array that is called like it, or the text that lies along it alone."""
        along = (
            name for name, axes in self._dimensions.items() if tuple(axes) == (axis,) and _is_text(self._arrays[name])
        )
        array = self._arrays.get(axis.rstrip("_"), self._arrays.get(next(along, "")))
        if array is None or tuple(array.shape) != (length,):
            return names_of_sides(self._arrays, axis, length)
        return [str(name) for name in array[...]]

    def _tile_shape(self) -> tuple[int, int]:
        if len(self._stored) <= 2 or self._down > 1 or self.shape[1] > _MOST_COLUMNS:
            return CHUNK_SIDE, CHUNK_SIDE
        return max(1, min(CHUNK_SIDE, _SLAB // max(self.shape[1], 1))), self.shape[1]

    def _read(self, name: str, rows: Span, columns: Span) -> Array:
        """Part of an array; one of fewer or shorter axes is the same along those that it lacks."""
        array = self._arrays[name]
        shape = tuple(int(length) for length in array.shape)
        size = rows[1] - rows[0], columns[1] - columns[0]
        if shape == self._stored and self._lying:
            return np.asarray(array[slice(*columns)], np.float64).reshape(size)
        if shape == self._stored and len(shape) > 2:
            return self._block(array, rows, columns)
        if len(shape) == 2:
            spans = (rows, columns)
            key = tuple(slice(None) if length == 1 else slice(*span) for length, span in zip(shape, spans, strict=True))
            return np.broadcast_to(np.asarray(array[key], np.float64), size)
        if shape == self._stored:
            return np.asarray(array[slice(*rows)] if shape else array[()], np.float64).reshape(size)
        return np.broadcast_to(np.asarray(array[...], np.float64), self.shape)[slice(*rows), slice(*columns)]

    def _block(self, array: ArrayLikeOnDisk, rows: Span, columns: Span) -> Array:
        """Part of an array of more than two axes."""
        block = np.empty((rows[1] - rows[0], columns[1] - columns[0]))
        for down, high in _pieces(rows, self._stored[: self._down]):
            for across, wide in _pieces(columns, self._stored[self._down :]):
                block[down, across] = np.asarray(array[high + wide], np.float64).reshape(block[down, across].shape)
        return block


def names_of_sides(arrays: Mapping[str, ArrayLikeOnDisk], axis: str, length: int) -> list[str] | None:
    """Names of the bins of columns of which each has two edges of its own; None for any other axis.

    Parameters
    ----------
    arrays
        Arrays of a release, by name.
    axis, length
        Name of the axis, and number of entries along it.
    """
    if axis != "bin" or "bin_lower" not in arrays or "bin_upper" not in arrays or length not in (3, 4):
        return None
    lower, upper = (np.asarray(arrays[name][...], np.float64) for name in ("bin_lower", "bin_upper"))
    if lower.shape != upper.shape or lower.ndim != 2 or lower.shape[1] != length:
        return None
    own = np.isneginf(lower[:, 0]) & np.isposinf(upper[:, 2]) & np.isnan(lower[:, 3:]).all(axis=1)
    names = ["below its bounds", "within its bounds", "above its bounds", "missing"]
    return names[:length] if own.all() else None


def _block(rows: Span, columns: Span) -> tuple[slice, slice]:
    return slice(*rows), slice(*columns)


def _pieces(span: Span, lengths: tuple[int, ...], start: int = 0) -> Iterator[tuple[slice, tuple[slice, ...]]]:
    """A range of entries in C order as blocks of the axes: where in the range, and which block."""
    (low, high), inner = span, prod(lengths[1:])
    while low < high:
        first, within = divmod(low, inner)
        if within == 0 and high - low >= inner:
            count = (high - low) // inner
            size = count * inner
            yield slice(start, start + size), (slice(first, first + count), *(slice(0, n) for n in lengths[1:]))
        else:
            size = min(high, (first + 1) * inner) - low
            for place, block in _pieces((within, within + size), lengths[1:], start):
                yield place, (slice(first, first + 1), *block)
        low, start = low + size, start + size


def _is_text(array: ArrayLikeOnDisk) -> bool:
    return np.dtype(array.dtype).kind in "OTU" or array.dtype is str
