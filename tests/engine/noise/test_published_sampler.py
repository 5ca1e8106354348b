"""The sampler, proved again from its published constants in whole numbers, by code that shares nothing with it."""

from fractions import Fraction

import pytest

from blockveil.engine.noise.discrete_gaussian import GRID_THREE_LEVEL, GRID_TWO_LEVEL
from blockveil.engine.noise.gaussian_table import cumulative, table
from tests.oracles import published_sampler as published

GRIDS = [(2, GRID_TWO_LEVEL), (3, GRID_THREE_LEVEL)]


def test_every_entry_of_the_table_is_the_true_probability_rounded_to_nearest():
    assert published.entries_that_are_wrong(cumulative()) == []


def test_the_vectors_that_are_drawn_from_hold_those_entries():
    _, even, trailing, _ = table()
    found = [(int(lead) << 63) | int(rest) for lead, rest in zip(even, trailing, strict=True)]
    assert found[:-1] == list(cumulative())


@pytest.mark.parametrize("change", [-1, 1])
def test_an_entry_that_is_off_by_one_is_refused(change):
    entries = list(cumulative())
    entries[1234] += change
    assert published.entries_that_are_wrong(entries) == [1234]


def test_a_table_of_another_width_is_refused():
    assert published.entries_that_are_wrong(cumulative(), width=2048 * 21 // 20)


@pytest.mark.parametrize(("levels", "grid"), GRIDS)
def test_a_draw_is_as_near_to_its_law_as_is_charged(levels, grid):
    assert published.draw_distance(cumulative(), levels) <= Fraction(grid.total_variation_per_draw)


def test_a_table_that_is_off_in_its_thirtieth_digit_is_further_away_than_is_charged():
    entries = list(cumulative())
    entries[2048] += 2**40
    assert published.draw_distance(tuple(entries), 2) > Fraction(GRID_TWO_LEVEL.total_variation_per_draw)


@pytest.mark.parametrize(("levels", "grid"), GRIDS)
def test_the_continuous_noise_that_calibration_uses_is_no_wider_than_proved(levels, grid):
    assert grid.variance == published.variance(levels)
    assert Fraction(grid.privacy_scale) ** 2 <= grid.variance - 100  # 100: what the randomised rounding takes
    assert Fraction(grid.privacy_scale) ** 2 >= (grid.variance - 100) * Fraction(999_999_999, 10**9)
