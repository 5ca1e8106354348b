"""Rounding at places that differ between records: by the record alone, within a step, and without a bias."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from blockveil.engine.answers import gram, layout
from blockveil.engine.answers.sparse import entry_sums
from blockveil.engine.records.dither import PLACES, Dither
from blockveil.engine.records.geometry import Ball, Box
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser
from tests.oracles import rounding

K = 127
WIDTH = 6


def quantiser(lower=-1.0, width=WIDTH, **others):
    box = Box(np.full(width, lower), np.ones(width), np.zeros(width))
    return Quantiser(box.coordinates(), K, True, None, dither=Dither(width), **others)


def errors(records, lower=-1.0):
    """Of the mean of products and of the mean, in coordinates, with a constant in front."""
    found = gram.partial_gram(records, 0, len(records), quantiser(lower, records.shape[1]), 500)
    ones = np.hstack([np.ones((len(records), 1)), records.astype(float)])
    return (found / float(K) ** 2 - ones.T @ ones) / len(records)


@given(
    records=hnp.arrays(
        np.float64, st.tuples(st.integers(1, 20), st.just(WIDTH)), elements=st.floats(-3.0, 3.0, width=64)
    ),
    lower=st.sampled_from([-1.0, 0.0]),
)
def test_integers_are_bounded_and_within_a_step_of_the_record(records, lower):
    integers = quantiser(lower).quantise(records)[:, 1:]
    assert np.array_equal(integers, np.rint(integers))
    assert np.all((integers <= K) & (integers >= lower * K))
    assert np.all(np.abs(integers - np.clip(records, lower, 1.0) * K) < 1.0)


def test_whole_numbers_stay_what_they_are():
    steps = np.random.default_rng(1).integers(-K, K + 1, (2_000, WIDTH))
    for dtype in (np.float32, np.float64):
        assert np.array_equal(quantiser().quantise((steps / K).astype(dtype))[:, 1:], steps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ">f8", np.float16, np.int8, np.int64])
def test_a_record_alone_decides_its_integers(dtype):
    records = (np.random.default_rng(2).uniform(-1.2, 1.2, (700, WIDTH)) * 3.0).astype(dtype) / np.asarray(3, dtype)
    records = records.astype(dtype)
    whole = quantiser().quantise(records)
    assert np.array_equal(whole, np.vstack([quantiser().quantise(record[None]) for record in records]))
    assert np.array_equal(whole, quantiser().quantise(records[::-1])[::-1])
    assert np.array_equal(whole, quantiser().quantise(np.asfortranarray(records)))


def test_the_sign_of_a_zero_what_is_clipped_and_what_stands_for_it_do_not_matter():
    records = np.random.default_rng(3).uniform(-1.0, 1.0, (200, WIDTH))
    records[:, 1], records[:, 3], records[:, 4] = 0.0, 1.0, 0.3
    others = records.copy()
    others[:, 1], others[:, 3] = -0.0, 7.0
    others[:, 4] = np.where(np.arange(200) % 2, np.nan, np.inf)
    stand_in = replace(quantiser(), stand_in=np.full(WIDTH, 0.3))
    assert np.array_equal(stand_in.quantise(records), stand_in.quantise(others))


VALUES = {
    "signs": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "signs of sizes": lambda rng, shape: rng.choice([-1.0, 1.0], shape) * rng.uniform(0.1, 1.0, shape[1]),
    "zero and a half": lambda rng, shape: rng.choice([0.0, 0.5], shape),
    "three": lambda rng, shape: rng.choice([0.0, 1.0 / 3.0, 1.0], shape),
    "powers of two": lambda rng, shape: 2.0 ** -rng.integers(0, 9, shape),
    "continuous": lambda rng, shape: rng.uniform(-1.0, 1.0, shape),
    "within a step": lambda rng, shape: 0.5 + 0.5 / K * rng.uniform(0.0, 1.0, shape),
}


@pytest.mark.parametrize("values", VALUES)
def test_starts_of_different_records_are_uniform_whatever_their_values_are(values):
    records = VALUES[values](np.random.default_rng(11), (64 * PLACES, 40))
    counts = np.bincount(quantiser(width=40).starts(records), minlength=PLACES)
    # Mean 64: a chi square of N - 1 degrees of freedom, within 6.5 deviations.
    assert abs(np.sum((counts - 64.0) ** 2) / 64.0 - PLACES) < 6.5 * np.sqrt(2.0 * PLACES)


def test_features_side_by_side_are_rounded_apart():
    places = np.zeros((PLACES, 256))
    Dither(256).move(places, np.arange(PLACES))
    together = np.linalg.eigvalsh(places.T @ places / PLACES)[-1]
    assert together < 256 / 30, "a twelfth of the features if all were rounded up together, a 39th for an even turn"


def test_a_dither_travels_as_two_numbers():
    used = quantiser(width=500)
    used.quantise(np.zeros((3, 500)))
    assert len(pickle.dumps(used.dither)) < 200


def test_every_part_of_the_features_has_the_integers_of_the_whole():
    records = np.random.default_rng(4).uniform(-1.2, 1.2, (300, WIDTH)).astype(np.float32)
    whole, starts = quantiser().quantise(records), quantiser().starts(records)
    ranges = [(0, 1), (0, 3), (1, 4), (3, WIDTH + 1)]
    for (low, high), part in zip(ranges, quantiser().parts(ranges), strict=True):
        integers = np.empty((len(records), high - low))
        part.quantise_by_steps(records[:, max(low - 1, 0) : high - 1], integers, starts)
        assert np.array_equal(integers, whole[:, low:high])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_are_those_of_whole_numbers_for_every_chunking_and_tiling(dtype):
    rng = np.random.default_rng(5)
    records = rng.standard_normal((1_500, WIDTH)).astype(dtype)
    integers = quantiser().quantise(records).astype(np.int64)
    factor = gram.IntegerFactor(quantiser(), (0, WIDTH))
    for _ in range(30):
        start, stop = sorted(int(row) for row in rng.choice(1_501, 2, replace=False))
        tiles = layout.grid((WIDTH + 1, WIDTH + 1), True, 1, int(rng.integers(1, 9)))
        several = [tiles[i] for i in rng.choice(len(tiles), int(rng.integers(1, len(tiles) + 1)), replace=False)]
        found = gram.tile_sums(records, start, stop, factor, None, int(rng.integers(1, 900)), several)
        exact = integers[start:stop].T @ integers[start:stop]
        assert all(
            np.array_equal(sums, exact[slice(*tile.rows), slice(*tile.columns)])
            for sums, tile in zip(found, several, strict=True)
        )


@pytest.mark.parametrize("columns", [slice(0, 1), slice(2, 5)])
def test_every_start_rounds_each_feature_at_another_of_evenly_spaced_places(columns):
    places = np.zeros((PLACES, WIDTH), dtype=np.float32)[:, columns]
    Dither(WIDTH).part(columns.start).move(places, np.arange(PLACES))
    even = (np.arange(PLACES) + 0.5) / PLACES - 0.5
    assert all(np.array_equal(np.sort(column), even) for column in places.T)


@pytest.mark.parametrize("others", VALUES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_column_with_one_value_is_not_biased_as_it_is_when_rounded_to_nearest(others, dtype):
    rows = 40_000
    columns = VALUES[others](np.random.default_rng(6), (rows, 30))
    records = np.hstack([np.full((rows, 2), 0.5 + 0.4 / K), columns]).astype(dtype)
    found = errors(records)
    (product, varies), (value, value_varies) = rounding.dithered(rows, K)
    assert abs(found[0, 1]) * rows <= value + 6.0 * value_varies
    assert np.max(np.abs(found[1:, 1:])) * rows <= product + 6.0 * varies
    nearest = Quantiser(quantiser(width=32).coordinates, K, True, None)
    biased = gram.partial_gram(records, 0, rows, nearest, 500)[0, 1] / K**2 / rows - records[0, 0]
    assert abs(biased) > 20.0 * abs(found[0, 1])


def test_records_at_a_bound_between_two_integers_are_not_biased():
    rows, rng = 40_000, np.random.default_rng(12)
    box = Box(np.full(20, -0.303), np.ones(20), np.zeros(20))
    records = rng.uniform(-2.0, 1.0, (rows, 20))
    records[:, 0] = -0.5
    clip = Quantiser(box.coordinates(), K, True, None, dither=Dither(20))
    found = gram.partial_gram(records, 0, rows, clip, 500)[0, 1:] / K**2 - np.clip(records, -0.303, 1.0).sum(axis=0)
    mean, varies = rounding.dithered(rows, K)[1]
    assert np.max(np.abs(found)) <= mean + 6.0 * varies
    assert np.all(clip.quantise(records)[:, 1:] >= np.floor(-0.303 * K))


def test_single_precision_is_left_where_it_would_shift_all_records_alike():
    rows = 4_000_000
    box = Box(np.full(2, 1000.00002), np.full(2, 1002.00003), np.full(2, 1001.000025))
    records = np.random.default_rng(13).uniform(1000.1, 1001.9, (rows, 2)).astype(np.float32)
    coordinates = box.coordinates()
    clip = Quantiser(coordinates, K, True, None, dither=Dither(2))
    exact = ((records.astype(float) - coordinates.origin) / coordinates.scale).sum(axis=0)
    mean, varies = rounding.dithered(rows, K)[1]
    assert np.max(np.abs(gram.partial_gram(records, 0, rows, clip, 500)[0, 1:] / K**2 - exact)) <= mean + 6.0 * varies


@pytest.mark.parametrize("lower", [-1.0, 0.0, 0.25])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_other_than_zero_give_the_integers_of_whole_records(lower, dtype):
    rng, width = np.random.default_rng(14), 60
    records = rng.uniform(-1.5, 1.5, (300, width)).astype(dtype) * (rng.uniform(size=(300, width)) < 0.1)
    records[0] = 0.0
    box = Box(np.full(width, lower), np.ones(width), np.full(width, 0.25 if lower > 0 else 0.0))
    clip = Quantiser(box.coordinates(), K, True, None, dither=Dither(width))
    assert clip.by_entries
    rows, columns = np.nonzero(records)
    borders = np.searchsorted(rows, np.arange(301)).astype(np.int64)
    found = np.tile(clip.at_zero(records.dtype), (300, 1))
    found[rows, columns + 1] += clip.quantise_entries(records[rows, columns], columns.astype(np.int64), borders)
    assert np.array_equal(found, clip.quantise(records))


def test_a_zero_between_two_integers_is_not_one_integer_in_all_records():
    box = Box(np.full(WIDTH, -1.0), np.full(WIDTH, 3.0), np.ones(WIDTH))
    assert not Quantiser(box.coordinates(), K, True, None, dither=Dither(WIDTH)).by_entries
    assert Quantiser(box.coordinates(), K, True, None).by_entries


@pytest.mark.parametrize("lower", [-1.0, 0.0])
def test_means_and_deviations_of_sums_stay_below_their_bounds(lower):
    rng, rows = np.random.default_rng(7), 500
    (mean, varies), (value, value_varies) = rounding.dithered(rows, K)
    # The worst case of a deviation: values between two integers, as far from the origin as may be.
    near_bound = 1.0 - 0.5 / K + rng.uniform(-1e-4, 1e-4, (200, rows, 4))
    for records in (near_bound, rng.uniform(lower, 1.0, (200, rows, 4))):
        found = np.array([errors(one, lower) * rows for one in records])
        centre, spread = found.mean(axis=0), found.std(axis=0)
        assert np.all(np.abs(centre[1:, 1:]) <= mean + 6.0 * varies / np.sqrt(200))
        assert np.all(np.abs(centre[0, 1:]) <= value + 6.0 * value_varies / np.sqrt(200))
        assert np.all(spread[1:, 1:] <= varies * 1.35), "200 draws tell a deviation within a third"
        assert np.all(spread[0, 1:] <= value_varies * 1.35)
    assert np.std([errors(one)[0, 1] * rows for one in near_bound]) > value_varies / 1.35, "and the bound is attained"


def test_errors_of_many_entries_do_not_add_up_to_a_direction_as_they_do_when_rounded_to_nearest():
    rng, rows, width = np.random.default_rng(8), 4_000, 200
    records = np.full((rows, width), 1.0 - 0.4 / K)
    records[:, 0] = rng.uniform(-1.0, 1.0, rows)
    (mean, varies), _ = rounding.dithered(rows, K)
    nearest = Quantiser(quantiser(width=width).coordinates, K, False, None)
    biased = gram.partial_gram(records, 0, rows, nearest, 500) / float(K) ** 2 - records.T @ records
    bound = 2.0 * width * (mean + varies)
    assert np.linalg.norm(errors(records)[1:, 1:] * rows, 2) < bound < np.linalg.norm(biased, 2) / 10.0


@pytest.mark.parametrize("share", [0.05, 0.9])
def test_sums_of_values_other_than_zero_are_the_same_bits(share):
    rng, width = np.random.default_rng(15), 50
    records = rng.uniform(-1.5, 1.5, (900, width)) * (rng.uniform(size=(900, width)) < share)
    clip, tiles = quantiser(width=width), layout.grid((width + 1, width + 1), True, 1, 20)
    whole = gram.tile_sums(records, 5, 880, gram.IntegerFactor(clip, (0, width)), None, 300, tiles)
    found = entry_sums(records, 5, 880, clip, 170, tiles)
    assert all(np.array_equal(a, b) for a, b in zip(whole, found, strict=True))


def test_missing_values_are_refused_or_replaced_as_always():
    records = np.zeros((3, WIDTH))
    records[1, 2] = np.nan
    with pytest.raises(NotFiniteError):
        quantiser().quantise(records)
    stand_in = Quantiser(quantiser().coordinates, K, True, np.full(WIDTH, 1.0), dither=Dither(WIDTH))
    assert stand_in.quantise(records)[1, 3] == K


def test_huge_values_are_clipped():
    records = np.array([[1e300, -1e300, np.finfo(float).max, 1e39, -1e39, 0.0]])
    assert quantiser().quantise(records).tolist() == [[K, K, -K, K, K, -K, 0]]


def test_a_ball_is_refused():
    with pytest.raises(ValueError, match="cube"):
        Quantiser(Ball([0.0, 0.0], 1.0).coordinates(), K, True, None, dither=Dither(2))
