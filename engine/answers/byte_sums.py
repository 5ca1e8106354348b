"""Tiles of a sum of products in eight bits: exact products of :mod:`.eight_bit`, added up in whole numbers.

A panel lies in memory as the product reads it: feature by feature, as ``k + 128``, where it is a left factor, and
record by record, in blocks of some columns, where it is a right one. Of a tile on the diagonal each block is multiplied
with the features up to its own, and the rest is its mirror image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.eight_bit import BLOCK, PIECE, ByteProduct, Left, Right, Sums
from blockveil.engine.answers.layout import Tile
from blockveil.engine.records.quantiser import Quantiser

_LEAST_ROWS = 128
"""Records that are quantised at once, however wide they are."""

_TURNED_AT_ONCE = 256
"""Rows of a block that become columns at once: as whole numbers of 64 bits they stay in a core's cache."""

_VALUES_AT_ONCE = 2**18
"""Values that are quantised at once: they stay in a core's cache, and make a call cheap."""


class Scratch:
    """Memory for what is needed for a moment, the same for every tile."""

    def __init__(self, dtype: type[np.int32 | np.int64]) -> None:
        self._memory: NDArray[Any] = np.empty(0, dtype)

    def of(self, *shape: int) -> NDArray[Any]:
        """An array of this shape, C order, that overlaps with every other one."""
        size = prod(shape)
        if self._memory.size < size:
            self._memory = np.empty(size, self._memory.dtype)
        return self._memory[:size].reshape(shape)


@dataclass(frozen=True)
class Bytes:
    """Eight bits in which integers are multiplied; see :class:`.float_sums.Arithmetic`.

    Attributes
    ----------
    product
        What multiplies.
    largest
        K, at most :data:`.eight_bit.LARGEST`.
    room
        Where the product of a piece is written.
    """

    product: ByteProduct
    largest: int
    room: Scratch = field(default_factory=lambda: Scratch(np.int32))

    @property
    def dtype(self) -> type[np.int8]:
        """Type of integers on their way to a panel."""
        return np.int8

    def rows_in_step(self, width: int, cached: int) -> int:
        """Records of this width that are cut into panels at once."""
        return rows_in_step(width)

    @property
    def exact_rows(self) -> int:
        """Rows whose products add up exactly in int32."""
        # Every sum is at most rows * K**2 <= 2**31 - 1.
        return (2**31 - 1) // self.largest**2

    def rows_at_once(self, width: int, rows: int) -> int:
        """Rows of a piece."""
        return max(1, min(PIECE, rows))

    def panel(self, rows: int, length: int, left: bool) -> BytePanel:
        """Scratch for this many rows of a range of coordinates, as a left factor too or as a right one alone."""
        return BytePanel(rows, length, self.product if left else None)

    def tile_sum(self, tile: Tile, half: bool) -> ByteTileSum:
        """Sum of a tile that grows; of half of it where the other half is its mirror image."""
        return ByteTileSum(tile, half, self)


