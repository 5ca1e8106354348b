"""Exact sums from which the spread of records is learned: their coordinates and squares, and how far out they lie.

Both queries map one record to whole numbers by elementwise IEEE arithmetic and by exact sums, so that they are the same
on every machine and for every cut. One record adds

* ``(K, k, t)`` to the sums, k its integers in the box and ``t = rint(2 k^2 / K) - K``: all of them lie in [-K, K], so
  that the sums are those of totals over twice as many columns of a box;
* one to one ring of :func:`ring_edges`, by the exact squared length of its integers: a histogram.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gram import RowSource, chunks
from blockveil.engine.answers.layout import Tile
from blockveil.engine.records.geometry import Vector
from blockveil.engine.records.quantiser import Quantiser

_PIECE_BYTES = 2**19
"""Size of the quantised records that are worked on at once, which stay in a core's cache."""

_STEPS = (1.0, 1.15, 1.32, 1.52, 1.74)
_OCTAVES = range(-1, 3)
FURTHEST = 32.0
"""Furthest ring in units of the root of the dimension: where all coordinates are 32 standard deviations out."""


def ring_edges(dimension: int) -> Vector:
    """Lengths between which records are counted, from 0 on, ascending; in units in which coordinates are of size one.

    Parameters
    ----------
    dimension
        Number of features.
    """
    edges = [2.0**octave * step for octave in _OCTAVES for step in _STEPS]
    # Few where nobody ends an ellipsoid: each ring that is counted adds noise to what lies beyond one.
    return np.array([0.0, 0.25, *edges, 8.0, 16.0, FURTHEST]) * np.sqrt(float(dimension))


@dataclass(frozen=True, eq=False)
class SpreadSums:
    """One row: ``K n`` first where the count is asked for, the sum of each column, and that of its centred squares.

    Attributes
    ----------
    quantiser
        Clip and quantisation of all 2 d coordinates: how they are read back.
    records
        Clip and quantisation of a record, to nearest, of d columns and with the same largest integer.
    """

    quantiser: Quantiser
    records: Quantiser

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of the sums over a range of rows, exact; raises as :meth:`.quantiser.Quantiser.quantise`."""
        clip, lead = self.records, int(self.quantiser.augmented)
        width, largest = clip.coordinates.dimension, float(clip.largest)
        total = np.zeros(lead + 2 * width, dtype=np.int64)
        # Exact: every partial sum is an integer of at most rows * K <= 2**37, for K < 2**16 and rows <= 2**21.
        rows = max(1, _PIECE_BYTES // (8 * width))
        for chunk in chunks(source, start, stop, chunk_rows, (0, width)):
            for first in range(0, len(chunk), rows):
                integers = clip.quantise(chunk[first : first + rows])
                total[:lead] += len(integers) * clip.largest
                total[lead : lead + width] += integers.sum(axis=0).astype(np.int64)
                # |k| <= K gives 0 <= 2 k^2 / K <= 2 K, and whole numbers stay so where they are rounded: |t| <= K.
                squares = np.multiply(integers, integers, out=integers)
                squares *= 2.0
                squares /= largest
                total[lead + width :] += np.rint(squares, out=squares).sum(axis=0).astype(np.int64)
                total[lead + width :] -= len(squares) * clip.largest
        return [total[None, slice(*tile.columns)].copy() for tile in tiles]


@dataclass(frozen=True, eq=False)
class RingCounts:
    """Number of records in each ring about a centre, one row.

    Attributes
    ----------
    records
        Quantisation of a record in a cube whose half width is the furthest edge.
    """

    records: Quantiser

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of the counts over a range of rows, exact; raises as :meth:`.quantiser.Quantiser.quantise`."""
        clip = self.records
        width = clip.coordinates.dimension
        edges = ring_edges(width)
        inner = np.floor((edges[1:-1] / edges[-1] * clip.largest) ** 2)
        total = np.zeros(len(inner) + 1, dtype=np.int64)
        rows = max(1, _PIECE_BYTES // (8 * width))
        for chunk in chunks(source, start, stop, chunk_rows, (0, width)):
            for first in range(0, len(chunk), rows):
                integers = clip.quantise(chunk[first : first + rows])
                # Exact: sums of squares are at most d K^2 < 2**53, in any order. Each record is in one ring.
                squared = np.vecdot(integers, integers)
                total += np.bincount(np.searchsorted(inner, squared), minlength=len(total))
        return [total[None, slice(*tile.columns)].copy() for tile in tiles]
