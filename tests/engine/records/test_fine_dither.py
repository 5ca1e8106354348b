"""Rounding to many integers at places by content: by the record alone, within a step, and without a bias."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from blockveil.engine.answers import gram, layout
from blockveil.engine.answers.sparse import entry_sums
from blockveil.engine.kinds.totals.record_sums import RecordSumsQuery
from blockveil.engine.records import fine_dither
from blockveil.engine.records.fine_dither import FineDither
from blockveil.engine.records.geometry import Ball, Box
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser
from tests.engine.records.test_dither import VALUES

WIDTH = 6
LARGEST = (255, 2**11 - 1, 2**15 - 1, 2**19 - 1, 2**31 - 1)


def quantiser(largest=32767, lower=-1.0, width=WIDTH, **others):
    box = Box(np.full(width, lower), np.ones(width), np.zeros(width))
    return Quantiser(box.coordinates(), largest, True, None, dither=FineDither(width, largest), **others)


@given(
    records=hnp.arrays(
        np.float64, st.tuples(st.integers(1, 20), st.just(WIDTH)), elements=st.floats(-3.0, 3.0, width=64)
    ),
    lower=st.sampled_from([-1.0, 0.0]),
    largest=st.sampled_from(LARGEST),
)
def test_integers_are_bounded_and_within_a_step_of_the_record(records, lower, largest):
    integers = quantiser(largest, lower).quantise(records)[:, 1:]
    assert np.array_equal(integers, np.rint(integers))
    assert np.all((integers <= largest) & (integers >= lower * largest))
    assert np.all(np.abs(integers - np.clip(records, lower, 1.0) * largest) < 1.0)


@pytest.mark.parametrize("largest", LARGEST)
def test_no_place_leads_beyond_the_largest_integer(largest):
    extremes = np.array([0, 2**32 - 1], np.int64)
    for end in (float(largest), -float(largest)):
        values = np.full((2, 1), end)
        values += fine_dither._places(extremes.astype(np.uint32)[:, None])
        assert np.abs(values - end).max() == 0.5 - 2.0**-21
        assert np.all(np.rint(values) == end)


def test_places_of_all_starts_are_even():
    starts = np.arange(0, 2**32, 2**fine_dither.SHIFT, dtype=np.int64)
    values = np.zeros((starts.size, 2))
    FineDither(2, 32767).move(values, starts)
    even = (np.arange(2**20) + 0.5) / 2**20 - 0.5
    assert all(np.array_equal(np.sort(column), even) for column in values.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ">f8", np.float16, np.int8, np.int64])
def test_a_record_alone_decides_its_integers(dtype):
    records = (np.random.default_rng(2).uniform(-1.2, 1.2, (700, WIDTH)) * 3.0).astype(dtype) / np.asarray(3, dtype)
    records = records.astype(dtype)
    whole = quantiser().quantise(records)
    assert np.array_equal(whole, np.vstack([quantiser().quantise(record[None]) for record in records]))
    assert np.array_equal(whole, quantiser().quantise(records[::-1])[::-1])
    assert np.array_equal(whole[1:], quantiser().quantise(records[1:])), "no other record moves where one is missing"
    assert np.array_equal(whole, quantiser().quantise(np.asfortranarray(records)))


def test_single_precision_holds_the_integers_of_the_same_numbers_in_double():
    records = np.random.default_rng(9).uniform(-1.2, 1.2, (500, WIDTH)).astype(np.float32)
    assert np.array_equal(quantiser().quantise(records), quantiser().quantise(records.astype(np.float64)))


def test_the_sign_of_a_zero_what_is_clipped_and_what_stands_for_it_do_not_matter():
    records = np.random.default_rng(3).uniform(-1.0, 1.0, (200, WIDTH))
    records[:, 1], records[:, 3], records[:, 4] = 0.0, 1.0, 0.3
    others = records.copy()
    others[:, 1], others[:, 3] = -0.0, 7.0
    others[:, 4] = np.where(np.arange(200) % 2, np.nan, np.inf)
    stand_in = replace(quantiser(), stand_in=np.full(WIDTH, 0.3))
    assert np.array_equal(stand_in.quantise(records), stand_in.quantise(others))
    with pytest.raises(NotFiniteError):
        quantiser().quantise(others)


@pytest.mark.parametrize("largest", [32767, 2**31 - 1])
@pytest.mark.parametrize("values", [name for name in VALUES if name != "within a step"])
def test_starts_of_different_records_are_uniform_whatever_their_values_are(values, largest):
    bins = 2**10
    records = np.unique(VALUES[values](np.random.default_rng(11), (64 * bins, 40)), axis=0)
    starts = quantiser(largest, width=40).starts(records)
    for bits in (starts >> 22, starts & (bins - 1)):
        expected = len(records) / bins
        chi = np.sum((np.bincount(bits, minlength=bins) - expected) ** 2) / expected
        # A chi square of N - 1 degrees of freedom, within 6.5 deviations.
        assert abs(chi - bins) < 6.5 * np.sqrt(2.0 * bins)


@pytest.mark.parametrize("others", VALUES)
@pytest.mark.parametrize("largest", [2**11 - 1, 32767])
def test_a_column_with_one_value_is_not_biased_as_it_is_when_rounded_to_nearest(others, largest):
    rows = 40_000
    columns = VALUES[others](np.random.default_rng(6), (rows, 30))
    # Other columns tell records apart, one of them always.
    apart = np.random.default_rng(7).uniform(-1.0, 1.0, (rows, 1))
    records = np.hstack([np.full((rows, 2), 0.5 + 0.4 / largest), apart, columns])
    clip = quantiser(largest, width=33)
    off = gram.partial_gram(records, 0, rows, clip, 500)[0, 1:] / largest - records.sum(axis=0) * largest
    assert np.max(np.abs(off)) <= 6.5 * 0.5 * np.sqrt(rows), "in steps"
    nearest = replace(clip, dither=None)
    biased = gram.partial_gram(records, 0, rows, nearest, 500)[0, 1] / largest - records[:, 0].sum() * largest
    assert abs(biased) > 20.0 * abs(off[0])


@pytest.mark.parametrize("lower", [-1.0, 0.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_other_than_zero_give_the_integers_of_whole_records(lower, dtype):
    rng, width = np.random.default_rng(14), 60
    records = rng.uniform(-1.5, 1.5, (300, width)).astype(dtype) * (rng.uniform(size=(300, width)) < 0.1)
    records[0] = 0.0
    clip = quantiser(lower=lower, width=width)
    assert clip.by_entries
    rows, columns = np.nonzero(records)
    borders = np.searchsorted(rows, np.arange(301)).astype(np.int64)
    found = np.tile(clip.at_zero(records.dtype), (300, 1))
    found[rows, columns + 1] += clip.quantise_entries(records[rows, columns], columns.astype(np.int64), borders)
    assert np.array_equal(found, clip.quantise(records))


def test_sums_are_the_same_for_every_cut_and_for_values_other_than_zero():
    rng, width = np.random.default_rng(15), 50
    records = rng.uniform(-1.5, 1.5, (900, width)) * (rng.uniform(size=(900, width)) < 0.05)
    clip, tiles = quantiser(width=width), layout.grid((width + 1, width + 1), True, 1, 20)
    factor = gram.IntegerFactor(clip, (0, width))
    whole = gram.tile_sums(records, 5, 880, factor, None, 300, tiles)
    for found in (
        entry_sums(records, 5, 880, clip, 170, tiles),
        gram.tile_sums(records, 5, 880, factor, None, 7, tiles),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(whole, found, strict=True))
    exact = clip.quantise(records[5:880]).astype(np.int64)
    assert np.array_equal(gram.partial_gram(records, 5, 880, clip, 100), exact.T @ exact)
    fine = quantiser(2**31 - 1, width=width)
    one = RecordSumsQuery(fine).partial(records, 5, 880, 300, [layout.Tile((0, 1), (0, width + 1))])[0]
    assert np.array_equal(one[0], fine.quantise(records[5:880]).astype(np.int64).sum(axis=0))


def test_integers_that_are_only_added_are_not_multiplied():
    with pytest.raises(ValueError, match="not multiplied"):
        gram.partial_gram(np.zeros((2, WIDTH)), 0, 2, quantiser(2**20), 2)


def test_a_dither_travels_as_three_numbers_and_belongs_to_its_integers():
    used = quantiser(width=500)
    used.quantise(np.zeros((3, 500)))
    assert len(pickle.dumps(used.dither)) < 200
    with pytest.raises(ValueError, match="other integers"):
        replace(quantiser(), largest=4095)
    with pytest.raises(ValueError, match="cube"):
        Quantiser(Ball([0.0, 0.0], 1.0).coordinates(), 32767, True, None, dither=FineDither(2, 32767))
