"""A unit has at most its rows in the store, whoever else is there; who that is decides nothing for the others."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from blockveil.pipeline.config.ingest_file import AggregatedRows, ChosenRows
from blockveil.pipeline.data.ingest.operator_counts import OperatorCounts
from blockveil.pipeline.data.ingest.runs import Runs
from blockveil.pipeline.data.ingest.units import DIGEST, Digester, contents, fold, in_order, keyed, ranges

PERSON = {"name": "one person", "column": "person", "type": "whole", "missing": "refuse", "seed": "a"}
CHOOSE = {"kind": "choose", **PERSON}
TOGETHER = {"kind": "aggregate", **PERSON}

people = st.lists(st.integers(0, 12), min_size=1, max_size=60)
borders = st.lists(st.integers(0, 60), max_size=4)


def units(most=None, by="sum", seed="a"):
    if most is None:
        return AggregatedRows.model_validate({**TOGETHER, "by": by, "seed": seed})
    return ChosenRows.model_validate({**CHOOSE, "rows_at_most": most, "seed": seed})


def sorted_rows(who, values, seed="a"):
    """Keys and rows as a source of these rows is sorted."""
    return in_order(keyed(Digester(seed).digests(pa.array(who, pa.int64())), values), values)


def folded(who, values, unit, cuts=()):
    """What is stored for rows, taken in by pieces that end at ``cuts``."""
    result = fold(unit, values.shape[1], np.dtype(np.float64))
    keys, rows = sorted_rows(who, values, unit.seed)
    edges = sorted({0, len(who), *(cut for cut in cuts if cut < len(who))})
    for start, stop in zip(edges, edges[1:], strict=False):
        result.add(keys[start:stop], rows[start:stop])
    return result.result()


def numbered(who):
    """Rows that can be told apart: the unit, and the place in the source."""
    return np.column_stack([who, np.arange(len(who))]).astype(np.float64)


def multiset(rows):
    return Counter(map(tuple, rows))


@given(people, st.integers(1, 3), st.integers(0, 12))
def test_a_unit_more_or_less_changes_its_own_rows_alone_and_at_most_k_of_them(who, most, gone):
    rows = numbered(who)
    there = np.array(who) != gone
    with_all, without = folded(who, rows, units(most)), folded(np.array(who)[there], rows[there], units(most))
    assert multiset(without) - multiset(with_all) == Counter()
    extra = multiset(with_all) - multiset(without)
    assert all(row[0] == gone for row in extra)
    assert extra.total() == min(most, who.count(gone))
    # The others keep their order too.
    np.testing.assert_array_equal(with_all[with_all[:, 0] != gone], without)


@given(people, st.sampled_from(["sum", "mean"]), st.integers(0, 12))
def test_a_unit_more_or_less_is_one_record_more_or_less_where_rows_are_put_together(who, by, gone):
    rows = np.random.default_rng(len(who)).normal(size=(len(who), 2))
    there = np.array(who) != gone
    with_all = folded(who, rows, units(by=by))
    without = folded(np.array(who)[there], rows[there], units(by=by))
    extra = multiset(with_all) - multiset(without)
    assert extra.total() == (gone in who)
    assert multiset(without) - multiset(with_all) == Counter()


orders = people.flatmap(lambda who: st.tuples(st.just(who), st.permutations(range(len(who)))))


@given(orders, st.integers(1, 3), st.integers(1, 60))
def test_any_order_of_the_rows_gives_the_same_chosen_rows_in_the_same_order(order, most, different):
    who, places = np.array(order[0]), np.array(order[1])
    rows = numbered(who) % different  # many of them are equal where this is small
    np.testing.assert_array_equal(folded(who[places], rows[places], units(most)), folded(who, rows, units(most)))


@given(orders, st.sampled_from(["sum", "mean"]))
def test_any_order_of_the_rows_gives_the_same_bits_of_sums_and_means(order, by):
    who, places = np.array(order[0]), np.array(order[1])
    rows = np.random.default_rng(3).lognormal(0, 8, (len(who), 2))
    np.testing.assert_array_equal(folded(who[places], rows[places], units(by=by)), folded(who, rows, units(by=by)))


def evenly(places):
    """Whether four places are equally frequent: alpha is 1e-9, which is 6.3 standard deviations for each of four."""
    counts = np.bincount(places, minlength=4)
    return bool(np.all(np.abs(counts - places.size / 4) < 6.3 * np.sqrt(places.size * 3 / 16)))


def test_each_row_of_a_unit_is_chosen_equally_often():
    who = np.repeat(np.arange(100_000), 4)
    place = np.tile(np.arange(4.0), 100_000)[:, None]
    chosen = folded(who, place, units(1))[:, 0].astype(int)
    assert evenly(chosen)
    # A rule that takes the first row 5 % more often than it should is noticed.
    biased = np.where(np.random.default_rng(0).random(chosen.size) < 0.05 / 3, 0, chosen)
    assert not evenly(biased)


def test_each_of_equal_rows_counts_where_rows_are_chosen():
    who = np.repeat(np.arange(100_000), 4)
    rows = np.tile([0.0, 1.0, 1.0, 1.0], 100_000)[:, None]
    chosen = folded(who, rows, units(1))[:, 0]

    def fair(chosen):
        return abs(int(np.count_nonzero(chosen == 0.0)) - 25_000) < 6.3 * np.sqrt(100_000 * 3 / 16)

    assert fair(chosen)
    assert not fair(np.where(np.random.default_rng(0).random(chosen.size) < 0.05, 0.0, chosen))


def test_another_seed_chooses_other_rows():
    who = np.repeat(np.arange(200), 5)
    first, second = (folded(who, numbered(who), units(1, seed=seed)) for seed in ("a", "b"))
    assert 0 < len(multiset(first) & multiset(second)) < 120


@given(people, borders, st.integers(1, 3))
def test_pieces_change_no_bit_of_chosen_rows(who, cuts, most):
    rows = numbered(who)
    np.testing.assert_array_equal(folded(who, rows, units(most), cuts), folded(who, rows, units(most)))


@given(people, borders, st.sampled_from(["sum", "mean"]))
def test_pieces_change_no_bit_of_sums_and_means(who, cuts, by):
    rows = np.random.default_rng(7).lognormal(0, 8, (len(who), 1))
    np.testing.assert_array_equal(folded(who, rows, units(by=by), cuts), folded(who, rows, units(by=by)))


@given(
    people, st.integers(1, 5), st.integers(1, 9), st.integers(1, 3), st.integers(1, 60), st.sampled_from([2**20, 99])
)
def test_neither_runs_nor_ranges_change_what_is_stored(tmp_path_factory, who, size, parts, most, different, room):
    runs, rows = Runs(tmp_path_factory.mktemp("runs"), 0, room), numbered(who) % different
    digester = Digester("a")
    for start in range(0, len(who), size * 10):
        part = slice(start, start + size * 10)
        runs.append(keyed(digester.digests(pa.array(who[part], pa.int64())), rows[part]), rows[part])
    for unit in (units(most), units(by="sum")):
        found = [block for _, block in runs.merged(unit, np.dtype(np.float64), parts, 0, OperatorCounts())]
        np.testing.assert_array_equal(np.concatenate(found), folded(who, rows, unit))


def test_pieces_of_a_unit_with_very_many_rows_are_no_larger_than_a_run(tmp_path):
    runs, rows = Runs(tmp_path, 0, 100 * 40), np.random.default_rng(5).integers(0, 300, (2_000, 1)).astype(np.float64)
    for part in np.split(rows, 20):
        runs.append(keyed(Digester("a").digests(pa.array(np.zeros(100, np.int64))), part), part)
    pieces = list(runs.sorted_pieces(bytes(32), None))
    assert max(keys.size for keys, _ in pieces) <= 100
    np.testing.assert_array_equal(
        np.concatenate([keys for keys, _ in pieces]), sorted_rows(np.zeros(2_000, np.int64), rows)[0]
    )


def test_contents_are_those_of_the_values():
    rows = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(contents(np.asfortranarray(rows)), contents(rows))
    np.testing.assert_array_equal(contents(rows.astype(">f8")), contents(rows))
    assert len({*contents(rows).tolist()}) == 4


def test_ranges_cover_all_digests_once():
    for parts in (1, 2, 7, 1000):
        found = list(ranges(parts))
        assert found[0][0] == bytes(16)
        assert found[-1][1] is None
        assert all(one[1] == other[0] for one, other in zip(found, found[1:], strict=False))


def test_digests_of_whole_numbers_and_of_texts_all_differ_and_do_not_depend_on_batches():
    numbers, texts = np.arange(-50_000, 50_000), [f"person {i}" for i in range(20_000)]
    whole = Digester("a").digests(pa.array(numbers))
    text = Digester("a").digests(pa.array(texts))
    assert len({*whole.view(np.dtype("V16")).tolist(), *text.view(np.dtype("V16")).tolist()}) == 120_000
    digester = Digester("a")
    parts = [digester.digests(pa.array(numbers[i : i + 30_001])) for i in range(0, 100_000, 30_001)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert whole.dtype == DIGEST
    assert not np.array_equal(Digester("b").digests(pa.array(numbers)), whole)
