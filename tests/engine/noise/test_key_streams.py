"""No block of a key stream is used twice in a release or a series, and the check of it finds what breaks that."""

import numpy as np
import pytest

from blockveil.engine.answers.layout import Tile
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.published import buckets
from blockveil.engine.mechanisms.published.buckets import Dawa
from blockveil.engine.noise import gaussian_table
from blockveil.engine.noise.additive import gaussian_design, laplace_design
from blockveil.engine.noise.discrete_gaussian import GRID_THREE_LEVEL, GRID_TWO_LEVEL, TILE
from blockveil.engine.noise.discrete_laplace import LAPLACE_GRID
from blockveil.testing.mechanism import ADD, REPLACE, Body, K
from blockveil.testing.recording import RecordingKey, check_asked_once, release

SECRET = bytes(range(32))
GUARANTEE = ApproxDP(0.5, 1e-6)
WIDE = SecondMoment(Body.CUBE, np.ones(300), ADD, K, 1000, False)
TALL = Rows(Body.CUBE, np.ones(200), REPLACE, K, 300)


def design_of(problem, laplace=False):
    spread = problem.spread(*(np.ones(size) for size in problem.shape))
    if laplace:
        return laplace_design(spread, problem.l1(spread), problem.scaling, GUARANTEE, LAPLACE_GRID)
    return gaussian_design(spread, problem.l2(spread), problem.scaling, GUARANTEE)


def cut(shape, side):
    starts = [range(0, size, side) for size in shape]
    ends = [lambda start, size=size: min(start + side, size) for size in shape]
    return [Tile((i, ends[0](i)), (j, ends[1](j))) for i in starts[0] for j in starts[1]]


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("problem", [WIDE, TALL], ids=["symmetric", "rows"])
def test_a_release_of_several_tiles_asks_for_each_once_however_it_is_cut(problem, laplace):
    design, exact = design_of(problem, laplace), np.zeros(problem.shape, dtype=np.int64)
    whole = RecordingKey(SECRET)
    release(design, exact, whole)
    check_asked_once(whole.asked, symmetric=problem.symmetric)
    by_tiles = RecordingKey(SECRET)
    tiles = cut(problem.shape, TILE)
    kept = [tile for tile in tiles if not problem.symmetric or tile.rows[0] <= tile.columns[0]]
    release(design, exact, by_tiles, kept)
    check_asked_once(by_tiles.asked)
    assert {request[0] for request in by_tiles.asked} == {request[0] for request in whole.asked}


@pytest.mark.parametrize(("grid", "halves"), [(GRID_TWO_LEVEL, 2), (GRID_THREE_LEVEL, 3), (LAPLACE_GRID, 4)])
def test_a_flat_block_asks_for_words_of_its_own_rows_alone(grid, halves):
    key = RecordingKey(SECRET)
    grid.draw(key, (3 * TILE - 2, 3 * TILE + 1), (0, 2 * TILE), False)
    check_asked_once(key.asked)
    assert 2 * sum(blocks for _, blocks in key.asked) == 3 * 2 * TILE * halves


def test_all_tiles_of_a_symmetric_matrix_without_its_mirror_images_would_be_found():
    key = RecordingKey(SECRET)
    release(design_of(WIDE), np.zeros(WIDE.shape, dtype=np.int64), key, cut(WIDE.shape, TILE))
    with pytest.raises(AssertionError, match="tile"):
        check_asked_once(key.asked)


def dawa():
    return Dawa(0.25).design(Counts((6, 5), ADD, 1000), GUARANTEE)


def test_both_steps_of_dawa_on_one_stream_are_refused_where_the_design_is_made(monkeypatch):
    monkeypatch.setattr(buckets, "_PARTITION", 1)
    monkeypatch.setattr(buckets, "_BUCKETS", 1)
    with pytest.raises(ValueError, match="a stream of its own"):
        dawa()


def test_both_steps_of_dawa_on_one_stream_break_the_contract():
    design, counts = dawa(), np.ones((6, 5), dtype=np.int64)
    sound = RecordingKey(SECRET)
    release(design, counts, sound)
    check_asked_once(sound.asked)
    object.__setattr__(design, "streams", (1, 1))
    mutant = RecordingKey(SECRET)
    release(design, counts, mutant)
    with pytest.raises(AssertionError, match=r"stream 0001|meet"):
        check_asked_once(mutant.asked)


class TyingKey(RecordingKey):
    """A key whose first words are those of an entry of the table, so that every value is a tie."""

    def stream(self, counter, length):
        words = super().stream(counter, length)
        if counter[2] not in (0, 2):
            return words
        even = gaussian_table.table()[1]
        return np.full(length // 8, even[100], dtype="<u8").tobytes()


@pytest.mark.parametrize("grid", [GRID_TWO_LEVEL, GRID_THREE_LEVEL])
def test_ties_are_settled_from_lanes_that_nothing_else_reads(grid):
    key = TyingKey(SECRET)
    grid.draw(key, (0, 2 * TILE), (0, TILE), False)
    check_asked_once(key.asked)
    assert {counter[2] for counter, _ in key.asked} == ({0, 1} if grid.levels == 2 else {0, 1, 2, 3})


def test_requests_that_meet_in_one_block_are_found():
    with pytest.raises(AssertionError, match="meet"):
        check_asked_once([(bytes(16), 2), (bytes(15) + b"\1", 1)])
    check_asked_once([(bytes(16), 1), (bytes(15) + b"\1", 1)])
    with pytest.raises(AssertionError, match="without noise"):
        check_asked_once([])
