"""Laplace calibrations: the loss of what is really released, enumerated, and what a sampler leaves of purity."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from engine.calibration import CalibrationError
from engine.guarantees import Neighbours
from engine.mechanisms.laplace import grid_laplace, histogram_sensitivity, integer_laplace
from engine.noise import NoiseKey

KEY = NoiseKey(bytes(range(32)))


def worst_ratio(law, shift, reach):
    """Largest log ratio of probabilities of the law and the law shifted, by enumeration."""
    q = math.exp(-law.numerator / law.scale)
    return max(abs(math.log(q) * (abs(k) - abs(k - shift))) for k in range(-reach, reach + 1))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.3, 1.0, 2.5, 10.0])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_counts_keep_to_epsilon_and_use_it_up(epsilon, neighbours):
    sensitivity = histogram_sensitivity(neighbours)
    found = integer_laplace(5, sensitivity, epsilon)
    assert found.charged <= Fraction(epsilon)
    assert float(found.charged) > epsilon * (1 - 1e-4)
    # One entry moved by 1 (add-remove) or two by 1 each: losses add up over independent entries.
    assert sensitivity * worst_ratio(found.law, 1, 20) == pytest.approx(float(found.charged), rel=1e-9)
    assert Fraction(found.pure.epsilon) >= found.charged


def test_the_expected_error_of_counts_is_that_of_the_two_sided_geometric_law():
    found = integer_laplace(3, 1, 1.0)
    q = math.exp(-1)
    assert found.expected_squared_error == pytest.approx(3 * 2 * q / (1 - q) ** 2, rel=1e-12)
    drawn = found.law.draw(KEY, (0, 512), (0, 512), symmetric=False).ravel().astype(float)
    squares = drawn**2
    spread = math.sqrt(squares.var() / squares.size) * stats.norm.isf(0.5e-9)
    assert abs(squares.mean() - found.law.variance) < spread
    assert abs((squares * 1.05**2).mean() - found.law.variance) > spread
    assert abs((squares * 0.95**2).mean() - found.law.variance) > spread


def test_a_sampler_leaves_a_delta_that_the_booked_loss_states():
    found = integer_laplace(1000, 2, 1.0)
    assert found.loss.epsilon == found.pure.epsilon
    assert found.loss.total_variation == 1000 * 2.0**-115
    assert 0 < found.loss.delta(1.0) == pytest.approx((1 + math.e) * 1000 * 2.0**-115, rel=1e-9)


def test_no_pair_of_neighbours_on_a_grid_costs_more_than_is_charged():
    rng = np.random.default_rng(8)
    spread = np.array([1.0, 2.0, 5.0, 0.5])
    bounds = np.array([40_000, 60_000, 200_000, 10_000])
    sensitivity = float(np.sum(bounds / spread))
    found = grid_laplace(spread, sensitivity, 4, 0.7)
    worst = Fraction(0)
    for _ in range(3000):
        x = rng.integers(-(10**9), 10**9, 4)
        # Mostly extreme differences, some of them placed just across a rounding boundary.
        y = x + rng.choice([-1, 1], 4) * bounds
        if rng.random() < 0.5:
            x = x - (x % found.steps) + (found.steps + 1) // 2
            y = x - bounds
        zero = np.zeros(4, dtype=np.int64)
        distance = int(np.sum(np.abs(found.release(x, zero) - found.release(y, zero))))
        worst = max(worst, distance * found.law.rate)
    assert worst <= found.charged <= Fraction(0.7)
    assert float(worst) > 0.7 * 0.98


def test_without_the_charge_for_rounding_the_claim_would_be_broken():
    # Answers that differ by one unit across a boundary are a whole step apart, in every entry.
    found = grid_laplace(np.ones(2), 2.0**22, 2, 1.0)
    x = found.steps * 7 + found.steps // 2 + found.steps % 2
    zero = np.zeros(2, dtype=np.int64)
    apart = np.sum(np.abs(found.release(x, zero) - found.release(x - 1, zero)))
    assert apart == 2
    assert float(apart * found.law.rate) > 2 / 2.0**22 * 100


def test_the_error_of_a_grid_release_is_bounded_by_what_is_stated():
    spread = np.array([1.0, 3.0])
    found = grid_laplace(spread, 2.0**24, 2, 1.0)
    ideal = 2 * (spread * 2.0**24) ** 2
    assert found.expected_squared_error == pytest.approx(ideal.sum(), rel=5e-3)
    assert found.standard_deviations == pytest.approx(np.sqrt(ideal), rel=3e-3)
    exact = np.tile(np.array([[12_345_678], [-87_654_321]]), (1, 200_000))
    noise = found.law.draw(KEY, (0, 2), (0, 200_000), symmetric=False)
    error = (found.release(exact.T, noise.T) * found.steps - exact.T).astype(float)
    assert np.mean(np.sum(error**2, axis=1)) == pytest.approx(found.expected_squared_error, rel=0.03)


@pytest.mark.parametrize("sensitivity", [0, -1, 0.5, math.inf, math.nan])
def test_an_unknown_sensitivity_is_refused(sensitivity):
    with pytest.raises(CalibrationError, match="sensitivity"):
        integer_laplace(3, sensitivity, 1.0)
    if not 0 < sensitivity < math.inf:
        with pytest.raises(CalibrationError, match="sensitivity"):
            grid_laplace(np.ones(3), sensitivity, 1, 1.0)


def test_what_cannot_be_kept_is_refused_with_the_remedy():
    with pytest.raises(CalibrationError, match="finer units"):
        grid_laplace(np.ones(3), 100.0, 3, 1.0)
    with pytest.raises(CalibrationError, match="changing is 4"):
        grid_laplace(np.ones(3), 1e6, 4, 1.0)
    with pytest.raises(CalibrationError, match="spread"):
        grid_laplace(np.array([1.0, 0.0]), 1e6, 1, 1.0)
    with pytest.raises(CalibrationError, match="epsilon is 0"):
        integer_laplace(1, 1, 0)
    with pytest.raises(CalibrationError, match="coarser grid"):
        integer_laplace(1, 4, 1e-6)
