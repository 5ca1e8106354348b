"""Tiles in eight bits have the same bits as by BLAS, for every cut, width, number of records and kind of answer."""

import numpy as np
import pytest

from blockveil.engine.answers import byte_sums, eight_bit, float_sums, gram, layout
from blockveil.engine.answers.outer_products import OuterProductsQuery
from blockveil.engine.answers.second_moment import SecondMomentQuery
from blockveil.engine.answers.weighted import WeightedQuery
from blockveil.engine.records.dither import Dither
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser
from tests.house.eight_bit_products import ProductByNumPy, of_this_machine, use

ROWS = 4500
"""More than two pieces, and no multiple of one."""

RECORDS = np.random.default_rng(5).standard_normal((ROWS, 331)) * 2.0


def quantiser(features, dithered=True, augmented=True, largest=127, stand_in=None):
    box = Box(np.full(features, -1.0), np.linspace(1.0, 9.0, features), np.zeros(features))
    return Quantiser(box.coordinates(), largest, augmented, stand_in, dither=Dither(features) if dithered else None)


@pytest.fixture(params=["by NumPy", "by this machine"])
def product(request):
    yield ProductByNumPy() if request.param == "by NumPy" else of_this_machine()
    use(None)


def both(product, work):
    """What is found by BLAS, and in eight bits."""
    use(None)
    expected = work()
    use(product)
    try:
        return expected, work()
    finally:
        use(None)


def same(expected, found):
    return all(a.dtype == b.dtype == np.int64 and np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dithered", [True, False])
@pytest.mark.parametrize("side", [331, 130, 64])
def test_every_tiling_has_the_bits_of_blas(product, dtype, dithered, side):
    asked, records = SecondMomentQuery(quantiser(331, dithered)), RECORDS.astype(dtype)
    tiles = layout.grid((332, 332), True, 1, side)
    rng = np.random.default_rng(side)
    for _ in range(2):
        start, stop = sorted(int(row) for row in rng.choice(ROWS + 1, 2, replace=False))
        few = [tiles[i] for i in rng.permutation(len(tiles))[: int(rng.integers(1, len(tiles) + 1))]]
        chunk_rows = int(rng.integers(1, 3000))
        assert same(*both(product, lambda: asked.partial(records, start, stop, chunk_rows, few)))  # noqa: B023


@pytest.mark.parametrize("features", [1, 2, 31, 127, 128, 160, 161, 257])
def test_every_width_has_the_bits_of_blas(product, features):
    for augmented in (False, True):
        asked = quantiser(features, augmented=augmented)
        assert same(*both(product, lambda: [gram.partial_gram(RECORDS[:, :features], 0, 300, asked, 70)]))  # noqa: B023


@pytest.mark.parametrize("rows", [1, 2, 2047, 2048, 2049, 4096, 4097])
def test_every_number_of_records_has_the_bits_of_blas(product, rows):
    asked = quantiser(20)
    assert same(*both(product, lambda: [gram.partial_gram(RECORDS[:, :20], 0, rows, asked, 900)]))


def test_outer_products_have_the_bits_of_blas(product):
    asked = OuterProductsQuery(quantiser(200, False, False), quantiser(131, False, False))
    tiles = layout.grid((200, 131), False, 0, 70)
    assert same(*both(product, lambda: asked.partial(RECORDS, 3, ROWS, 700, tiles)))


def test_weighted_sums_have_the_bits_of_blas(product):
    asked = WeightedQuery(SecondMomentQuery(quantiser(331)), (0, 7, 2300, ROWS), (9, 255, 1, 77), 4, 2)
    tiles = layout.grid((332, 332), True, 1, 200)
    assert same(*both(product, lambda: asked.partial(RECORDS, 1, ROWS - 1, 999, tiles)))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_sums_leave_int32_before_they_could_wrap_around(product, sign):
    most = (2**31 - 1) // 127**2
    assert byte_sums.Bytes(product, 127).exact_rows == most
    box = Box(np.full(2, -1.0), np.ones(2), np.zeros(2))
    asked = Quantiser(box.coordinates(), 127, False, None)
    use(product)
    for rows in (most, most + 1, 2 * most + 5):
        records = np.broadcast_to(np.array([1.0, sign]), (rows, 2))
        found = gram.partial_gram(records, 0, rows, asked, 2**16)
        assert found.tolist() == (np.array([[1, sign], [sign, 1]]) * rows * 127**2).tolist()


def test_a_task_needs_no_more_memory_than_in_single_precision():
    how = byte_sums.Bytes(ProductByNumPy(), 127)
    # The cost model gives a task int64 beside its sums of four bytes from so many rows on.
    assert how.exact_rows >= gram.arithmetic(127).narrow_rows
    for width in (1, 500, 2001, 16_001):
        rows = how.rows_at_once(width, 10**6)
        assert 2 * rows * width <= max(float_sums.PIECE_BYTES, 256 * 8 * 2 * width)


def test_a_missing_value_is_refused_or_replaced_as_with_blas(product):
    spoilt = RECORDS.copy()
    spoilt[4000, 17] = np.nan
    use(product)
    with pytest.raises(NotFiniteError):
        gram.partial_gram(spoilt, 0, ROWS, quantiser(331), 500)
    asked = quantiser(331, stand_in=np.full(331, 0.5))
    assert same(*both(product, lambda: [gram.partial_gram(spoilt, 0, ROWS, asked, 500)]))


def test_blocks_cover_every_column_once_and_none_is_much_wider_than_the_product_likes():
    for length in (*range(1, 400), 1023, 1024, 1025):
        found = byte_sums.blocks(length)
        assert [column for low, high in found for column in range(low, high)] == list(range(length))
        assert all(0 < high - low <= eight_bit.BLOCK * 5 // 4 for low, high in found)