def blocks(length: int) -> list[tuple[int, int]]:
    """Half-open ranges of columns that are multiplied together: of :data:`BLOCK`, the last of up to a quarter more."""
    cuts = [*range(0, max(length - BLOCK // 4, 1), BLOCK), length]
    return list(zip(cuts[:-1], cuts[1:], strict=True))


def rows_in_step(width: int) -> int:
    """Records of this width that are quantised at once."""
    return max(_LEAST_ROWS, _VALUES_AT_ONCE // width)


def heights(tile: Tile, half: bool) -> list[int]:
    """Features of a left factor that each block of a tile is multiplied with: of half of it, up to the block's own."""
    return [high if half else tile.shape[0] for _, high in blocks(tile.shape[1])]


def widest(tile: Tile) -> int:
    """Most columns of a block of a tile, so that there is room for every one."""
    return max(high - low for low, high in blocks(tile.shape[1]))


def mirror(total: NDArray[np.int64], low: int, high: int) -> None:
    """Make a symmetric tile's rows, left of a block on the diagonal, from the columns above that block."""
    for first in range(0, low, _TURNED_AT_ONCE):
        some = slice(first, min(first + _TURNED_AT_ONCE, low))
        total[low:high, some] = total[some, low:high].T


class BytePanel:
    """Integers of a range of coordinates: as a right factor, in blocks of columns, and as a left one for a product."""

    def __init__(self, rows: int, length: int, left_of: ByteProduct | None) -> None:
        self._length, self._blocks = length, blocks(length)
        self.left: Left = np.empty((0 if left_of is None else length, rows), np.uint8)
        self.right: list[Right] = [np.empty((rows, high - low), np.int8) for low, high in self._blocks]
        self._turn: list[Callable[[], None]] = []
        if left_of is not None:
            pairs = zip(self.right, self._blocks, strict=True)
            self._turn = [left_of.bind_turned(block, self.left[low:high]) for block, (low, high) in pairs]

    def fill(
        self, quantiser: Quantiser, records: NDArray[Any], after: int, starts: NDArray[np.intp] | None = None
    ) -> None:
        """Quantise records after the rows that are there; see :meth:`.Quantiser.quantise_by_steps`."""
        step = rows_in_step(self._length)
        scratch = np.empty((min(step, len(records)), self._length), np.int8)
        for first in range(0, len(records), step):
            rows = slice(first, min(first + step, len(records)))
            integers = scratch[: rows.stop - first]
            quantiser.quantise_by_steps(records[rows], integers, None if starts is None else starts[rows])
            self.put(integers, after + first)

    def put(self, integers: NDArray[np.int8], after: int) -> None:
        """Copy integers after the rows that are there."""
        rows = slice(after, after + len(integers))
        for block, (low, high) in zip(self.right, self._blocks, strict=True):
            block[rows] = integers[:, low:high]

    def ready(self, rows: int) -> None:
        """Let the first rows be multiplied, and the others add nothing."""
        for block in self.right:
            block[rows:] = 0
        for turn in self._turn:
            turn()


@dataclass
class _Block:
    """Some columns of a tile: a product, where it is written, and what was added up."""

    multiply: Callable[[], None]
    product: Sums
    small: Sums
    wide: NDArray[np.int64] | None = None


class ByteTileSum:
    """A tile that grows: int32 while that is exact, int64 from then on."""

    def __init__(self, tile: Tile, half: bool, how: Bytes) -> None:
        self.tile = tile
        self._half = half
        self._how = how
        self._blocks = list[_Block]()

    def add(self, left: BytePanel, right: BytePanel, rows: int) -> None:
        """Add the product of the first rows of two panels, the same two each time."""
        if not self._blocks:
            self._how.room.of(self.tile.shape[0], widest(self.tile))
            self._blocks = [self._block(left, right, i) for i in range(len(right.right))]
        for block in self._blocks:
            block.multiply()
            np.add(block.small, block.product, out=block.small)

    def _block(self, left: BytePanel, right: BytePanel, number: int) -> _Block:
        factor, height = right.right[number], heights(self.tile, self._half)[number]
        product = self._how.room.of(height, factor.shape[1])
        multiply = self._how.product.bind(left.left[:height], factor, product)
        return _Block(multiply, product, np.zeros(product.shape, np.int32))

    def settle(self) -> None:
        """Move what is exact so far to int64."""
        for block in self._blocks:
            if block.wide is None:
                block.wide = np.zeros(block.small.shape, np.int64)
            block.wide += block.small
            block.small[...] = 0

    def finish(self) -> NDArray[np.int64]:
        """Whole tile; the accumulator is given up."""
        total = np.empty(self.tile.shape, np.int64)
        for (low, high), height, block in zip(
            blocks(self.tile.shape[1]), heights(self.tile, self._half), self._blocks, strict=True
        ):
            # At most 2**62 by the plan, in int64.
            np.add(block.small, 0 if block.wide is None else block.wide, out=total[:height, low:high])
            if self._half:
                mirror(total, low, high)
        self._blocks = []
        return total
