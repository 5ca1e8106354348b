"""The noise has the law it claims, and every test here would notice a scale that is wrong by 5 %. Alpha 1e-9 each."""

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.noise.discrete_gaussian import GRID_THREE_LEVEL, GRID_TWO_LEVEL, NoiseKey, noise_block

ALPHA = 1e-9
KEY = NoiseKey(bytes(range(1, 33)))
GRIDS = [GRID_TWO_LEVEL, GRID_THREE_LEVEL]


def sample(grid, symmetric=False):
    return noise_block(KEY, (0, 512), (128, 640), grid=grid, symmetric=symmetric) / grid.standard_deviation


def variance_is_plausible(values):
    quantiles = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], values.size)
    return quantiles[0] <= np.sum(values**2) <= quantiles[1]


def shape_is_plausible(values):
    edges = stats.norm.ppf(np.linspace(0, 1, 201))
    observed = np.histogram(values.ravel(), edges)[0]
    return stats.chisquare(observed).pvalue >= ALPHA


def tails_are_plausible(values):
    beyond = int(np.sum(np.abs(values) > 3.0))
    return stats.binomtest(beyond, values.size, 2 * stats.norm.sf(3.0)).pvalue >= ALPHA


def accepts_only_the_right_scale(check, values):
    assert check(values)
    assert not check(values * 1.05)
    assert not check(values / 1.05)


@pytest.mark.parametrize("check", [variance_is_plausible, shape_is_plausible, tails_are_plausible])
@pytest.mark.parametrize("grid", GRIDS)
def test_the_noise_is_gaussian_of_the_stated_deviation(grid, check):
    accepts_only_the_right_scale(check, sample(grid))


@pytest.mark.parametrize("grid", GRIDS)
def test_signs_are_even_and_the_mean_is_zero(grid):
    values = sample(grid).ravel()
    assert abs(values.mean()) * np.sqrt(values.size) < stats.norm.isf(ALPHA / 2)
    assert stats.binomtest(int(np.sum(values > 0)), values.size).pvalue >= ALPHA
    shifted = values + 0.05  # the check must notice a bias of 5 % of the deviation
    assert abs(shifted.mean()) * np.sqrt(values.size) > stats.norm.isf(ALPHA / 2)


@pytest.mark.parametrize("lag", [(0, 1), (1, 0), (1, 1), (128, 0), (0, 128), (64, 64)])
def test_entries_are_uncorrelated_with_their_neighbours_and_with_other_tiles(lag):
    values = sample(GRID_TWO_LEVEL)
    first = values[: 512 - lag[0], : 512 - lag[1]]
    second = values[lag[0] :, lag[1] :]

    def score(left, right):
        return abs(np.sum(left * right)) / np.sqrt(left.size)

    assert score(first, second) < stats.norm.isf(ALPHA / 2)
    assert score(first, second + 0.05 * first) > stats.norm.isf(ALPHA / 2), "a correlation of 5 % must be noticed"


def test_all_residues_of_the_second_level_occur_evenly():
    values = noise_block(KEY, (0, 512), (0, 512), grid=GRID_TWO_LEVEL, symmetric=False)
    assert stats.chisquare(np.bincount((values % 1087).ravel(), minlength=1087)).pvalue >= ALPHA
    coarse = values * 2  # a grid of even numbers only must be noticed through its residues by two
    assert stats.chisquare(np.bincount((values % 2).ravel(), minlength=2)).pvalue >= ALPHA
    assert stats.chisquare(np.bincount((coarse % 2).ravel(), minlength=2)).pvalue < ALPHA
