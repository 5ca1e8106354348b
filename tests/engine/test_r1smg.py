"""R1SMG: what is published, what really holds, and noise that agrees across chunks."""

import math

import numpy as np
import pytest
from scipy import stats

from engine.calibration import CalibrationError
from engine.mechanisms.r1smg import block_energy, noise, published, scale
from engine.mechanisms.r1smg_profile import (
    allowed_success,
    attack_success,
    correct_variance,
    correct_variance_law,
    total_variation_law,
    true_delta,
    true_epsilon,
)
from engine.noise import NoiseKey

KEY = NoiseKey(bytes(range(32)))


def at_claim(entries, epsilon, delta):
    return math.sqrt(published(entries, epsilon, delta, 1.0).variance)


# Entries, epsilon, delta; then sigma_star, true delta at epsilon, true epsilon at delta, correct sigma_star.
SETTINGS = [
    (7921, 1e-5, 1e-7, 2.011e5, 0.2166, 77_509, 1.218e19),
    (5_760_000, 2e-8, 1e-7, 1.000e8, 0.2476, 3.849e7, 1.98e22),
    (5_760_000, 1e-7, 1e-7, 2.000e7, 0.4182, 4.312e7, 1.67e22),
    (5_760_000, 1.6e-7, 1e-7, 1.250e7, 0.4799, 4.448e7, 1.58e22),
    (10_000, 0.71, 3.33e-7, 2.828, 1.000, 1.417e5, 2.77e16),
    (1_000_000, 5.42, 3.33e-7, 0.3690, 1.000, 1.519e7, 4.89e17),
    (4, 0.5, 1e-5, None, 9.2e-4, 12.6, None),
    (10, 1.0, 1e-5, None, 0.181, 83.1, None),
    (100, 0.1, 1e-5, None, 0.770, 954, None),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"M={s[0]} eps={s[1]}")
def test_the_published_noise_is_not_private_at_the_papers_own_settings(setting):
    entries, epsilon, delta, variance, real_delta, real_epsilon, correct = setting
    s = at_claim(entries, epsilon, delta)
    assert variance is None or s**2 == pytest.approx(variance, rel=1e-3)
    assert true_delta(entries, s, epsilon) == pytest.approx(real_delta, rel=5e-3)
    assert true_epsilon(entries, s, delta) == pytest.approx(real_epsilon, rel=5e-3)
    assert true_delta(entries, s, epsilon) > 50 * delta
    if correct is not None:
        assert correct_variance(entries, epsilon, delta) == pytest.approx(correct, rel=5e-3)


@pytest.mark.parametrize(("entries", "s", "epsilon"), [(2, 1.0, 0.3), (3, 2.0, 0.5), (10, 3.0, 0.1), (100, 10.0, 0.1)])
def test_the_profile_agrees_with_simulated_whole_vectors(entries, s, epsilon):
    rng = np.random.default_rng(entries)
    z, v = rng.standard_normal(100_000), rng.standard_normal((100_000, entries))
    x = s * z[:, None] * v / np.linalg.norm(v, axis=1)[:, None]
    here, there = np.sum(x**2, axis=1), np.sum(x**2, axis=1) - 2 * x[:, 0] + 1
    loss = (entries - 1) / 2 * np.log(there / here) + (there - here) / (2 * s * s)
    gains = np.maximum(0.0, -np.expm1(epsilon - loss))
    # alpha 1e-9: 6.1 standard errors.
    assert abs(np.mean(gains) - true_delta(entries, s, epsilon)) < 6.1 * np.std(gains) / math.sqrt(gains.size)
    assert abs(np.mean(gains) - true_delta(entries, 1.05 * s, epsilon)) > 6.1 * np.std(gains) / math.sqrt(gains.size)


def test_two_entries_match_an_independent_two_dimensional_integral():
    s, epsilon = 1.3, 0.4
    # Polar coordinates of the output itself: density 2 phi(r / s) / s over (2 pi) in (r, angle).
    r = np.exp(np.linspace(-30, np.log(12 * s), 6000))
    angle = (np.arange(2000) + 0.5) * np.pi / 2000
    there = r[:, None] ** 2 - 2 * r[:, None] * np.cos(angle) + 1
    loss = 0.5 * np.log(there / r[:, None] ** 2) + (there - r[:, None] ** 2) / (2 * s * s)
    gains = np.mean(np.maximum(0.0, -np.expm1(epsilon - loss)), axis=1)
    density = 2 * np.exp(-0.5 * (r / s) ** 2) / (math.sqrt(2 * math.pi) * s) * r
    expected = np.trapezoid(gains * density, np.log(r))
    assert true_delta(2, s, epsilon) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("entries", [2, 3, 100, 10_000, 10**8])
