"""Tiles of a sum of products of integers of up to 16 bits, by halves of eight bits each.

An integer is ``x = 256 h + l + 128`` with h and l from -128 to 127. With the sums ``s = sum (x - 128)`` of n records,

    sum x y = 65536 sum h h' + 256 (sum h l' + sum l h') + sum l l' + 128 (s + s') + 16384 n

where h and l are of x, h' and l' of y. Four products in eight bits take the place of one in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import compiled_halves
from blockveil.engine.answers.byte_sums import BytePanel, Scratch, blocks, heights, mirror, rows_in_step, widest
from blockveil.engine.answers.eight_bit import PIECE, SHIFT, ByteProduct, Sums
from blockveil.engine.answers.float_sums import PIECE_BYTES
from blockveil.engine.answers.layout import Tile
from blockveil.engine.records.quantiser import Quantiser

_LEAST_ROWS = 1024


@dataclass(frozen=True)
class Halves:
    """Halves of integers that are multiplied; see :class:`.float_sums.Arithmetic`.

    Attributes
    ----------
    product
        What multiplies.
    products, wide
        Where the products of a piece are written, and one of them in int64.
    """

    product: ByteProduct
    products: Scratch = field(default_factory=lambda: Scratch(np.int32))
    wide: Scratch = field(default_factory=lambda: Scratch(np.int64))

    @property
    def dtype(self) -> type[np.float32]:
        """Type of integers on their way to a panel, which holds those of 24 bits."""
        return np.float32

    @property
    def exact_rows(self) -> int:
        """Rows whose products add up exactly: all that a plan allows, for every piece goes to int64."""
        return 2**62

    def rows_in_step(self, width: int, cached: int) -> int:
        """Records of this width that are cut into panels at once."""
        return rows_in_step(width)

    def rows_at_once(self, width: int, rows: int) -> int:
        """Rows of a piece: four bytes per value, both halves as both factors, with room for as many as in floats."""
        fitting = PIECE_BYTES // (4 * width) // 64 * 64
        return max(1, min(rows, PIECE, max(_LEAST_ROWS, fitting)))

    def panel(self, rows: int, length: int, left: bool) -> HalfPanel:
        """Scratch for this many rows of a range of coordinates, as a left factor too or as a right one alone."""
        return HalfPanel(rows, length, self.product if left else None)

    def tile_sum(self, tile: Tile, half: bool) -> HalfTileSum:
        """Sum of a tile that grows; of half of it where the other half is its mirror image."""
        return HalfTileSum(tile, half, self)


class HalfPanel:
    """Integers of a range of coordinates: their halves as panels of bytes, and the sums of what both hold."""

    def __init__(self, rows: int, length: int, left_of: ByteProduct | None) -> None:
        self._length = length
        self.high, self.low = BytePanel(rows, length, left_of), BytePanel(rows, length, left_of)
        self.sums = np.zeros(length, np.int64)

    def fill(
        self, quantiser: Quantiser, records: NDArray[Any], after: int, starts: NDArray[np.intp] | None = None
    ) -> None:
        """Quantise records after the rows that are there; see :meth:`.Quantiser.quantise_by_steps`."""
        step = rows_in_step(self._length)
        scratch = np.empty((min(step, len(records)), self._length), np.float32)
        for first in range(0, len(records), step):
            rows = slice(first, min(first + step, len(records)))
            integers = scratch[: rows.stop - first]
            quantiser.quantise_by_steps(records[rows], integers, None if starts is None else starts[rows])
            self.put(integers, after + first)

    def put(self, integers: NDArray[np.float32], after: int) -> None:
        """Copy integers of 16 bits after the rows that are there."""
        high, low = (np.empty(integers.shape, np.int8) for _ in range(2))
        if not compiled_halves.split(integers, high, low, self.sums):
            shifted = integers.astype(np.int16)
            np.copyto(high, shifted >> 8, casting="unsafe")
            # The low byte without its sign, less 128, is that byte with its highest bit turned.
            np.copyto(low, shifted ^ SHIFT, casting="unsafe")
            self.sums += np.sum(shifted, axis=0, dtype=np.int64) - SHIFT * len(integers)
        self.high.put(high, after)
        self.low.put(low, after)

    def ready(self, rows: int) -> None:
        """Let the first rows be multiplied, and the others add nothing."""
        self.high.ready(rows)
        self.low.ready(rows)


@dataclass
class _HalfBlock:
    """Some columns of a tile: products of the halves, where they are written, and what was added up."""

    multiply: list[Callable[[], None]]
    products: Sums
    total: NDArray[np.int64]
    scratch: NDArray[np.int64]

    def add(self) -> None:
        """Add ``65536 h h' + 256 (h l' + l h') + l l'``."""
        for multiply in self.multiply:
            multiply()
        if compiled_halves.fold(self.products, self.total):
            return
        high, mixed, other, low = self.products
        # Of at most 65,793 rows and 128 * 128 each, products are below 2**31; of a piece of 2,048, two below 2**27.
        np.add(mixed, other, out=mixed)
        for product, weight in ((high, 2**16), (mixed, 2**8), (low, 1)):
            np.multiply(product, weight, out=self.scratch, dtype=np.int64)
            np.add(self.total, self.scratch, out=self.total)


class HalfTileSum:
    """A tile that grows, in int64."""

    def __init__(self, tile: Tile, half: bool, how: Halves) -> None:
        self.tile = tile
        self._half = half
        self._how = how
        self._blocks = list[_HalfBlock]()
        self._rows = 0
        self._sums: list[NDArray[np.int64]] = []

    def add(self, left: HalfPanel, right: HalfPanel, rows: int) -> None:
        """Add the product of the first rows of two panels, the same two each time."""
        if not self._blocks:
            for room, count in ((self._how.products, 4), (self._how.wide, 1)):
                room.of(count, self.tile.shape[0], widest(self.tile))
            self._blocks = [self._block(left, right, i) for i in range(len(right.high.right))]
            self._sums = [left.sums, right.sums]
        self._rows += rows
        for block in self._blocks:
            block.add()

    def _block(self, left: HalfPanel, right: HalfPanel, number: int) -> _HalfBlock:
        height = heights(self.tile, self._half)[number]
        shape = height, right.high.right[number].shape[1]
        pairs = [(a.left[:height], b.right[number]) for a in (left.high, left.low) for b in (right.high, right.low)]
        products: Sums = self._how.products.of(4, *shape)
        bound = [self._how.product.bind(a, b, c) for (a, b), c in zip(pairs, products, strict=True)]
        return _HalfBlock(bound, products, np.zeros(shape, np.int64), self._how.wide.of(*shape))

    def settle(self) -> None:
        """Every product is in int64 already."""

    def finish(self) -> NDArray[np.int64]:
        """Whole tile; the accumulator is given up."""
        total = np.empty(self.tile.shape, np.int64)
        down, across = self._sums
        for (low, high), height, block in zip(
            blocks(self.tile.shape[1]), heights(self.tile, self._half), self._blocks, strict=True
        ):
            # What is added on the way may leave int64 and wrap around; the sum does not leave it, by the plan.
            sums = down[:height, None] + across[None, low:high]
            total[:height, low:high] = block.total + SHIFT * sums + SHIFT**2 * self._rows
            if self._half:
                mirror(total, low, high)
        self._blocks = []
        return total
