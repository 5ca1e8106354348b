"""What shortening takes: of records of every kind as much as is stated, however little of it the first stages tell."""

import numpy as np
import pytest

from blockveil.engine.estimates.matrices import CovarianceEstimates, Estimate
from blockveil.engine.estimates.shortening import UNSEEN, Shortening, TakenByFeature, TakenByShortening

D = 8


def drawn(kind):
    rng = np.random.default_rng(8)
    mixed = rng.normal(size=(D, D)) / 3 + np.eye(D)
    records = {
        "normal": lambda: rng.normal(size=(60_000, D)) @ mixed,
        "heavy": lambda: rng.standard_t(3, size=(60_000, D)) @ mixed,
        "skewed": lambda: rng.lognormal(0, 0.7, size=(60_000, D)) @ mixed,
        "of different tails": lambda: np.exp(rng.normal(size=(60_000, D)) @ mixed / 2 * np.linspace(0.1, 1.0, D)),
    }[kind]()
    return (records - records.mean(0)) / records.std(0)


def shortened(records, radius):
    """The same in a ball, and which were beyond it."""
    lengths = np.linalg.norm(records, axis=1)
    return records * np.minimum(1.0, radius / lengths)[:, None], lengths > radius


@pytest.mark.parametrize("kind", ["normal", "heavy", "skewed", "of different tails"])
@pytest.mark.parametrize("share", [0.005, 0.05])
def test_what_is_stated_of_entries_is_what_is_taken_where_that_of_variances_is_known(kind, share):
    records = drawn(kind)
    radius = float(np.quantile(np.linalg.norm(records, axis=1), 1.0 - share))
    kept, beyond = shortened(records, radius)
    before, after = (np.cov(each.T, bias=True) for each in (records, kept))
    variances = np.maximum(np.diagonal(before - after), 1e-9)
    stated = TakenByShortening.of(variances, float(np.mean(beyond)), after, np.zeros(D))
    scores = ((before - after) / stated.covariances)[np.triu_indices(D, 1)]
    assert 0.2 < np.sqrt(np.mean(scores**2)) < 1.5
    assert np.all(np.abs(kept.mean(0) - records.mean(0)) <= 1.6 * stated.means)
    assert np.all(stated.second_moments == stated.covariances)


def test_moments_about_another_point_hold_the_error_of_means_too():
    shift = np.linspace(-1.0, 2.0, D)
    stated = TakenByShortening.of(np.full(D, 0.04), 0.25, np.eye(D), shift)
    assert np.allclose(stated.means, 0.33 * 0.2 * 0.5)
    assert np.allclose(stated.second_moments[1, 3] - stated.covariances[1, 3], (abs(shift[1]) + shift[3]) * 0.033)
    assert np.allclose(np.diagonal(stated.covariances), 0.04)
    assert stated.covariances[0, 1] == stated.unrelated[0, 1] == pytest.approx(0.04 * 0.2)
    assert not np.any(np.diagonal(stated.unrelated))


def test_any_part_of_the_errors_has_the_bits_of_the_whole():
    rng = np.random.default_rng(4)
    factor = rng.normal(size=(D, D))
    covariance, variances = factor @ factor.T, rng.uniform(0.0, 0.3, D)
    whole = TakenByShortening.of(variances, 0.1, covariance, np.zeros(D))
    by_feature = TakenByFeature.of(variances, 0.1, np.diagonal(covariance))
    rows, columns = np.arange(2, 7)[:, None], np.arange(5, D)
    found, unrelated = by_feature.at(rows, columns, covariance[2:7, 5:])
    assert np.array_equal(found, whole.covariances[2:7, 5:])
    assert np.array_equal(unrelated, whole.unrelated[2:7, 5:])
    assert np.array_equal(by_feature.means, whole.means)
    places = np.array([0, 3, 3]), np.array([3, 3, 0])
    assert np.array_equal(by_feature.at(*places, covariance[places])[0], whole.covariances[places])


