"""Correlations where noise is large: those of some records, with a standard error that is right."""

from pathlib import Path

import numpy as np
import pytest

from blockveil.engine.estimates import components, correlations
from blockveil.engine.estimates.noisy_moments import NoisyMoments
from blockveil.engine.estimates.regression import linear_fit

D, ROWS = 12, 3000
SMALL, LARGE, HOPELESS = 0.05, 100.0, 1e5


def exact():
    """Three groups of correlated features, of standard deviations from 0.1 to 0.6."""
    rng = np.random.default_rng(7)
    common = np.repeat(rng.standard_normal((ROWS, 3)), D // 3, axis=1)
    values = (0.7 * common + 0.7 * rng.standard_normal((ROWS, D))) * np.linspace(0.1, 0.6, D)
    wide = np.column_stack([np.ones(ROWS), values])
    return wide.T @ wide


def variance(size, scale):
    found = np.full((size, size), scale**2 / 2.0)
    np.fill_diagonal(found, scale**2)
    return found


def noisy(matrix, variances, rng, wrong=1.0):
    drawn = np.triu(rng.standard_normal(matrix.shape) * np.sqrt(variances)) * wrong
    return NoisyMoments(matrix + drawn + np.triu(drawn, 1).T, variances, True, np.zeros(len(matrix) - 1))


def release(scale, key):
    return noisy(exact(), variance(D + 1, scale), np.random.default_rng(key))


@pytest.mark.parametrize("scale", [SMALL, LARGE, HOPELESS])
def test_correlations_are_those_of_some_records_whatever_the_noise(scale):
    for key in range(3):
        found = correlations.correlation(release(scale, key))
        assert np.all(np.isfinite(found.value))
        assert np.all(np.isfinite(found.standard_deviation))
        assert np.array_equal(found.value, found.value.T)
        assert np.all(np.diagonal(found.value) == 1.0)
        assert np.all(np.abs(found.value) <= 1.0)
        assert np.linalg.eigvalsh(found.value)[0] > -1e-12
        assert np.all(np.diagonal(found.standard_deviation) == 0.0)


def test_where_noise_is_small_they_are_the_ratios_of_what_was_released():
    moments = release(SMALL, 1)
    found, raw = correlations.correlation(moments), correlations.raw_correlation(moments)
    assert np.array_equal(found.value, raw.value)
    assert np.array_equal(found.standard_deviation, raw.standard_deviation)


def test_numbers_that_are_no_numbers_say_nothing():
    matrix = exact()
    matrix[2, 3] = matrix[3, 2] = np.nan
    found = correlations.correlation(NoisyMoments(matrix, variance(D + 1, 1.0), True, np.zeros(D)))
    assert np.array_equal(found.value, np.eye(D))
    assert np.all(np.isinf(found.standard_deviation[~np.eye(D, dtype=bool)]))


def test_what_is_simulated_follows_from_the_seed_alone():
    one, same = (correlations.correlation(release(LARGE, 1)) for _ in range(2))
    assert np.array_equal(one.value, same.value)
    moments = release(LARGE, 1)
    other = correlations.correlation(NoisyMoments(moments.matrix, moments.variance, True, moments.origin, seed=5))
    assert not np.array_equal(one.value, other.value)
    assert one.value == pytest.approx(other.value, abs=0.05)


def squares(truth, draws):
    """Mean squares of errors over standard errors, of errors, and of those of the clipped ratio, by release."""
    above, found = np.triu_indices(len(truth), 1), []
    for moments in draws:
        estimate, raw = correlations.correlation(moments), correlations.raw_correlation(moments).value
        error = (estimate.value - truth)[above]
        ratio = np.where(np.isnan(raw), 0.0, raw - truth)[above]  # NaN counts as no error at all
        score = error / estimate.standard_deviation[above]
        found.append([np.mean(score**2), np.mean(error**2), np.mean(ratio**2)])
    return np.mean(found, axis=0)


def test_with_large_noise_they_are_nearer_to_the_truth_than_ratios_and_say_how_near():
    truth = correlations.raw_correlation(NoisyMoments(exact(), np.zeros((D + 1, D + 1)), True, np.zeros(D))).value
    score, square, of_ratio = squares(truth, [release(LARGE, key) for key in range(12)])
    assert 0.5 <= score <= 1.3
    assert square < 0.6 * of_ratio


def test_a_release_of_noise_says_that_nothing_was_learnt_and_one_without_says_nothing():
    apart = ~np.eye(D, dtype=bool)
    assert np.mean(correlations.nothing_learnt(correlations.correlation(release(HOPELESS, 3)))[apart]) > 0.9
    assert not correlations.nothing_learnt(correlations.correlation(release(SMALL, 3))).any()
    without = NoisyMoments(exact(), np.zeros((D + 1, D + 1)), True, np.zeros(D))
    assert not correlations.nothing_learnt(correlations.correlation(without)).any()


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [0.9, 1.0, 1.1])
def test_standard_errors_are_right_for_the_demos_records_and_a_wrong_scale_of_noise_is_seen(wrong):
    """The noise of the quickstart's box: 4.22 times 5.27^2, and 4.22 times 5.27 times 2.41 of sums."""
    data = Path(__file__).parents[3] / "configs/data/credit_default/credit_default.npz"
    lower = np.array([0, 1, 0, 0, 18, *[-2] * 6, *[-2e5] * 6, *[0] * 6])
    upper = np.array([1e6, 2, 6, 3, 100, *[9] * 6, *[1e6] * 6, *[5e5] * 6])
    with np.load(data) as bundle:
        values = 2.0 * (np.clip(bundle["records"], lower, upper) - lower) / (upper - lower) - 1.0
    wide = np.column_stack([np.ones(len(values)), values])
    spread = np.array([2.407, *[5.272] * 23])
    variances = (4.224 * np.outer(spread, spread)) ** 2 / 2.0
    np.fill_diagonal(variances, 2.0 * np.diagonal(variances))
    rng = np.random.default_rng(20)
    draws = [noisy(wide.T @ wide, variances, rng, wrong) for _ in range(40)]
    score, square, _ = squares(np.corrcoef(values.T), draws)
    assert (0.9 <= score <= 1.1) == (wrong == 1.0)
    if wrong == 1.0:
        assert square < 0.14**2


