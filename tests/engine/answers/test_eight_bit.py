"""Products in eight bits are exact at every end, and BLAS takes their place wherever they are not, or not faster."""

import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockveil.engine.answers import eight_bit
from tests.house.eight_bit_products import ProductByNumPy, of_this_machine


class Wrong(ProductByNumPy):
    """A product with one mistake, made in 32 bits after the sums."""

    def __init__(self, change):
        self.change = change

    def bind(self, left, right, sums):
        multiply = super().bind(left, right, sums)

        def wrong():
            before = sums.copy()
            multiply()
            sums[...] = self.change(left, right, sums, before)

        return wrong


def saturating(left, right, sums, before):
    """Adds neighbours up in 16 bits, as AVX2 does."""
    products = left.astype(np.int64)[:, :, None] * right.astype(np.int64)[None]
    even = products[:, : products.shape[1] // 2 * 2]
    pairs = np.clip(even[:, ::2] + even[:, 1::2], -(2**15), 2**15 - 1)
    return pairs.sum(axis=1) + products[:, even.shape[1] :].sum(axis=1) - 128 * right.astype(np.int64).sum(axis=0)


MISTAKES = {
    "sums saturate in 16 bits": saturating,
    "the shift is forgotten": lambda a, b, s, _: s + 128 * b.sum(axis=0, dtype=np.int32),
    "sums are added to what was there": lambda a, b, s, before: s + before,
    "the last row is left out": lambda a, b, s, _: s - (a[:, -1:].astype(np.int32) - 128) * b[-1].astype(np.int32),
    "the last column is left out": lambda a, b, s, before: np.hstack([s[:, :-1], before[:, -1:]]),
    "the least integer is another": lambda a, b, s, _: (a.astype(float) - 128) @ np.maximum(b, -127).astype(float),
    "sums are floats": lambda a, b, s, _: s.astype(np.float32).astype(np.float64) + (np.abs(s) > 2**24),
}


@pytest.fixture
def real():
    return of_this_machine()


def by_python(left, right):
    return [
        [sum((int(a) - 128) * int(b) for a, b in zip(row, column, strict=True)) for column in right.T] for row in left
    ]


def multiplied(product, left, right):
    sums = np.empty((left.shape[0], right.shape[1]), np.int32)
    product.bind(left, right, sums)()
    return sums.tolist()


of_this_machine_once = cache(of_this_machine)
ENDS = st.sampled_from([-128, -127, -1, 0, 1, 127]) | st.integers(-128, 127)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_sums_are_those_of_python_integers(data):
    m, rows, n = (data.draw(st.integers(1, most)) for most in (6, 40, 6))
    integers = np.array(data.draw(st.lists(ENDS, min_size=(m + n) * rows, max_size=(m + n) * rows)))
    left = (integers[: m * rows] + 128).astype(np.uint8).reshape(m, rows)
    right = integers[m * rows :].astype(np.int8).reshape(rows, n)
    assert multiplied(of_this_machine_once(), left, right) == by_python(left, right)


@pytest.mark.parametrize("low", [-128, -127, 127])
@pytest.mark.parametrize("high", [-128, -127, 127])
def test_as_many_rows_as_there_may_be_are_exact_at_every_end(real, low, high):
    rows = eight_bit.MOST_ROWS
    left, right = np.full((3, rows), low + 128, np.uint8), np.full((rows, 17), high, np.int8)
    assert multiplied(real, left, right) == [[rows * low * high] * 17] * 3


def test_one_more_row_could_leave_int32_and_is_refused(real):
    assert eight_bit.MOST_ROWS * 255 * 128 <= 2**31 - 1 < (eight_bit.MOST_ROWS + 1) * 255 * 128
    rows = eight_bit.MOST_ROWS + 1
    with pytest.raises(ValueError, match="more rows"):
        multiplied(real, np.zeros((1, rows), np.uint8), np.zeros((rows, 1), np.int8))


@pytest.mark.parametrize("change", ["left", "right", "sums"])
def test_places_of_another_shape_or_order_are_refused(real, change):
    places = {
        "left": np.zeros((4, 6), np.uint8),
        "right": np.zeros((6, 8), np.int8),
        "sums": np.zeros((4, 8), np.int32),
    }
    for other in (places[change][:, ::2], places[change][:-1], np.asfortranarray(places[change])):
        with pytest.raises(ValueError, match=r"must be in C order|differ in shape"):
            real.bind(**{**places, change: other})


def test_what_lies_at_the_places_is_read_at_each_call(real):
    left, right, sums = np.full((2, 3), 129, np.uint8), np.ones((3, 2), np.int8), np.zeros((2, 2), np.int32)
    multiply = real.bind(left, right, sums)
    for factor in (1, -5, 100):
        right[...] = factor
        multiply()
        assert np.all(sums == 3 * factor)


def test_a_right_product_passes_the_check():
    eight_bit.check(ProductByNumPy())


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_product_is_refused(mistake):
    with pytest.raises(eight_bit.InexactProduct):
        eight_bit.check(Wrong(MISTAKES[mistake]))


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 300), n=st.integers(1, 150), before=st.integers(0, 3))
def test_a_left_factor_is_the_right_one_turned_and_nothing_beside_it_is_written(rows, n, before):
    right = np.random.default_rng(rows).integers(-128, 128, (rows, n), np.int8)
    room = np.full((before + n + 1, rows), 7, np.uint8)
    turn = of_this_machine_once().bind_turned(right, room[before : before + n])
    for sign in (1, -1):
        np.multiply(right, sign, out=right)
        turn()
        assert np.array_equal(room[before : before + n].astype(int) - 128, right.T)
    assert np.all(room[:before] == 7)
    assert np.all(room[before + n :] == 7)


