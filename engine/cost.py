"""Cost of an exact answer, as pure functions of sizes: floating-point operations, bytes and peak memory."""

from __future__ import annotations

from dataclasses import dataclass

NOMINAL_FLOPS = 2.0e10
"""Useful float64 operations a second and core of a common server core; an estimate, not a measurement."""

NOMINAL_BYTES = 4.0e8
"""Bytes a second and core read, decompressed, clipped and quantised; an estimate, not a measurement."""

_PIECES = 6
"""Copies of a chunk alive at once while it is read, converted and quantised."""


@dataclass(frozen=True)
class Cost:
    """Predicted cost.

    Attributes
    ----------
    flops
        Floating-point operations of the triangle that is needed.
    bytes_read
        Bytes of records as float64.
    peak_bytes
        Largest memory of one worker, in bytes.
    seconds
        Rough wall time on ``parallel`` nominal cores.
    """

    flops: float
    bytes_read: float
    peak_bytes: int
    seconds: float


def second_moment_cost(rows: int, width: int, chunk_bytes: int, threads: int, parallel: int) -> Cost:
    """Cost of the row-panel plan.

    Parameters
    ----------
    rows, width
        Shape of the quantised records.
    chunk_bytes
        Bytes read at once, as float64.
    threads
        Tasks at once in one worker process.
    parallel
        Tasks at once in all workers.
    """
    flops = float(rows) * width * (width + 1)
    bytes_read = 8.0 * rows * width
    # A task holds its accumulators (float64 and int64), a copy when it mirrors them, and its chunk in several forms.
    peak = threads * (5 * 8 * width * width + _PIECES * chunk_bytes) + 9 * 8 * width * width
    seconds = (flops / NOMINAL_FLOPS + bytes_read / NOMINAL_BYTES) / parallel
    return Cost(flops, bytes_read, int(peak), seconds)


def outer_products_cost(rows: int, shape: tuple[int, int], chunk_bytes: int, threads: int, parallel: int) -> Cost:
    """Cost of a sum of outer products of shape (p, q); parameters as for :func:`second_moment_cost`."""
    p, q = shape
    flops, bytes_read = 2.0 * rows * p * q, 8.0 * rows * (p + q)
    # A task holds its accumulator, a product as float64 and as int64, and its chunk in several forms.
    peak = threads * (3 * 8 * p * q + _PIECES * chunk_bytes) + 9 * 8 * p * q
    return Cost(flops, bytes_read, int(peak), (flops / NOMINAL_FLOPS + bytes_read / NOMINAL_BYTES) / parallel)


def rows_cost(rows: int, width: int, chunk_bytes: int, threads: int, parallel: int) -> Cost:
    """Cost of releasing the records themselves; parameters as for :func:`second_moment_cost`."""
    bytes_read = 8.0 * rows * width
    # The whole answer is combined, given steps and noise, in one task.
    peak = threads * _PIECES * chunk_bytes + 6 * bytes_read
    return Cost(0.0, bytes_read, int(peak), bytes_read / NOMINAL_BYTES / parallel)


def counts_cost(rows: int, cells: tuple[int, int], chunk_bytes: int, threads: int, parallel: int) -> Cost:
    """Cost of counts in cells; parameters as for :func:`second_moment_cost`."""
    answer, bytes_read = 8 * cells[0] * cells[1], 16.0 * rows
    peak = threads * (2 * answer + _PIECES * chunk_bytes) + 9 * answer
    return Cost(0.0, bytes_read, int(peak), bytes_read / NOMINAL_BYTES / parallel)
