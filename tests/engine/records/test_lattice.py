"""Declared codes and whole numbers, and zeros, are integers: no rounding moves them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.records.dither import Dither
from blockveil.engine.records.fine_dither import FineDither
from blockveil.engine.records.geometry import Ball, Box
from blockveil.engine.records.lattice import LEAST_REACH, on_lattice
from blockveil.engine.records.quantiser import Quantiser


def coordinates(lower, upper, about="midpoint"):
    low, high = np.atleast_1d(lower).astype(float), np.atleast_1d(upper).astype(float)
    origin = (low + high) / 2.0 if about == "midpoint" else np.zeros_like(low)
    return Box(low, high, origin).coordinates()


def quantised(c, largest, values):
    places = Dither(c.dimension) if largest < 256 else FineDither(c.dimension, largest)
    return Quantiser(c, largest, False, None, dither=places).quantise(values)


@given(
    low=st.integers(-300, 300),
    width=st.integers(1, 400),
    unit=st.sampled_from([1.0, 0.5, 0.1, 0.01, 3.0, 1e-6, 7e5]),
    largest=st.sampled_from([127, 32767, 2**19 - 1]),
    about=st.sampled_from(["midpoint", "zero"]),
)
def test_multiples_of_a_declared_step_are_exact_whatever_else_a_record_holds(low, width, unit, largest, about):
    low = min(low, 0) if about == "zero" else low
    high = max(low + width, 0) if about == "zero" else low + width
    if low == high:
        return
    c = coordinates([low * unit, -1.0], [high * unit, 1.0], about)
    lattice = on_lattice(c, np.array([unit, 0.0]), largest)
    if not lattice.exact[0]:
        assert largest < (max(abs(low), abs(high)) if about == "zero" else width) / (2.0 * (1.0 - LEAST_REACH)) + 2
        return
    codes = np.arange(low, high + 1) * unit
    others = np.random.default_rng(1).uniform(-1.0, 1.0, (40, codes.size))
    records = np.stack([np.tile(codes, 40), others.ravel()], axis=1)
    integers = quantised(lattice.coordinates, largest, records)[:, 0].reshape(40, -1)
    assert np.all(integers == integers[0]), "by the code alone"
    back = integers[0] / largest * lattice.coordinates.scale[0] + c.origin[0]
    assert np.allclose(back, codes, rtol=0.0, atol=1e-9 * unit * max(1, abs(low), abs(high)))


@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (0, 6), (1, 2), (18, 100), (-2, 9), (0, 10)])
def test_whole_bounds_have_steps_for_whole_numbers_without_being_called_exact(lower, upper):
    lattice = on_lattice(coordinates(lower, upper), np.zeros(1), 32767)
    assert not lattice.exact[0]
    codes = np.arange(lower, upper + 1.0)[:, None]
    steps = (codes - lattice.coordinates.origin) * 32767 / lattice.coordinates.scale
    assert np.allclose(steps, np.rint(steps), atol=1e-9)


@pytest.mark.parametrize("about", ["midpoint", "zero"])
def test_zeros_of_wide_columns_are_exact(about):
    c = coordinates([-200_000.3, 0.0, -1.7], [1_000_000.0, 123_456.7, 5.1], about)
    c = on_lattice(c, np.zeros(3), 32767).coordinates
    clip = Quantiser(c, 32767, False, None, dither=FineDither(3, 32767))
    assert clip.by_entries
    records = np.random.default_rng(2).uniform(0.0, 5.0, (500, 3))
    records[:, 0] = 0.0
    assert np.ptp(clip.quantise(records)[:, 0]) == 0.0


@given(
    seed=st.integers(0, 2**32),
    largest=st.sampled_from([127, 255, 32767, 2**19 - 1]),
    about=st.sampled_from(["midpoint", "zero"]),
)
def test_no_integer_is_larger_and_no_feature_reaches_much_less(seed, largest, about):
    rng = np.random.default_rng(seed)
    low, high = -np.rint(10.0 ** rng.uniform(-1, 6, 5)), np.rint(10.0 ** rng.uniform(-1, 6, 5)) + 1.0
    low[:2], high[:2] = low[:2] + rng.uniform(-0.5, 0.0, 2), high[:2] + rng.uniform(0.0, 0.5, 2)
    c = coordinates(low, high, about)
    found = on_lattice(c, rng.choice([0.0, 1.0], 5), largest).coordinates
    assert np.all(found.scale >= c.scale)
    assert np.all(c.scale >= LEAST_REACH * (1.0 - 1e-12) * found.scale)
    records = rng.uniform(-2e6, 2e6, (300, 5))
    integers = quantised(found, largest, records)
    assert np.all(np.abs(integers) <= largest)
    lowest, highest = Quantiser(found, largest, False, None, dither=_places(largest)).ends
    assert np.all((integers >= lowest) & (integers <= highest))


def _places(largest):
    return Dither(5) if largest < 256 else FineDither(5, largest)


def test_other_shapes_are_left_as_they_are():
    for c in (Ball([0.0], 1.0).coordinates(), Box([0.0, 0.0], [1.0, 1.0], [0.0, 0.0], 1.2).coordinates()):
        assert on_lattice(c, np.ones(c.dimension), 32767).coordinates is c
