"""Noise for a box, alone or within a ball: private at its mu, by search over the set, and least by duality."""

import itertools
import math

import numpy as np
import pytest

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.box_with_ball import knapsack_loss, water_level
from blockveil.engine.shapes.box_noise import box_variances, box_with_ball_variances
from blockveil.engine.shapes.duality import least_covariance

MU = 0.7
K = 2**15 - 1
C, W = np.array([1.0, 0.8, 0.5, 0.3]), np.array([1.0, 2.0, 0.5, 3.0])


def length(variances, changes):
    """Largest ``|K^-1/2 d|``."""
    return math.sqrt(np.max(np.sum(changes**2 / variances, axis=1)))


def corners(half_widths):
    return np.array(list(itertools.product([-1.0, 1.0], repeat=len(half_widths)))) * half_widths


def cut_corners(radius):
    """Corners of the box within a ball: full entries, one that fills the rest, in every order and with every sign."""
    points = []
    for order in itertools.permutations(range(4)):
        left, point = radius**2, np.zeros(4)
        for i in order:
            point[i] = math.sqrt(min(left, C[i] ** 2))
            left = max(left - point[i] ** 2, 0.0)
        points += [point * signs for signs in itertools.product((-1, 1), repeat=4)]
    return np.unique(np.array(points), axis=0)


def test_box_noise_is_private_and_least():
    variances = box_variances(C, W, MU)
    assert MU * (1 - 1e-12) <= length(variances, corners(C)) <= MU
    assert np.sum(W * variances) == pytest.approx((np.sum(C * np.sqrt(W)) / MU) ** 2)
    dual = least_covariance(corners(C), W, MU)
    assert dual.lower_bound <= np.sum(W * variances) * (1 + 1e-9)
    assert np.sum(W * variances) <= dual.total * (1 + 1e-6)


def test_noise_for_a_ball_in_a_box_is_private_and_beats_both_alone():
    variances = box_with_ball_variances(C, 1.1, W, MU)
    assert MU * (1 - 1e-12) <= length(variances, cut_corners(1.1)) <= knapsack_loss(C, 1.1, variances) <= MU
    level = water_level(C, W, 1.1)
    least = np.sum(np.sqrt(W) * np.minimum(C, level * np.sqrt(W))) ** 2 / MU**2
    assert np.sum(W * variances) == pytest.approx(least)
    assert least <= np.sum(W * box_variances(C, W, MU)) * (1 + 1e-9)
    assert least <= np.sum(W) * (1.1 / MU) ** 2
    # Noise that is 5 % smaller in variance is not private at this loss.
    assert length(0.95 * variances, cut_corners(1.1)) > MU


@pytest.mark.parametrize("radius", [100.0, 1.1])
def test_no_other_independent_noise_is_less(radius):
    rng = np.random.default_rng(4)
    variances = box_with_ball_variances(C, radius, W, MU)
    for _ in range(300):
        tried = variances * np.exp(rng.normal(0, 0.3, 4))
        scaled = tried * (knapsack_loss(C, radius, tried) / MU) ** 2
        assert np.sum(W * scaled) >= np.sum(W * variances) * (1 - 1e-12)


def test_no_covariance_at_all_is_less_than_the_noise_of_a_box_with_a_ball():
    least = np.sum(W * box_with_ball_variances(C, 1.1, W, 1.0))
    dual = least_covariance(cut_corners(1.1), W, 1.0, 1e-4)
    assert dual.lower_bound <= least <= dual.total * (1 + 1e-9)


def test_a_ball_with_a_box_ends_at_the_box_and_at_the_ball():
    assert box_with_ball_variances(C, 100.0, W, MU) == pytest.approx(box_variances(C, W, MU), rel=1e-12)
    assert box_with_ball_variances(C, 0.1, W, MU) == pytest.approx(np.full(4, (0.1 / MU) ** 2), rel=1e-12)


@pytest.mark.parametrize(
    ("widths", "importance", "mu"),
    [(C, W, 0.0), (C, W, math.nan), (C * 0.0, W, MU), (C, -W, MU), (C[:0], W[:0], MU), (C * math.inf, W, MU)],
)
def test_noise_that_cannot_be_promised_is_refused(widths, importance, mu):
    with pytest.raises(CalibrationError):
        box_variances(widths, importance, mu)
    with pytest.raises(CalibrationError):
        box_with_ball_variances(widths, 1.0, importance, mu)


@pytest.mark.parametrize(("features", "gain"), [(2, 1.78), (10, 5.09), (100, 10.8)])
def test_features_of_one_sign_cost_less_by_a_count_and_sums_about_the_midpoint(features, gain):
    asked, target = ShapedGaussian(Importance("absolute-error")), ApproxDP(0.9, 1e-6)
    zero = SecondMoment(Body.HALF_CUBE, np.ones(features), Neighbours.ADD_REMOVE, K, 50_000, False)
    middle = SecondMoment(Body.CUBE, np.full(features, 0.5), Neighbours.ADD_REMOVE, K, 50_000, True)
    alone, variance = (asked.design(problem, target).entry_standard_deviation() ** 2 for problem in (zero, middle))
    # x = (1 + v) / 2, so that sum x x' = (sum v v' + sum v 1' + sum 1 v' + count) / 4, each with its own noise.
    found = variance[1:, 1:] + variance[0, 1:] + variance[0, 1:, None] + variance[0, 0]
    found += np.diag(2.0 * variance[0, 1:])  # twice the same number on the diagonal
    assert np.sum(alone) / np.sum(found / 16.0) == pytest.approx(gain, rel=0.01)