@pytest.mark.parametrize("change", ["right", "left"])
def test_a_left_factor_of_another_shape_or_order_is_refused(real, change):
    places = {"right": np.zeros((6, 4), np.int8), "left": np.zeros((4, 6), np.uint8)}
    for other in (places[change][:, ::2], places[change][:-1], np.asfortranarray(places[change])):
        with pytest.raises(ValueError, match=r"must be in C order|differ in shape"):
            real.bind_turned(**{**places, change: other})


WRONG_LEFT = {
    "the shift is forgotten": lambda a: a ^ 128,
    "the features are in another order": lambda a: a[::-1],
    "the least integer is another": lambda a: np.maximum(a, 1),
}


@pytest.mark.parametrize("mistake", WRONG_LEFT)
def test_a_wrong_left_factor_is_refused(mistake):
    class Turned(ProductByNumPy):
        def bind_turned(self, right, left):
            turn = super().bind_turned(right, left)

            def wrong():
                turn()
                left[...] = WRONG_LEFT[mistake](left.copy())

            return wrong

    with pytest.raises(eight_bit.InexactProduct, match="left factor"):
        eight_bit.check(Turned())


def ticking(ours, single, double):
    """A clock by which calls take these times in turn."""
    now, takes = [0.0], [step for second in [ours, single, double] * 5 for step in (0.0, second)]

    def clock():
        now[0] += takes.pop(0)
        return now[0]

    return clock


@pytest.mark.parametrize(
    ("double", "halves", "words"),
    [(1.2, True, "by halves, 3 times"), (0.4, False, "in double precision, for halves are only 1 times")],
)
def test_an_exact_product_that_is_faster_is_chosen_and_for_halves_where_four_of_them_are(
    monkeypatch, double, halves, words
):
    monkeypatch.setattr(eight_bit, "_OnnxRuntime", ProductByNumPy)
    choice = eight_bit.choose(ticking(0.1, 0.3, double))
    assert isinstance(choice.product, ProductByNumPy)
    assert choice.halves is halves
    times = f"3 times as fast as single precision here, and 16 bits {words} as fast as double"
    assert choice.reason == f"8 bits by onnxruntime, {times}"


def test_a_product_that_is_hardly_faster_leaves_the_work_to_blas(monkeypatch):
    monkeypatch.setattr(eight_bit, "_OnnxRuntime", ProductByNumPy)
    reason = "single precision, for products in 8 bits are only 1.1 times as fast here"
    assert eight_bit.choose(ticking(0.1, 0.11, 9.0)) == eight_bit.Choice(None, False, reason)


def fail():
    raise OSError("never shown")


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (lambda: Wrong(saturating), "products in 8 bits are not exact on this processor"),
        (fail, "onnxruntime does not work (OSError)"),
    ],
    ids=["a processor whose products saturate", "a library that fails"],
)
def test_what_is_not_exact_or_does_not_work_leaves_the_work_to_blas(monkeypatch, library, words):
    monkeypatch.setattr(eight_bit, "_OnnxRuntime", library)
    assert eight_bit.choose(ticking(0.1, 0.3, 0.9)) == eight_bit.Choice(None, False, f"single precision, for {words}")


def test_without_the_library_blas_does_the_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    reason = "single precision, for onnxruntime is not installed"
    assert eight_bit.choose(ticking(0.1, 0.3, 0.9)) == eight_bit.Choice(None, False, reason)
