"""The private partition: sensitivity by search, loss by exact probabilities, and what a known shortcut would cost."""

import itertools
from fractions import Fraction
from math import exp, log, sqrt

import numpy as np
import pytest

from blockveil.engine.audit.bucket_cases import bucket_lengths
from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.published import dawa
from blockveil.engine.mechanisms.published.dawa import Partitioner

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def deviation(cells):
    mean = Fraction(sum(cells), len(cells))
    return sum(abs(x - mean) for x in cells)


def laplace(rng, scale):
    """A seeded source of discrete Laplace noise."""
    ratio = exp(-1.0 / scale)

    def draw(rows, columns):
        shape = (rows[1] - rows[0], columns[1] - columns[0])
        return (rng.geometric(1 - ratio, shape) - rng.geometric(1 - ratio, shape)).astype(np.int64)

    return draw


@pytest.mark.parametrize("length", [1, 2, 4, 8])
def test_the_cost_of_a_bucket_moves_by_two_minus_two_over_its_length_at_most(length):
    largest = 4 if length < 8 else 2
    moves = set()
    for cells in itertools.product(range(largest), repeat=length):
        for j in range(length):
            more = tuple(x + (i == j) for i, x in enumerate(cells))
            moves.add(abs(deviation(more) - deviation(cells)))
    assert max(moves) == 2 - Fraction(2, length)


@pytest.mark.parametrize(("cells", "longest", "unit"), [(6, 4, 1), (6, 4, 8), (5, 2, 1), (9, 8, 2)])
def test_costs_in_units_are_floors_of_exact_costs_and_move_by_the_sensitivity_at_most(cells, longest, unit):
    rng, plan = np.random.default_rng(1), Partitioner(cells, longest, unit, 3, ADD)
    largest = 0
    for _ in range(200):
        counts = rng.integers(0, rng.choice([2, 5, 50]), cells)
        costs = plan.costs(counts)
        for level, start in itertools.product(range(plan.levels), range(cells)):
            if start + 2**level <= cells:
                window = [int(x) for x in counts[start : start + 2**level]]
                assert costs[level, start] == int(deviation(window) * unit) + 3
        for j in range(cells):
            moved = np.abs(plan.costs(counts + (np.arange(cells) == j)) - costs)
            largest = max(largest, int(moved.max()))
            # Only buckets that hold the cell change.
            assert all(not moved[k, i] or i <= j < i + 2**k for k in range(plan.levels) for i in range(cells))
    assert largest <= plan.sensitivity
    if 2 * unit >= longest:
        assert largest == plan.sensitivity


def test_the_partition_is_the_cheapest_of_all_with_ties_to_short_last_buckets():
    rng = np.random.default_rng(2)
    for _ in range(200):
        cells = int(rng.integers(1, 8))
        levels = int(rng.integers(1, cells.bit_length() + 1))
        costs = rng.integers(-2, 4, (levels, cells))
        candidates = []
        for lengths in itertools.chain.from_iterable(
            itertools.product([2**k for k in range(levels)], repeat=r) for r in range(1, cells + 1)
        ):
            if sum(lengths) == cells:
                starts = np.cumsum([0, *lengths])
                price = sum(int(costs[n.bit_length() - 1, s]) for n, s in zip(lengths, starts, strict=False))
                candidates.append((price, lengths[::-1], starts))
        best = min(candidates, key=lambda c: c[:2])
        assert dawa.least_cost_partition(costs).tolist() == best[2].tolist()


def test_every_candidate_bucket_gets_its_noise():
    plan, counts = Partitioner(6, 4, 1, 2, ADD), np.array([3, 0, 5, 1, 1, 9])
    for level, start in itertools.product(range(plan.levels), range(plan.cells)):
        if start + 2**level <= plan.cells:
            noise = np.zeros((plan.levels, plan.cells), dtype=np.int64)
            noise[level, start] = -1000
            borders = plan.partition(counts, lambda rows, columns, noise=noise: noise).tolist()
            assert (start, start + 2**level) in itertools.pairwise(borders)


def test_many_partitions_at_once_are_those_found_one_by_one():
    costs = np.random.default_rng(7).integers(-2, 4, (500, 3, 6))
    for lengths, alone in zip(bucket_lengths(costs), costs, strict=True):
        borders = dawa.least_cost_partition(alone)
        assert lengths[borders[:-1]].tolist() == np.diff(borders).tolist()
        assert lengths.sum() == 6


