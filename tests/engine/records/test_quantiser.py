"""Quantised records: the bound holds on the integers, the record alone decides them, and nothing is biased."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from blockveil.engine.records.geometry import Ball, Box, Ellipsoid, Geometry, GeometryError
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser
from blockveil.engine.records.rounding import pull_inside_ball

MATRIX = np.array([[4.0, 1.9, 0.0], [1.9, 1.0, 0.1], [0.0, 0.1, 9.0]])
GEOMETRIES: dict[str, Geometry] = {
    "box": Box([-1.0, 0.0, 5.0], [3.0, 1.0, 1e6], [1.0, 0.5, 10.0]),
    "half box": Box([0.0, 0.0, 5.0], [3.0, 1.0, 9.0], [0.0, 0.0, 5.0]),
    "box in a ball": Box([-1.0, 0.0, 5.0], [3.0, 1.0, 1e6], [1.0, 0.5, 10.0], 2.1),
    "half box in a ball": Box([0.0, 0.0, 5.0], [3.0, 1.0, 9.0], [0.0, 0.0, 5.0], 3.5),
    "ball": Ball([1.0, -2.0, 0.0], 3.0),
    "axes": Ellipsoid([0.0, 0.0, 7.0], [1.0, 1e-3, 1e4]),
    "matrix": Ellipsoid([0.0, 1.0, 0.0], MATRIX),
}


def quantiser(name, *, bits=16, augmented=False, stand_in=None):
    return Quantiser(GEOMETRIES[name].coordinates(), 2 ** (bits - 1) - 1, augmented, stand_in)


def inside(name, integers, largest):
    if "box" in name:
        low = 0 if "half box" in name else -largest
        boxed = np.all(integers >= low) and np.all(integers <= largest)
        return boxed and ("ball" not in name or within_norm(GEOMETRIES[name], integers, largest))
    return np.all(np.sum(integers.astype(object) ** 2, axis=1) <= largest**2)


def within_norm(box, integers, largest):
    """``sum (h_i k_i)^2 <= (C K)^2`` in whole numbers: floats are fractions, and these shares are not rounded."""
    shares = [Fraction(h) / Fraction(box.norm_at_most) for h in box.half_widths]
    norms = [sum((share * int(k)) ** 2 for share, k in zip(shares, row, strict=True)) for row in integers]
    return all(norm <= largest**2 for norm in norms)


@pytest.mark.parametrize("name", GEOMETRIES)
@given(
    records=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 20), st.just(3)),
        elements=st.floats(allow_nan=False, allow_infinity=False, width=64),
    ),
    bits=st.sampled_from([8, 16, 20]),
)
def test_the_bound_holds_on_the_integers_for_any_finite_record(name, records, bits):
    q = quantiser(name, bits=bits)
    integers = q.quantise(records)
    assert np.array_equal(integers, np.rint(integers))
    assert inside(name, integers.astype(np.int64), q.largest)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_record_alone_decides_its_integers(name):
    rng = np.random.default_rng(3)
    records = rng.standard_normal((500, 3)) * 4
    whole = quantiser(name).quantise(records)
    alone = np.vstack([quantiser(name).quantise(record[None, :]) for record in records])
    backwards = quantiser(name).quantise(records[::-1])[::-1]
    columns = quantiser(name).quantise(np.asfortranarray(records))
    assert np.array_equal(whole, alone)
    assert np.array_equal(whole, backwards)
    assert np.array_equal(whole, columns)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_integers_stand_for_the_record_within_two_steps_when_it_is_inside(name):
    geometry = GEOMETRIES[name]
    coordinates = geometry.coordinates()
    rng = np.random.default_rng(4)
    v = rng.uniform(0.0, 0.5, (200, 3))
    back = coordinates.to_raw()
    records = coordinates.origin + (v * back if back.ndim == 1 else v @ back.T)
    found = quantiser(name).quantise(records) / 32767
    assert np.max(np.abs(found - v)) <= 2 / 32767


@given(
    d=st.integers(1, 40),
    bits=st.sampled_from([8, 12, 16, 20]),
    seed=st.integers(0, 2**32 - 1),
    tightness=st.floats(1e-3, 1.0),
    half=st.booleans(),
)
def test_box_and_norm_hold_on_the_integers_of_any_shape_and_neither_is_wasted(d, bits, seed, tightness, half):
    rng = np.random.default_rng(seed)
    widths = 10.0 ** rng.uniform(-3.0, 3.0, d)
    norm = float(np.linalg.norm(widths) * tightness)
    box = Box(np.zeros(d) if half else -widths * rng.uniform(0.0, 1.0, d), widths, np.zeros(d), norm)
    q = Quantiser(box.coordinates(), 2 ** (bits - 1) - 1, False, None)
    far = rng.standard_cauchy((30, d)) * widths
    records = np.where(rng.random((30, d)) < 0.3, np.where(rng.random((30, d)) < 0.5, box.lower, box.upper), far)
    integers = q.quantise(records).astype(np.int64)
    assert np.all(integers <= q.largest)
    assert np.all(integers >= (0 if half else -q.largest))
    assert within_norm(box, integers, q.largest)
    # What was asked for: the record cut to its box, then shrunk to the norm; here by other arithmetic.
    cut = np.clip(records, box.lower, box.upper)
    asked = cut * np.minimum(1.0, norm / np.maximum(np.linalg.norm(cut, axis=1), 1e-300))[:, None]
    off = integers / q.largest - asked / box.half_widths
    # Half a step of rounding, and the steps by which the norm is kept below its bound.
    assert np.max(np.abs(off)) <= (1.0 + np.sqrt(d) / 2.0) / q.largest + (2.0 + np.sqrt(d)) * 2.0**-20


def test_a_norm_that_no_corner_reaches_bounds_nothing():
    plain, wide = Box([-1.0] * 3, [1.0] * 3, [0.0] * 3), Box([-1.0] * 3, [1.0] * 3, [0.0] * 3, 1.7321)
    assert wide.coordinates().body is plain.coordinates().body
    records = np.random.default_rng(2).standard_normal((100, 3))
    q = [Quantiser(box.coordinates(), 32767, False, None) for box in (plain, wide)]
    assert np.array_equal(q[0].quantise(records), q[1].quantise(records))


@pytest.mark.parametrize("norm", [0.0, -1.0, np.inf, np.nan])
def test_a_norm_that_is_none_is_refused(norm):
    with pytest.raises(GeometryError, match="norm"):
        Box([0.0], [1.0], [0.0], norm)


@pytest.mark.parametrize("name", ["box", "half box"])
@given(
    records=hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 20), st.just(3)),
        elements=st.floats(allow_nan=False, allow_infinity=False, width=32),
    ),
    bits=st.sampled_from([8, 16, 20]),
)
def test_the_bound_holds_on_the_integers_of_single_precision_records(name, records, bits):
    q = quantiser(name, bits=bits)
    integers = q.quantise(records)
    assert np.array_equal(integers, np.rint(integers))
    assert inside(name, integers.astype(np.int64), q.largest)


@pytest.mark.parametrize(
    ("lower", "upper", "origin"),
    [(-3.0, 3.0, 0.0), (0.1, 0.7, 0.3), (0.0, 1e-20, 0.0), (1e6, 1e6 + 1, 1e6 + 0.3), (-1e38, 1e38, 1.0)],
)
def test_single_precision_records_are_rounded_to_the_nearest_integer_or_just_beyond_half_a_step(lower, upper, origin):
    q = Quantiser(Box([lower] * 7, [upper] * 7, [origin] * 7).coordinates(), 32767, False, None)
    records = np.random.default_rng(5).uniform(lower, upper, (4000, 7)).astype(np.float32)
    scale = max(upper - origin, origin - lower)
    exact = (np.clip(records.astype(np.longdouble), lower, upper) - origin) / scale * 32767
    assert np.max(np.abs(q.quantise(records) - exact)) <= 0.51


def test_a_single_precision_record_alone_decides_its_integers():
    records = np.random.default_rng(3).standard_normal((500, 3)).astype(np.float32) * 4
    q = quantiser("box", augmented=True)
    whole = q.quantise(records)
    assert np.array_equal(whole, np.vstack([q.quantise(record[None, :]) for record in records]))
    assert np.array_equal(whole, q.quantise(np.asfortranarray(records)))
    assert np.array_equal(whole, q.quantise(records.astype(">f4")))


@pytest.mark.parametrize("lower", [[-1.0, -1.0, -1.0], [-1.0, -1.0, 1e6]])
def test_a_part_gives_the_integers_of_the_whole_also_where_single_precision_is_too_little_for_one(lower):
    low = np.array(lower)
    q = Quantiser(Box(low, low + 2.0, low + 1.1).coordinates(), 32767, True, None)
    records = (low + np.random.default_rng(6).uniform(0.0, 2.0, (5000, 3))).astype(np.float32)
    whole = q.quantise(records)
    first, second = q.parts([(0, 2), (2, 4)])
    assert np.array_equal(whole[:, :2], first.quantise(records[:, :1]))
    assert np.array_equal(whole[:, 2:], second.quantise(records[:, 1:]))


def test_a_record_outside_a_ball_keeps_its_direction():
    q = quantiser("ball")
    integers = q.quantise(np.array([[1.0 + 30.0, -2.0 + 40.0, 0.0]]))[0] / q.largest
    assert integers == pytest.approx([0.6, 0.8, 0.0], abs=2e-4)


def test_rounding_has_no_bias_in_many_dimensions():
    d, rng = 2000, np.random.default_rng(6)
    v = rng.standard_normal((200, d)) / np.sqrt(d) * 0.5
    q = Quantiser(Ball(np.zeros(d), 1.0).coordinates(), 32767, False, None)
    errors = q.quantise(v) - v * 32767
    assert abs(errors.mean()) < 6 * np.sqrt(1 / 12 / errors.size)  # six standard errors: alpha 2e-9
    assert errors.std() == pytest.approx(np.sqrt(1 / 12), rel=0.01)


def test_the_constant_coordinate_stands_in_front():
    integers = quantiser("box", augmented=True).quantise(np.zeros((4, 3)))
    assert integers.shape == (4, 4)
    assert np.all(integers[:, 0] == 32767)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_missing_value_is_refused_or_replaced_by_its_public_constant(bad):
    records = np.array([[1.0, 0.5, 10.0], [1.0, bad, 10.0]])
    with pytest.raises(NotFiniteError) as caught:
        quantiser("box").quantise(records)
    assert str(caught.value) == "the records hold a missing or infinite value"
    stand_in = np.array([1.0, 0.5, 10.0])
    found = quantiser("box", stand_in=stand_in).quantise(records)
    assert np.array_equal(found[0], found[1])
    assert np.isnan(records[1, 1]) or np.isinf(records[1, 1]), "the caller's records are not touched"


@pytest.mark.parametrize("dtype", [">f8", "<f4", ">i4", "u1", "i8", "f2", "bool"])
def test_every_real_dtype_and_byte_order_gives_the_same_integers(dtype):
    records = np.array([[1, 0, 7], [0, 1, 9], [1, 1, 12]])
    expected = quantiser("box").quantise(records.astype(np.float64))
    assert np.array_equal(quantiser("box").quantise(records.astype(dtype)), expected)


def test_an_empty_block_gives_no_rows():
    assert quantiser("matrix").quantise(np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("largest", [0, 100, 2**20])
def test_sizes_without_an_exact_product_are_refused(largest):
    with pytest.raises(ValueError, match="quantisation bits"):
        Quantiser(GEOMETRIES["box"].coordinates(), largest, False, None)


def test_a_half_width_beyond_floating_point_is_refused():
    with np.errstate(over="ignore"), pytest.raises(GeometryError, match="too far"):
        Quantiser(Box([-1.7e308], [1.7e308], [1e308]).coordinates(), 127, False, None)


def test_what_is_no_number_does_not_pass_for_inside_a_ball():
    with pytest.raises(ArithmeticError, match="left its ball"):
        pull_inside_ball(np.array([[1.0, 2.0], [np.nan, 0.0]]), 127)
