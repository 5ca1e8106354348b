"""Balances of cells are measured in integers whose sensitivity is attained; quantiles follow with their intervals."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import norm

from blockveil.engine.answers.column_bins import EdgeBins, HistogramQuery, MissingValue
from blockveil.engine.answers.layout import Tile
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.quantiles.balance_matrix import BITS, BalanceStrategy
from blockveil.engine.kinds.quantiles.problem import Quantiles
from blockveil.engine.kinds.quantiles.query import QuantilesQuery
from blockveil.engine.kinds.quantiles.rank_estimate import ColumnBalances, RankNoise, column_balances, column_noise
from blockveil.engine.kinds.quantiles.worst_neighbours import worst_neighbours
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.noise.discrete_gaussian import NoiseKey

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
UNIT = 2.0**BITS


def even(problem):
    return problem.spread(np.ones(problem.shape[0]), np.ones(problem.shape[1]))


def record_answers(problem):
    """Answers of every record: a value in any cell of each column, or none where values may be missing."""
    width = np.arange(max(problem.sizes))
    places = product(*(range(0 if problem.complete else -1, size) for size in problem.sizes))
    return [problem.answers((width == np.array(each)[:, None]).astype(np.int64)) / UNIT for each in places]


@pytest.mark.parametrize("sizes", [(4,), (3, 5), (3, 3, 4)])
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("tail", [0.0, 0.45])
def test_some_neighbours_attain_the_bound_and_none_passes_it(sizes, complete, relation, tail):
    problem = Quantiles(sizes, relation, 1000, complete, tail)
    changes = record_answers(problem)
    if relation is REPLACE:
        changes = [one - other for one, other in combinations(changes, 2)]
    l2, l1 = problem.l2(even(problem)), problem.l1(even(problem))
    lengths = [float(np.linalg.norm(each)) for each in changes]
    assert max(lengths) == pytest.approx(l2.attained, rel=1e-12)
    assert max(lengths) <= l2.bound
    assert l2.exact
    sums = [float(np.sum(np.abs(each))) for each in changes]
    assert max(sums) <= l1.bound
    assert max(sums) >= l1.attained * (1.0 - 1e-12)
    assert max(np.count_nonzero(each) for each in changes) <= even(problem).changing
    longest = max(float(np.linalg.norm(each)) for each in record_answers(problem))
    assert problem.largest_norm() == pytest.approx(1000 * longest)


@pytest.mark.parametrize("case", worst_neighbours(), ids=lambda case: case.problem.neighbours.value)
def test_neighbours_that_an_audit_attacks_are_answers_of_their_own_problem(case):
    possible = {(answer * UNIT).tobytes() for answer in record_answers(case.problem)}
    assert {answer.tobytes() for pair in case.pairs for answer in pair} == possible


@pytest.mark.parametrize("cells", [2, 3, 8, 61, 512])
def test_balances_of_exact_answers_are_exact_and_have_the_least_noise_of_any_factorisation(cells):
    strategy, counts = BalanceStrategy(cells), np.random.default_rng(cells).integers(0, 90, cells)
    cumulative = np.cumsum(counts)
    balances = strategy.balances(strategy.answers(counts) / UNIT)
    assert balances == pytest.approx(cumulative - cumulative[-1] / 2.0)
    # The nuclear norm of the matrix of halves over its side, below which no product of lengths gets.
    signs = np.where(np.tri(cells) > 0.0, 0.5, -0.5)
    least = np.linalg.svd(signs, compute_uv=False).sum() / cells
    assert np.sqrt(strategy.squared_length) / UNIT * strategy.deviation == pytest.approx(least, rel=1e-3)
    assert strategy.widest == pytest.approx(np.sqrt(np.linalg.norm(signs, 2)), rel=1e-2)


def test_medians_of_many_cells_have_less_noise_than_a_tree_of_any_branching():
    """At one loss: a level of a tree costs one, and a border is the sum of blocks of each level."""
    strategy = BalanceStrategy(512)
    own = np.sqrt(strategy.squared_length) / UNIT * strategy.deviation
    for branching, levels in ((2, 9), (8, 3)):
        level_sums = [np.kron(np.eye(branching ** (levels - k)), np.ones(branching**k)) for k in range(levels)]
        tree = np.vstack(level_sums)
        borders = np.tri(512) - 0.5
        noise = np.sqrt(np.einsum("ij,ij->i", borders @ np.linalg.inv(tree.T @ tree), borders))
        assert np.sqrt(levels) * np.mean(noise) > 1.15 * own


def test_parts_of_the_records_add_up_to_the_answer_of_all():
    problem = Quantiles((4, 3), ADD, 1000, False, 0.4)
    query = QuantilesQuery(
        HistogramQuery((EdgeBins((0.0, 1.0, 2.0)), EdgeBins((-1.0, 1.0))), MissingValue.DROP), problem
    )
    records = np.random.default_rng(0).normal(0.5, 1.5, (300, 2))
    records[::7, 1] = np.nan
    whole = Tile((0, 2), (0, 5))
    answer = query.partial(records, 0, 300, 64, [whole])[0]
    parts = [query.partial(records, first, first + 100, 30, [whole])[0] for first in (0, 100, 200)]
    assert np.array_equal(answer, sum(parts))
    assert np.array_equal(query.partial(records, 0, 300, 64, [Tile((1, 2), (1, 3))])[0], answer[1:2, 1:3])
    assert answer[:, -1].tolist() == [problem.weight * 300, problem.weight * np.isfinite(records[:, 1]).sum()]


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("complete", [True, False])
def test_ranks_have_the_noise_that_is_stated_and_five_percent_more_or_less_is_rejected(relation, complete):
    problem = Quantiles((3,) * 200, relation, 10_000, complete, 0.45)
    design = Gaussian().design(problem, ApproxDP(1.0, 1e-6))
    counts = np.full((200, 3), 700)
    exact = problem.answers(counts.astype(np.int64))
    noise = column_noise(design, problem)[0]
    off = []
    for number in range(30):
        released = design.release(NoiseKey(number.to_bytes(32, "big")), exact)
        for column in column_balances(released, design, problem, 2100):
            assert column.noise == noise
            off.append((column.balances[0] + 350.0, column.count - 2100.0))
    ratios = np.array([rank for rank, _ in off]) / noise.balance
    # 6,000 ranks, each independent of those of other columns: a standard deviation is known to 0.9 %.
    assert abs(np.std(ratios) - 1.0) < 0.035
    assert abs(np.mean(ratios)) < 0.06
    number = np.array([count for _, count in off])
    if not problem.counted:
        assert not number.any()
    else:
        # Columns without missing values have one number of values, so that 30 of them are independent.
        assert abs(np.std(number) / noise.count - 1.0) < (0.7 if complete else 0.035)


def column(seed, counts, deviation):
    """Noisy balances of one column, of standard deviation ``deviation`` as is stated times nothing more."""
    strategy, rng = BalanceStrategy(counts.size), np.random.default_rng(seed)
    noise = RankNoise(deviation, deviation / 2.0)
    answers = strategy.answers(counts) / UNIT + rng.standard_normal(counts.size) * deviation / strategy.deviation
    return ColumnBalances(strategy.balances(answers), counts.sum() + rng.normal(0.0, noise.count), noise)


PROBABILITIES = np.array([0.01, 0.05, 0.3, 0.5, 0.9, 0.95])


@pytest.mark.parametrize("counts", [np.full(60, 20), np.r_[np.zeros(20), 900, np.full(20, 30), np.zeros(23)]])
def test_intervals_hold_their_quantiles_and_hold_the_estimates_which_never_cross(counts):
    counts, cells = counts.astype(np.int64), counts.size
    ends = np.arange(cells) * 1.0, np.arange(cells) + 1.0
    truth = np.searchsorted(np.cumsum(counts), PROBABILITIES * counts.sum())
    held, tries = np.zeros(PROBABILITIES.size), 600
    for seed in range(tries):
        estimates = column(seed, counts, 25.0).quantiles(PROBABILITIES, ends, np.arange(cells), norm.ppf(0.975))
        held += [each.lower <= place and place + 1 <= each.upper for each, place in zip(estimates, truth, strict=True)]
        assert all(each.lower <= each.value <= each.upper for each in estimates)
        assert np.all(np.diff([each.value for each in estimates]) >= 0.0)
    # At a coverage of 0.95 fewer are held with probability below 1e-6.
    assert np.all(held / tries >= 0.95 - 5.0 * np.sqrt(0.05 * 0.95 / tries))


def test_the_cell_of_a_quantile_is_excluded_as_often_as_is_stated_and_not_with_a_wrong_scale():
    counts = np.full(64, 50)
    noise = column(0, counts, 20.0).noise
    ranks, probability = [], 0.3
    place = int(np.searchsorted(np.cumsum(counts), probability * counts.sum()))
    for seed in range(6_000):
        each = column(seed, counts, 20.0)
        ranks.append(each.balances[place] + (0.5 - probability) * each.count)
    truth = 50.0 * (place + 1) - probability * counts.sum()
    outside = [
        float(np.mean(np.abs(np.array(ranks) - truth) > norm.ppf(0.975) * scale * noise.at(probability)))
        for scale in (1.0, 0.95, 1.05)
    ]
    assert abs(outside[0] - 0.05) < 0.006
    assert outside[1] > 0.056
    assert outside[2] < 0.044


def test_a_column_without_values_has_intervals_of_its_whole_extent():
    ends = np.arange(8.0), np.arange(8.0) + 1.0
    for each in column(3, np.zeros(8, dtype=np.int64), 30.0).quantiles(PROBABILITIES, ends, np.arange(8), 3.3):
        assert (each.lower, each.upper) == (0.0, 8.0)


def test_a_spread_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="by column of the records and by cell"):
        Quantiles((3, 3), ADD, 10, True, 0.0).spread(np.ones(3), np.ones(3))
