"""How an answer and its records are cut: tiles of the answer, and the parts of the work that tasks do.

A tile of a symmetric answer stands for its mirror image too; only tiles on and above the diagonal are kept. The value
of a tile is the sum over all parts that name it. Tiles have nothing to do with the bits of a release: answers are exact
integers, and noise belongs to entries.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from blockveil.engine.noise.discrete_gaussian import TILE

TILE_SIDE = 1024
"""Side of a tile of a large answer: 8 MiB of int64, and the side of a stored chunk."""


@dataclass(frozen=True)
class Tile:
    """A block of the answer: half-open ranges of its rows and columns."""

    rows: tuple[int, int]
    columns: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the block."""
        return self.rows[1] - self.rows[0], self.columns[1] - self.columns[0]

    @property
    def on_diagonal(self) -> bool:
        """Whether its rows are its columns."""
        return self.rows == self.columns

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True)
class WorkPart:
    """What one task computes: these tiles (by position), over the records ``start <= row < stop``."""

    start: int
    stop: int
    tiles: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Tiles of the answer and parts of the work."""

    tiles: tuple[Tile, ...]
    parts: tuple[WorkPart, ...]


def borders(length: int, side: int, lead: int = 0) -> list[tuple[int, int]]:
    """Half-open ranges of ``side`` that cover a length; the first one is longer by ``lead``."""
    cuts = [0, *range(lead + side, length, side), length]
    return list(zip(cuts[:-1], cuts[1:], strict=True))


def grid(shape: tuple[int, int], symmetric: bool, lead: int = 0, side: int = TILE_SIDE) -> tuple[Tile, ...]:
    """Tiles of an answer, in rows of tiles.

    Parameters
    ----------
    shape
        Shape of the answer.
    symmetric
        Whether tiles below the diagonal are left out.
    lead
        Entries in front of the first regular border, in both directions.
    side
        Largest side of a tile.
    """
    rows, columns = (borders(length, side, lead) for length in shape)
    return tuple(Tile(r, c) for r in rows for c in columns if not symmetric or r <= c)


def split(lengths: Sequence[int]) -> int:
    """How many axes of a grid lie along the rows of the matrix that holds its cells in C order.

    Of two axes the first one, of one axis none. More axes are split where the longer side of the matrix is shortest
    (the first such place): noise is drawn by square tiles, so that a long thin matrix costs more.

    Parameters
    ----------
    lengths
        Cells along each axis.
    """
    places = range(1, len(lengths))
    return min(places, key=lambda place: max(prod(lengths[:place]), prod(lengths[place:])), default=0)


def box_sides(lengths: Sequence[int]) -> tuple[int, ...]:
    """Cells along each axis of the boxes that a grid is cut into, about ``TILE_SIDE**2`` cells each.

    A box is a block of the matrix of :func:`split`: along its rows as along its columns the cells of a box follow each
    other in C order.
    """
    place = split(lengths)
    rows, columns = lengths[:place], lengths[place:]
    down, across = prod(rows), prod(columns)
    # Where one side of the matrix is short, the other side of a box is longer.
    return _contiguous(rows, TILE_SIDE * max(1, TILE_SIDE // across)) + _contiguous(
        columns, TILE_SIDE * max(1, TILE_SIDE // down)
    )


def boxes(lengths: Sequence[int]) -> tuple[Tile, ...]:
    """Tiles of the matrix of a grid, each of them a box of :func:`box_sides`, in rows of tiles."""
    place, sides = split(lengths), box_sides(lengths)
    rows, columns = (_ranges(lengths[part], sides[part]) for part in (slice(place), slice(place, None)))
    return tuple(Tile(r, c) for r in rows for c in columns)


def box(tile: Tile, lengths: Sequence[int]) -> tuple[slice, ...]:
    """Where one of :func:`boxes` lies in the grid."""
    place, sides = split(lengths), box_sides(lengths)
    starts = _place(tile.rows[0], lengths[:place]) + _place(tile.columns[0], lengths[place:])
    return tuple(
        slice(start, min(start + side, length)) for start, side, length in zip(starts, sides, lengths, strict=True)
    )


def _contiguous(lengths: Sequence[int], most: int) -> tuple[int, ...]:
    """Sides of boxes of about ``most`` cells: whole along the last axes, a part of one, one cell before that."""
    sides = list[int]()
    cells: float = most
    for length in reversed(lengths):
        pieces = max(1, round(length / cells))
        side = -(-length // pieces)
        if not sides and pieces > 1:
            side = min(length, -(-side // TILE) * TILE)  # borders of drawn noise waste none of it
        sides.append(side)
        cells = cells / length if pieces == 1 else 1
        if pieces > 1:
            break
    return (1,) * (len(lengths) - len(sides)) + tuple(reversed(sides))


def _ranges(lengths: Sequence[int], sides: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of cells in C order, of one axis each of the boxes of these sides."""
    ranges = list[tuple[int, int]]()
    for cuts in itertools.product(*(borders(n, side) for n, side in zip(lengths, sides, strict=True))):
        start = 0
        for (low, _), length in zip(cuts, lengths, strict=True):
            start = start * length + low
        ranges.append((start, start + prod(high - low for low, high in cuts)))
    return ranges


def _place(flat: int, lengths: Sequence[int]) -> tuple[int, ...]:
    indices = list[int]()
    for length in reversed(lengths):
        flat, index = divmod(flat, length)
        indices.append(index)
    return tuple(reversed(indices))


def grouped(tiles: tuple[Tile, ...], groups: int) -> tuple[tuple[int, ...], ...]:
    """Split tiles into at most ``groups`` runs of about equal size, by position."""
    total = sum(tile.entries for tile in tiles)
    runs, run, entries = list[tuple[int, ...]](), list[int](), 0
    for position, tile in enumerate(tiles):
        # A tile belongs to the run in which its middle lies.
        if run and (entries + tile.entries / 2) * groups / total >= len(runs) + 1:
            runs.append(tuple(run))
            run = []
        run.append(position)
        entries += tile.entries
    return (*runs, tuple(run))


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
    cuts = [round(i * chunks / count) * chunk_rows for i in range(count)] + [rows]
    return [(low, min(high, rows)) for low, high in zip(cuts[:-1], cuts[1:], strict=True) if low < min(high, rows)]


def summed(tiles: tuple[Tile, ...], groups: tuple[tuple[int, ...], ...], ranges: list[tuple[int, int]]) -> Layout:
    """Layout of an answer that is a sum over records: each group of tiles over each range of rows."""
    return Layout(tiles, tuple(WorkPart(start, stop, group) for group in groups for start, stop in ranges))


def banded(ranges: list[tuple[int, int]], width: int) -> Layout:
    """Layout of an answer with a row for each record: a tile for each range."""
    tiles = tuple(Tile(rows, (0, width)) for rows in ranges)
    return Layout(tiles, tuple(WorkPart(*rows, (i,)) for i, rows in enumerate(ranges)))