def test_where_no_error_is_stated_coefficients_and_components_are_nearer_to_the_truth_and_say_that_they_are_shrunk():
    clear = NoisyMoments(exact(), np.zeros((D + 1, D + 1)), True, np.zeros(D))
    columns = list(range(1, D))
    truth, products = linear_fit(clear, 0, columns, 0.0).values[1:], clear.products[1:, 1:]
    ours, inverse, variances = [], [], []
    for key in range(6):
        moments = release(LARGE, key)
        fit = linear_fit(moments, 0, columns, 0.0)
        assert fit.shrunk
        assert np.all(np.isinf(fit.standard_error[1:]))
        raw = np.linalg.solve(moments.products[1:, 1:], moments.products[1:, 0])
        for found, errors in ((fit.values[1:], ours), (raw, inverse)):
            errors.append((found - truth) @ products @ (found - truth))
        found = components.components(release(HOPELESS, key), 1, True)
        assert found.shrunk
        variances.append(found.variances.value[0])
    assert np.mean(ours) < 0.2 * np.mean(inverse)
    assert np.all(np.isfinite(variances))
    assert np.all(np.array(variances) <= D)
    assert not linear_fit(clear, 0, columns, 0.0).shrunk
    assert not components.components(release(SMALL, 1), 1, True).shrunk


def test_components_of_numbers_that_are_no_numbers_are_none():
    matrix = exact()
    matrix[2, 3] = matrix[3, 2] = np.nan
    found = components.components(NoisyMoments(matrix, variance(D + 1, 1.0), True, np.zeros(D)), 2, True)
    assert np.all(np.isnan(found.variances.value))
    assert not found.shrunk


def test_what_shortening_takes_is_in_the_error_of_a_correlation_and_is_not_shrunk_for():
    alone = release(LARGE, 1)
    also = alone.variance * 30.0
    share = np.linspace(0.1, 0.4, D)
    parts = {"noise": alone.variance, "shortened": share}
    both = NoisyMoments(alone.matrix, also, True, alone.origin, seed=alone.seed, **parts)
    for of in (correlations.correlation, correlations.raw_correlation):
        one, other = of(alone), of(both)
        assert np.array_equal(one.value, other.value, equal_nan=True)
        apart = ~np.eye(D, dtype=bool) & np.isfinite(one.standard_deviation)
        means = np.sqrt(np.outer(share, share)), np.add.outer(share, share) / 2
        beside = np.hypot(0.05 * means[0], 0.1 * means[1] * one.value)
        assert other.standard_deviation[apart] == pytest.approx(np.hypot(one.standard_deviation, beside)[apart])
        assert np.array_equal(np.diagonal(one.standard_deviation), np.diagonal(other.standard_deviation))
    assert np.array_equal(both.of([1, 2]).noise, alone.of([1, 2]).variance)
    assert np.array_equal(both.of([1, 2]).shortened, share[1:3])
    assert both.noise_alone.variance is alone.variance