SPAN = 200


def three_cell_probabilities(counts, plan, scale):
    """Exact probabilities of the partitions 1|1|1, 2|1, 1|2 of three cells, by sums over discrete Laplace laws."""
    ratio, points = exp(-1 / scale), np.arange(-SPAN, SPAN + 1)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(points)
    costs = plan.costs(np.array(counts)).tolist()
    ends = {name: costs[k][i] for name, k, i in (("1", 0, 0), ("2", 0, 1), ("3", 0, 2), ("12", 1, 0), ("23", 1, 1))}
    difference, wide = np.convolve(law, law), np.arange(-2 * SPAN, 2 * SPAN + 1)

    def above(k):  # P(noise >= k)
        k = np.asarray(k)
        tail = ratio ** np.abs(k) / (1 + ratio)
        return np.where(k > 0, tail, 1 - ratio ** (1 - np.minimum(k, 0)) / (1 + ratio))

    def gap_above(k, center):  # P(difference of two + center >= k)
        cumulative = np.append(np.cumsum(difference[::-1])[::-1], 0.0)
        return cumulative[np.clip(np.asarray(k) - center + 2 * SPAN, 0, 4 * SPAN + 1)]

    left, right = ends["12"] - ends["1"], ends["23"] - ends["3"]
    # 1|1|1 wins ties: cell 2 costs at most bucket 12 less cell 1, and at most bucket 23 less cell 3.
    second = ends["2"] + points
    singles = float(np.sum(law * gap_above(second, left) * gap_above(second, right)))
    # 2|1: gap of 12 below cell 2, and at most the gap of 23.
    gap = left + wide
    first_pair = float(np.sum(difference * above(gap + 1 - ends["2"]) * gap_above(gap, right)))
    gap = right + wide
    last_pair = float(np.sum(difference * above(gap + 1 - ends["2"]) * gap_above(gap + 1, left)))
    return np.array([singles, first_pair, last_pair])


PLAN = Partitioner(3, 2, 1, 2, ADD)


@pytest.mark.parametrize("penalty", [0, 2, 20])
@pytest.mark.parametrize("scale", [1.0, 2.0, 5.0])
def test_the_loss_of_the_partition_is_never_exceeded_by_exact_probabilities(penalty, scale):
    plans = [Partitioner(3, 2, 1, penalty, neighbours) for neighbours in (ADD, REPLACE)]
    table = {
        counts: np.log(np.maximum(three_cell_probabilities(counts, plans[0], scale), 1e-290))
        for counts in itertools.product((0, 1, 2, 3, 6, 7, 20, 21), repeat=3)
    }
    worst = {1: 0.0, 2: 0.0}
    for here, there in itertools.combinations(table, 2):
        moves = sorted(b - a for a, b in zip(here, there, strict=True))
        if moves in ([0, 0, 1], [-1, 0, 0], [-1, 0, 1]):
            worst[sum(map(abs, moves))] = max(
                worst[sum(map(abs, moves))], float(np.max(np.abs(table[here] - table[there])))
            )
    for plan, factor in zip(plans, (1, 2), strict=True):
        stated = float(plan.exact_loss(1 / Fraction(scale)))
        assert stated == pytest.approx(2 * factor * plan.sensitivity / scale)
        assert worst[factor] <= stated
    # The bound is not idle: with a high penalty and much noise most of it is seen.
    assert worst[1] > (0.8 if penalty == 20 and scale == 1.0 else 0.5) * float(plans[0].exact_loss(1 / Fraction(scale)))


def test_the_exact_probabilities_of_three_cells_sum_to_one():
    for counts in itertools.product(range(3), repeat=3):
        assert three_cell_probabilities(counts, PLAN, 2.0).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.slow
def test_the_partition_is_drawn_with_those_probabilities():
    counts, trials, rng = np.array([0, 2, 1]), 20_000, np.random.default_rng(3)
    exact = three_cell_probabilities(counts.tolist(), PLAN, 2.0)
    seen = {(0, 1, 2, 3): 0, (0, 2, 3): 0, (0, 1, 3): 0}
    draw = laplace(rng, 2.0)
    for _ in range(trials):
        seen[tuple(PLAN.partition(counts, draw).tolist())] += 1
    for probability, found in zip(exact, seen.values(), strict=True):
        assert abs(found - trials * probability) < 6.2 * sqrt(trials * probability * (1 - probability))


