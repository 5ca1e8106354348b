"""Tiles by halves of eight bits have the same bits as in double precision, for every cut, width and number of bits."""

import numpy as np
import pytest

from blockveil.engine.answers import eight_bit, float_sums, gram, half_sums, layout
from blockveil.engine.answers.outer_products import OuterProductsQuery
from blockveil.engine.answers.second_moment import SecondMomentQuery
from blockveil.engine.answers.weighted import WeightedQuery
from blockveil.engine.records.geometry import Ball, Box
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser
from tests.house.eight_bit_products import ProductByNumPy, of_this_machine, use

ROWS = 4500
RECORDS = np.random.default_rng(5).standard_normal((ROWS, 331)) * 2.0


def quantiser(features, largest=32767, augmented=True, stand_in=None):
    box = Box(np.full(features, -1.0), np.linspace(1.0, 9.0, features), np.zeros(features))
    return Quantiser(box.coordinates(), largest, augmented, stand_in)


@pytest.fixture(params=["by NumPy", "by this machine"])
def product(request):
    yield ProductByNumPy() if request.param == "by NumPy" else of_this_machine()
    use(None)


def both(product, work):
    """What is found by BLAS, and by halves."""
    found = []
    for way in (None, product):
        use(way, halves=True)
        found.append(work())
    use(None)
    return found


def same(expected, found):
    return all(a.dtype == b.dtype == np.int64 and np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("side", [331, 130, 64])
def test_every_tiling_has_the_bits_of_blas(product, dtype, side):
    asked, records = SecondMomentQuery(quantiser(331)), RECORDS.astype(dtype)
    tiles = layout.grid((332, 332), True, 1, side)
    rng = np.random.default_rng(side)
    for _ in range(2):
        start, stop = sorted(int(row) for row in rng.choice(ROWS + 1, 2, replace=False))
        few = [tiles[i] for i in rng.permutation(len(tiles))[: int(rng.integers(1, len(tiles) + 1))]]
        chunk_rows = int(rng.integers(1, 3000))
        assert same(*both(product, lambda: asked.partial(records, start, stop, chunk_rows, few)))  # noqa: B023


@pytest.mark.parametrize("largest", [511, 2047, 16383, 32766, 32767])
def test_every_number_of_bits_has_the_sums_of_whole_numbers(product, largest):
    asked = quantiser(20, largest)
    integers = asked.quantise(RECORDS[:, :20]).astype(np.int64)
    assert np.abs(integers).max() == largest
    use(product, halves=True)
    assert np.array_equal(gram.partial_gram(RECORDS[:, :20], 0, ROWS, asked, 900), integers.T @ integers)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("rows", [1, 2, 1023, 2048, 2049, 70_000])
def test_sums_are_exact_at_the_ends(product, rows, sign):
    box = Box(np.full(2, -1.0), np.ones(2), np.zeros(2))
    records = np.broadcast_to(np.array([1.0, sign]), (rows, 2))
    use(product, halves=True)
    found = gram.partial_gram(records, 0, rows, Quantiser(box.coordinates(), 32767, False, None), 2**16)
    assert found.tolist() == (np.array([[1, int(sign)], [int(sign), 1]]) * rows * 32767**2).tolist()


def test_halves_of_every_integer_of_16_bits_are_bytes_that_give_it_back():
    every = np.arange(-(2**15), 2**15, dtype=np.float32)
    panel = half_sums.HalfPanel(1, every.size, None)
    panel.put(every[None], 0)
    high, low = (np.concatenate([block[0] for block in part.right]).astype(int) for part in (panel.high, panel.low))
    assert np.array_equal(256 * high + low + 128, every)
    assert np.array_equal(panel.sums, every - 128)


def test_outer_products_and_weighted_sums_have_the_bits_of_blas(product):
    outer = OuterProductsQuery(quantiser(200, augmented=False), quantiser(131, augmented=False))
    tiles = layout.grid((200, 131), False, 0, 70)
    assert same(*both(product, lambda: outer.partial(RECORDS, 3, ROWS, 700, tiles)))
    weighted = WeightedQuery(SecondMomentQuery(quantiser(331)), (0, 7, 2300, ROWS), (9, 255, 1, 77), 4, 2)
    squares = layout.grid((332, 332), True, 1, 200)
    assert same(*both(product, lambda: weighted.partial(RECORDS, 1, ROWS - 1, 999, squares)))


def test_records_in_a_ball_have_the_bits_of_blas(product):
    asked = Quantiser(Ball([0.0] * 331, 30.0).coordinates(), 32767, True, None)
    assert same(*both(product, lambda: [gram.partial_gram(RECORDS, 0, ROWS, asked, 900)]))


def test_a_missing_value_is_refused_or_replaced_as_with_blas(product):
    spoilt = RECORDS.copy()
    spoilt[4000, 17] = np.nan
    use(product, halves=True)
    with pytest.raises(NotFiniteError):
        gram.partial_gram(spoilt, 0, ROWS, quantiser(331), 500)
    asked = quantiser(331, stand_in=np.full(331, 0.5))
    assert same(*both(product, lambda: [gram.partial_gram(spoilt, 0, ROWS, asked, 500)]))


class Counted(ProductByNumPy):
    """Counts what is multiplied."""

    bound = 0

    def bind(self, left, right, sums):
        self.bound += 1
        return super().bind(left, right, sums)


@pytest.mark.parametrize(
    ("largest", "halves", "counted"),
    [
        (127, False, 1),
        (127, True, 1),
        (255, True, 0),
        (257, True, 4),
        (257, False, 0),
        (32767, True, 4),
        (32768, True, 0),
    ],
)
def test_halves_are_multiplied_where_they_are_chosen_and_all_integers_have_them(largest, halves, counted):
    product, asked = Counted(), quantiser(20, largest)
    use(product, halves)
    try:
        found = gram.partial_gram(RECORDS[:, :20], 0, ROWS, asked, 500)
    finally:
        use(None)
    assert product.bound == counted
    integers = asked.quantise(RECORDS[:, :20]).astype(np.int64)
    assert np.array_equal(found, integers.T @ integers)


def test_a_task_needs_no_more_memory_than_in_double_precision():
    how = half_sums.Halves(ProductByNumPy())
    for width in (1, 500, 2001, 16_001):
        rows = how.rows_at_once(width, 10**6)
        assert 4 * rows * width <= max(float_sums.PIECE_BYTES, 256 * 8 * 2 * width)
        assert rows <= eight_bit.MOST_ROWS
