"""Batches of a training: what one record moves, by brute force; and samples by the key, whatever the records hold."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from blockveil.engine.answers.models import Output
from blockveil.engine.answers.step_gradients import GradientsAtStep
from blockveil.engine.answers.step_records import FixedBatches, PoissonBatches
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.composition import compose
from blockveil.engine.guarantees.events import PoissonGaussian, Step
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.mechanisms.laplace import LAPLACE_GRID
from blockveil.engine.noise import keyring
from blockveil.engine.noise.additive import laplace_design
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.sampled_noise import Sampling, least_multiplier, sampled_design
from blockveil.engine.records.geometry import Body
from blockveil.engine.records.quantiser import NotFiniteError
from tests.engine.answers.test_gradients import K, make, records

ALPHA = 1e-9


def problem(batches, neighbours, steps, rows=1, columns=4):
    return GradientProblem(
        Body.BALL, Body.BALL, np.ones(steps * rows), np.ones(columns), neighbours, K, 1000, steps=steps, batches=batches
    )


def even(one):
    return one.spread(np.ones(one.shape[0]), np.ones(one.shape[1]))


class ByPosition:
    """What must not be done: batches by the number of the row."""

    def __init__(self, count, number):
        self.count, self.number = count, number

    def marks(self, records):
        return np.zeros(len(records), bool)

    def taken(self, marks, first):
        return (first + np.arange(len(marks))) % self.count == self.number


def stacked(query, values, batches, steps):
    """Sums of all steps, in units of the largest gradient; at weights that are the same for neighbours."""
    one = [GradientsAtStep(query, step, batches.at(step, "")).total(values, 0, len(values), 7) for step in range(steps)]
    return np.array(one).reshape(steps, -1) / K**2


class PositionBatches:
    def __init__(self, count):
        self.count = count

    def at(self, step, _):
        return ByPosition(self.count, step % self.count)


def neighbours_of(values, relation, rng):
    """Every data set that lacks one record, the first too; or every one with one record replaced by some others."""
    for i in range(len(values)):
        rest = np.delete(values, i, axis=0)
        if relation is Neighbours.ADD_REMOVE:
            yield rest
        else:
            for other in (records(make(), 1, seed=int(rng.integers(2**31))), values[(i + 1) % len(values)][None]):
                yield np.insert(rest, i, other, axis=0)


def worst(batches, relation, steps, rows=12):
    """Largest change of the stack over all neighbours, in L2 and in L1, and the most steps that change."""
    query, rng = make(Output.LOGISTIC, clip=1e-3, size=0.5), np.random.default_rng(5)
    values = records(query, rows)
    whole = stacked(query, values, batches, steps)
    found = []
    for other in neighbours_of(values, relation, rng):
        moved = whole - stacked(query, other, batches, steps)
        found.append((np.linalg.norm(moved), np.abs(moved).sum(), int(np.any(moved != 0, axis=1).sum())))
    return [max(column) for column in zip(*found, strict=True)]


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(("count", "steps"), [(2, 4), (3, 7), (5, 5), (5, 3)])
@pytest.mark.parametrize("seed", ["a", "b"])
def test_no_neighbour_moves_the_sums_of_fixed_batches_further_than_is_claimed(relation, count, steps, seed):
    batches = FixedBatches(count, seed)
    query = make(Output.LOGISTIC, clip=1e-3)
    claimed = problem(batches, relation, steps, *query.shape)
    l2, l1, changed = worst(batches, relation, steps)
    assert l2 <= claimed.l2(even(claimed)).bound
    assert l1 <= claimed.l1(even(claimed)).bound
    times = 2 if relation is Neighbours.REPLACE_ONE else 1
    assert 0 < changed <= min(steps, times * -(-steps // count))
    assert l2 > 0.6 * claimed.l2(even(claimed)).bound, "the records are far enough out to move it"


@pytest.mark.parametrize("count", [4, 5])
def test_batches_by_position_move_more_than_is_claimed_once_a_record_is_missing(count):
    claimed = problem(FixedBatches(count, "a"), Neighbours.ADD_REMOVE, count)
    l2, _, changed = worst(PositionBatches(count), Neighbours.ADD_REMOVE, count)
    assert l2 > 1.5 * claimed.l2(even(claimed)).bound
    assert changed > 1


@pytest.mark.parametrize("relation", Neighbours)
def test_a_record_in_any_subset_of_batches_is_covered_if_it_is_in_no_more_steps(relation):
    steps, count = 7, 3
    claimed = problem(FixedBatches(count, "a"), relation, steps)
    bound = claimed.l2(even(claimed)).bound
    # Worst directions: each step a record enters moves its sum by one, and a step that it stays in by two.
    for own, other in itertools.product(range(count), repeat=2):
        moved = np.zeros(steps)
        moved[own::count] += 1.0
        if relation is Neighbours.REPLACE_ONE:
            moved[other::count] += 1.0
        assert np.linalg.norm(moved) <= bound
    attained = 2.0 * math.sqrt(3) if relation is Neighbours.REPLACE_ONE else math.sqrt(3)
    assert bound == pytest.approx(attained)


def test_a_batch_is_a_function_of_the_record_alone():
    values = records(make(), 2000)
    batches = FixedBatches(7, "seed")
    found = batches.of(values)
    order = np.random.default_rng(1).permutation(2000)
    assert np.array_equal(batches.of(values[order]), found[order])
    assert np.array_equal(batches.of(values[17:18]), found[17:18])
    assert np.array_equal(batches.of(np.asfortranarray(values)), found)
    assert np.array_equal(batches.of(values.astype(np.float32)), batches.of(values.astype(np.float32).astype(float)))
    assert batches.of(np.array([[0.0, 1.0]]))[0] == batches.of(np.array([[-0.0, 1.0]]))[0], "one zero"
    assert not np.array_equal(FixedBatches(7, "other").of(values), found)


@pytest.mark.parametrize("kind", ["floats", "codes"])
def test_fixed_batches_are_of_about_one_size_and_do_not_follow_the_records(kind):
    rng = np.random.default_rng(3)
    values = rng.uniform(size=(400_000, 3)) if kind == "floats" else np.arange(400_000.0)[:, None]
    sizes = np.bincount(FixedBatches(10, "s").of(values), minlength=10)
    low, high = binom.ppf([ALPHA / 20, 1 - ALPHA / 20], 400_000, 0.1)
    assert low <= sizes.min() <= sizes.max() <= high
    assert 0.95 * sizes.mean() < low < high < 1.05 * sizes.mean(), "a share that is 5 % off would be seen"


def test_all_records_of_all_batches_are_those_of_one_sum():
    query, batches = make(), FixedBatches(4, "x")
    values = records(query)
    parts = [GradientsAtStep(query, 0, batches.at(step, "")).total(values, 0, 300, 31) for step in range(4)]
    assert np.array_equal(sum(parts), query.total(values, 0, 300, 300))


@pytest.fixture
def key():
    keyring.install("h", NoiseKey(bytes(range(32))))
    yield
    keyring.forget("h")


def test_a_sample_is_by_the_number_of_the_row_and_the_step_and_never_by_content(key):
    batch = PoissonBatches(0.3).at(2, "h")
    zeros, other = np.zeros((5000, 2)), np.random.default_rng(1).normal(size=(5000, 2))
    found = batch.taken(batch.marks(zeros), 0)
    assert np.array_equal(batch.taken(batch.marks(other), 0), found)
    assert 0.2 < found.mean() < 0.4, "equal records are not drawn together"
    pieces = [batch.taken(zeros[a:b], a) for a, b in itertools.pairwise([0, 1, 6, 7, 1024, 4097, 5000])]
    assert np.array_equal(np.concatenate(pieces), found), "any chunking has the same sample"
    assert batch.taken(zeros[:0], 3).size == 0


def test_a_sample_across_the_pieces_of_the_key_stream_is_one(key):
    batch = PoissonBatches(0.5).at(0, "h")
    whole = batch.taken(np.zeros((100_001, 1)), 3)
    assert np.array_equal(batch.taken(np.zeros((10, 1)), 70_000), whole[70_000 - 3 : 70_010 - 3])


def test_samples_have_their_probability_and_steps_are_independent(key):
    drawn = np.array([PoissonBatches(0.05).at(step, "h").taken(np.zeros((50_000, 1)), 0) for step in range(40)])
    for share in (0.05, 0.05 * 1.05, 0.05 * 0.95):
        low, high = binom.ppf([ALPHA / 2, 1 - ALPHA / 2], drawn.size, share)
        assert (low <= drawn.sum() <= high) == (share == 0.05)
    both = (drawn[1:] & drawn[:-1]).sum()
    low, high = binom.ppf([ALPHA / 2, 1 - ALPHA / 2], drawn[1:].size, 0.05**2)
    assert low <= both <= high
    low, high = binom.ppf([ALPHA / 2, 1 - ALPHA / 2], drawn[:, 1:].size, 0.05**2)
    assert low <= (drawn[:, 1:] & drawn[:, :-1]).sum() <= high, "nor do rows that follow each other go together"


def test_what_travels_to_a_task_holds_no_key_and_no_sample(key):
    shown = repr(PoissonBatches(0.3).at(2, "h"))
    assert shown == "SecretSample(probability=0.3, step=2, handle='h')"


def test_records_outside_the_batch_are_checked_too(key):
    query = make()
    values = records(query)
    values[:, 0] = np.where(FixedBatches(3, "x").of(values) == 0, values[:, 0], np.nan)
    for batch in (FixedBatches(3, "x").at(0, ""), PoissonBatches(1e-6).at(0, "h")):
        with pytest.raises(NotFiniteError):
            GradientsAtStep(query, 0, batch).total(values, 0, 300, 50)


def hockey_stick(first, second, weights, points, epsilon):
    """``integral of max(0, p - e^epsilon q)`` of two mixtures of normal laws of deviation one, by quadrature."""
    p, q = (
        sum(w * norm.pdf(points, m) for w, m in zip(ws, ms, strict=True))
        for ws, ms in ((weights[0], first), (weights[1], second))
    )
    return np.trapezoid(np.maximum(0.0, p - math.exp(epsilon) * q), points)


@pytest.mark.parametrize("missing", [0, 2, 4])
@pytest.mark.parametrize("relative", [0.5, 1.0])
def test_a_sampled_step_loses_no_more_than_the_accountant_says_by_all_samples(missing, relative):
    q, multiplier = 0.3, 0.8
    values = np.array([relative, -1.0, 1.0, 0.25, -0.5]) / multiplier
    values[missing] = relative / multiplier

    def law(chosen):
        sums, weights = [], []
        for bits in itertools.product([0, 1], repeat=len(chosen)):
            sums.append(float(np.dot(bits, chosen)))
            weights.append(float(np.prod([q if bit else 1 - q for bit in bits])))
        return sums, weights

    (one, w_one), (two, w_two) = law(values), law(np.delete(values, missing))
    points = np.linspace(-20.0, 20.0, 40_001)
    curve = compose((Step(PoissonGaussian(q, multiplier)),))
    for epsilon in (0.0, 0.2, 0.5, 1.0, 2.0):
        lost = max(
            hockey_stick(one, two, (w_one, w_two), points, epsilon),
            hockey_stick(two, one, (w_two, w_one), points, epsilon),
        )
        assert lost <= curve.delta(epsilon) + 1e-9
    if relative == 1.0:
        alone = hockey_stick([0.0, 1.0 / multiplier], [0.0], ([1 - q, q], [1.0]), points, 0.5)
        assert alone == pytest.approx(curve.delta(0.5), rel=1e-3), "a record alone attains it"


def test_two_sampled_steps_agree_with_a_law_that_is_integrated_directly():
    q, multiplier = 0.25, 1.1
    points = np.linspace(-8.0, 10.0, 1801)
    p, r = (1 - q) * norm.pdf(points) + q * norm.pdf(points, 1 / multiplier), norm.pdf(points)
    both, alone = np.outer(p, p), np.outer(r, r)
    cell = (points[1] - points[0]) ** 2
    curve = compose((Step(PoissonGaussian(q, multiplier), 2),))
    for epsilon in (0.1, 0.5, 1.0, 1.5):
        exact = max(np.maximum(0.0, a - math.exp(epsilon) * b).sum() * cell for a, b in ((both, alone), (alone, both)))
        assert exact - 1e-6 <= curve.delta(epsilon) <= exact * 1.01 + 1e-6


@pytest.mark.parametrize(("q", "steps", "epsilon", "delta"), [(0.05, 400, 1.0, 1e-5), (0.3, 4, 1.0, 1e-5)])
def test_the_noise_of_samples_keeps_the_guarantee_by_another_accountant_and_is_hardly_more(q, steps, epsilon, delta):
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    def loss(multiplier):
        accountant = PLDAccountant()
        step = dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(multiplier))
        return accountant.compose(dp_event.SelfComposedDpEvent(step, steps)).get_epsilon(delta)

    found = least_multiplier(Sampling(q, steps), ApproxDP(epsilon, delta), 2.0**-70)
    assert loss(found.multiplier) <= epsilon
    assert loss(found.multiplier * 0.9) > epsilon * 0.93, "a tenth less noise is close to too little, or is"


def test_the_noise_of_a_sampled_training_is_what_the_accountant_was_asked_about():
    one = problem(PoissonBatches(0.3), Neighbours.ADD_REMOVE, 4)
    design = Gaussian().design(one, ApproxDP(1.0, 1e-5))
    alone = problem(None, Neighbours.ADD_REMOVE, 1)
    found = least_multiplier(
        Sampling(0.3, 4), ApproxDP(1.0, 1e-5), one.spread(np.ones(4), np.ones(4)).entries * 2.0**-90
    )
    loss = alone.l2(even(alone)).bound / design.scale + math.sqrt(4) / design.grid.privacy_scale
    assert loss <= 1.0 / found.multiplier
    assert loss == pytest.approx(1.0 / found.multiplier, rel=1e-6)
    assert design.loss.delta(1.0) <= 1e-5
    full = Gaussian().design(problem(None, Neighbours.ADD_REMOVE, 4), ApproxDP(1.0, 1e-5))
    assert design.scale < 0.6 * full.scale, "less noise than four steps over all records have"


def test_samples_are_refused_where_no_pair_is_proven():
    with pytest.raises(CannotCalibrate, match="add-remove"):
        problem(PoissonBatches(0.3), Neighbours.REPLACE_ONE, 4)
    one = problem(PoissonBatches(0.3), Neighbours.ADD_REMOVE, 4)
    with pytest.raises(CannotCalibrate, match="Gaussian noise"):
        one.l2(even(one))
    with pytest.raises(CannotCalibrate, match="Gaussian noise"):
        laplace_design(even(one), one.l1(even(one)), one.scaling, ApproxDP(1.0, 1e-5), LAPLACE_GRID)


def test_noise_for_samples_that_no_multiplier_suffices_for_is_refused():
    with pytest.raises(CannotCalibrate):
        least_multiplier(Sampling(0.9, 10_000), ApproxDP(1e-5, 1e-13), 2.0**-70)
    spread = even(problem(PoissonBatches(0.3), Neighbours.ADD_REMOVE, 4))
    one = problem(None, Neighbours.ADD_REMOVE, 1)
    change = one.l2(even(one))
    with pytest.raises(CannotCalibrate, match="delta"):
        sampled_design(spread, change, one.scaling, ApproxDP(1.0, 1e-25), Sampling(0.3, 4))
