"""Counts are exact for every chunking, and one record moves at most what the sensitivity says."""

import itertools

import numpy as np
import pytest

from blockveil.engine.answers.counts import CountQuery, partial_counts, unfolded
from blockveil.engine.answers.layout import boxes, grouped
from blockveil.engine.answers.value_cells import Codes, CountError, Edges, Missing, Outside
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.records.quantiser import NotFiniteError

RNG = np.random.default_rng(3)
UNEVEN = np.array([-2.0, -1.5, 0.0, 0.1, 3.0])
EVEN = np.linspace(-1.0, 2.0, 11)


def by_hand(records, query):
    """One record and one cell at a time, from the definition alone."""
    grid = np.zeros(query.grid, dtype=np.int64)
    for record in records:
        place = []
        for axis, value in zip(query.axes, record, strict=True):
            edges = axis.edges
            if not np.isfinite(value) or (query.outside is Outside.DROP and not edges[0] <= value <= edges[-1]):
                break
            value = min(max(value, edges[0]), edges[-1])
            inside = [i for i in range(axis.cells) if edges[i] <= value < edges[i + 1]]
            place.append(inside[0] if inside else axis.cells - 1)
        else:
            grid[tuple(place)] += 1
    return grid.reshape(query.shape)


def query(outside=Outside.CLIP, missing=Missing.REFUSE, rows=UNEVEN, columns=EVEN):
    return CountQuery((Edges(rows), Edges(columns)), outside, missing)


@pytest.mark.parametrize("outside", list(Outside))
@pytest.mark.parametrize("missing", list(Missing))
def test_the_counts_equal_the_definition_on_edges_outside_and_in_between(outside, missing):
    special = np.array(list(itertools.product([*UNEVEN, -9.0, 9.0], [*EVEN, -9.0, 9.0])))
    records = np.concatenate([special, np.nextafter(special, -np.inf), RNG.uniform(-3, 4, (500, 2))])
    if missing is Missing.DROP:
        records = np.concatenate([records, [[np.nan, 0.0], [0.0, np.inf], [-np.inf, np.nan]]])
    wanted = query(outside, missing)
    assert np.array_equal(partial_counts(records, 0, len(records), wanted, 64), by_hand(records, wanted))


def test_every_chunking_and_row_order_counts_the_same():
    records = RNG.normal(0, 1.5, (4001, 2))
    whole = partial_counts(records, 0, 4001, query(), 4001)
    assert whole.dtype == np.int64
    assert whole.sum() == 4001
    for trial in range(20):
        shuffled = records[np.random.default_rng(trial).permutation(4001)]
        cuts = [0, *sorted(np.random.default_rng(trial).integers(0, 4001, 3)), 4001]
        parts = [
            partial_counts(shuffled, a, b, query(), 1 + 37 * trial) for a, b in zip(cuts[:-1], cuts[1:], strict=True)
        ]
        assert np.array_equal(sum(parts), whole)


def test_a_few_records_on_a_large_grid_count_like_many():
    records = RNG.integers(0, 1024, (3000, 2))
    wanted = CountQuery((Codes(1024), Codes(1024)), Outside.DROP, Missing.REFUSE)
    expected = np.zeros((1024, 1024), dtype=np.int64)
    for row, column in records:
        expected[row, column] += 1
    assert np.array_equal(partial_counts(records, 0, 3000, wanted, 100), expected)
    assert np.array_equal(partial_counts(np.tile(records, (100, 1)), 0, 300_000, wanted, 300_000), 100 * expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.float32, np.float64, ">i4"])
def test_codes_of_any_type_count_the_same(dtype):
    records = RNG.integers(0, 7, (300, 2))
    wanted = CountQuery((Codes(500), Codes(5)), Outside.DROP, Missing.REFUSE)
    assert np.array_equal(
        partial_counts(records.astype(dtype), 0, 300, wanted, 50), partial_counts(records, 0, 300, wanted, 300)
    )


def test_other_columns_may_be_chosen_and_may_be_missing():
    records = np.array([[np.nan, 0.5, -1.7], [np.nan, 0.5, 0.05]])
    wanted = CountQuery((Edges(UNEVEN), Edges(EVEN)), Outside.DROP, Missing.REFUSE, features=(2, 1))
    found = partial_counts(records, 0, 2, wanted, 2)
    assert found.sum() == 2
    assert found[0].sum() == 1
    assert found[2].sum() == 1


def test_missing_values_are_refused_without_being_shown():
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(NotFiniteError, match="missing or infinite"):
            partial_counts(np.array([[0.0, 271828.0], [0.0, bad]]), 0, 2, query(), 2)
    huge = np.array([[1e308, 0.0], [1e308, 0.0]])
    assert partial_counts(huge, 0, 2, query(), 2).sum() == 2


