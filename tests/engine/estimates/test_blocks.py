"""Estimates by blocks are, bit for bit, those of the whole matrix."""

import numpy as np
import pytest

from blockveil.engine.answers.layout import grid
from blockveil.engine.estimates import blocks as block_estimates
from blockveil.engine.estimates import matrices
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.records.geometry import Box

RNG = np.random.default_rng(3)
D = 13
COORDINATES = Box(-RNG.lognormal(size=D), RNG.lognormal(size=D), np.zeros(D)).coordinates()
ASKED = ApproxDP(1.0, 1e-6)


def prepared(augmented):
    problem = SecondMoment(COORDINATES.body, COORDINATES.scale, Neighbours.REPLACE_ONE, 32767, 1000, augmented)
    design = Gaussian().design(problem, ASKED)
    width = D + int(augmented)
    half = np.triu(RNG.integers(-(2**40), 2**40, (width, width)))
    return design, half + np.triu(half, 1).T


@pytest.mark.parametrize("side", [1, 4, 20])
@pytest.mark.parametrize("public_count", [None, 900])
def test_covariance(side, public_count):
    design, released = prepared(augmented=True)
    released[0, 0] = abs(released[0, 0])
    whole = matrices.covariance(released, design, COORDINATES, public_count)
    head = block_estimates.covariance_head(released[0], design, COORDINATES, public_count)
    for name in ("count", "mean"):
        for part in ("value", "standard_deviation"):
            assert np.array_equal(getattr(getattr(head, name), part), getattr(getattr(whole, name), part))
    for tile in grid((D, D), False, 0, side):
        place = slice(*tile.rows), slice(*tile.columns)
        inner = released[1:, 1:][place]
        found = block_estimates.covariance_block(inner, design, head, tile.rows, tile.columns)
        assert np.array_equal(found, whole.covariance.value[place])
        own, product = whole.second_moment.standard_deviation[place], whole.second_moment.value[place] / head.divisor
        deviation = block_estimates.covariance_deviation(product, own, head, tile.rows, tile.columns)
        assert np.array_equal(deviation, whole.covariance.standard_deviation[place])


@pytest.mark.parametrize("side", [1, 4, 20])
def test_second_moment(side):
    design, released = prepared(augmented=False)
    whole = matrices.second_moment(released, design, COORDINATES)
    for tile in grid((D, D), False, 0, side):
        place = slice(*tile.rows), slice(*tile.columns)
        found = block_estimates.second_moment_block(released[place], design, COORDINATES, tile.rows, tile.columns)
        assert np.array_equal(found, whole.value[place])


def test_outer_products_and_records():
    right = Box(np.zeros(5), RNG.lognormal(size=5), np.zeros(5)).coordinates()
    problem = OuterProducts(
        COORDINATES.body, right.body, COORDINATES.scale, right.scale, Neighbours.ADD_REMOVE, 32767, 1000
    )
    design, released = Gaussian().design(problem, ASKED), RNG.integers(-(2**40), 2**40, (D, 5))
    whole = matrices.outer_products(released, design, COORDINATES, right)
    found = block_estimates.outer_products_block(released[3:9, 1:4], design, COORDINATES, right, (3, 9), (1, 4))
    assert np.array_equal(found, whole.value[3:9, 1:4])
    rows = Rows(COORDINATES.body, COORDINATES.scale, Neighbours.REPLACE_ONE, 32767, 50)
    design, released = Gaussian().design(rows, ASKED), RNG.integers(-(2**40), 2**40, (50, D))
    everything = matrices.records(released, design, COORDINATES)
    some = block_estimates.records_block(released[7:31], design, COORDINATES, (7, 31))
    assert np.array_equal(some.value, everything.value[7:31])
    assert np.array_equal(some.standard_deviation, everything.standard_deviation[7:31])
