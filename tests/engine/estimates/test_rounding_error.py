"""What rounding adds to errors is bounded, and the bound is attained by the worst contents within a few per cent."""

import numpy as np
import pytest

from blockveil.engine.estimates import rounding_error
from blockveil.engine.estimates.rounding_error import RoundingError
from blockveil.engine.records import fine_dither
from blockveil.engine.records.fine_dither import FineDither
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from tests.oracles import rounding

K, DRAWS, RECORDS, WIDTH = 4095, 20_000, 64, 3


def error(alike, rounded=(False, True, True, True)):
    r = rounding_error.of_coordinates(np.array(rounded), K, RECORDS, alike, fine_dither.TILT)
    return RoundingError(r, r, rounding_error.second_order(RECORDS, alike))


def off(alike, fraction):
    """Errors of sums and of products about the sums, in coordinates, by draws of contents; (draws, 1 + WIDTH, ...)."""
    rng, contents = np.random.default_rng(alike), RECORDS // alike
    box = Box(-np.ones(WIDTH + 1), np.ones(WIDTH + 1), np.zeros(WIDTH + 1))
    clip = Quantiser(box.coordinates(), K, False, None, dither=FineDither(WIDTH + 1, K))
    # As far from an integer as may be, near one; the last feature tells contents apart.
    records = np.full((DRAWS * contents, WIDTH + 1), 1.0 - (2.0 + fraction) / K)
    records[:, -1] = rng.uniform(-1.0, 1.0, len(records))
    integers = clip.quantise(records)[:, :WIDTH] / K
    exact = records[:, :WIDTH]
    sums = alike * (integers - exact).reshape(DRAWS, contents, WIDTH).sum(axis=1)
    outer = (integers[:, :, None] * integers[:, None, :] - exact[:, :, None] * exact[:, None, :]) * alike
    return sums, outer.reshape(DRAWS, contents, WIDTH, WIDTH).sum(axis=1)


def scale_fits(values, deviation):
    """Whether a mean square is that of a deviation, within six of its own deviations; it tells 5 % apart."""
    squares = float(np.mean(values**2)) / deviation**2
    return abs(squares - 1.0) < 6.0 * np.sqrt(2.0 / DRAWS)


@pytest.mark.parametrize("alike", [1, 8, 64])
def test_sums_of_worst_contents_deviate_as_is_stated_and_not_by_5_per_cent_more_or_less(alike):
    stated = error(alike).deviations()[0, 1]
    sums, _ = off(alike, 0.5)
    for column in sums.T:
        if alike < 64:
            assert scale_fits(column, stated)
            assert not scale_fits(column, 1.05 * stated)
            assert not scale_fits(column, stated / 1.05)
        assert np.mean(column**2) < stated**2 * (1.0 + 6.0 * np.sqrt(2.0 / DRAWS))


@pytest.mark.parametrize("fraction", [0.5, 0.1])
@pytest.mark.parametrize("alike", [1, 8, 64])
def test_no_entry_deviates_by_more_than_is_stated(alike, fraction):
    stated = error(alike).deviations()[1:, 1:]
    _, products = off(alike, fraction)
    found = np.sqrt(np.mean(products**2, axis=0))
    assert np.all(found <= stated * (1.0 + 6.0 / np.sqrt(2.0 * DRAWS)))
    if fraction == 0.5:
        assert np.all(np.diagonal(found) > 0.9 * np.diagonal(stated)), "the diagonal attains it"


def test_contents_that_occur_more_often_than_is_stated_deviate_by_more():
    sums, _ = off(8, 0.5)
    assert np.mean(sums**2) > 4.0 * error(1).deviations()[0, 1] ** 2


def test_exact_features_and_the_count_have_no_error_by_rounding():
    found = error(8, (False, False, True, True)).deviations()
    assert np.all(found[:2, :2] == 0.0)
    assert found[0, 2] == found[1, 2] > 0.0
    blocks = error(8).deviations((1, 3), (0, 2))
    assert np.array_equal(blocks, error(8).deviations()[1:3, :2])


def test_no_sum_is_off_by_more_than_the_worst_case():
    for fraction in (0.5, 0.999, 0.001):
        sums, products = off(RECORDS, fraction)
        assert np.max(np.abs(sums)) < rounding.worst_of_sum(RECORDS, K)
        assert np.max(np.abs(products)) < rounding.worst_of_products(RECORDS, K)
