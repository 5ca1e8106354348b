"""Histograms of columns are exact for every chunking, and each value falls in the one bin that its definition names."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.answers.column_bins import (
    DigitBins,
    EdgeBins,
    HistogramQuery,
    MissingValue,
    PowerBins,
    column_histograms,
)
from blockveil.engine.answers.layout import Tile
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.histograms.problem import Histograms
from blockveil.engine.records.quantiser import NotFiniteError

POWERS, EDGES = PowerBins(-3, 4), EdgeBins((-2.0, 0.0, 1.0, 40.0))
LARGEST = np.finfo(np.float64).max


def by_definition(bins, value):
    """Bin of a finite value, by comparing it with every border."""
    lower, upper = bins.borders
    if isinstance(bins, EdgeBins):
        inside = (lower < value) & (value <= upper)
        inside[[0, 1]] = value < bins.edges[0], bins.edges[0] <= value <= bins.edges[1]
        return np.flatnonzero(inside)
    if value == 0.0:
        return np.flatnonzero((lower == 0.0) & (upper == 0.0))
    # Closed away from zero; nothing finite is at an infinite end.
    inside = (lower < value) & (value <= upper) if value > 0 else (lower <= value) & (value < upper)
    return np.flatnonzero(inside)


def special():
    powers = np.ldexp(1.0, np.arange(-5, 7))
    around = np.concatenate([powers, [40.0, 2.0**-1000, 2.0**-1022, 5e-324, LARGEST, 1.0, 0.3]])
    around = np.concatenate([around, np.nextafter(around, 0.0), np.nextafter(around[:-3], LARGEST)])
    return np.concatenate([around, -around, [0.0, -0.0]])


@pytest.mark.parametrize("bins", [POWERS, EDGES, PowerBins(0, 0), PowerBins(-1000, 1000), EdgeBins((0.0, 5e-324))])
def test_each_value_is_in_the_one_bin_that_its_borders_name(bins):
    values = special()
    wanted = [by_definition(bins, value) for value in values]
    assert all(len(each) == 1 for each in wanted)
    assert np.array_equal(bins.places(values), np.concatenate(wanted))
    lower, upper = bins.borders
    assert bins.size == lower.size == upper.size
    assert np.all(np.diff(lower) >= 0)
    assert np.array_equal(lower[1:], upper[:-1])
    assert (lower[0], upper[-1]) == (-np.inf, np.inf)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-1000, 1000), st.integers(0, 300))
def test_any_number_is_in_the_power_bin_that_holds_it(value, least, more):
    bins = PowerBins(least, min(least + more, 1000))
    assert bins.places(np.array([value])) == by_definition(bins, value)


RNG = np.random.default_rng(5)
RECORDS = np.column_stack([RNG.normal(0, 3, 700), RNG.lognormal(0, 4, 700), RNG.integers(-3, 50, 700)])
QUERY = HistogramQuery((POWERS, POWERS, EDGES), MissingValue.REFUSE)


def by_hand(records, query):
    found = np.zeros(query.shape, dtype=np.int64)
    for record in records:
        for column, (bins, value) in enumerate(zip(query.bins, record, strict=True)):
            if np.isfinite(value):
                found[column, by_definition(bins, value)[0]] += 1
            elif query.missing is MissingValue.COUNT:
                found[column, -1] += 1
    return found


@pytest.mark.parametrize("chunk_rows", [1, 7, 64, 700, 10_000])
def test_the_histograms_equal_the_definition_for_every_chunking(chunk_rows):
    assert np.array_equal(column_histograms(RECORDS, 0, 700, QUERY, chunk_rows), by_hand(RECORDS, QUERY))


@pytest.mark.parametrize("cut", [0, 1, 350, 700])
def test_parts_of_the_rows_add_up_and_their_order_does_not_matter(cut):
    whole = column_histograms(RECORDS, 0, 700, QUERY, 50)
    parts = column_histograms(RECORDS, 0, cut, QUERY, 50) + column_histograms(RECORDS, cut, 700, QUERY, 33)
    assert np.array_equal(parts, whole)
    assert np.array_equal(column_histograms(RECORDS[::-1], 0, 700, QUERY, 50), whole)


def test_tiles_are_blocks_of_the_whole():
    whole = column_histograms(RECORDS, 0, 700, QUERY, 50)
    first, second = QUERY.partial(RECORDS, 0, 700, 50, [Tile((0, 3), (0, 4)), Tile((1, 3), (4, 10))])
    assert np.array_equal(first, whole[:, :4])
    assert np.array_equal(second, whole[1:, 4:10])


def test_many_bins_and_few_records_are_counted_too():
    wide = HistogramQuery((PowerBins(-1000, 1000),) * 40, MissingValue.REFUSE)
    records = RNG.normal(size=(3, 40))
    assert np.array_equal(column_histograms(records, 0, 3, wide, 3), by_hand(records, wide))


def test_no_records_are_counted_as_none():
    assert not column_histograms(RECORDS[:0], 0, 0, QUERY, 10).any()


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64, np.float32, np.bool_])
def test_numbers_of_other_types_are_those_that_they_stand_for(dtype):
    records = np.array([[0, 1], [1, 3], [100, 0]]).astype(dtype)
    query = HistogramQuery((POWERS, EDGES), MissingValue.REFUSE)
    assert np.array_equal(column_histograms(records, 0, 3, query, 2), by_hand(records.astype(float), query))


MISSING = np.array([[np.nan, 1.0, 2.0], [0.0, np.inf, -np.nan], [3.0, -np.inf, 7.0], [1.0, 1.0, 1.0]])


@pytest.mark.parametrize("missing", [MissingValue.DROP, MissingValue.COUNT])
def test_a_missing_or_infinite_value_falls_where_the_policy_says_and_the_rest_of_its_row_is_counted(missing):
    query = HistogramQuery((POWERS, EDGES, POWERS), missing)
    found = column_histograms(MISSING, 0, 4, query, 3)
    assert np.array_equal(found, by_hand(MISSING, query))
    assert found.sum() == (12 if missing is MissingValue.COUNT else 8)


def test_missing_values_are_refused_where_the_policy_says_so_without_naming_one():
    with pytest.raises(NotFiniteError, match=r"^the records hold a missing or infinite value$"):
        column_histograms(MISSING, 0, 4, HistogramQuery((POWERS,) * 3, MissingValue.REFUSE), 3)


def test_a_column_of_fewer_bins_ends_in_places_where_nothing_is():
    query = HistogramQuery((POWERS, EDGES), MissingValue.DROP)
    lower, upper = query.borders()
    found = column_histograms(RECORDS[:, [0, 2]], 0, 700, query, 100)
    assert not found[1, EDGES.size :].any()
    assert np.isnan(lower[1, EDGES.size :]).all()
    assert np.isnan(upper[1, EDGES.size :]).all()
    assert not np.isnan(lower[0]).any()


@pytest.mark.parametrize("least, greatest", [(1, 0), (-1001, 0), (0, 1001)])
def test_powers_that_are_no_borders_are_refused(least, greatest):
    with pytest.raises(ValueError, match="exponents ascend"):
        PowerBins(least, greatest)


@pytest.mark.parametrize("edges", [(), (1.0,), (1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (0.0, np.nan)])
def test_edges_that_do_not_cut_are_refused(edges):
    with pytest.raises(ValueError, match="increase strictly"):
        EdgeBins(edges)


def test_histograms_of_nothing_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        HistogramQuery((), MissingValue.DROP)


CHOICES = [-1.0, 0.5, 3.0, np.nan]
TINY = (EdgeBins((0.0, 1.0)), EdgeBins((0.0, 1.0, 2.0)))


@pytest.mark.parametrize("missing", [MissingValue.DROP, MissingValue.COUNT])
@pytest.mark.parametrize("relation", list(Neighbours))
def test_no_neighbours_differ_by_more_than_the_sensitivity_and_some_by_all_of_it(relation, missing):
    """Every record of two columns that there can be, added, removed, or replaced by every other."""
    query = HistogramQuery(TINY, missing)
    problem = Histograms(query.sizes, relation, 10)
    spread = problem.spread(np.array([1.0, 3.0]), np.ones(query.shape[1]))
    units = np.outer(spread.rows, spread.columns)
    answers = [
        column_histograms(np.array([record, [0.5, 0.5]]), 0, 2, query, 2) / units
        for record in itertools.product(CHOICES, repeat=2)
    ]
    without = column_histograms(np.array([[0.5, 0.5]]), 0, 1, query, 1) / units
    pairs = [(a, without) for a in answers] if relation is Neighbours.ADD_REMOVE else itertools.combinations(answers, 2)
    changes = [(a - b).ravel() for a, b in pairs]
    for norm, sensitivity in ((1, problem.l1(spread)), (2, problem.l2(spread))):
        largest = max(np.linalg.norm(change, norm) for change in changes)
        assert largest == pytest.approx(sensitivity.attained, rel=1e-12)
        assert largest <= sensitivity.bound
        assert sensitivity.exact
    assert max(np.count_nonzero(change) for change in changes) == spread.changing


def test_columns_that_are_not_counted_change_nothing():
    rng = np.random.default_rng(5)
    records = rng.normal(0.0, 9.0, (200, 4))
    records[3, 2] = np.nan
    some = HistogramQuery((EDGES, POWERS), MissingValue.REFUSE, (0, 3))
    alone = HistogramQuery((EDGES, POWERS), MissingValue.REFUSE)
    wanted = column_histograms(np.ascontiguousarray(records[:, [0, 3]]), 0, 200, alone, 50)
    assert np.array_equal(column_histograms(records, 0, 200, some, 30), wanted)
    records[:, 1:3] = 1e9
    assert np.array_equal(column_histograms(records, 0, 200, some, 200), wanted)


@pytest.mark.parametrize("at", [(0,), (3, 1), (0, 1, 2)])
def test_each_histogram_is_of_one_column_in_their_order(at):
    with pytest.raises(ValueError, match="each histogram is of a column"):
        HistogramQuery((EDGES, POWERS), MissingValue.DROP, at)


@pytest.mark.parametrize("digits", [1, 3, 10, 20])
def test_a_value_is_in_the_bin_of_digits_that_holds_it_over_a_power_of_four(digits):
    bins = DigitBins(digits)
    lower, upper = bins.borders
    assert bins.size == lower.size == upper.size
    assert np.array_equal(lower[2:], upper[1:-1])
    assert (lower[0], upper[0], lower[1], upper[-1]) == (0.0, 0.0, 1.0, 4.0)
    values = special()
    values = values[(values == 0.0) | (np.abs(values) >= 2.0**-1022)]
    places = bins.places(values)
    for value, place in zip(values, places, strict=True):
        if value == 0.0:
            assert place == 0
            continue
        part, power = np.frexp(abs(value))  # in [1/2, 1); exact
        inside = next(y for y in (part * 2, part * 4, part * 8) if 1.0 < y <= 4.0 and _of_four(abs(value), y, power))
        assert lower[place] < inside <= upper[place], value


def _of_four(value, y, power):
    """Whether a value is a number times an even power of two."""
    return (int(power) - round(float(np.log2(y / np.frexp(value)[0])))) % 2 == 0


def test_numbers_too_small_for_digits_are_in_one_bin_all_the_same():
    bins = DigitBins(5)
    places = bins.places(np.array([5e-324, -5e-324, 2.0**-1030, np.nextafter(2.0**-1022, 0.0)]))
    assert np.all((places > 0) & (places < bins.size))
    with pytest.raises(ValueError, match="digits"):
        DigitBins(0)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_two_histograms_of_one_column_move_by_what_their_sensitivity_says_and_no_more(neighbours):
    """Brute force: every record of a few values in every place, against every other and against none."""
    bins = (PowerBins(-2, 3), DigitBins(2), EdgeBins((0.0, 1.0)))
    query = HistogramQuery(bins, MissingValue.DROP, (0, 0, 2))
    values = [0.0, 0.3, 1.0, 2.5, -2.5, 6.0, 10.0, 40.0, np.nan]
    rows = [np.array([[a, 7.0, b]]) for a in values for b in (0.5, 3.0)]
    exact = [column_histograms(row, 0, 1, query, 1).astype(float) for row in rows]
    if neighbours is Neighbours.ADD_REMOVE:
        moved = exact
    else:
        moved = [one - other for one, other in itertools.product(exact, exact)]
    problem = Histograms(query.sizes, neighbours, 100)
    spread = problem.spread(np.ones(3), np.ones(query.shape[1]))
    longest, largest = max(np.sqrt(np.sum(each**2)) for each in moved), max(np.sum(np.abs(each)) for each in moved)
    assert longest == pytest.approx(problem.l2(spread).bound)
    assert largest == pytest.approx(problem.l1(spread).bound)
