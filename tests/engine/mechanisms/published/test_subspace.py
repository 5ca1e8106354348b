"""Noise for subspaces: exact losses by search, published calibrations by region, errors by simulation."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.contract import Status
from blockveil.engine.mechanisms.published.subspace import (
    EntryKind,
    MomentNoise,
    analyze_gauss,
    expected_sine_distance,
    least_noise,
    log_excess,
    matrix_gaussian,
    mod_sulq,
    verdict,
)

SIGMAS = float(stats.norm.isf(0.5e-9))
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
EPSILONS = [1e-3, 0.1, 0.5, 0.99, 2.0, 8.0, 30.0, 1e3]
DELTAS = [0.999, 0.6, 0.3, 1e-2, 1e-5, 1e-9, 1e-30, 1e-200]


def whitened(kind, difference, deviation):
    """Norm of a difference of answers in units of the noise on the entries that are drawn."""
    if kind is EntryKind.UNSYMMETRISED:
        return np.linalg.norm(difference) / deviation
    diagonal = np.diagonal(difference)
    upper = difference[np.triu_indices(len(difference), 1)]
    return (
        math.hypot(
            np.linalg.norm(diagonal), np.linalg.norm(upper) * (math.sqrt(2) if kind is EntryKind.ISOMETRIC else 1)
        )
        / deviation
    )


@pytest.mark.parametrize("kind", list(EntryKind))
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_loss_is_the_largest_that_any_pair_of_records_shows(kind, neighbours):
    rng = np.random.default_rng(1)
    noise = MomentNoise(kind, 3, 2.0, 1.5, neighbours)
    pairs = [(np.eye(3)[0], np.eye(3)[1])]
    for _ in range(3000):
        x, y = rng.standard_normal((2, 3)) * rng.choice([0.05, 1.0], (2, 3))
        pairs.append((x / np.linalg.norm(x), y / np.linalg.norm(y) * rng.choice([1.0, rng.random()])))
    largest = 0.0
    for x, y in pairs:
        y = y if neighbours is REPLACE else 0 * y
        largest = max(largest, whitened(kind, 1.5**2 * (np.outer(x, x) - np.outer(y, y)), 2.0))
    assert largest <= noise.loss.mu <= largest * (1 + 1e-9)


def exact_delta(mu, epsilon):
    with mpmath.workdps(250):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        here = mpmath.ncdf(mu / 2 - epsilon / mu)
        return here - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("dimension", [2, 3, 10, 1000])
def test_mod_sulq_is_valid_everywhere_and_never_exact(neighbours, dimension):
    for epsilon in EPSILONS:
        for delta in DELTAS:
            claim = ApproxDP(epsilon, delta)
            noise = mod_sulq(dimension, 2.0, claim, neighbours)
            assert log_excess(noise, claim) < 0
            assert verdict(noise, claim) is Status.PROVEN_LOOSE


def test_mod_sulq_in_high_precision_where_it_is_tightest():
    for epsilon, delta in [(1e3, 0.3), (1e3, 0.6), (100.0, 1e-3)]:
        noise = mod_sulq(2, 1.0, ApproxDP(epsilon, delta), REPLACE)
        with mpmath.workdps(50):
            log = mpmath.log(6 / (mpmath.mpf(delta) * 2 * mpmath.sqrt(2 * mpmath.pi)))
            published = 3 * mpmath.sqrt(2 * log) / epsilon + 1 / mpmath.sqrt(epsilon)
            assert published <= noise.standard_deviation <= published * (1 + 1e-14)
        assert exact_delta(noise.loss.mu, epsilon) < delta


def test_mod_sulq_wastes_a_factor_that_grows_with_the_dimension():
    claim = ApproxDP(1.0, 1e-6)
    wasted = [
        mod_sulq(d, 1.0, claim, REPLACE).standard_deviation / least_noise(d, 1.0, claim, REPLACE).standard_deviation
        for d in (2, 10, 100, 1000)
    ]
    assert wasted == sorted(wasted)
    assert wasted[-1] > 500


def test_analyze_gauss_is_valid_for_added_records_below_epsilon_one():
    for epsilon in [e for e in EPSILONS if e < 1]:
        for delta in DELTAS:
            claim = ApproxDP(epsilon, delta)
            assert verdict(analyze_gauss(5, 1.0, claim, ADD), claim) is Status.PROVEN_LOOSE


@pytest.mark.parametrize(("epsilon", "delta", "times"), [(0.5, 1e-8, 24.75), (0.1, 1e-8, 4.059), (0.5, 1e-5, 1.465)])
def test_analyze_gauss_is_false_for_replaced_records_and_small_delta(epsilon, delta, times):
    claim = ApproxDP(epsilon, delta)
    noise = analyze_gauss(5, 1.0, claim, REPLACE)
    assert verdict(noise, claim) is Status.NOT_PRIVATE
    assert math.exp(log_excess(noise, claim)) == pytest.approx(times, rel=1e-3)
    assert float(exact_delta(noise.loss.mu, epsilon)) / delta == pytest.approx(times, rel=1e-3)


def test_analyze_gauss_is_false_for_large_epsilon_whatever_the_relation():
    claim = ApproxDP(10.0, 1e-5)
    noise = analyze_gauss(5, 3.0, claim, ADD)
    assert verdict(noise, claim) is Status.NOT_PRIVATE
    assert math.exp(log_excess(noise, claim)) == pytest.approx(2.27, rel=3e-3)


@pytest.mark.parametrize("claim", [ApproxDP(1.0, 1e-5), ApproxDP(0.01, 1e-9), ApproxDP(20.0, 1e-3)])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_least_noise_is_exact_and_stays_on_the_private_side(claim, neighbours):
    for design in (least_noise, matrix_gaussian):
        noise = design(4, 2.0, claim, neighbours)
        assert verdict(noise, claim) is Status.PROVEN_EXACT
        assert exact_delta(noise.loss.mu, claim.epsilon) <= claim.delta
        assert noise.loss.delta(claim.epsilon) <= claim.delta


def draw(noise, count, rng):
    d = noise.dimension
    z = rng.standard_normal((count, d, d)) * noise.standard_deviation
    if noise.kind is EntryKind.UNSYMMETRISED:
        return z
    if noise.kind is EntryKind.ISOMETRIC:
        return (z + z.transpose(0, 2, 1)) / 2
    upper = np.triu(z)
    return upper + np.triu(z, 1).transpose(0, 2, 1)


@pytest.mark.parametrize("kind", list(EntryKind))
def test_errors_are_those_of_simulated_releases_and_5_percent_more_noise_is_seen(kind):
    rng = np.random.default_rng(3)
    noise = MomentNoise(kind, 5, 1.0, 1.0, ADD)
    basis = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    spectrum, count = np.array([900.0, 500.0, 200.0, 100.0, 0.0]), 60_000
    drawn = draw(noise, count, rng)
    squares = np.sum(drawn**2, axis=(1, 2))
    error = SIGMAS * squares.std() / math.sqrt(count)
    assert abs(squares.mean() - noise.total_variance) < error
    noisy = basis @ np.diag(spectrum) @ basis.T + drawn
    found = np.linalg.svd(noisy)[0][:, :, :2] if kind is EntryKind.UNSYMMETRISED else np.linalg.eigh(noisy)[1][:, :, 3:]
    sines = 2 - np.sum((basis[:, :2].T @ found) ** 2, axis=(1, 2))
    error = SIGMAS * sines.std() / math.sqrt(count)
    expected = expected_sine_distance(noise, spectrum, 2, basis)
    assert abs(sines.mean() - expected) < error + 1e-3 * expected
    for wrong in (0.95, 1.05):
        assert abs(sines.mean() - wrong**2 * expected) > error
    if kind is EntryKind.UNSCALED:
        assert expected < expected_sine_distance(noise, spectrum, 2)


def test_averaging_with_the_transpose_never_hurts():
    claim, spectrum = ApproxDP(1.0, 1e-6), np.array([5000.0, 3000.0, 100.0, 0.0])
    averaged, raw = (f(4, 1.0, claim, ADD) for f in (least_noise, matrix_gaussian))
    assert expected_sine_distance(averaged, spectrum, 2) <= expected_sine_distance(raw, spectrum, 2)
    assert averaged.total_variance < raw.total_variance
    assert averaged.loss.mu == raw.loss.mu


def test_what_promises_nothing_is_refused():
    for arguments, match in [
        ((EntryKind.ISOMETRIC, 1, 1.0, 1.0, ADD), "dimension is 1"),
        ((EntryKind.ISOMETRIC, 3, 0.0, 1.0, ADD), "positive"),
        ((EntryKind.ISOMETRIC, 3, 1.0, math.nan, ADD), "finite"),
    ]:
        with pytest.raises(CalibrationError, match=match):
            MomentNoise(*arguments)
    noise = MomentNoise(EntryKind.ISOMETRIC, 3, 1.0, 1.0, ADD)
    for spectrum, leading in [(np.ones(2), 1), (np.ones(3), 0), (np.ones(3), 3)]:
        with pytest.raises(CalibrationError, match="eigenvalues"):
            expected_sine_distance(noise, spectrum, leading)
