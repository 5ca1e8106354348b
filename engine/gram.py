"""The exact Gram matrix of quantised records: float64 BLAS on integers, added up in int64.

A block of at most ``2**53 / K**2`` rows of integers bounded by K has a Gram matrix whose every partial sum is an
integer of at most ``2**53``, so BLAS computes it exactly in any order; blocks add up in int64. The result is
therefore the same bits for every chunking, row order, number of threads and scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from engine.fixedpoint import Quantiser

_PIECE_BYTES = 32 * 2**20
"""Size of the quantised piece multiplied in one call: a few thousand rows, where BLAS reaches its speed."""


class RowSource(Protocol):
    """Anything whose rows can be read by a slice: a NumPy or a Zarr array, shape (n, d)."""

    shape: tuple[int, ...]

    def __getitem__(self, key: slice) -> Any:
        """Rows as a NumPy array."""


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


def partial_gram(source: RowSource, start: int, stop: int, quantiser: Quantiser, chunk_rows: int) -> NDArray[np.int64]:
    """Gram matrix of rows ``start <= row < stop``: read, clip, quantise and multiply, a few thousand rows at a time.

    Parameters
    ----------
    source
        Records, shape (n, d).
    start, stop
        Row range.
    quantiser
        Clip and quantisation of a record.
    chunk_rows
        Rows to read at once; a multiple of the store's chunk reads each chunk once.

    Returns
    -------
    Shape (width, width), int64, symmetric, exact.

    Raises
    ------
    NotFiniteError
        See :meth:`Quantiser.quantise`.
    """
    width = quantiser.width
    total = np.zeros((width, width), dtype=np.int64)
    block = np.zeros((width, width), dtype=np.float64, order="F")
    rows_in_block = 0
    for piece in _pieces(source, start, stop, quantiser, chunk_rows):
        if rows_in_block + piece.shape[0] > quantiser.exact_rows:
            total += block.astype(np.int64)
            block[...] = 0.0
            rows_in_block = 0
        # Exact: every partial sum is an integer of at most rows_in_block * K**2 <= 2**53. Only one triangle is
        # computed.
        block = dsyrk(1.0, piece.T, beta=1.0, c=block, trans=0, lower=1, overwrite_c=1)
        rows_in_block += piece.shape[0]
    total += block.astype(np.int64)
    lower = np.tril(total)
    return lower + np.tril(total, -1).T


def _pieces(
    source: RowSource, start: int, stop: int, quantiser: Quantiser, chunk_rows: int
) -> Iterator[NDArray[np.float64]]:
    rows = max(1, min(quantiser.exact_rows, _PIECE_BYTES // (8 * quantiser.width)))
    for first in range(start, stop, chunk_rows):
        chunk = np.asarray(source[first : min(first + chunk_rows, stop)])
        for offset in range(0, chunk.shape[0], rows):
            yield quantiser.quantise(chunk[offset : offset + rows])


def add(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Sum of partial Gram matrices; exact, so the order does not matter."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def row_ranges(rows: int, chunk_rows: int, tasks: int) -> list[tuple[int, int]]:
    """Split rows into at most ``tasks`` ranges whose borders fall on chunk borders.

    Parameters
    ----------
    rows
        Number of records, at least one.
    chunk_rows
        Rows of a stored chunk.
    tasks
        Wished number of ranges.
    """
    chunks = -(-rows // chunk_rows)
    count = max(1, min(tasks, chunks))
    borders = [round(i * chunks / count) * chunk_rows for i in range(count)] + [rows]
    return [
        (low, min(high, rows)) for low, high in zip(borders[:-1], borders[1:], strict=True) if low < min(high, rows)
    ]