def all_single(counts, claimed, second):
    """Probability of "all cells single" where single cells get no noise, as in the authors' released program."""
    n, chance = len(counts), 1.0
    for start in range(n - 1):
        # A pair is taken where its deviation, noise and 1 / second stay below two single cells at 1 / second each.
        room = 1 / second - float(deviation(counts[start : start + 2]))
        scale = (2 - 1 / 2 - 1 / n) / claimed
        chance *= 0.5 * exp(-room / scale) if room > 0 else 1 - 0.5 * exp(room / scale)
    return chance


def test_leaving_single_cells_without_noise_is_not_private_as_claimed():
    claimed, second = 0.5, 0.5
    loss = log(all_single([0, 1, 0], claimed, second) / all_single([0, 0, 0], claimed, second))
    assert loss == pytest.approx(12 / 7 * claimed, rel=1e-12)
    assert loss > 1.7 * claimed


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_the_loss_is_an_exact_fraction(neighbours):
    plan, factor = Partitioner(100, 16, 8, 5, neighbours), 1 if neighbours is ADD else 2
    assert plan.sensitivity == 15
    assert plan.records == factor
    assert plan.exact_loss(Fraction(1, 90)) == Fraction(30 * factor, 90)
    assert Partitioner(9, 1, 1, 0, neighbours).exact_loss(Fraction(1, 7)) == Fraction(factor, 7)


def test_bucket_counts_are_exact():
    rng = np.random.default_rng(4)
    counts, borders = rng.integers(0, 30, 11), np.array([0, 1, 5, 7, 11])
    exact = dawa.bucket_counts(counts, borders)
    assert exact.tolist() == [int(counts[a:b].sum()) for a, b in zip(borders[:-1], borders[1:], strict=True)]


def test_flat_data_need_few_buckets():
    rng, cells = np.random.default_rng(5), 512
    counts = np.repeat(rng.integers(0, 2000, 8), 64)
    scale = float(Partitioner(cells, 64, 64, 0, ADD).exact_loss(Fraction(1))) / 0.25
    plan = Partitioner(cells, 64, 64, 4 * int(scale), ADD)
    assert plan.partition(counts, laplace(rng, scale)).size < 40


@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 2), (8, 8), (5, 7), (89, 89), (1, 9), (9, 1), (3, 40), (40, 3), (1, 70_000)]
)
def test_the_hilbert_order_visits_every_cell_once_and_steps_to_a_neighbour(shape):
    order = dawa.hilbert_order(shape)
    assert sorted(order.tolist()) == list(range(shape[0] * shape[1]))
    if min(shape) == 1:
        assert order.tolist() == list(range(max(shape)))
    if shape[0] == shape[1] and shape[0] & (shape[0] - 1) == 0:
        row, column = np.divmod(order, shape[1])
        assert np.all(np.abs(np.diff(row)) + np.abs(np.diff(column)) == 1)


def test_a_table_of_89_by_89_is_partitioned():
    rng = np.random.default_rng(6)
    counts = np.zeros((89, 89), dtype=np.int64)
    counts[20:40, 30:60] = 40
    line = counts.ravel()[dawa.hilbert_order((89, 89))]
    plan = Partitioner(line.size, 1024, 64, 256, ADD)
    borders = plan.partition(line, laplace(rng, float(plan.exact_loss(Fraction(1)))))
    assert borders[0] == 0
    assert borders[-1] == 7921
    assert dawa.bucket_counts(line, borders).sum() == counts.sum()


def test_what_cannot_be_exact_is_refused():
    for call, message in (
        (lambda: Partitioner(4, 3, 1, 0, ADD), "powers of two"),
        (lambda: Partitioner(4, 8, 1, 0, ADD), "powers of two"),
        (lambda: Partitioner(4, 4, 1, -1, ADD), "penalty"),
        (lambda: Partitioner(2**22, 2**20, 1, 0, ADD), "too long"),
        (lambda: PLAN.costs(np.array([1, 2])), "hilbert_order"),
        (lambda: PLAN.costs(np.array([1, -2, 0])), "negative"),
        (lambda: PLAN.costs(np.array([2**61, 0, 0])), "2\\*\\*62"),
        (lambda: PLAN.partition(np.zeros(3, dtype=np.int64), lambda rows, columns: np.zeros((2, 3))), "int64"),
        (lambda: dawa.hilbert_order((0, 1)), "at least one cell"),
    ):
        with pytest.raises(CalibrationError, match=message):
            call()
