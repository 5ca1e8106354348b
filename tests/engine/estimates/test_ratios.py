"""Covariances are ratios: their errors are held all at once, whatever the noise of the count."""

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.estimates.ratios import RatioErrors

D, TRIALS = 12, 5000


def estimates(rng, count, noise, covariance, mean, joined=0.0):
    """Released count, means and covariances with their stated deviations, as the product computes them to first order.

    ``noise`` is the standard deviation of the count; sums and second moment have as much, and as isometric noise.
    Entries of the diagonal have a correlation ``joined`` with the count.
    """
    n, s, v = count, count * mean, count * (covariance + np.outer(mean, mean))
    isometric = np.where(np.eye(D), 1.0, 0.5**0.5) * noise
    drawn = np.triu(rng.standard_normal((D, D)) * isometric)
    of_count = rng.standard_normal() * noise
    drawn[np.diag_indices(D)] = np.diagonal(drawn) * (1.0 - joined**2) ** 0.5 + joined * of_count
    v = v + drawn + np.triu(drawn, 1).T
    s, n = s + rng.standard_normal(D) * noise * 0.5**0.5, n + of_count
    m, released = s / n, v / n - np.outer(s, s) / n**2
    sums = np.full(D, noise**2 / 2.0)
    crossed = np.outer(m**2, sums)
    variance = isometric**2 + crossed + crossed.T + 2.0 * np.outer(m, m) * np.diag(sums)
    variance = variance + (2.0 * np.outer(m, m) - v / n) ** 2 * noise**2
    variance = variance + 2.0 * (2.0 * np.outer(m, m) - v / n) * np.eye(D) * joined * noise**2
    return (n, noise), m, np.sqrt(sums + m**2 * noise**2) / n, released, np.sqrt(variance) / n


def of_covariances(errors, *asked):
    """Error of covariances: a band of what is linear in the noise, and the rest."""
    linear, rest = errors.parts(*asked)
    return errors.band * linear + rest


def exceeded(relative, covariance, mean, bands=(1.0,), trials=TRIALS, joined=0.0):
    """In how many releases any covariance is off by more than is stated, by how wide the band is."""
    rng, upper = np.random.default_rng(5), np.triu_indices(D)
    held = upper[0].size + D + 1
    band = stats.norm.ppf((1.0 + 0.95 ** (1.0 / held)) / 2.0)
    found = [0 for _ in bands]
    for _ in range(trials):
        count, m, deviation, released, stated = estimates(rng, 1e5, relative * 1e5, covariance, mean, joined)
        for i, width in enumerate(bands):
            errors = RatioErrors.of(m, deviation, count, width * band, joined != 0.0)
            reach = of_covariances(errors, *upper, released[upper], stated[upper])
            found[i] += bool((np.abs(released - covariance)[upper] > reach).any())
    return found


COVARIANCE = 0.3 * np.eye(D) + 0.2
MEAN = np.linspace(-1.0, 1.0, D)
MOST = stats.binom.isf(1e-9, TRIALS, 0.05)


@pytest.mark.parametrize("covariance", [np.zeros((D, D)), COVARIANCE], ids=["none", "some"])
@pytest.mark.parametrize("mean", [np.zeros(D), MEAN], ids=["at the origin", "away"])
@pytest.mark.parametrize(("relative", "joined"), [(1e-4, 0.0), (0.03, 0.0), (0.12, 0.0), (0.12, 0.9), (0.12, -0.9)])
def test_errors_of_covariances_are_held_whatever_the_noise_of_the_count(relative, joined, mean, covariance):
    (found,) = exceeded(relative, covariance, mean, trials=1000, joined=joined)
    assert found <= stats.binom.isf(1e-9, 1000, 0.05)


def test_with_little_noise_of_the_count_a_scale_five_percent_too_small_is_found_out():
    right, too_small = exceeded(1e-4, COVARIANCE, np.zeros(D), bands=(1.0, 0.95))
    assert right <= MOST < too_small


def test_stated_deviations_alone_would_not_do():
    """What first order in the noise neglects is no small thing where the count is uncertain."""
    rng, upper, found = np.random.default_rng(5), np.triu_indices(D, 1), 0
    band = stats.norm.ppf((1.0 + 0.95 ** (1.0 / upper[0].size)) / 2.0)
    for _ in range(1000):
        *_, released, stated = estimates(rng, 1e5, 0.2e5, np.zeros((D, D)), np.full(D, 2.0))
        found += bool((np.abs(released) > band * stated)[upper].any())
    assert found > stats.binom.isf(1e-9, 1000, 0.05)


def test_a_count_that_may_be_zero_leaves_nothing_known():
    errors = RatioErrors.of(np.ones(2), np.ones(2), (3.0, 1.0), 3.1)
    assert not errors.known
    assert np.isinf(of_covariances(errors, np.array([0]), np.array([1]), np.ones(1), np.ones(1))).all()
    assert np.isinf(errors.of_mean).all()


def test_of_groups_of_features_is_of_their_sums():
    rng = np.random.default_rng(2)
    errors = RatioErrors(rng.standard_normal(6), rng.uniform(0.1, 0.2, 6), 0.01, 4.0)
    weights, starts = rng.uniform(0.5, 2.0, 6), np.array([0, 2, 5])
    sums = np.zeros((6, 3))
    sums[[0, 1], 0], sums[[2, 3, 4], 1], sums[5, 2] = weights[:2], weights[2:5], weights[5]
    groups = errors.grouped(starts, weights)
    assert np.allclose(groups.shift, errors.shift @ sums)
    assert np.allclose(groups.sums, np.sqrt(errors.sums**2 @ sums**2))
    assert np.allclose(errors.grouped(starts, weights, together=True).sums, errors.sums @ sums)
    # Without count noise, the stated variances of a block's entries that come from the sums add up to this.
    quiet = RatioErrors(errors.shift, errors.sums, 0.0, 4.0)
    stated = quiet.shared(np.zeros((6, 6))) * np.outer(weights, weights) ** 2
    blocks = sums > 0
    for a in range(3):
        for b in range(3):
            block = stated[np.ix_(blocks[:, a], blocks[:, b])]
            expected = block.sum() if a != b else 2.0 * block.sum() - np.trace(block)
            assert quiet.stated_shared(starts, weights)[a, b] == pytest.approx(expected)