def test_errors_are_beside_those_of_noise():
    one = Estimate(np.zeros(D), np.full(D, 0.3))
    noise = Estimate(np.eye(D), np.full((D, D), 0.3))
    found = CovarianceEstimates(Estimate(np.asarray(50.0), np.asarray(1.0)), one, noise, np.eye(D), noise)
    parts = np.full(D, 0.4), np.full((D, D), 0.4), np.full((D, D), 0.4 / 50.0), np.zeros((D, D))
    beside = TakenByShortening(*parts).beside(found)
    for each in (beside.mean, beside.covariance, beside.second_moment):
        assert np.allclose(each.standard_deviation, 0.5)
    assert beside.count is found.count


def seen(noise, **known):
    return Shortening(np.ones(D), 0.01, 0.02, (np.ones(D), np.full(D, noise)), **known)


def test_rings_tell_what_usual_records_lose():
    assert np.allclose(seen(1e-4).taken(np.full(D, 0.99), np.full(D, 1e-5)), 0.01, atol=1e-5)
    # Of axes that are longer than records are wide, the same length is a larger share of variances.
    wide = Shortening(np.full(D, 2.0), 0.01, 0.02, (np.ones(D), np.full(D, 1e-4)))
    assert np.allclose(wide.taken(np.full(D, 0.99), np.full(D, 1e-5)), 0.04)


def test_a_variance_that_falls_behind_the_pilot_is_stated_for_that_feature_alone():
    after = np.ones(D)
    after[3] = 0.5
    found = seen(0.05).taken(after, np.full(D, 1e-5))
    assert found[3] == pytest.approx(0.45, abs=0.05)
    assert np.allclose(np.delete(found, 3), 0.05, atol=0.01)


def test_of_a_feature_that_no_pilot_saw_a_quarter_may_hide():
    assert np.allclose(seen(50.0).taken(np.full(D, 0.8), np.full(D, 0.01)), (UNSEEN + 0.01 / 0.8) * 0.8, rtol=1e-3)
    assert np.allclose(seen(50.0).taken(np.full(D, -0.5), np.full(D, 0.1)), UNSEEN * 0.2 + 0.01, rtol=1e-3)


def test_a_pilot_that_seems_ahead_by_its_noise_changes_little():
    found = seen(0.5).taken(np.full(D, 0.3), np.full(D, 0.01))
    assert np.allclose(found, (UNSEEN + 0.01 / 0.3) * 0.3, rtol=0.1)


def test_of_an_earlier_night_its_own_shares_are_stated_where_the_rings_allow_it():
    numbers = np.full(D, 0.5), np.zeros(D)
    stated = [
        Shortening(np.ones(D), 0.02, 0.02, None, np.full(D, known)).taken(*numbers)[0] for known in (0.01, 0.07, 0.9)
    ]
    assert stated == pytest.approx([0.02, 0.035, 2 * 0.145])


@pytest.mark.parametrize("kind", ["normal", "heavy", "skewed", "of different tails"])
@pytest.mark.parametrize("noise", [0.01, 0.1, 3.0])
def test_what_is_stated_of_variances_is_no_less_than_half_of_what_is_taken(kind, noise):
    rng, records = np.random.default_rng(9), drawn(kind)
    lengths = np.linalg.norm(records, axis=1)
    kept, beyond = shortened(records, 7.0)
    lost = float(np.sum(np.maximum(lengths**2 - 49.0, 0.0)[lengths < 14.0])) / len(records) / D
    scores = []
    for _ in range(20):
        pilot = 1.0 + noise * rng.normal(size=D), np.full(D, noise)
        after = kept.var(axis=0)
        stated = Shortening(np.ones(D), lost, float(np.mean(beyond)), pilot).taken(after, np.full(D, 0.002))
        scores.append((1.0 - after) / stated)
    assert np.sqrt(np.mean(np.square(scores))) < 2.0
