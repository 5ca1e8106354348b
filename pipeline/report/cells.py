"""Cells of a heat map: sums of the entries that each of them stands for, and what noise alone makes of these sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.report.alone import NoiseAlone
from blockveil.pipeline.report.matrix import Array, EntriesTile, ReleasedMatrix, Span

CELLS = 360
"""Cells of a heat map along an axis; a cell of a larger matrix is the mean of its entries."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A heat map.

    Attributes
    ----------
    values
        Mean of the shown entries of each cell, shape (a, b).
    clear
        Whether a cell is beyond what noise alone gives, all cells and entries at once, shape (a, b).
    """

    values: Array
    clear: NDArray[np.bool_]


def cell_starts(length: int) -> NDArray[np.int64]:
    """First entry of each cell along an axis of some length."""
    return np.unique(np.arange(min(length, CELLS)) * length // min(length, CELLS)).astype(np.int64)


def cells_of(shape: tuple[int, int]) -> tuple[int, int]:
    """Number of cells along each axis."""
    return min(shape[0], CELLS), min(shape[1], CELLS)


class CellSums:
    """Adds up entries by the cells of a heat map."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self._starts = tuple(cell_starts(length) for length in shape)
        self.sums = np.zeros(tuple(starts.size for starts in self._starts))
        sizes = [
            np.diff(np.append(starts, length)).astype(float) for starts, length in zip(self._starts, shape, strict=True)
        ]
        self.entries = np.outer(*sizes)

    def part(self, tile: EntriesTile, values: Array) -> Array:
        """Sums of the cells that a tile meets."""
        (_, in_rows), (_, in_columns) = self._cut(0, tile.rows), self._cut(1, tile.columns)
        sums: Array = np.add.reduceat(np.add.reduceat(values, in_rows, axis=0), in_columns, axis=1)
        return sums

    def take(self, tile: EntriesTile, part: Array) -> None:
        """Add what :meth:`part` gave for a tile, and its mirror image where it stands for that too."""
        (rows, _), (columns, _) = self._cut(0, tile.rows), self._cut(1, tile.columns)
        self.sums[rows, columns] += part
        if tile.mirrored:
            self.sums[columns, rows] += part.T

    def add(self, tile: EntriesTile, values: Array) -> None:
        """Add a tile, and its mirror image where it stands for that too."""
        self.take(tile, self.part(tile, values))

    def add_diagonal(self, span: Span, values: Array) -> None:
        """Add numbers on the diagonal only."""
        cells, inside = self._cut(0, span)
        positions = np.arange(cells.start, cells.stop)
        self.sums[positions, positions] += np.add.reduceat(values, inside)

    def _cut(self, axis: int, span: Span) -> tuple[slice, NDArray[np.int64]]:
        """Cells that a span meets, and where each begins within the span."""
        starts = self._starts[axis]
        first = int(np.searchsorted(starts, span[0], side="right")) - 1
        last = int(np.searchsorted(starts, span[1] - 1, side="right"))
        return slice(first, last), np.maximum(starts[first:last] - span[0], 0)


class CellNoise:
    """Noise of weighted sums of the entries of each cell; mirrored entries have the same noise.

    Parameters
    ----------
    matrix, alone
        The matrix and its noise.
    rows, columns
        Weight of an entry by row and by column; of a symmetric matrix they are the same.
    """

    def __init__(self, matrix: ReleasedMatrix, alone: NoiseAlone, rows: Array, columns: Array) -> None:
        self._alone, self._symmetric, self._weights = alone, matrix.symmetric, (rows, columns)
        self._sums, self._single = CellSums(matrix.shape), cells_of(matrix.shape) == matrix.shape
        self._starts = cell_starts(matrix.shape[0])

    def part(self, tile: EntriesTile, deviation: Array) -> tuple[Array, Array]:
        """What a tile adds, from the weighted standard deviations of its entries; and what its diagonal does."""
        if self._alone.dependent:
            return self._sums.part(tile, deviation), np.empty(0)
        if not self._symmetric:
            return self._sums.part(tile, deviation**2), np.empty(0)
        # A cell on the diagonal holds entries and their mirror images: var(2x) = 2 (var x + var x).
        on_it = -(np.diagonal(deviation) ** 2) if tile.on_diagonal else np.empty(0)
        return self._sums.part(tile, 2.0 * deviation**2), on_it

    def take(self, tile: EntriesTile, part: tuple[Array, Array]) -> None:
        """Add what :meth:`part` gave for a tile."""
        self._sums.take(tile, part[0])
        if part[1].size:
            self._sums.add_diagonal(tile.rows, part[1])

    def add(self, tile: EntriesTile, deviation: Array) -> None:
        """Add the weighted standard deviations of a tile's entries."""
        self.take(tile, self.part(tile, deviation))

    def deviation(self, sums: Array) -> Array:
        """Standard deviation of the noise of each cell's sum, shape (a, b); a bound where entries depend untold."""
        if self._alone.dependent:
            return self._sums.sums  # no sum deviates more than its parts together
        variance = self._variance()
        ratio = self._alone.ratio
        if ratio is not None and not self._single:
            # A block of a covariance is a covariance of sums of features, whose noise its entries share.
            weights = self._weights[0]
            variance = variance - ratio.stated_shared(self._starts, weights)
            variance = np.maximum(variance, 0.0) + ratio.grouped(self._starts, weights).shared(sums)
        return np.sqrt(np.maximum(variance, 0.0))

    def reach(self, sums: Array) -> Array:
        """What noise alone makes of each cell's sum, all at once, shape (a, b)."""
        linear, rest = self.parts(sums)
        reach: Array = self._alone.band_of_sums * linear + rest
        return reach

    def parts(self, sums: Array) -> tuple[Array, Array]:
        """Standard deviation of the linear noise of each cell's sum, and a bound of what is not linear."""
        deviation, ratio = self.deviation(sums), self._alone.ratio
        if ratio is None:
            return deviation, np.zeros(deviation.shape)
        groups = ratio.grouped(self._starts, self._weights[0], together=self._alone.dependent)
        along = np.arange(self._starts.size)
        return groups.parts(along[:, None], along[None, :], sums, deviation)

    def _variance(self) -> Array:
        """Sums of variances of entries with independent noise."""
        if not self._symmetric:
            return self._sums.sums
        once = self._sums.sums / 2.0  # off the diagonal a cell holds each entry once
        np.fill_diagonal(once, np.diagonal(self._sums.sums))
        return once
