"""Noise that cancels from step to step: what a record moves, exactly; its law; and who may not have it."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from blockveil.engine.answers.models import Output
from blockveil.engine.answers.step_records import FixedBatches
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.mechanisms.laplace import Laplace
from blockveil.engine.noise.banded import MOST_STEPS_BACK, Band, BandedDesign, BandedNoise
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body
from blockveil.pipeline.kinds.gradients.model_sections import TrainingSection
from tests.engine.answers.test_gradients import K, make, records
from tests.engine.answers.test_step_records import ByPosition, PositionBatches, even, neighbours_of, stacked

ALPHA = 1e-9
KEY = NoiseKey(bytes(range(32)))


def problem(count, band, steps, neighbours=Neighbours.ADD_REMOVE, rows=1, columns=4, rows_at_most=1000):
    batches = FixedBatches(count, "a", band)
    return GradientProblem(
        Body.BALL,
        Body.BALL,
        np.ones(steps * rows),
        np.ones(columns),
        neighbours,
        K,
        rows_at_most,
        steps=steps,
        batches=batches,
    )


def design_of(one, epsilon=1.0):
    return Gaussian().design(one, ApproxDP(epsilon, 1e-5))


def matrix(band):
    """C."""
    found = np.zeros((band.steps, band.steps))
    for step, age in itertools.product(range(band.steps), range(band.width)):
        if age <= step:
            found[step, step - age] = band.weights[age]
    return found


def published(design, exact, key=KEY):
    """What is published of the exact sums of all steps."""
    noise, height = BandedNoise(design, key), design.shape[0] // design.band.steps
    found = np.empty_like(exact)
    for step in range(design.band.steps):
        own = slice(step * height, (step + 1) * height)
        found[own] = design.release(key, exact[own], ((own.start, own.stop), (0, design.shape[1]))) - noise.taken()
    return found


def explained(design, released, rounded):
    """The independent noise that makes of rounded sums what was published, by the definition."""
    weights, steps = design.band.weights, design.band.steps
    own = (released - weights[0] * rounded).reshape(steps, -1)
    found = own.copy()
    for step, age in itertools.product(range(steps), range(1, len(weights))):
        if age == 1:
            total = sum(
                (weights[a] * own[step - a] for a in range(1, min(len(weights), step + 1))), np.zeros_like(own[0])
            )
            found[step] += total // weights[0]
    return found


@pytest.mark.parametrize(("count", "band", "steps"), [(2, 2, 5), (3, 2, 7), (5, 5, 12), (4, 4, 4)])
def test_neighbours_need_noise_that_differs_by_the_band_times_their_difference_and_by_nothing_else(count, band, steps):
    design, rng = design_of(problem(count, band, steps)), np.random.default_rng(count)
    exact = rng.integers(-(2**40), 2**40, design.shape)
    released = published(design, exact)
    zero = np.zeros(design.shape, np.int64)
    drawn = design.grid.draw(KEY, (0, steps), (0, design.shape[1]), False)
    rounded = design.rounded(exact) // design.band.weights[0]
    assert np.array_equal(explained(design, released, rounded), drawn)
    for own in range(count):
        moved = zero.copy()
        moved[own::count] = rng.integers(-(10**6), 10**6, moved[own::count].shape)
        differs = explained(design, released, rounded - moved) - drawn
        assert np.array_equal(differs, matrix(design.band).astype(np.int64) @ moved)
        most = np.linalg.norm(moved, axis=1).max()
        bound = math.sqrt(-(-steps // count) * design.band.squared_norm) * most
        assert np.linalg.norm(differs) <= bound


def test_the_band_is_that_of_an_inverse_square_root_in_whole_numbers():
    found = Band(256, 400).weights
    for age, weight in enumerate(found):
        exact = Fraction(64 * math.comb(2 * age, age), 4**age)
        assert weight == max(1, math.floor(exact + Fraction(1, 2)))
    assert found[:4] == (64, 32, 24, 20)
    assert list(found) == sorted(found, reverse=True)


@pytest.mark.parametrize(("width", "steps"), [(2, 6), (5, 40), (20, 64)])
def test_stated_deviations_are_those_of_the_inverse_of_the_band(width, steps):
    band = Band(width, steps)
    inverse = np.linalg.inv(matrix(band) / band.weights[0])
    assert np.allclose(band.responses, inverse[:, 0], atol=1e-12)
    assert np.allclose(band.deviations, np.linalg.norm(inverse, axis=1))
    so_far = np.linalg.norm(np.cumsum(inverse, axis=0), axis=1)
    assert band.deviation_of_the_sum == pytest.approx(math.sqrt(np.mean(so_far**2)))


def test_sums_of_the_steps_so_far_have_a_third_of_the_noise():
    band = Band(20, 400)
    inverse = np.linalg.inv(matrix(band))
    banded = math.sqrt(band.squared_norm) * np.linalg.norm(np.cumsum(inverse, axis=0))
    assert band.share_of_the_sum == pytest.approx(banded / np.linalg.norm(np.tri(400)))
    assert 0.3 < band.share_of_the_sum < 0.31


@pytest.mark.parametrize("wrong", [1.0, 1.05, 0.95])
def test_what_is_published_has_the_noise_that_is_stated(wrong):
    steps, columns = 12, 6000
    design = design_of(problem(4, 4, steps, columns=columns))
    noise = published(design, np.zeros(design.shape, np.int64)) / design.grid.standard_deviation / wrong
    within = []
    for step in range(steps):
        total = float(np.sum((noise[step] / design.band.deviations[step]) ** 2))
        within.append(chi2.ppf(ALPHA / 2, columns) < total < chi2.isf(ALPHA / 2, columns))
        so_far = np.linalg.norm(np.cumsum(design.band.responses[: step + 1]))
        total = float(np.sum((noise[: step + 1].sum(axis=0) / so_far) ** 2))
        within.append(chi2.ppf(ALPHA / 2, columns) < total < chi2.isf(ALPHA / 2, columns))
    assert all(within) == (wrong == 1.0)
    told = design.standard_deviations((0, steps), (0, 1))[:, 0]
    unit = design.steps((0, 1), (0, 1))[0, 0] / design.shifted_unit * design.grid.standard_deviation
    assert np.allclose(told, unit * design.band.deviations)


def test_one_step_at_a_time_has_the_bits_of_all_steps_and_a_key_of_its_own():
    design = design_of(problem(3, 3, 6))
    zero = np.zeros(design.shape, np.int64)
    assert np.array_equal(published(design, zero), published(design, zero))
    assert not np.array_equal(published(design, zero), published(design, zero, NoiseKey(bytes(32))))
    first = BandedNoise(design, KEY)
    assert np.array_equal(first.taken(), np.zeros((1, 4), np.int64)), "the first step has nothing to take away"


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(("count", "band", "steps"), [(2, 2, 4), (3, 2, 7), (3, 3, 7), (5, 4, 5)])
def test_no_neighbour_moves_what_is_drawn_for_further_than_is_claimed(relation, count, band, steps):
    query, rng = make(Output.LOGISTIC, clip=1e-3, size=0.5), np.random.default_rng(5)
    rows, columns = query.shape
    claimed = problem(count, band, steps, relation, rows, columns)
    bound = claimed.l2_of_the_band(even(claimed), claimed.band).bound
    values = records(query, 12)
    whole = stacked(query, values, claimed.batches, steps)
    others = [stacked(query, other, claimed.batches, steps) for other in neighbours_of(values, relation, rng)]
    found = [np.linalg.norm(matrix(claimed.band) @ (whole - other)) for other in others]
    assert 0.4 * bound < max(found) <= bound


def test_batches_by_position_and_a_band_as_wide_as_two_epochs_move_more_than_is_claimed():
    query = make(Output.LOGISTIC, clip=1e-3, size=0.5)
    values, steps, count = records(query, 12), 8, 4
    claimed = problem(count, count, steps, Neighbours.ADD_REMOVE, *query.shape)
    bound = claimed.l2_of_the_band(even(claimed), claimed.band).bound
    whole = stacked(query, values, PositionBatches(count), steps)
    moved = [whole - stacked(query, np.delete(values, i, 0), PositionBatches(count), steps) for i in range(12)]
    assert max(np.linalg.norm(matrix(claimed.band) @ one) for one in moved) > bound
    wide = Band(steps, steps)
    in_its_steps = np.zeros((steps, 1))
    in_its_steps[::count] = 1.0
    assert np.linalg.norm(matrix(wide) @ in_its_steps) > math.sqrt(2 * wide.squared_norm)
    assert ByPosition(2, 0).taken(values, 0).sum() == 6


@pytest.mark.parametrize("relation", Neighbours)
def test_a_record_in_any_of_the_batches_is_covered_whatever_the_directions(relation):
    steps, count = 9, 4
    claimed = problem(count, 4, steps, relation)
    bound, rng = claimed.l2_of_the_band(even(claimed), claimed.band).bound, np.random.default_rng(1)
    worst = 0.0
    for own, other, number in itertools.product(range(count), range(count), range(20)):
        moved = np.zeros((steps, 4))
        directions = rng.normal(size=(2, steps, 4)) if number else np.ones((2, steps, 4))
        directions /= np.linalg.norm(directions, axis=2, keepdims=True)
        moved[own::count] += directions[0, own::count]
        if relation is Neighbours.REPLACE_ONE:
            moved[other::count] += directions[1, other::count]
        worst = max(worst, float(np.linalg.norm(matrix(claimed.band) @ moved)))
    assert 0.85 * bound < worst <= bound


@pytest.mark.parametrize("relation", Neighbours)
def test_the_noise_is_as_large_as_the_loss_says(relation):
    one = problem(4, 4, 10, relation)
    design = design_of(one)
    spread, times = even(one), 2 if relation is Neighbours.REPLACE_ONE else 1
    epochs = math.sqrt(3) * times * math.sqrt(sum(weight**2 for weight in design.band.weights))
    rounding = epochs * math.sqrt(spread.changing / 10) / design.grid.privacy_scale
    assert design.sensitivity.bound == pytest.approx(epochs, rel=1e-9)
    assert design.sensitivity.bound / design.scale + rounding <= design.loss.mu
    assert design.sensitivity.bound / design.scale + rounding == pytest.approx(design.loss.mu, rel=1e-6)
    alone = replace(one, batches=FixedBatches(4, "a"))
    plain = design_of(alone)
    assert design.loss.mu == plain.loss.mu
    assert isinstance(design, BandedDesign)
    assert not isinstance(plain, BandedDesign)


def test_a_band_that_one_record_would_meet_twice_is_refused():
    for count, band, steps in ((3, 4, 9), (9, 5, 4), (3, 0, 9)):
        with pytest.raises(CannotCalibrate, match="lower band"):
            problem(count, band, steps)
    with pytest.raises(ValueError, match="a band has 2 to"):
        Band(MOST_STEPS_BACK + 1, 1000)
    [asked] = [one for one in TrainingSection.model_json_schema()["properties"]["band"]["anyOf"] if "maximum" in one]
    assert asked["maximum"] == MOST_STEPS_BACK


def test_other_noise_and_sums_without_room_are_refused():
    with pytest.raises(CannotCalibrate, match="a band needs Gaussian noise"):
        Laplace(Importance("absolute-error")).design(problem(4, 4, 8), ApproxDP(1.0, 1e-5))
    with pytest.raises(CannotCalibrate, match="exact range"):
        design_of(problem(4, 4, 8, columns=20_000, rows_at_most=2**31), 20.0)
