"""Secure discrete noise against NumPy's ``standard_normal``, and noise with writing against writing, in the same run.

Noise is drawn by compiled code where the extra ``fast`` is installed, and by NumPy.

* One thread, interleaved: the median ratio (1: as fast as the generator that is not secure), and that of the fastest.
* As many processes as cores, each for a tile at a time: draw noise, add it, scale it and write the chunk, against
  scaling and writing alone (1: the noise costs nothing).

``python -m benchmarks.noise``
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from blockveil.engine.answers import layout
from blockveil.engine.answers.layout import TILE_SIDE, Tile
from blockveil.engine.noise import compiled_levels
from blockveil.engine.noise.discrete_gaussian import GRID_THREE_LEVEL, GRID_TWO_LEVEL, Grid, NoiseKey, noise_block
from blockveil.flows.base import compiled
from blockveil.pipeline.data import zarr_arrays

SIDE, REPEATS = 2048, 7
KEY = NoiseKey.derive(bytes(32), b"benchmark")


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def write_tile(target: Any, tile: Tile, noised: bool, mirrored: bool) -> None:
    """Write a tile of exact sums, and its mirror image, with noise or without."""
    steps = np.random.default_rng(tile.rows[0]).integers(-(2**40), 2**40, tile.shape)
    if noised:
        steps += GRID_TWO_LEVEL.draw(KEY, tile.rows, tile.columns, symmetric=mirrored)
    values = steps * 2.0**-20
    target[slice(*tile.rows), slice(*tile.columns)] = values
    if mirrored and not tile.on_diagonal:
        target[slice(*tile.columns), slice(*tile.rows)] = values.T


def compare_writing(mirrored: bool) -> None:
    """Print the time of writing alone over that of noise and writing."""
    side, cores = 4 * TILE_SIDE, os.cpu_count() or 1
    tiles = layout.grid((side, side), symmetric=mirrored)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(cores, get_context("spawn"), initializer=compiled.prepare) as pool,
    ):
        group = zarr_arrays.create_group(Path(folder) / "x.zarr", {})
        target = zarr_arrays.create_array(group, "x", (side, side), float, ("i", "j"))

        def run(noised: bool) -> float:
            write = partial(write_tile, target, noised=noised, mirrored=mirrored)
            return seconds(lambda: list(pool.map(write, tiles)))

        timed = [(run(True), run(False)) for _ in range(REPEATS + 1)][1:]
    ratio = statistics.median(plain / ours for ours, plain in timed)
    rate = side * side / statistics.median(ours for ours, _ in timed) / 1e6
    what = "symmetric" if mirrored else "not symmetric"
    print(f"noise and writing, {cores} processes, {what}: {rate:.1f} M/s   ratio to writing alone {ratio:.2f}")


def compare(grid: Grid, kernel: compiled_levels.Kernel | None) -> None:
    """Print the rate of one way to draw noise, and of the generator that is not secure."""
    rng, size = np.random.default_rng(0), (0, SIDE)
    compiled_levels.use(kernel)
    timed = [
        (
            seconds(lambda: noise_block(KEY, size, size, grid=grid, symmetric=False)),
            seconds(lambda: rng.standard_normal((SIDE, SIDE))),
        )
        for _ in range(REPEATS)
    ]
    rates = [SIDE * SIDE / statistics.median(column) / 1e6 for column in zip(*timed, strict=True)]
    ratio = statistics.median(peer / ours for ours, peer in timed)
    fastest = min(peer for _, peer in timed) / min(ours for ours, _ in timed)
    how = "by NumPy" if kernel is None else "compiled"
    print(
        f"{grid.label}, {how}: {rates[0]:6.1f} M/s   standard_normal {rates[1]:6.1f} M/s   "
        f"ratio {ratio:.2f}, of the fastest {fastest:.2f}"
    )


def main() -> None:
    """Print a line for each grid and way, and one for writing."""
    kernel = compiled.prepare().noise
    for grid in (GRID_TWO_LEVEL, GRID_THREE_LEVEL):
        for way in (None, kernel) if kernel is not None else (None,):
            compare(grid, way)
    compare_writing(mirrored=True)
    compare_writing(mirrored=False)


if __name__ == "__main__":
    machine.begin(1)
    from benchmarks import noise  # other processes find functions by the module's name

    noise.main()
