"""One step of Newton's method gives the largest likelihood, and errors that are those of the noise, or none."""

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.estimates.one_step import ScoreMoments, one_step

ALPHA = 1e-9
TRUTH = np.array([-0.3, 0.8, -0.5])


def sample(rows, seed=1):
    rng = np.random.default_rng(seed)
    inputs = np.column_stack([np.ones(rows), rng.uniform(-1.0, 1.0, (rows, 2))])
    return inputs, (rng.random(rows) < 1.0 / (1.0 + np.exp(-inputs @ TRUTH))).astype(np.float64)


def moments(weights, inputs, classes, noise=1e-9):
    chance = 1.0 / (1.0 + np.exp(-inputs @ weights))
    score = inputs * (chance - classes)[:, None]
    fisher = (inputs * (chance * (1.0 - chance))[:, None]).T @ inputs
    k = inputs.shape[1]
    of_pairs = np.full((k, k), noise)
    return ScoreMoments(
        Estimate(score.sum(axis=0), np.full(k, noise)), Estimate(score.T @ score, of_pairs), Estimate(fisher, of_pairs)
    )


def likeliest(inputs, classes):
    found = np.zeros(inputs.shape[1])
    for _ in range(30):
        here = moments(found, inputs, classes)
        found = found - np.linalg.solve(here.fisher.value, here.score.value)
    return found


def test_a_step_from_near_gives_the_largest_likelihood_within_the_stated_second_order():
    inputs, classes = sample(20_000)
    best = likeliest(inputs, classes)
    for size in (0.02, 0.1, 0.4):
        found = one_step(best + size, moments(best + size, inputs, classes))
        assert np.all(np.abs(found.values - best) <= np.sqrt(np.diagonal(found.noise)))
        assert np.all(np.abs(found.values - best) < size)


def test_without_noise_the_sandwich_is_that_of_the_textbook():
    inputs, classes = sample(5_000)
    best = likeliest(inputs, classes)
    here = moments(best, inputs, classes)
    inverse = np.linalg.inv(here.fisher.value)
    np.testing.assert_allclose(one_step(best, here).sampling, inverse @ here.of_scores.value @ inverse, rtol=1e-9)


def _scores(trials, factor=1.0):
    """Squared errors in units of the stated covariance, added up, where noise of G and of A count alike."""
    rng, k, size = np.random.default_rng(7), 3, 1e6
    fisher = size * (np.eye(k) + 0.3)
    away = np.array([0.006, -0.006, 0.006])
    score, of_score, of_fisher = -fisher @ away, 500.0, 5e4
    deviations = np.full((k, k), of_fisher) * np.where(np.eye(k) > 0, np.sqrt(2.0), 1.0)
    total = 0.0
    for _ in range(trials):
        noise = np.triu(rng.standard_normal((k, k)) * deviations)
        noise = noise + np.triu(noise, 1).T
        seen = ScoreMoments(
            Estimate(score + rng.standard_normal(k) * of_score * factor, np.full(k, of_score)),
            Estimate(fisher, deviations),
            Estimate(fisher + noise * factor, deviations),
        )
        found = one_step(np.zeros(k), seen)
        error = found.values - away
        total += float(error @ np.linalg.solve(found.noise, error))
    return total, k * trials


def _fits(total, degrees):
    return stats.chi2.ppf(ALPHA / 2, degrees) < total < stats.chi2.isf(ALPHA / 2, degrees)


def test_errors_are_those_that_noise_of_score_and_fisher_matrix_makes_and_no_5_percent_others():
    assert _fits(*_scores(16_000))
    assert not _fits(*_scores(16_000, 1.05))
    assert not _fits(*_scores(16_000, 0.95))


def test_a_fisher_matrix_that_noise_hides_gives_no_errors():
    inputs, classes = sample(1_000)
    found = one_step(np.ones(3), moments(np.ones(3), inputs, classes, noise=50.0))
    assert not found.known
    np.testing.assert_array_equal(found.values, np.ones(3))
    value, noise, sampling = found.of(np.eye(3))
    assert np.all(np.isinf([noise, sampling]))
    np.testing.assert_array_equal(value, np.ones(3))
    spoilt = moments(np.ones(3), inputs, classes)
    spoilt.fisher.value[0, 0] = np.nan
    assert not one_step(np.ones(3), spoilt).known


def test_a_negative_variance_counts_as_its_own_noise():
    inputs, classes = sample(20_000)
    here = moments(TRUTH, inputs, classes, noise=10.0)
    negative = ScoreMoments(
        here.score, Estimate(-here.of_scores.value * 1e-3, here.of_scores.standard_deviation), here.fisher
    )
    assert np.all(np.diagonal(one_step(TRUTH, negative).sampling) > 0.0)


def test_functions_of_coefficients_have_the_errors_of_their_sums():
    inputs, classes = sample(20_000)
    found = one_step(TRUTH, moments(TRUTH, inputs, classes, noise=5.0))
    forms = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, -3.0]])
    value, noise, sampling = found.of(forms)
    np.testing.assert_allclose(value, forms @ found.values)
    np.testing.assert_allclose(noise**2, np.diagonal(forms @ found.noise @ forms.T))
    np.testing.assert_allclose(sampling**2, np.diagonal(forms @ found.sampling @ forms.T))
    assert noise[1] == pytest.approx(3.0 * np.sqrt(found.noise[2, 2]))
