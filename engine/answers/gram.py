"""Exact products of quantised records: BLAS on integers held as floats, added up in int64.

A block of at most ``2**53 / K**2`` rows of integers bounded by K has products whose every partial sum is an integer of
at most ``2**53``, so BLAS computes them exactly in any order; blocks add up in int64. The result is therefore the same
bits for every chunking, tiling, row order, number of threads and scheduler.

Single precision, which multiplies twice as fast, holds integers of up to ``2**24``. It is used where K is so small
that blocks of enough rows are exact in it; the result is the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dsyrk, sgemm, ssyrk

from blockveil.engine.answers import progress
from blockveil.engine.answers.layout import Tile
from blockveil.engine.records.quantiser import Quantiser

_PIECE_BYTES = 16 * 2**20
_READS = 5
_PIECE_ROWS = 256
"""Rows multiplied in one call: enough for BLAS to reach its speed, few enough to stay small."""

_SMALL_SUMS = 127
"""Sums below 2**24 that are added up in int32 before they go to int64."""


@dataclass(frozen=True)
class Arithmetic:
    """Floats in which integers are multiplied.

    Attributes
    ----------
    dtype
        Type of the integers and of their sums.
    exact_rows
        Rows whose products add up exactly.
    symmetric, general
        BLAS functions for ``C + A A'`` and ``C + A B'``.
    """

    dtype: type[np.float32 | np.float64]
    exact_rows: int
    symmetric: Callable[..., NDArray[Any]]
    general: Callable[..., NDArray[Any]]

    @property
    def single(self) -> bool:
        """Whether it is single precision."""
        return self.dtype is np.float32

    @property
    def narrow_rows(self) -> int:
        """Rows whose products need no int64 beside the sums of a tile."""
        return self.exact_rows * (_SMALL_SUMS if self.single else 1)


def arithmetic(largest: int) -> Arithmetic:
    """Fastest arithmetic that is exact for integers of at most this size."""
    few, many = 2**24 // largest**2, 2**53 // largest**2
    if few >= _PIECE_ROWS:
        return Arithmetic(np.float32, few, ssyrk, sgemm)
    return Arithmetic(np.float64, many, dsyrk, dgemm)


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


def tile_sums(
    source: RowSource,
    start: int,
    stop: int,
    left: IntegerFactor,
    right: IntegerFactor | None,
    chunk_rows: int,
    tiles: Sequence[Tile],
) -> list[NDArray[np.int64]]:
    """Tiles of ``sum a b'`` over rows ``start <= row < stop``: read, clip, quantise and multiply, a piece at a time.

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

    Returns
    -------
    int64, exact, one array for each tile, of its shape.

    Raises
    ------
    NotFiniteError
        See :meth:`Quantiser.quantise`.
    """
    how = arithmetic(max(side.quantiser.largest for side in (left, right) if side is not None))
    sums = [_TileSum(tile, right is None, how) for tile in tiles]
    down, across = {tile.rows for tile in tiles}, {tile.columns for tile in tiles}
    first = _Panels(left, down | across if right is None else down)
    second = first if right is None else _Panels(right, across)
    sides = (first,) if second is first else (first, second)
    low, high = min(side.columns[0] for side in sides), max(side.columns[1] for side in sides)
    rows_at_once = _rows_at_once(how, sum(side.width for side in sides), stop - start)
    for side in sides:
        side.reserve(rows_at_once, how.dtype)
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
    return [total.finish() for total in sums]


def _rows_at_once(how: Arithmetic, width: int, rows: int) -> int:
    """Rows of a piece that fits the cache, so many that none ends before a sum has to be settled."""
    bytes_a_row = np.dtype(how.dtype).itemsize * width
    fitting = max(1, min(how.exact_rows, max(_PIECE_ROWS, _PIECE_BYTES // bytes_a_row), rows))
    return how.exact_rows // -(-how.exact_rows // fitting)


@dataclass
class _Products:
    """Adds the product of the rows that wait in both panels to every tile, settling sums before they could round."""

    sums: list[_TileSum]
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
        # Exact: every partial sum is an integer of at most pending * K**2, 2**24 or 2**53 by the arithmetic.
        for total in self.sums:
            total.add(self.first.panel(total.tile.rows, rows), self.second.panel(total.tile.columns, rows))


def partial_gram(source: RowSource, start: int, stop: int, quantiser: Quantiser, chunk_rows: int) -> NDArray[np.int64]:
    """Whole Gram matrix of a range of rows as one tile, shape (width, width), symmetric; see :func:`tile_sums`."""
    everything = (0, quantiser.width)
    factor = IntegerFactor(quantiser, (0, quantiser.coordinates.dimension))
    return tile_sums(source, start, stop, factor, None, chunk_rows, [Tile(everything, everything)])[0]


class _TileSum:
    """A tile that grows: floats while they are exact, whole numbers from then on."""

    def __init__(self, tile: Tile, same_factor: bool, how: Arithmetic) -> None:
        self.tile = tile
        self._half = same_factor and tile.on_diagonal
        self._how = how
        # BLAS adds up in Fortran order: of the mirrored tile, which is the tile in C order.
        self._block: NDArray[Any] = np.zeros(tile.shape[::-1], dtype=how.dtype, order="F")
        self._kept = 0.0
        self._totals: dict[type[np.int32 | np.int64], NDArray[Any]] = {}
        self._small = 0

    def add(self, left: NDArray[Any], right: NDArray[Any]) -> None:
        """Add the product of two panels, shapes (rows, m) and (rows, n), C order, so that BLAS copies nothing."""
        if self._half:  # only one triangle is computed
            self._block = self._how.symmetric(
                1.0, left.T, beta=self._kept, c=self._block, trans=0, lower=1, overwrite_c=1
            )
        else:
            self._block = self._how.general(
                1.0, right.T, left.T, beta=self._kept, c=self._block, trans_b=1, overwrite_c=1
            )
        self._kept = 1.0

    def settle(self) -> None:
        """Move what is exact so far to whole numbers; the next product takes its place."""
        self._kept = 0.0
        if not self._how.single:
            self._move(self._block, np.int64)
            return
        # Adding to int32 takes a third of the time. Its sums stay below 127 * 2**24 < 2**31.
        self._move(self._block, np.int32)
        self._small += 1
        if self._small == _SMALL_SUMS:
            self._widen()

    def _widen(self) -> None:
        if np.int32 in self._totals:
            self._move(self._totals.pop(np.int32), np.int64)
        self._small = 0

    def _move(self, block: NDArray[Any], kind: type[np.int32 | np.int64]) -> None:
        if kind not in self._totals:
            self._totals[kind] = block.astype(kind)
            return
        # In whole numbers: as floats a total could be rounded.
        np.add(self._totals[kind], block, out=self._totals[kind], dtype=kind, casting="unsafe")

    def finish(self) -> NDArray[np.int64]:
        """Whole tile; the accumulator is given up."""
        self.settle()
        self._block = np.empty((0, 0))
        self._widen()
        total: NDArray[np.int64] = self._totals.pop(np.int64)
        if not self._half:
            return total.T
        lower = np.tril(total)
        return lower + np.tril(total, -1).T


class _Panels:
    """Quantised pieces of one factor, a contiguous array for each range of its coordinates that a tile needs."""

    def __init__(self, factor: IntegerFactor, ranges: set[tuple[int, int]]) -> None:
        self._ranges = sorted(ranges)
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
        self._buffers: list[NDArray[Any]] = []

    @property
    def width(self) -> int:
        """Coordinates in all panels together."""
        return sum(high - low for low, high in self._ranges)

    def reserve(self, rows: int, dtype: type[np.float32 | np.float64]) -> None:
        """Make room for this many rows of integers."""
        self._buffers = [np.empty((rows, high - low), dtype) for low, high in self._ranges]

    def fill(self, piece: NDArray[Any], first_column: int, after: int) -> None:
        """Quantise a piece, whose first column has this number in the records, after the rows that are there."""
        own = piece[:, self.columns[0] - first_column : self.columns[1] - first_column]
        if not self._parts:
            self._fill_together(own, after)
            return
        starts = self._whole.starts(own)
        for part, (low, high), buffer in zip(self._parts, self._places, self._buffers, strict=True):
            part.quantise_by_steps(piece[:, low - first_column : high - first_column], buffer[after:], starts)

    def _fill_together(self, piece: NDArray[Any], after: int) -> None:
        """A few whole rows at a time, so that they stay in the cache until they are in their panels."""
        if self._ranges == [(0, self._whole.width)]:
            self._whole.quantise_by_steps(piece, self._buffers[0][after:])
            return
        step = self._whole.cached_rows(piece.dtype)
        scratch = np.empty((min(step, len(piece)), self._whole.width), self._buffers[0].dtype)
        for first in range(0, len(piece), step):
            few = piece[first : first + step]
            self._whole.quantise_into(few, scratch[: len(few)])
            rows = slice(after + first, after + first + len(few))
            for (low, high), buffer in zip(self._ranges, self._buffers, strict=True):
                buffer[rows] = scratch[: len(few), low:high]

    def panel(self, coordinates: tuple[int, int], rows: int) -> NDArray[Any]:
        """First integers for a range of coordinates, shape (rows, length), C order."""
        return self._buffers[self._ranges.index(coordinates)][:rows]


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
