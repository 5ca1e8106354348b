"""Counts of a large grid, published tile by tile: the bits of the whole, and sums along each axis alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.layout import Tile, box, box_sides
from blockveil.engine.estimates.blocks import cells_block
from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.noise.design import NoiseDesign, Released
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Block, Large


class CellBlocks:
    """Counts of a grid of independent cells.

    Parameters
    ----------
    grid, names
        Cells along each axis, and its name.
    axes
        Names and edges of the cells along each axis.
    design
        Noise of the cells.
    """

    def __init__(self, grid: tuple[int, ...], names: tuple[str, ...], axes: ReleaseArrays, design: NoiseDesign) -> None:
        self._grid, self._names, self._axes, self._design = grid, names, axes, design
        # A tile is a stored chunk, so no two threads write one.
        real = Large(grid, names, chunks=box_sides(grid))
        self.large: Mapping[str, Large] = {
            "counts": real,
            "counts_standard_deviation": real,
            "counts_integer": Large(grid, names, np.int64, box_sides(grid)),
        }
        self._lock = threading.Lock()
        self._along: dict[Tile, list[tuple[slice, NDArray[np.float64], NDArray[np.float64]]]] = {}

    def needed_first(self, tile: Tile) -> bool:
        """None is."""
        del tile
        return False

    def small(self, first: Mapping[Tile, Released]) -> ReleaseArrays:
        """Names and edges of the cells."""
        del first
        return self._axes

    def values(self, tile: Tile, released: Released) -> Iterator[Block]:
        """Counts, their error, and whole counts."""
        place = box(tile, self._grid)
        block = cells_block(released, self._design, tile.rows, tile.columns)
        sides = tuple(part.stop - part.start for part in place)
        value, deviation = block.value.reshape(sides), block.standard_deviation.reshape(sides)
        if len(self._grid) > 2:
            self._add_along(tile, place, Estimate(value, deviation))
        yield "counts", place, value
        yield "counts_standard_deviation", place, deviation
        yield "counts_integer", place, integer_counts(value)

    def _add_along(self, tile: Tile, place: tuple[slice, ...], found: Estimate) -> None:
        """Keep the sums of a tile along each axis; tiles come in any order."""
        axes = range(len(place))
        sums = []
        for axis in axes:
            others = tuple(other for other in axes if other != axis)
            sums.append((place[axis], found.value.sum(axis=others), np.sum(found.standard_deviation**2, axis=others)))
        with self._lock:
            self._along[tile] = sums

    def last(self) -> ReleaseArrays:
        """Counts along each axis alone, of grids that have no workload: sums of cells whose noise is independent."""
        arrays: ReleaseArrays = {}
        if len(self._grid) <= 2:
            return arrays
        for axis, (name, length) in enumerate(zip(self._names, self._grid, strict=True)):
            value, variance = np.zeros(length), np.zeros(length)
            # In one order, so that every attempt adds up to the same bits.
            for tile in sorted(self._along, key=lambda tile: (tile.rows, tile.columns)):
                part, of_value, of_variance = self._along[tile][axis]
                value[part] += of_value
                variance[part] += of_variance
            arrays = {
                **arrays,
                f"marginal_{axis + 1}": (value, (name,)),
                f"marginal_{axis + 1}_standard_deviation": (np.sqrt(variance), (name,)),
            }
        return arrays


def integer_counts(counts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Nearest whole numbers that are not negative."""
    whole: NDArray[np.int64] = np.rint(np.maximum(counts, 0.0)).astype(np.int64)
    return whole
