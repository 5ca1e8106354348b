"""Moments of several nights as one: as exact as is stated, whatever records drift, or refused."""

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.estimates.combined_moments import NightMoments, UnlikeNights, combined
from blockveil.engine.estimates.noisy_moments import NoisyMoments

RNG = np.random.default_rng(11)
SIZE, COUNT = 3, 10_000.0
NONE, EXACT = np.zeros(SIZE - 1), np.zeros((SIZE, SIZE))


def night(day, matrix, deviation, origin=NONE, taken=NONE, rounding=EXACT, **more):
    variance = np.broadcast_to(np.asarray(deviation, float) ** 2, matrix.shape) + rounding**2
    return NightMoments(day, NoisyMoments(matrix, variance, True, np.asarray(origin, float), **more), taken, rounding)


def second_moments(count=COUNT, mean=(0.5, -0.2)):
    covariance = np.array([[1.0, 0.3], [0.3, 4.0]])
    lead = np.concatenate([[1.0], mean])
    found = np.outer(lead, lead)
    found[1:, 1:] += covariance
    return count * found


def symmetric(noise):
    return np.triu(noise) + np.triu(noise, 1).T


def test_without_drift_nights_are_averaged_by_their_inverse_variances():
    matrix, sizes = second_moments(), [100.0, 200.0, 400.0]
    nights = [night(k, matrix + symmetric(np.full((3, 3), float(k))), size) for k, size in enumerate(sizes)]
    found = combined(nights, 0.0)
    weights = np.array([1 / size**2 for size in sizes])
    expected = matrix + np.average([0.0, 1.0, 2.0], weights=weights)
    assert np.allclose(found.moments.matrix, expected)
    assert np.allclose(found.moments.variance, 1 / weights.sum())
    assert np.allclose(found.gain, weights[-1] / weights.sum())


def test_a_night_after_which_records_moved_far_has_nearly_all_of_the_weight():
    matrix = second_moments()
    found = combined([night(0, matrix + 5.0, 50.0), night(30, matrix, 50.0)], 0.5)
    assert np.all(found.gain[1:, 1:] > 0.99)
    assert np.all(found.moments.variance[1:, 1:] <= 50.0**2)


@pytest.mark.parametrize("drift", [0.0, 0.002])
def test_the_stated_variance_is_that_of_the_error_and_no_other(drift):
    scores, days = [], (0, 1, 3, 4)
    deviation = np.array([[1.0, 60.0, 80.0], [60.0, 120.0, 150.0], [80.0, 150.0, 300.0]])
    # Steps are stated of the last night's sums, which hardly move.
    size = np.sqrt(np.outer(np.diagonal(second_moments()), np.diagonal(second_moments())))
    for _ in range(4_000):
        truth, nights, before = second_moments(), [], 0
        for day in days:
            truth = truth + symmetric(RNG.normal(size=(3, 3))) * drift * size * np.sqrt(day - before)
            before = day
            noise = symmetric(RNG.normal(size=(3, 3))) * deviation
            nights.append(night(day, truth + noise, deviation))
        found = combined(nights, drift).moments
        scores.append(((found.matrix - truth) / np.sqrt(found.variance))[[0, 1, 2, 0, 1], [0, 1, 2, 1, 2]])
    squares = np.sum(np.square(scores))
    low, high = stats.chi2(np.size(scores)).ppf([5e-10, 1 - 5e-10])
    assert low < squares < high
    assert not low < squares * 1.05**2 < high
    assert not low < squares / 1.05**2 < high


def test_nights_about_other_origins_are_the_same_once_seen_from_one():
    matrix, shift = second_moments(), np.array([0.02, -0.05])
    back = np.eye(3)
    back[1:, 0] = shift
    other = night(0, back @ matrix @ back.T, 100.0, -shift)
    found = combined([other, night(1, matrix, 100.0)], 0.0)
    assert np.allclose(found.moments.matrix, matrix)


def test_nights_whose_origins_are_far_apart_or_that_have_no_count_are_not_combined():
    matrix = second_moments()
    last = night(1, matrix, 100.0)
    with pytest.raises(UnlikeNights):
        combined([night(0, matrix, 100.0, [3.0, 0.0]), last], 0.0)
    alone = NightMoments(0, NoisyMoments(matrix[1:, 1:], np.ones((2, 2)), False, NONE), NONE, EXACT)
    with pytest.raises(UnlikeNights):
        combined([alone, last], 0.0)
    with pytest.raises(UnlikeNights):
        combined([night(0, matrix, 100.0, common=np.ones(3)), last], 0.0)


def test_what_shortening_takes_is_averaged_and_not_taken_for_chance():
    matrix, taken = second_moments(), np.array([0.04, 0.09])
    found = combined([night(k, matrix, 100.0, taken=taken) for k in range(9)], 0.0)
    assert np.allclose(found.taken, taken)
    assert np.allclose(found.moments.variance[1:, 1:], 100.0**2 / 9)


def test_records_that_become_more_are_within_what_a_drift_of_as_much_says():
    nights = [night(k, second_moments(COUNT * 1.01**k), 100.0) for k in range(5)]
    found = combined(nights, 0.01).moments
    away = np.abs(found.matrix - second_moments(COUNT * 1.01**4)) / np.sqrt(found.variance)
    assert np.all(away < 1.0)


def test_what_rounding_does_every_night_alike_is_not_averaged_away():
    matrix, rounding = second_moments(), np.full((3, 3), 20.0)
    found = combined([night(k, matrix, 100.0, rounding=rounding) for k in range(100)], 0.0).moments
    assert np.allclose(found.variance, 100.0**2 / 100 + 20.0**2)
    drawn = RNG.normal(size=(4_000, 3, 3)) * 20.0 + RNG.normal(size=(4_000, 3, 3)) * 10.0
    assert np.mean(drawn**2) == pytest.approx(found.variance[0, 0], rel=0.05)


def test_a_number_that_is_known_exactly_is_that_of_the_last_night():
    deviation = np.full((3, 3), 100.0)
    deviation[0, 0] = 0.0
    for drift in (0.0, 0.01):
        nights = [night(k, second_moments(COUNT + 7.0 * k), deviation) for k in range(3)]
        found = combined(nights, drift).moments
        assert found.matrix[0, 0] == COUNT + 14.0
        assert found.variance[0, 0] == 0.0
