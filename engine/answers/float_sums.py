"""Tiles of a sum of products in floats: BLAS on integers held as floats, added up in whole numbers.

A block of at most ``2**53 / K**2`` rows of integers bounded by K has products whose every partial sum is an integer of
at most ``2**53``, so BLAS computes them exactly in any order; blocks add up in int64.

Single precision, which multiplies twice as fast, holds integers of up to ``2**24``. It is used where K is so small
that blocks of enough rows are exact in it; the result is the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.layout import Tile
from blockveil.engine.records.quantiser import Quantiser

PIECE_BYTES = 16 * 2**20
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

    def rows_at_once(self, width: int, rows: int) -> int:
        """Rows of a piece that fits the cache, so many that none ends before a sum has to be settled."""
        bytes_a_row = np.dtype(self.dtype).itemsize * width
        fitting = max(1, min(self.exact_rows, max(_PIECE_ROWS, PIECE_BYTES // bytes_a_row), rows))
        return self.exact_rows // -(-self.exact_rows // fitting)

    def rows_in_step(self, width: int, cached: int) -> int:
        """Records of this width that are cut into panels at once, of which this many stay in a core's cache."""
        return cached

    def panel(self, rows: int, length: int, left: bool) -> FloatPanel:
        """Room for this many rows of a range of coordinates, whichever factor they are."""
        return FloatPanel(rows, length, self.dtype)

    def tile_sum(self, tile: Tile, half: bool) -> FloatTileSum:
        """Sum of a tile that grows; of half of it where the other half is its mirror image."""
        return FloatTileSum(tile, half, self)


def arithmetic(largest: int) -> Arithmetic:
    """Fastest arithmetic in floats that is exact for integers of at most this size."""
    from scipy.linalg.blas import dgemm, dsyrk, sgemm, ssyrk  # a plan multiplies nothing

    few, many = 2**24 // largest**2, 2**53 // largest**2
    if few >= _PIECE_ROWS:
        return Arithmetic(np.float32, few, ssyrk, sgemm)
    return Arithmetic(np.float64, many, dsyrk, dgemm)


class FloatPanel:
    """Integers of a range of coordinates as floats, shape (rows, length), C order."""

    def __init__(self, rows: int, length: int, dtype: type[np.float32 | np.float64]) -> None:
        self._integers: NDArray[Any] = np.empty((rows, length), dtype)

    def first(self, rows: int) -> NDArray[Any]:
        """First rows."""
        return self._integers[:rows]

    def fill(
        self, quantiser: Quantiser, records: NDArray[Any], after: int, starts: NDArray[np.intp] | None = None
    ) -> None:
        """Quantise records after the rows that are there; see :meth:`.Quantiser.quantise_by_steps`."""
        quantiser.quantise_by_steps(records, self._integers[after:], starts)

    def ready(self, rows: int) -> None:
        """BLAS takes rows as they lie."""

    def put(self, integers: NDArray[Any], after: int) -> None:
        """Copy integers after the rows that are there."""
        self._integers[after : after + len(integers)] = integers


class FloatTileSum:
    """A tile that grows: floats while they are exact, whole numbers from then on."""

    def __init__(self, tile: Tile, half: bool, how: Arithmetic) -> None:
        self.tile = tile
        self._half = half
        self._how = how
        # BLAS adds up in Fortran order: of the mirrored tile, which is the tile in C order.
        self._block: NDArray[Any] = np.zeros(tile.shape[::-1], dtype=how.dtype, order="F")
        self._kept = 0.0
        self._totals: dict[type[np.int32 | np.int64], NDArray[Any]] = {}
        self._small = 0

    def add(self, left: FloatPanel, right: FloatPanel, rows: int) -> None:
        """Add the product of the first rows of two panels, in C order, so that BLAS copies nothing."""
        a, b = left.first(rows), right.first(rows)
        if self._half:  # only one triangle is computed
            self._block = self._how.symmetric(1.0, a.T, beta=self._kept, c=self._block, trans=0, lower=1, overwrite_c=1)
        else:
            self._block = self._how.general(1.0, b.T, a.T, beta=self._kept, c=self._block, trans_b=1, overwrite_c=1)
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