def test_delta_falls_with_epsilon_and_with_more_noise(entries):
    grid = [0.0, 1e-9, 1e-3, 1.0, 30.0, 1e5]
    for s in (1e-3, 1.0, 1e3, 1e12):
        deltas = [true_delta(entries, s, epsilon) for epsilon in grid]
        assert all(0.0 <= b <= a * (1 + 1e-9) <= 1 + 1e-9 for a, b in zip(deltas, deltas[1:], strict=False))
    assert true_delta(entries, 10.0, 1.0) >= true_delta(entries, 20.0, 1.0)


@pytest.mark.parametrize(("entries", "epsilon"), [(10**6, 0.1), (10**6, 1.0), (5_760_000, 1e-7)])
def test_many_entries_follow_the_closed_forms(entries, epsilon):
    delta = 1e-5 if epsilon > 1e-3 else 1e-7
    assert correct_variance(entries, epsilon, delta) == pytest.approx(
        correct_variance_law(entries, epsilon, delta), rel=2e-3
    )
    assert true_delta(entries, math.sqrt(correct_variance(entries, epsilon, delta)), epsilon) <= delta
    s = at_claim(5_760_000, 1e-7, 1e-7)
    assert true_delta(5_760_000, s, 0.0) == pytest.approx(total_variation_law(5_760_000, s), rel=1e-6)


def test_correct_noise_is_far_more_than_gaussian_noise():
    from engine.mechanisms.losses import analytic_expected_loss

    assert correct_variance(7921, 1e-5, 1e-7) / analytic_expected_loss(7921, 1.0, 1e-5, 1e-7) == pytest.approx(
        5.17e4, rel=0.01
    )


@pytest.mark.parametrize(
    ("entries", "epsilon", "delta", "success"),
    [(7921, 1e-5, 1e-7, 0.60832), (5_760_000, 2e-8, 1e-7, 0.62378), (5_760_000, 1.6e-7, 1e-7, 0.73994)],
)
def test_an_attacker_succeeds_far_more_often_than_the_claim_allows(entries, epsilon, delta, success):
    s = at_claim(entries, epsilon, delta)
    assert attack_success(entries, s) == pytest.approx(success, abs=2e-5)
    assert allowed_success(epsilon, delta) < 0.500003
    rng = np.random.default_rng(0)
    z = rng.standard_normal(200_000)
    cosine = 2 * rng.beta((entries - 1) / 2, (entries - 1) / 2, z.size) - 1
    # The nearer of the two answers: right when the noise along the difference is below half of it.
    right = np.mean(s * np.abs(z) * cosine < 0.5)
    assert abs(right - success) < 6.1 * 0.5 / math.sqrt(z.size)  # alpha 1e-9
    assert right > allowed_success(epsilon, delta) + 6.1 * 0.5 / math.sqrt(z.size)


def test_noise_is_the_same_bits_in_whatever_blocks():
    rng, shape = np.random.default_rng(1), (300, 200)
    whole_energy = block_energy(KEY, (0, shape[0]), (0, shape[1]))
    factor = scale(KEY, whole_energy, 4.0)
    whole = noise(KEY, (0, shape[0]), (0, shape[1]), factor)
    for _ in range(10):
        rows = [0, *sorted(rng.integers(1, shape[0], 2)), shape[0]]
        columns = [0, *sorted(rng.integers(1, shape[1], 2)), shape[1]]
        blocks = [
            (r, c)
            for r in zip(rows, rows[1:], strict=False)
            for c in zip(columns, columns[1:], strict=False)
            if r[0] < r[1] and c[0] < c[1]
        ]
        assert sum(block_energy(KEY, r, c) for r, c in blocks) == whole_energy
        for r, c in blocks:
            assert np.array_equal(noise(KEY, r, c, factor), whole[slice(*r), slice(*c)])


def test_the_squared_length_is_chi_squared_and_5_percent_more_is_rejected():
    draws = []
    for number in range(16_000):
        key = NoiseKey.derive(bytes(32), number.to_bytes(4))
        z = scale(key, 1, 1.0)
        draws.append(z)
    draws = np.array(draws)
    bound = stats.norm.isf(0.5e-9) * math.sqrt(2.0 / draws.size)  # alpha 1e-9
    assert abs(np.mean(draws**2) - 1) < bound
    assert abs(np.mean((1.05 * draws) ** 2) - 1) > bound
    assert abs(np.mean((draws / 1.05) ** 2) - 1) > bound
    assert stats.kstest(draws, "norm").pvalue > 1e-9
    field = noise(KEY, (0, 40), (0, 50), scale(KEY, block_energy(KEY, (0, 40), (0, 50)), 9.0))
    assert np.linalg.norm(field) == pytest.approx(abs(scale(KEY, 1, 9.0)), rel=1e-12)


@pytest.mark.parametrize("arguments", [(2, 1.0, 1e-5, 1.0), (10, 0.0, 1e-5, 1.0), (10, 1.0, 1e-5, math.inf)])
def test_parameters_out_of_range_are_refused(arguments):
    with pytest.raises(CalibrationError):
        published(*arguments)
    with pytest.raises(CalibrationError):
        true_delta(0, 1.0, 1.0)
