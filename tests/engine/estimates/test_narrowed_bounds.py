"""Bounds within an octave: near what values need wherever these lie, wide where noise hides them."""

import numpy as np
import pytest

from blockveil.engine.answers.column_bins import DigitBins, PowerBins
from blockveil.engine.estimates.chosen_bounds import BinNoise, choose_bounds
from blockveil.engine.estimates.narrowed_bounds import DigitCounts, narrowed

POWERS, DIGITS, ROWS = PowerBins(-10, 40), DigitBins(10), 30_000
QUIET, USUAL = 60.0, 200.0
"""Noise of a bin: five columns at 5 % of epsilon 1, and 23 at 2 % of it."""


def drawn(name):
    rng = np.random.default_rng(8)
    return {
        "near 4100": rng.normal(4100.0, 3.0, ROWS),
        "near -4100": rng.normal(-4100.0, 0.5, ROWS),
        "a thousandth": rng.uniform(0.0, 1e-3, ROWS),
        "lognormal": np.exp(rng.normal(size=ROWS)),
        "two clusters": np.where(rng.random(ROWS) < 0.8, rng.normal(4100.0, 3.0, ROWS), rng.normal(6000.0, 10.0, ROWS)),
        "temperature": rng.normal(37.0, 0.5, ROWS),
        "pressure": rng.normal(1013.0, 10.0, ROWS),
        "heavy tails": 500.0 + 5.0 * rng.standard_t(3, ROWS),
        "a million": rng.normal(1e6, 100.0, ROWS),
    }[name]


def bounds(values, deviation, key):
    rng = np.random.default_rng(key)
    noise = BinNoise(deviation, True, 5 * (POWERS.size + DIGITS.size))
    of_powers, of_digits = (
        np.bincount(bins.places(values), minlength=bins.size) + deviation * rng.normal(size=bins.size)
        for bins in (POWERS, DIGITS)
    )
    octaves = (of_powers, *POWERS.borders)
    chosen = choose_bounds(*octaves, noise)
    return chosen, narrowed(chosen, octaves, DigitCounts(of_digits[1:], noise, 5), 0.0)


@pytest.mark.parametrize(
    ("name", "widest", "before"),
    [
        ("near 4100", 3.0, 300.0),
        ("near -4100", 6.0, 1000.0),
        ("a thousandth", 2.1, 1.0),
        ("lognormal", 2.0, 0.0),
        ("temperature", 1.6, 9.0),
        ("pressure", 2.8, 20.0),
        ("heavy tails", 8.0, 6.0),
        ("a million", 5.5, 800.0),
    ],
)
def test_bounds_are_a_few_times_as_wide_as_999_of_1000_values_need(name, widest, before):
    values = drawn(name)
    needed = float(np.diff(np.quantile(values, [0.001, 0.999]))[0])
    for key in range(5):
        chosen, found = bounds(values, QUIET, key)
        assert chosen.upper - chosen.lower >= before * needed
        assert found.upper - found.lower <= widest * needed
        assert chosen.lower <= found.lower < found.upper <= chosen.upper


@pytest.mark.parametrize("deviation", [QUIET, USUAL])
@pytest.mark.parametrize("name", ["near 4100", "temperature", "pressure", "heavy tails", "two clusters", "lognormal"])
def test_the_share_outside_is_within_its_interval_and_small(name, deviation):
    values = drawn(name)
    for key in range(5):
        chosen, found = bounds(values, deviation, key)
        outside = float(np.mean((values < found.lower) | (values > found.upper)))
        assert found.outside.least_share <= outside <= found.outside.most_share
        if found is not chosen:
            assert outside < 0.08


@pytest.mark.parametrize("values", [np.full(ROWS, 4100.0), np.full(ROWS, 4096.0), np.full(ROWS, -3.0), np.zeros(ROWS)])
def test_a_constant_is_within_its_bounds(values):
    _, found = bounds(values, QUIET, 1)
    assert found.lower <= values[0] <= found.upper
    assert found.lower < found.upper


def test_columns_of_both_signs_of_zeros_or_of_many_octaves_keep_their_bounds():
    rng = np.random.default_rng(3)
    zeros = np.where(rng.random(ROWS) < 0.3, 0.0, rng.normal(4100.0, 3.0, ROWS))
    for values in (rng.normal(size=ROWS), zeros, np.exp(rng.normal(2.0, 2.0, ROWS))):
        chosen, found = bounds(values, QUIET, 2)
        assert found is chosen


def test_values_of_both_ends_of_two_octaves_are_not_taken_for_neighbours():
    """Their digits are next to each other in a circle, and their values are four times apart."""
    rng = np.random.default_rng(4)
    values = np.where(rng.random(ROWS) < 0.5, rng.normal(2060.0, 2.0, ROWS), rng.normal(8100.0, 2.0, ROWS))
    _, found = bounds(values, QUIET, 3)
    assert found.lower <= 2060.0
    assert found.upper >= 8100.0


def test_digits_of_values_elsewhere_are_not_taken_for_those_within():
    """A tenth of the values has the same digits four times as far out; the bin there is open for what lies beyond."""
    rng = np.random.default_rng(5)
    values = rng.normal(4200.0, 3.0, ROWS)
    values[: ROWS // 50] *= 4.0  # too few to stand out of large noise
    for key in range(5):
        _, found = bounds(values, 250.0, key)
        outside = float(np.mean((values < found.lower) | (values > found.upper)))
        assert found.outside.least_share <= outside <= found.outside.most_share


def test_noise_alone_narrows_nothing():
    rng = np.random.default_rng(6)
    noise = BinNoise(USUAL, True, 5 * (POWERS.size + DIGITS.size))
    values = rng.uniform(4096.0, 8192.0, ROWS)  # no part of the octave holds nearly all of them
    for key in range(40):
        counts = np.random.default_rng(key).normal(0.0, USUAL, DIGITS.size - 1)
        octaves = np.bincount(POWERS.places(values), minlength=POWERS.size).astype(float)
        chosen = choose_bounds(octaves, *POWERS.borders, noise)
        found = narrowed(chosen, (octaves, *POWERS.borders), DigitCounts(counts, noise, 5), 0.0)
        assert found is chosen
