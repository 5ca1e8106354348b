"""Tiles cover an answer once, groups and ranges cover the work once, and stored chunks belong to one tile."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.answers.layout import (
    TILE_SIDE,
    Tile,
    banded,
    box,
    box_sides,
    boxes,
    grid,
    grouped,
    row_ranges,
    split,
    summed,
)
from blockveil.pipeline.data.zarr_arrays import CHUNK_SIDE


@given(
    rows=st.integers(1, 60),
    columns=st.integers(1, 60),
    side=st.integers(1, 70),
    lead=st.integers(0, 1),
    symmetric=st.booleans(),
)
def test_tiles_cover_each_entry_once_or_its_mirror_image(rows, columns, side, lead, symmetric):
    shape = (rows, rows) if symmetric else (rows, columns)
    covered = [
        (i, j) for tile in grid(shape, symmetric, lead, side) for i in range(*tile.rows) for j in range(*tile.columns)
    ]
    assert len(covered) == len(set(covered))
    if symmetric:
        covered += [(j, i) for i, j in covered]
    assert set(covered) == {(i, j) for i in range(shape[0]) for j in range(shape[1])}


@given(width=st.integers(1, 40), groups=st.integers(1, 30))
def test_groups_hold_each_tile_once_and_no_group_is_far_above_its_share(width, groups):
    tiles = grid((width, width), True, 0, 5)
    found = grouped(tiles, groups)
    assert [position for group in found for position in group] == list(range(len(tiles)))
    assert len(found) <= groups
    sizes = [sum(tiles[position].entries for position in group) for group in found]
    assert max(sizes) <= sum(sizes) / groups + 2 * 25


def test_borders_of_tiles_are_borders_of_stored_chunks_once_the_constant_coordinate_is_left_out():
    assert TILE_SIDE % CHUNK_SIDE == 0
    tiles = grid((5001, 5001), True, 1)
    assert {max(tile.rows[0] - 1, 0) % CHUNK_SIDE for tile in tiles} == {0}
    assert all(tile.rows <= tile.columns for tile in tiles)


def test_each_tile_is_summed_over_all_ranges_and_each_band_is_a_tile():
    tiles, ranges = grid((9, 9), True, 0, 4), row_ranges(100, 7, 3)
    layout = summed(tiles, grouped(tiles, 2), ranges)
    for number in range(len(tiles)):
        assert [(part.start, part.stop) for part in layout.parts if number in part.tiles] == ranges
    bands = banded(ranges, 5)
    assert bands.tiles == tuple(Tile(rows, (0, 5)) for rows in ranges)
    assert [part.tiles for part in bands.parts] == [(0,), (1,), (2,)]


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    side=st.integers(1, 12),
)
def test_boxes_cover_a_grid_once_and_are_blocks_of_its_matrix_and_of_the_grid(lengths, side):
    place = split(lengths)
    shape = math.prod(lengths[:place]), math.prod(lengths[place:])
    numbers = np.arange(math.prod(lengths)).reshape(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blockveil.engine.answers.layout.TILE_SIDE", side)
        patch.setattr("blockveil.engine.answers.layout.TILE", 2)
        found = [
            (numbers[slice(*t.rows), slice(*t.columns)], numbers.reshape(lengths)[box(t, lengths)])
            for t in boxes(lengths)
        ]
        sides = box_sides(lengths)
    assert sorted(int(n) for block, _ in found for n in block.ravel()) == list(range(numbers.size))
    for block, within in found:
        assert np.array_equal(block.reshape(within.shape), within)
        assert all(length <= most for length, most in zip(within.shape, sides, strict=True))


@pytest.mark.parametrize(
    "lengths",
    [
        (16384, 16384),
        (3, 9000, 9000),
        (1000, 20, 13000),
        (2**20,),
        (2**20, 256),
        (600, 400_000),
        (100, 1025, 1025),
        (64, 64, 64, 64, 16),
    ],
)
def test_boxes_of_a_large_grid_hold_about_a_million_cells(lengths):
    sizes = [tile.entries for tile in boxes(lengths)]
    assert max(sizes) <= 2.25 * TILE_SIDE**2
    assert len(sizes) <= 3 * math.prod(lengths) / TILE_SIDE**2 + 1
