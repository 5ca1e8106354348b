"""Few cells in place of all are narrow about quantiles; intervals of a second stage hold whatever the first gave."""

import numpy as np
import pytest
from scipy.stats import norm

from blockveil.engine.answers.column_bins import EdgeBins
from blockveil.engine.kinds.quantiles.balance_matrix import BITS, BalanceStrategy
from blockveil.engine.kinds.quantiles.few_cells import JoinedBins, few_cells, last_cells
from blockveil.engine.kinds.quantiles.rank_estimate import ColumnBalances, RankNoise
from tests.engine.kinds.quantiles.test_quantiles import column

PROBABILITIES = np.array([0.05, 0.5, 0.95])
SMOOTH = np.full(400, 30)
HEAPS = np.r_[np.zeros(99), 6_000, np.zeros(99), 5_000, np.full(200, 5)].astype(np.int64)


def exact(counts, deviation):
    balances = np.cumsum(counts) - counts.sum() / 2.0
    return ColumnBalances(balances, float(counts.sum()), RankNoise(deviation, deviation / 2.0))


def ends_of(cells):
    return np.arange(cells) * 1.0, np.arange(cells) + 1.0


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("deviation", [0.1, 100.0, 1e7])
@pytest.mark.parametrize("counts", [SMOOTH, HEAPS, np.zeros(400, dtype=np.int64), np.r_[np.zeros(399), 7].astype(int)])
def test_few_cells_ascend_to_the_last_and_are_as_many_as_was_planned_whatever_was_released(counts, deviation, count):
    for seed in range(3):
        last = last_cells(column(seed, counts, deviation), np.arange(1, count + 1) / (count + 1))
        assert last.size == few_cells(400, count)
        assert last[0] >= 0
        assert last[-1] == 399
        assert np.all(np.diff(last) > 0)


@pytest.mark.parametrize("counts", [SMOOTH, HEAPS])
def test_borders_are_on_both_sides_of_each_quantile_and_near(counts):
    last = last_cells(exact(counts, 60.0), PROBABILITIES)
    for p in PROBABILITIES:
        own = int(np.searchsorted(np.cumsum(counts), p * counts.sum()))
        after = int(np.searchsorted(last, own))
        within = counts[last[after - 1] + 1 : last[after] + 1].sum() if after else counts[: last[0] + 1].sum()
        assert within <= max(counts[own], 60.0)


@pytest.mark.parametrize("last", [(0, 3, 9), (4, 5, 9), (8, 9), (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)])
def test_a_value_is_in_the_few_cell_that_joins_its_own_one_also_where_it_is_a_border(last):
    declared = EdgeBins(tuple(float(border) for border in range(1, 10)))
    joined = JoinedBins(declared, last)
    values = np.array([-1e300, -0.0, *np.arange(0.0, 11.0, 0.5), 1e300])
    own = np.bincount(declared.places(values), minlength=10)
    assert np.bincount(joined.places(values)).tolist() == np.diff(np.cumsum(own)[list(last)], prepend=0).tolist()
    lower, upper = joined.borders
    assert joined.size == len(last) == lower.size
    assert upper.tolist() == [each + 1.0 for each in last[:-1]] + [np.inf]
    assert np.array_equal(lower, np.append(-np.inf, upper[:-1]))


def stages(seed, counts, deviations):
    """What the second stage releases of the few cells that the first one gave, and these cells."""
    last = last_cells(column(seed, counts, deviations[0]), PROBABILITIES)
    return column(seed + 10**6, np.diff(np.cumsum(counts)[last], prepend=0), deviations[1]), last


@pytest.mark.parametrize("counts", [SMOOTH, HEAPS])
@pytest.mark.parametrize("first", [10.0, 90.0, 5_000.0])
def test_intervals_hold_their_quantiles_by_the_second_stage_alone(counts, first):
    truth = np.searchsorted(np.cumsum(counts), PROBABILITIES * counts.sum())
    held, tries = np.zeros(PROBABILITIES.size), 400
    for seed in range(tries):
        second, last = stages(seed, counts, (first, 25.0))
        estimates = second.quantiles(PROBABILITIES, ends_of(400), last, norm.ppf(0.975))
        held += [each.lower <= place and place + 1 <= each.upper for each, place in zip(estimates, truth, strict=True)]
        assert all(each.lower <= each.value <= each.upper for each in estimates)
        assert np.all(np.diff([each.value for each in estimates]) >= 0.0)
    # At a coverage of 0.95 fewer are held with probability below 1e-6.
    assert np.all(held / tries >= 0.95 - 5.0 * np.sqrt(0.05 * 0.95 / tries))


def test_the_border_that_the_first_stage_chose_is_as_noisy_as_is_stated_and_not_five_percent_more_or_less():
    truth, noise, off = np.cumsum(SMOOTH), None, []
    place = int(np.searchsorted(truth, 0.3 * SMOOTH.sum()))
    for seed in range(6_000):
        second, last = stages(seed, SMOOTH, (90.0, 25.0))
        noise, cell = second.noise, int(np.searchsorted(last, place))
        off.append(second.balances[cell] + 0.2 * second.count - (truth[last[cell]] - 0.3 * SMOOTH.sum()))
    outside = [float(np.mean(np.abs(off) > norm.ppf(0.975) * scale * noise.at(0.3))) for scale in (1.0, 0.95, 1.05)]
    assert abs(outside[0] - 0.05) < 0.006
    assert outside[1] > 0.056
    assert outside[2] < 0.044


def test_two_stages_at_one_loss_are_nearer_than_one():
    counts, errors = np.random.default_rng(0).integers(20, 40, 1_000), []
    truth = np.interp(PROBABILITIES * counts.sum(), np.cumsum(counts), np.arange(1, 1_001))

    def deviation(cells, share):
        strategy = BalanceStrategy(cells)
        return 40.0 * np.sqrt(strategy.squared_length / share) / 2**BITS * strategy.deviation

    few = few_cells(1_000, 3)
    for seed in range(150):
        alone = column(seed, counts, deviation(1_000, 1.0))
        second, last = stages(seed, counts, (deviation(1_000, 0.2), deviation(few, 0.8)))
        found = [
            each.quantiles(PROBABILITIES, ends_of(1_000), own, 2.0)
            for each, own in ((alone, np.arange(1_000)), (second, last))
        ]
        errors.append([[abs(one.value - t) for one, t in zip(each, truth, strict=True)] for each in found])
    one, two = np.mean(errors, axis=(0, 2))
    assert two < 0.8 * one
