"""Sums over records that count by a weight of their range of rows: exact, in digits too, for every kind of sum."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockveil.engine.answers import progress
from blockveil.engine.answers.cost import Machine, choose
from blockveil.engine.answers.counts import CountQuery
from blockveil.engine.answers.layout import Tile, grid
from blockveil.engine.answers.outer_products import OuterProductsQuery
from blockveil.engine.answers.second_moment import SecondMomentQuery
from blockveil.engine.answers.value_cells import Codes, Missing, Outside
from blockveil.engine.answers.weighted import WeightedQuery
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.kinds.totals.record_sums import RecordSumsQuery
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser

ROWS = np.random.default_rng(3).uniform(-1.0, 1.0, (60, 3))
CODES = np.random.default_rng(4).integers(0, 4, (60, 2)).astype(np.float64)


def quantiser(bits, columns=3):
    bound = np.ones(columns)
    return Quantiser(Box(-bound, bound, np.zeros(columns)).coordinates(), 2 ** (bits - 1) - 1, True, None)


def queries():
    narrow, wide = quantiser(8), quantiser(16)
    left, right = quantiser(16, 1), quantiser(16, 2)
    return {
        "second moment": (SecondMomentQuery(wide, False), ROWS, grid((4, 4), True, 1, 2)),
        "second moment of 8 bits": (SecondMomentQuery(narrow, False), ROWS, grid((4, 4), True, 1, 2)),
        "sums": (RecordSumsQuery(wide), ROWS, (Tile((0, 1), (0, 4)),)),
        "outer products": (OuterProductsQuery(left, right), ROWS, (Tile((0, 2), (0, 3)),)),
        "counts": (CountQuery((Codes(4), Codes(4)), Outside.CLIP, Missing.REFUSE), CODES, (Tile((0, 4), (0, 4)),)),
    }


@pytest.mark.parametrize("name", queries())
@pytest.mark.parametrize("digit_bits", [8, 4, 2, 1])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_a_weighted_sum_is_that_of_the_ranges_times_their_weights_whatever_the_cut(name, digit_bits, data):
    query, source, tiles = queries()[name]
    ends = [*sorted(data.draw(st.lists(st.integers(0, 60), min_size=3, max_size=3))), 60]
    weights = tuple(data.draw(st.lists(st.integers(1, 255), min_size=4, max_size=4)))
    weighted = WeightedQuery(query, tuple(ends), weights, digit_bits, 8 // digit_bits)
    cut = data.draw(st.integers(1, 59))
    parts = [weighted.partial(source, low, high, 7, tiles) for low, high in ((0, cut), (cut, 60))]
    found = [one + other for one, other in zip(*parts, strict=True)]
    if digit_bits < 8:
        found = [sum(digit << (position * digit_bits) for position, digit in enumerate(tile)) for tile in found]
    expected = [np.zeros(tile.shape, dtype=np.int64) for tile in tiles]
    for low, high, weight in zip([0, *ends], ends, weights, strict=False):
        if low < high:
            for total, part in zip(expected, query.partial(source, low, high, 60, tiles), strict=True):
                total += weight * part
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def test_a_weighted_query_shows_no_number_of_records():
    query, _, _ = queries()["sums"]
    assert repr(WeightedQuery(query, (31_337,), (1,), 8, 1)) == "WeightedQuery()"


def test_progress_goes_on_from_range_to_range_and_never_back():
    query, source, tiles = queries()["sums"]
    shares = []
    progress.listen(lambda name, share: shares.append((name, share)))
    try:
        with progress.task("one"):
            WeightedQuery(query, (15, 15, 40, 60), (3, 9, 2, 1), 8, 1).partial(source, 0, 60, 1, tiles)
    finally:
        progress.listen(None)
    assert shares == sorted(shares)
    assert len(shares) == len(set(shares)) == 20
    assert shares[-1] == ("one", 1.0)


def memory_of(query, source, tiles):
    query.partial(source, 0, len(source), 16, tiles)  # what is made once and kept
    tracemalloc.start()
    query.partial(source, 0, len(source), 16, tiles)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("digit_bits", [8, 4, 1])
def test_a_plan_allows_for_the_memory_of_weighted_sums(digit_bits):
    features, digits = 1_500, 8 // digit_bits
    work = Work(GrowthKind.PRODUCTS, 64, features, (features + 1, features + 1), symmetric=True, lead=1)
    query = SecondMomentQuery(quantiser(16, features), False)
    weighted = WeightedQuery(query, (32, 64), (255, 254), digit_bits, digits)
    source = np.zeros((64, features))
    needed = memory_of(weighted, source, work.tiles) - memory_of(query, source, work.tiles)

    allowed, without = (
        choose(each, Machine(1, 1, 2**40), 16 * 8 * features).peak_bytes
        for each in (dataclasses.replace(work, weighted_sums=digits), work)
    )
    assert needed <= allowed - without
    assert needed > 0.9 * digits * 8 * work.entries