@pytest.mark.parametrize("outside", list(Outside))
def test_the_sensitivity_is_reached_and_never_exceeded(outside):
    wanted = CountQuery((Edges(UNEVEN), Edges(EVEN)), outside, Missing.DROP)
    candidates = np.concatenate([RNG.uniform(-4, 5, (40, 2)), [[np.nan, 0.0], [99.0, 99.0]]])
    grids = [partial_counts(record[None], 0, 1, wanted, 1).ravel() for record in candidates]
    add = max(float(np.abs(g).sum()) for g in grids)
    pairs = [g - h for g, h in itertools.combinations(grids, 2)]
    assert add == wanted.l1(Neighbours.ADD_REMOVE).bound == wanted.l2(Neighbours.ADD_REMOVE).bound == 1.0
    assert max(float(np.abs(d).sum()) for d in pairs) == wanted.l1(Neighbours.REPLACE_ONE).bound == 2.0
    largest = max(float(np.linalg.norm(d)) for d in pairs)
    assert largest == pytest.approx(2**0.5, rel=1e-15)
    assert largest <= wanted.l2(Neighbours.REPLACE_ONE).bound <= largest * (1 + 1e-12)
    assert wanted.l2(Neighbours.REPLACE_ONE).exact


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_a_grid_of_any_number_of_axes_is_counted_in_c_order_for_every_chunking(axes):
    edges = [UNEVEN, EVEN, np.linspace(-1.0, 1.0, 4), np.array([-0.5, 0.0, 2.0])][:axes]
    records = RNG.uniform(-2.5, 3.5, (1501, axes))
    for outside in Outside:
        wanted = CountQuery(tuple(Edges(e) for e in edges), outside, Missing.DROP)
        inside = np.clip(records, [e[0] for e in edges], [e[-1] for e in edges]) if outside is Outside.CLIP else records
        expected = np.histogramdd(inside, edges)[0].astype(np.int64)
        assert wanted.grid == expected.shape
        whole = partial_counts(records, 0, 1501, wanted, 1501)
        assert np.array_equal(whole.reshape(wanted.grid), expected)
        parts = [partial_counts(records, a, b, wanted, 97) for a, b in ((0, 700), (700, 701), (701, 1501))]
        assert np.array_equal(sum(parts), whole)


@pytest.mark.parametrize("grid", [(40, 30), (7, 9, 11), (1, 200), (200, 3)])
def test_any_tiles_of_a_grid_hold_the_counts_of_the_whole(monkeypatch, grid):
    monkeypatch.setattr("blockveil.engine.answers.layout.TILE_SIDE", 8)
    monkeypatch.setattr("blockveil.engine.answers.layout.TILE", 4)
    wanted = CountQuery(tuple(Codes(cells) for cells in grid), Outside.DROP, Missing.REFUSE)
    records = RNG.integers(-1, np.array(grid) + 1, (3000, len(grid)))
    whole, tiles = partial_counts(records, 0, 3000, wanted, 3000), boxes(grid)
    assert len(tiles) > 1
    for groups in (1, 2, 5, len(tiles)):
        for group in grouped(tiles, groups):
            some = [tiles[number] for number in group]
            parts = [wanted.partial(records, a, b, 700, some) for a, b in ((0, 1), (1, 3000))]
            for tile, *found in zip(some, *parts, strict=True):
                assert np.array_equal(sum(found), whole[slice(*tile.rows), slice(*tile.columns)])
    apart = [tiles[0], tiles[-1]]
    for tile, found in zip(apart, wanted.partial(records, 0, 3000, 700, apart), strict=True):
        assert np.array_equal(found, whole[slice(*tile.rows), slice(*tile.columns)])


def test_a_missing_value_in_any_column_drops_the_record_or_is_refused():
    records = np.zeros((4, 3))
    for column in range(3):
        records[column, column] = np.nan
    axes = (Codes(2), Codes(3), Codes(4))
    assert partial_counts(records, 0, 4, CountQuery(axes, Outside.DROP, Missing.DROP), 4).sum() == 1
    for row in range(3):
        with pytest.raises(NotFiniteError):
            partial_counts(records, row, row + 1, CountQuery(axes, Outside.DROP, Missing.REFUSE), 1)


def test_a_grid_becomes_a_matrix_that_is_no_longer_than_it_must_be():
    assert unfolded((7,)) == (1, 7)
    assert unfolded((2, 1000)) == (2, 1000)
    assert unfolded((50, 20, 365)) == (1000, 365)
    assert unfolded((2,) * 10) == (32, 32)
    with pytest.raises(CountError, match="at least one axis"):
        CountQuery((), Outside.DROP, Missing.DROP)
    with pytest.raises(CountError, match="a column of the records for each"):
        CountQuery((Codes(2), Codes(2)), Outside.DROP, Missing.DROP, (0,))


def test_a_record_of_a_grid_of_three_axes_moves_what_the_sensitivity_says():
    wanted = CountQuery((Codes(2), Codes(3), Codes(2)), Outside.DROP, Missing.DROP)
    problems = [Counts(wanted.shape, relation, 9, (), 3) for relation in Neighbours]
    grids = [
        partial_counts(np.array([record]), 0, 1, wanted, 1)
        for record in itertools.product(range(2), range(3), range(3))
    ]
    for problem in problems:
        far = (
            [g - h for g, h in itertools.combinations(grids, 2)]
            if problem.neighbours is Neighbours.REPLACE_ONE
            else grids
        )
        spread = problem.spread(np.ones(wanted.shape[0]), np.ones(wanted.shape[1]))
        for norm, bound in ((1, problem.l1(spread)), (2, problem.l2(spread))):
            largest = max(float(np.linalg.norm(change.ravel(), norm)) for change in far)
            assert largest <= bound.bound <= largest * (1 + 1e-12)
            assert wanted.l1(problem.neighbours).bound == pytest.approx(problem.l1(spread).bound)


def test_a_single_cell_changes_by_one_at_most():
    alone = CountQuery((Codes(1), Codes(1)), Outside.DROP, Missing.DROP)
    assert alone.changing(Neighbours.REPLACE_ONE) == 1
