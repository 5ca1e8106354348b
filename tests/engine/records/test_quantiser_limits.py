"""What the proof of a quantiser covers is refused beyond its bounds, and holds up to them for every record tried."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockveil.engine.records.dither import PLACES, Dither
from blockveil.engine.records.geometry import Ball, Body, Box, CappedBox, Ellipsoid, GeometryError, Mixing
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.records.quantiser_limits import LARGEST_IN_CUBE
from blockveil.engine.sensitivity import rotation

SMALL = Box([-1.0] * 3, [1.0] * 3, [0.0] * 3)
BASIS = np.array([[1.0, 2.0, 2.0], [2.0, 1.0, -2.0], [2.0, -2.0, 1.0]]) / 3.0
EXTREME = [0.0, -0.0, 5e-324, -2.3e-308, 1e-30, 0.5, 1.0, -1.0, np.nextafter(1.0, 2.0), 3e38, -1e39, 1.7e308, -1.7e308]


def dithered(largest, box=SMALL):
    return Quantiser(box.coordinates(), largest, False, None, dither=Dither(box.lower.size))


def every_start(quantiser, dtype):
    """Integers of records at and just within both bounds, at all places of the dither."""
    near = np.array([1.0, np.nextafter(1.0, 0.0), 1.0 - 2.0**-20, -1.0, -np.nextafter(1.0, 0.0)])
    records = np.repeat(near, PLACES)[:, None].repeat(3, axis=1).astype(dtype)
    integers = np.empty(records.shape)
    quantiser.quantise_by_steps(records, integers, np.tile(np.arange(PLACES), near.size))
    return integers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("largest", [127, 200, 255])
def test_no_place_of_a_dither_rounds_beyond_the_largest_integer(largest, dtype):
    integers = every_start(dithered(largest), dtype)
    assert np.max(np.abs(integers)) == largest
    assert np.array_equal(integers, np.rint(integers))


@pytest.mark.parametrize("largest", [256, 2047, 4095, 2**15 - 1])
def test_a_dither_with_integers_beyond_its_proof_is_refused(largest):
    with pytest.raises(ValueError, match="places of their own"):
        dithered(largest)


def test_what_is_refused_would_have_left_its_bound():
    admitted = dithered(255)
    object.__setattr__(admitted, "largest", 4095)
    assert np.max(every_start(admitted, np.float32)) == 4096


@pytest.mark.parametrize("dither", [Dither(2), Dither(4, first=2), Dither(3, first=-1), Dither(1)])
def test_a_dither_without_a_place_for_each_feature_is_refused(dither):
    with pytest.raises(ValueError, match="place for each feature"):
        Quantiser(SMALL.coordinates(), 127, False, None, dither=dither)


@pytest.mark.parametrize("largest", [127.5, 128.0, True, np.float64(200.0), 126, 2**20, -127])
def test_a_largest_integer_that_is_none_or_out_of_range_is_refused(largest):
    with pytest.raises(ValueError, match="whole"):
        Quantiser(SMALL.coordinates(), largest, False, None)


@pytest.mark.parametrize("name", ["ball", "axes", "box in a ball"])
def test_more_features_than_squares_add_up_exactly_are_refused(name):
    most = 2**15 - 1
    Quantiser(SHAPES[name](most, 1.0).coordinates(), 2**15 - 1, False, None)
    with pytest.raises(ValueError, match="proof covers 131071 in a box"):
        Quantiser(SHAPES[name](most + 1, 1.0).coordinates(), 2**15 - 1, False, None)


def test_a_box_along_directions_has_no_more_features_than_a_ball():
    wide = SHAPES["box"](2**15, 1.0).coordinates()
    with pytest.raises(ValueError, match="or directions and 32767 in any other"):
        Quantiser(replace(wide, mixing=WHOLE), 2**15 - 1, False, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "largest"), [("box", 127), ("box", 2**15 - 1), ("half box", 2**20 - 1)])
def test_the_most_features_of_a_box_keep_the_bound_at_extremes(name, largest, dtype):
    most = LARGEST_IN_CUBE
    dither = Dither(most) if largest == 127 else None
    quantiser = Quantiser(SHAPES[name](most, 1.0).coordinates(), largest, True, None, dither=dither)
    numbers = np.array([*EXTREME[:9], 3e38, -3e38, 0.3, -0.7])  # 13 numbers: each feature meets each of them
    records = np.resize(numbers, (len(numbers), most)).astype(dtype)
    integers = quantiser.quantise(records)
    assert np.array_equal(integers, np.rint(integers))
    assert np.max(integers) == largest
    assert np.min(integers) == (0 if name == "half box" else -largest)
    # Tasks compute parts of so wide an answer.
    low = most + 1 - 1000
    part = quantiser.parts([(low, most + 1)])[0]
    found = np.empty((len(records), 1000))
    part.quantise_by_steps(records[:, low - 1 :], found, quantiser.starts(records))
    assert np.array_equal(found, integers[:, low:])
    with pytest.raises(ValueError, match=f"{most + 1} features"):
        Quantiser(SHAPES[name](most + 1, 1.0).coordinates(), largest, True, None)


NORMED = {"ball": lambda d: Ball(np.zeros(d), 1.0), "box in a ball": lambda d: Box([-1.0] * d, [1.0] * d, [0.0] * d, 2)}


@pytest.mark.parametrize("shape", NORMED.values(), ids=NORMED.keys())
def test_a_norm_that_rounding_alone_would_fill_is_refused(shape):
    Quantiser(shape(126**2).coordinates(), 127, False, None)
    with pytest.raises(ValueError, match="too few quantisation bits"):
        Quantiser(shape(127**2).coordinates(), 127, False, None)


WHOLE = Mixing(np.eye(3) * 2.0**33, 33)
WRONG = {
    "no scale": {"scale": np.array([1.0, 0.0, 1.0])},
    "a negative scale": {"scale": np.array([1.0, -1.0, 1.0])},
    "no number": {"scale": np.array([1.0, np.nan, 1.0])},
    "an infinite scale": {"scale": np.array([1.0, np.inf, 1.0])},
    "a subnormal width": {"scale": np.array([1.0, 5e-324, 1.0])},
    "an infinite origin": {"origin": np.array([0.0, np.inf, 0.0])},
    "an origin outside": {"origin": np.array([0.0, 2.0, 0.0])},
    "no bound": {"lower": np.array([-1.0, np.nan, -1.0])},
    "one scale for all": {"scale": np.ones(1)},
    "a share above one": {"body": CappedBox(Body.CUBE, np.array([0.5, 1.5, 0.5]))},
    "a share of nothing": {"body": CappedBox(Body.CUBE, np.array([0.5, 0.0, 0.5]))},
    "too few shares": {"body": CappedBox(Body.CUBE, np.array([0.5]))},
    "a half cube along directions": {"body": Body.HALF_CUBE, "mixing": WHOLE},
    "a norm along directions": {"body": CappedBox(Body.CUBE, np.ones(3)), "mixing": WHOLE},
    "a map of fractions": {"mixing": Mixing(np.eye(3) * 0.5, 33)},
    "a map of another size": {"mixing": Mixing(np.eye(2) * 2.0**33, 33)},
    "a map beyond exact sums": {"mixing": Mixing(np.eye(3) * 2.0**34, 34)},
    "a map that leaves the cube": {"mixing": Mixing(np.ones((3, 3)) * 2.0**32, 33)},
    "a map of no numbers": {"mixing": Mixing(np.full((3, 3), np.nan), 33)},
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG.keys())
def test_a_shape_that_the_proof_does_not_cover_is_refused(change):
    with pytest.raises(GeometryError, match=";"):
        Quantiser(replace(SMALL.coordinates(), **change), 127, False, None)


@pytest.mark.parametrize("constant", [np.nan, np.inf, -np.inf])
def test_a_stand_in_that_is_no_number_is_refused(constant):
    with pytest.raises(GeometryError, match="not finite"):
        Quantiser(SMALL.coordinates(), 127, False, np.array([0.0, constant, 0.0]))
    with pytest.raises(GeometryError, match="one is missing"):
        Quantiser(SMALL.coordinates(), 127, False, np.zeros(1))


SHAPES = {
    "box": lambda d, size: Box(np.full(d, -size), np.full(d, size), np.zeros(d)),
    "half box": lambda d, size: Box(np.zeros(d), np.full(d, size), np.zeros(d)),
    "box in a ball": lambda d, size: Box(np.full(d, -size), np.full(d, size), np.zeros(d), 1.25 * size),
    "ball": lambda d, size: Ball(np.zeros(d), size),
    "axes": lambda d, size: Ellipsoid(np.zeros(d), np.geomspace(size, size * 1e6, d)),
}


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from([*SHAPES, "directions"]),
    largest=st.sampled_from([127, 128, 255, 2**11, 2**15 - 1, 2**15, 2**20 - 1]),
    size=st.sampled_from([1e-320, 2.3e-308, 1e-302, 1e-39, 1.0, 1e30, 1e39, 1e301]),
    single=st.booleans(),
    data=st.data(),
)
def test_every_quantiser_that_is_made_keeps_its_bound_at_extreme_sizes(name, largest, size, single, data):
    d = 3 if name == "directions" else data.draw(st.integers(1, 4))
    shape = SHAPES["box" if name == "directions" else name](d, size).coordinates()
    if name not in ("ball", "axes") and size < largest / np.finfo(float).max:
        with pytest.raises(GeometryError, match="too close"):
            Quantiser(shape, largest, False, None)
        return
    quantiser = Quantiser(rotation.along(shape, BASIS) if name == "directions" else shape, largest, False, None)
    factors = data.draw(st.lists(st.lists(st.sampled_from(EXTREME), min_size=d, max_size=d), min_size=1, max_size=8))
    with np.errstate(over="ignore"):
        records = np.array(factors) * data.draw(st.sampled_from([1.0, size]))
        records = np.clip(records, -1.7e308, 1.7e308).astype(np.float32 if single else np.float64)
    records = np.clip(records, -np.finfo(records.dtype).max, np.finfo(records.dtype).max)
    integers = quantiser.quantise(records)
    assert np.array_equal(integers, np.rint(integers)), "no number but whole ones"
    exact = integers.astype(np.int64).astype(object)
    assert np.all(np.abs(exact) <= largest)
    if name == "half box":
        assert np.all(exact >= 0)
    if name in ("ball", "axes"):
        assert np.all(np.sum(exact**2, axis=1) <= largest**2)
