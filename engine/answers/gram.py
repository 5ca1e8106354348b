"""Exact products of quantised records, a piece of a range of rows at a time.

They are sums of integers, by BLAS on integers held as floats (:mod:`.float_sums`) or in eight bits (:mod:`.byte_sums`,
:mod:`.half_sums`), so that the result is the same bits for every processor, chunking, tiling, row order, number of
threads and scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import eight_bit, progress
from blockveil.engine.answers.byte_sums import Bytes
from blockveil.engine.answers.float_sums import Arithmetic
from blockveil.engine.answers.float_sums import arithmetic as arithmetic  # callers know it as a product's
from blockveil.engine.answers.half_sums import Halves
from blockveil.engine.answers.layout import Tile
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.records.quantiser_limits import LARGEST_MULTIPLIED

_READS = 5
_Way = Arithmetic | Bytes | Halves


class RecordsError(Exception):
    """Records cannot be read. An error says no more than its kind, because any text could quote a record."""

    def __init__(self) -> None:
        super().__init__()

    def __reduce__(self) -> tuple[type[RecordsError], tuple[()]]:
        """Travel between processes."""
        return type(self), ()


class OtherRecordsError(RecordsError):
    """A process finds other records, or none, at the place that it was given."""


class DamagedRecordsError(RecordsError):
    """What is stored of the records is cut short or damaged."""


class UnreachableRecordsError(RecordsError, OSError):
    """The store of the records does not answer, or answers with a failure."""


class RowSource(Protocol):
    """Anything whose rows can be read by a slice: a NumPy or a Zarr array, shape (n, d)."""

    shape: tuple[int, ...]

    def __getitem__(self, key: Any) -> Any:
        """Rows, or a block of rows and columns, as a NumPy array."""


def largest_sum(rows_at_most: int, largest: int) -> int:
    """Largest absolute entry that the Gram matrix of ``rows_at_most`` records can take."""
    return rows_at_most * largest * largest


def check_no_overflow(rows_at_most: int, largest: int) -> None:
    """Refuse a plan whose sums could leave int64.

    Raises
    ------
    OverflowError
        ``rows_at_most * K**2`` exceeds ``2**62``.
    """
    # One bit of int64 stays free for adding noise in grid steps, which are never finer than one unit of the sum.
    if largest_sum(rows_at_most, largest) > 2**62:
        raise OverflowError(
            f"rows_at_most {rows_at_most} with integers up to {largest} can exceed the exact range of 2**62; "
            "lower rows_at_most or quantisation_bits"
        )


@dataclass(frozen=True, eq=False)
class IntegerFactor:
    """One of the two factors of a product: integers from some columns of the records.

    Attributes
    ----------
    quantiser
        Clip and quantisation of these columns.
    columns
        Half-open range of the columns of the records.
    """

    quantiser: Quantiser
    columns: tuple[int, int]


def each_tile_sum(
    source: RowSource,
    start: int,
    stop: int,
    left: IntegerFactor,
    right: IntegerFactor | None,
    chunk_rows: int,
    tiles: Sequence[Tile],
) -> Iterator[NDArray[np.int64]]:
    """Tiles of ``sum a b'`` over rows ``start <= row < stop``: read, clip, quantise and multiply, a piece at a time.

    All are computed before the first is given. What a tile was added up in is given up with it, so that a caller who
    turns each into something smaller never has all of them twice.

    Parameters
    ----------
    source
        Records, shape (n, d).
    start, stop
        Row range.
    left, right
        Factors a and b; without b the product is ``a a'``, and tiles on the diagonal cost half.
    chunk_rows
        Rows to read at once; a multiple of the store's chunk reads each chunk once.
    tiles
        What to compute.

    Yields
    ------
    int64, exact, one array for each tile, of its shape.

    Raises
    ------
    NotFiniteError
        See :meth:`Quantiser.quantise`.
    """
    how = _way(max(side.quantiser.largest for side in (left, right) if side is not None))
    sums = [how.tile_sum(tile, right is None and tile.on_diagonal) for tile in tiles]
    down, across = {tile.rows for tile in tiles}, {tile.columns for tile in tiles}
    first = _Panels(left, down | across if right is None else down, down)
    second = first if right is None else _Panels(right, across, set())
    sides = (first,) if second is first else (first, second)
    low, high = min(side.columns[0] for side in sides), max(side.columns[1] for side in sides)
    rows_at_once = how.rows_at_once(sum(side.width for side in sides), stop - start)
    for side in sides:
        side.reserve(rows_at_once, how)
    products = _Products(sums, first, second, how.exact_rows)
    waiting = 0
    for chunk in chunks(source, start, stop, chunk_rows, (low, high)):
        offset = 0
        while offset < chunk.shape[0]:
            piece = chunk[offset : offset + rows_at_once - waiting]
            for side in sides:
                side.fill(piece, low, waiting)
            offset += len(piece)
            waiting += len(piece)
            if waiting == rows_at_once:
                products.add(waiting)
                waiting = 0
    if waiting:
        products.add(waiting)
    for total in sums:
        yield total.finish()


def given_up(tiles: list[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """Tiles in order, each of which the list gives up."""
    tiles.reverse()
    while tiles:
        yield tiles.pop()


def tile_sums(
    source: RowSource,
    start: int,
    stop: int,
    left: IntegerFactor,
    right: IntegerFactor | None,
    chunk_rows: int,
    tiles: Sequence[Tile],
) -> list[NDArray[np.int64]]:
    """All tiles at once; see :func:`each_tile_sum`."""
    return list(each_tile_sum(source, start, stop, left, right, chunk_rows, tiles))


@dataclass
class _Products:
    """Adds the product of the rows that wait in both panels to every tile, settling sums before they could be wrong."""

    sums: Sequence[Any]
    first: _Panels
    second: _Panels
    exact_rows: int
    pending: int = 0

    def add(self, rows: int) -> None:
        if self.pending + rows > self.exact_rows:
            for total in self.sums:
                total.settle()
            self.pending = 0
        self.pending += rows
        # Exact: every partial sum is an integer of at most pending * K**2 <= 2**24, 2**31 - 1 or 2**53, by the way.
        for side in {self.first, self.second}:
            side.ready(rows)
        for total in self.sums:
            total.add(self.first.panel(total.tile.rows), self.second.panel(total.tile.columns), rows)


def _way(largest: int) -> _Way:
    """Fastest way of this process to multiply integers of at most this size; all give the same sums."""
    # The bound of the proof: products are below 2**40, so that at least 2**13 of them are exact in double precision.
    if largest > LARGEST_MULTIPLIED:
        raise ValueError(f"integers of {largest} are added but not multiplied; choose at most 20 quantisation bits")
    choice, floats = eight_bit.in_use(), arithmetic(largest)
    if choice.product is not None and largest <= eight_bit.LARGEST:
        return Bytes(choice.product, largest)
    if choice.product is not None and choice.halves and not floats.single and largest <= eight_bit.LARGEST_OF_HALVES:
        return Halves(choice.product)
    return floats


def partial_gram(source: RowSource, start: int, stop: int, quantiser: Quantiser, chunk_rows: int) -> NDArray[np.int64]:
    """Whole Gram matrix of a range of rows as one tile, shape (width, width), symmetric; see :func:`tile_sums`."""
    everything = (0, quantiser.width)
    factor = IntegerFactor(quantiser, (0, quantiser.coordinates.dimension))
    return tile_sums(source, start, stop, factor, None, chunk_rows, [Tile(everything, everything)])[0]


class _Panels:
    """Quantised pieces of one factor, a panel for each range of coordinates that a tile needs."""

    def __init__(self, factor: IntegerFactor, ranges: set[tuple[int, int]], left: set[tuple[int, int]]) -> None:
        self._ranges, self._left = sorted(ranges), left
        self._whole = factor.quantiser
        self._parts = factor.quantiser.parts(self._ranges)
        if self._whole.dither is not None and self.width == self._whole.width:
            self._parts = []  # whole rows are read for their dither anyway, and cut where all of them are wanted
        first = factor.columns[0] - int(factor.quantiser.augmented)
        self._places = [(max(first + low, factor.columns[0]), first + high) for low, high in self._ranges]
        self.columns = factor.columns
        # All values of a record decide where it is rounded, also where a part of them is wanted.
        if self._parts and self._whole.dither is None:
            self.columns = min(low for low, _ in self._places), max(high for _, high in self._places)
        self._panels = dict[tuple[int, int], Any]()
        self._how: _Way = arithmetic(factor.quantiser.largest)

    @property
    def width(self) -> int:
        """Coordinates in all panels together."""
        return sum(high - low for low, high in self._ranges)

    def reserve(self, rows: int, how: _Way) -> None:
        """Make room for this many rows of integers."""
        self._how = how
        self._panels = {part: how.panel(rows, part[1] - part[0], part in self._left) for part in self._ranges}

    def fill(self, piece: NDArray[Any], first_column: int, after: int) -> None:
        """Quantise a piece, whose first column has this number in the records, after the rows that are there."""
        own = piece[:, self.columns[0] - first_column : self.columns[1] - first_column]
        if not self._parts:
            self._fill_together(own, after)
            return
        starts = self._whole.starts(own)
        for part, (low, high), panel in zip(self._parts, self._places, self._panels.values(), strict=True):
            panel.fill(part, piece[:, low - first_column : high - first_column], after, starts)

    def _fill_together(self, piece: NDArray[Any], after: int) -> None:
        """A few whole rows at a time, so that they stay in the cache until they are in their panels."""
        if self._ranges == [(0, self._whole.width)]:
            self._panels[self._ranges[0]].fill(self._whole, piece, after)
            return
        step = self._how.rows_in_step(self._whole.width, self._whole.cached_rows(piece.dtype))
        scratch = np.empty((min(step, len(piece)), self._whole.width), self._how.dtype)
        for first in range(0, len(piece), step):
            few = piece[first : first + step]
            self._whole.quantise_by_steps(few, scratch[: len(few)])
            for (low, high), panel in self._panels.items():
                panel.put(scratch[: len(few), low:high], after + first)

    def ready(self, rows: int) -> None:
        """So many rows are there and will be multiplied."""
        for panel in self._panels.values():
            panel.ready(rows)

    def panel(self, coordinates: tuple[int, int]) -> Any:
        """Integers for a range of coordinates."""
        return self._panels[coordinates]


def chunks(
    source: RowSource, start: int, stop: int, chunk_rows: int, columns: tuple[int, int]
) -> Iterator[NDArray[Any]]:
    """Chunks of a row range, each read while the one before it is worked on."""

    def read(first: int) -> NDArray[Any]:
        rows = slice(first, min(first + chunk_rows, stop))
        # One index where all columns are wanted: a source then needs to know rows only.
        return read_again(lambda: source[rows] if columns == (0, source.shape[1]) else source[rows, slice(*columns)])

    firsts = range(start, stop, chunk_rows)
    with ThreadPoolExecutor(1) as ahead:
        following = ahead.submit(read, firsts[0])
        for i in range(len(firsts)):
            chunk = following.result()
            if i + 1 < len(firsts):
                following = ahead.submit(read, firsts[i + 1])
            yield chunk
            progress.advance((i + 1) / len(firsts))


def read_again(read: Callable[[], Any]) -> NDArray[Any]:
    """Read, and again a few times where a store fails for a moment; the last failure is passed on."""
    for _ in range(_READS - 1):
        with suppress(OSError):
            return np.asarray(read())
    return np.asarray(read())
