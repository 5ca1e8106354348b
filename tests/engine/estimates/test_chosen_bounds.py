"""Bounds are the outer ends of bins that stand out from the noise, and what lies outside is known with its interval."""

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.answers.column_bins import EdgeBins, PowerBins
from blockveil.engine.estimates.chosen_bounds import BinNoise, choose_bounds

BINS = PowerBins(-4, 10)
LOWER, UPPER = BINS.borders


def counted(values, bins=BINS):
    return np.bincount(bins.places(np.asarray(values, dtype=np.float64)), minlength=bins.size).astype(np.float64)


def chosen(values, deviation=1.0, accepted=0.0, bins=BINS):
    noise = BinNoise(deviation, True, bins.size)
    return choose_bounds(counted(values, bins), *bins.borders, noise, accepted)


def test_the_bounds_are_the_outer_ends_of_the_outermost_bins_that_stand_out():
    ages = np.repeat([18.0, 40.0, 64.0, 90.0], 100)
    found = chosen(ages)
    assert (found.lower, found.upper) == (16.0, 128.0)
    assert (found.outside.values, found.outside.share) == (0.0, 0.0)
    assert found.outside.most_share > 0.0
    assert not found.beyond_widest


def test_values_that_attain_a_border_are_within_it():
    assert (chosen([0.0] * 50 + [1.0] * 50).lower, chosen([0.0] * 50 + [1.0] * 50).upper) == (0.0, 1.0)
    assert (chosen([-8.0] * 50 + [8.0] * 50).lower, chosen([-8.0] * 50 + [8.0] * 50).upper) == (-8.0, 8.0)


def test_a_bin_within_the_reach_of_noise_widens_nothing_and_is_counted_as_outside():
    found = chosen([5.0] * 1000 + [500.0] * 3)
    assert found.upper == 8.0
    assert found.outside.values == 3.0
    assert found.outside.least == 0.0
    assert found.outside.most >= 3.0


def test_many_values_spread_thinly_over_many_bins_stand_out_as_a_sum():
    reach = BinNoise(1.0, True, BINS.size).reach
    thin = int(reach)  # in each of eight bins further out, less than noise alone gives one of them
    found = chosen([1.5] * 1000 + [1.5 * 2.0**power for power in range(2, 10) for _ in range(thin)])
    assert found.upper > 100.0


def test_an_accepted_share_leaves_that_much_outside():
    values = [3.0] * 9_900 + [700.0] * 100
    assert chosen(values).upper == 1024.0
    accepted = chosen(values, accepted=0.1)
    assert accepted.upper == 4.0
    assert accepted.outside.share == pytest.approx(0.01)
    assert accepted.outside.least_share < 0.01 < accepted.outside.most_share


def test_a_column_of_one_value_gets_bounds_of_some_width():
    found = chosen([0.0] * 1000)
    assert (found.lower, found.upper) == (0.0, 2.0**-4)


def test_nothing_is_chosen_where_nothing_stands_out():
    assert chosen([]) is None
    assert chosen([3.0] * 2) is None


def test_values_beyond_the_widest_bin_are_told():
    for values, ends in (([5e6] * 1000, (512.0, 1024.0)), ([-5e6] * 1000, (-1024.0, -512.0))):
        found = chosen(values)
        assert (found.lower, found.upper) == ends
        assert found.beyond_widest
        assert found.outside.share == 1.0
    both = chosen([-5e6] * 500 + [5e6] * 500)
    assert (both.lower, both.upper) == (-1024.0, 1024.0)


def test_declared_edges_bound_like_powers():
    bins = EdgeBins((0.0, 18.0, 40.0, 65.0, 120.0))
    found = chosen([0.0] * 100 + [50.0] * 100, bins=bins)
    assert (found.lower, found.upper) == (0.0, 65.0)


def test_an_unknown_total_gives_an_unknown_share():
    # A single bin that barely stands out, among noise that makes the total negative.
    counts = np.full(BINS.size, -3.0)
    counts[20] = 50.0
    found = choose_bounds(counts, LOWER, UPPER, BinNoise(10.0, True, BINS.size))
    assert np.isnan(found.outside.share)
    assert (found.outside.least_share, found.outside.most_share) == (0.0, 1.0)


@pytest.mark.parametrize("law, too_large", [("gaussian", 2.0), ("laplace", 3.0)])
def test_noise_widens_bounds_and_misses_what_is_outside_in_at_most_5_of_100_releases(law, too_large):
    """1,000 releases of four columns; alpha 1e-9 under a fixed key. Noise that is larger than stated is rejected."""
    rng, releases, columns, deviation = np.random.default_rng(8), 1_000, 4, 2.5
    noise = BinNoise(deviation, law == "gaussian", columns * BINS.size)
    exact = counted([3.0] * 400 + [-1.0] * 300 + [200.0] * 4)
    inside = (-1.0, 4.0)

    def wrong(scale):
        failures = 0
        for _ in range(releases):
            size = (columns, BINS.size)
            drawn = (
                rng.normal(0, deviation, size) if law == "gaussian" else rng.laplace(0, deviation / np.sqrt(2), size)
            )
            found = [choose_bounds(exact + scale * each, LOWER, UPPER, noise) for each in drawn]
            failures += any(
                (each.lower, each.upper) not in (inside, (inside[0], 256.0))
                or not each.outside.least <= (4.0 if each.upper == 4.0 else 0.0) <= each.outside.most
                for each in found
            )
        return failures

    most = stats.binom.isf(1e-9, releases, 0.05)
    assert wrong(1.0) <= most
    assert wrong(too_large) > most


def test_the_band_holds_every_bin_and_every_sum_from_either_end():
    gaussian, laplace = BinNoise(3.0, True, 400).band, BinNoise(3.0, False, 400).band
    assert 4.0 < gaussian < 5.0 < laplace < 12.0
    # Laplace noise that is coarse on whole numbers has a wider band, relative to its deviation.
    assert BinNoise(0.3, False, 400).band > laplace


@pytest.mark.parametrize(
    ("others", "warned"),
    [
        ([], True),  # nothing but zero is found
        ([700.0] * 3, True),  # too few to stand out, and clipped
        ([1.5] * 25 + [700.0] * 3, True),  # a bound near zero is found, and as many may lie beyond
        ([700.0] * 300, False),
        ([1.5] * 3000, False),  # zeros are not most
    ],
)
def test_a_column_of_zeros_whose_other_values_may_be_clipped_is_told_from_its_counts(others, warned):
    found = chosen([0.0] * 2000 + others)
    assert found.mostly_zero == warned
    assert (found.upper >= 512.0) == (others == [700.0] * 300)


def test_bins_that_do_not_single_out_zero_say_nothing_of_zeros():
    assert not chosen([0.0] * 2000, bins=EdgeBins((0.0, 18.0, 65.0))).mostly_zero
