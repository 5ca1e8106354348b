"""What rounding records can add to a sum of products is bounded, and the bound is nearly attained."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.answers import gram
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from tests.oracles import rounding


def off(records, largest, lower=-1.0):
    """How far the sums of the rounded records, with a constant in front, are off, in coordinates."""
    width = records.shape[1]
    box = Box(np.full(width, lower), np.ones(width), np.zeros(width))
    found = gram.partial_gram(records, 0, len(records), Quantiser(box.coordinates(), largest, True, None), 100)
    ones = np.ones((len(records), 1))
    return np.abs(found / float(largest) ** 2 - np.hstack([ones, records]).T @ np.hstack([ones, records]))


def furthest(records, largest, lower=-1.0):
    """That of a sum of products, and of a sum."""
    found = off(records, largest, lower)
    return float(np.max(found[1:, 1:])), float(np.max(found[0]))


@pytest.mark.parametrize("largest", [127, 255, 32767])
def test_records_half_a_step_from_a_whole_number_nearly_attain_the_bounds(largest):
    records = np.full((300, 4), 1.0 - 0.499 / largest)  # rounded up to one
    bounds = rounding.nearest(300, largest)
    assert all(0.95 * bound < found <= bound for found, bound in zip(furthest(records, largest), bounds, strict=True))


@given(
    seed=st.integers(0, 2**32),
    largest=st.integers(127, 600),
    rows=st.integers(1, 400),
    lower=st.sampled_from([-1.0, 0.0]),
)
def test_no_records_are_off_by_more(seed, largest, rows, lower):
    records = np.random.default_rng(seed).uniform(lower, 1.0, (rows, 3))
    bounds = rounding.nearest(rows, largest)
    assert all(
        found <= bound * (1.0 + 1e-9) for found, bound in zip(furthest(records, largest, lower), bounds, strict=True)
    )
