"""A noise key that remembers which parts of its stream were asked for, and what it means that none is used twice."""

from collections import Counter
from threading import Lock

import dask
from dask.delayed import delayed

from blockveil.engine.answers.graph import noisy_graph, released_layout
from blockveil.engine.answers.layout import Layout, Tile, WorkPart
from blockveil.engine.noise import keyring
from blockveil.engine.noise.discrete_gaussian import NoiseKey

BLOCK = 16
"""Bytes of a block of the cipher, of which each has an address."""


class RecordingKey(NoiseKey):
    """The same noise as that of a plain key, and a list of what it was made of."""

    def __init__(self, secret):
        super().__init__(secret)
        self.asked, self._lock = [], Lock()

    def stream(self, counter, length):
        with self._lock:
            self.asked.append((counter, -(-length // BLOCK)))
        return super().stream(counter, length)


def check_asked_once(asked, symmetric=False):
    """Assert that no block of a key stream was asked for twice.

    A symmetric matrix in one piece has tiles below its diagonal, which are those above it: these are asked for twice,
    as a whole, for entries that are the same entries of the release.
    """
    assert asked, "a release without noise"
    times = Counter(asked)
    for (counter, _), count in times.items():
        mirrored = symmetric and counter[4:8] < counter[8:12]
        assert count <= 1 + mirrored, f"stream {counter[:2].hex()}, lane {counter[2]}, tile {counter[4:12].hex()}"
    intervals = sorted((int.from_bytes(counter), int.from_bytes(counter) + blocks) for counter, blocks in times)
    for (_, end), (start, _) in zip(intervals, intervals[1:], strict=False):
        assert end <= start, f"two requests meet in block {start:032x}"


def release(design, exact, key, tiles=None):
    """Released integers of an exact answer by the tasks of a release; the answer is one tile unless tiles are given."""
    rows, columns = exact.shape
    tiles = tiles or (Tile((0, rows), (0, columns)),)
    layout = Layout(tuple(tiles), (WorkPart(0, 1, tuple(range(len(tiles)))),))
    handle = f"recorded {id(key)}"
    keyring.install(handle, key)
    try:
        held = [delayed(exact[slice(*tile.rows), slice(*tile.columns)]) for tile in tiles]
        values = noisy_graph(held, layout, design, handle, "recorded")
        assert len(values) == len(released_layout(layout, design).tiles)
        return dask.compute(*values, scheduler="sync")
    finally:
        keyring.forget(handle)
