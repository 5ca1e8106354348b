"""Sparse records have the same exact second moment as whole ones, whatever their shape, density, chunks and tiles."""

import numpy as np
import pytest
import scipy.sparse

from blockveil.engine.answers import sparse
from blockveil.engine.answers.cost import Machine, choose
from blockveil.engine.answers.gram import IntegerFactor, tile_sums
from blockveil.engine.answers.layout import grid
from blockveil.engine.answers.sparse import entry_sums
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.records.geometry import Ball, Box, Ellipsoid
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser

WIDTH = 37
RNG = np.random.default_rng(11)
ONES, ZEROS = np.ones(WIDTH), np.zeros(WIDTH)
UNEVEN = RNG.uniform(0.1, 3.0, WIDTH)
SHAPES = {
    "box about zero": Box(-UNEVEN, UNEVEN, ZEROS),
    "box about its midpoint": Box(-0.3 * UNEVEN, 2.0 * UNEVEN, 0.85 * UNEVEN),
    "box of counts": Box(ZEROS, UNEVEN, ZEROS),
    "box that zero is outside of": Box(UNEVEN, 2.0 * UNEVEN, 1.5 * UNEVEN),
    "box of counts in a ball": Box(ZEROS, UNEVEN, ZEROS, 2.1),
    "box about zero in a ball": Box(-UNEVEN, UNEVEN, ZEROS, 1.3),
    "ball": Ball(ZEROS, 1.7),
    "ellipsoid": Ellipsoid(ZEROS, UNEVEN),
}


def records(density, rows=301, kind=np.float64):
    found = scipy.sparse.random_array((rows, WIDTH), density=density, rng=5).toarray() * 6.0 - 2.0 * (density > 0.3)
    found[::17] *= 1e3
    return np.rint(found).astype(kind) if np.dtype(kind).kind in "iu" else found.astype(kind)


def whole(values, quantiser, tiles):
    return tile_sums(values, 0, len(values), IntegerFactor(quantiser, (0, WIDTH)), None, 64, tiles)


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int16, np.uint8])
def test_the_sums_are_those_of_whole_records_bit_for_bit(shape, augmented, kind):
    quantiser = Quantiser(SHAPES[shape].coordinates(), 32767, augmented, None)
    tiles = grid((quantiser.width, quantiser.width), True, int(augmented), 16)
    for density in (0.0, 0.01, 0.08, 0.15, 1.0):
        values = records(density, kind=kind)
        expected = whole(values, quantiser, tiles)
        found = entry_sums(values, 0, len(values), quantiser, 50, tiles)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
        assert all(array.dtype == np.int64 for array in found)


@pytest.mark.parametrize("at_once", [1, 40, 10**6])
def test_every_chunking_and_every_call_of_the_product_gives_the_same_bits(monkeypatch, at_once):
    monkeypatch.setattr(sparse, "ENTRIES_AT_ONCE", at_once)
    quantiser = Quantiser(SHAPES["box about its midpoint"].coordinates(), 2**19 - 1, True, None)
    tiles = grid((quantiser.width, quantiser.width), True, 1, 16)
    values = records(0.05)
    expected = whole(values, quantiser, tiles)
    for chunk_rows, cuts in ((7, [0, 301]), (64, [0, 1, 150, 301]), (1000, [0, 300, 301])):
        parts = [
            entry_sums(values, a, b, quantiser, chunk_rows, tiles) for a, b in zip(cuts[:-1], cuts[1:], strict=True)
        ]
        for number, tile in enumerate(expected):
            assert np.array_equal(sum(part[number] for part in parts), tile)


def test_extreme_and_missing_values_are_treated_as_in_whole_records():
    box = SHAPES["box about its midpoint"]
    values = records(0.05)
    values[3, 5], values[9, 9], values[12, 0], values[13, 1] = 1e308, -1e308, -0.0, 5e-324
    tiles = grid((WIDTH, WIDTH), True, 0, 16)
    for shape in (box, SHAPES["ball"], SHAPES["box about zero in a ball"]):
        strict = Quantiser(shape.coordinates(), 32767, False, None)
        found, expected = entry_sums(values, 0, 301, strict, 50, tiles), whole(values, strict, tiles)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
        for bad in (np.nan, np.inf, -np.inf):
            holed = values.copy()
            holed[200, 7] = bad
            with pytest.raises(NotFiniteError):
                entry_sums(holed, 0, 301, strict, 50, tiles)
            imputing = Quantiser(shape.coordinates(), 32767, False, 0.4 * UNEVEN)
            found, expected = entry_sums(holed, 0, 301, imputing, 50, tiles), whole(holed, imputing, tiles)
            assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_a_shape_in_which_zeros_depend_on_the_record_is_refused():
    shapes = [Ball(ONES, 9.0), Box(ZEROS, 2.0 * ONES, ONES, 2.0), Ellipsoid(ZEROS, np.eye(WIDTH) + 0.01)]
    for shape in shapes:
        quantiser = Quantiser(shape.coordinates(), 32767, False, None)
        assert not quantiser.by_entries
        with pytest.raises(ValueError, match="depends on the rest"):
            entry_sums(records(0.1), 0, 301, quantiser, 50, grid((WIDTH, WIDTH), True))


def test_the_cost_model_multiplies_entries_where_they_are_few_and_says_so():
    machine = Machine(4, 1, 8 * 2**30)

    def cut(density):
        work = Work(GrowthKind.PRODUCTS, 10**6, 20_000, (20_000, 20_000), symmetric=True, density=density)
        return choose(work, machine, 2**25)

    assert not cut(None).work.sparse
    assert "multiplied" not in cut(None).explain()
    few, many = cut(0.005), cut(0.9)
    assert few.work.sparse
    assert "with 0.5 % of the values other than zero only these are multiplied" in few.explain()
    assert not many.work.sparse
    assert "faster to have all" in many.explain()
    assert few.seconds < cut(None).seconds / 5
    assert few.peak_bytes <= machine.memory
