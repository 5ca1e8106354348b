"""Classifiers follow from moments as they would from the records, and hold back what noise dominates."""

import numpy as np
import pytest

from blockveil.engine.estimates.class_rules import ClassRule, class_scores
from blockveil.engine.estimates.noisy_moments import NoisyMoments

CENTRES = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])


def records(rows=3000, seed=4):
    """Three features whose mean depends on one of three classes, with unequal shares."""
    rng = np.random.default_rng(seed)
    classes = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    return CENTRES[classes] + rng.standard_normal((rows, 3)) @ np.diag([1.0, 0.5, 2.0]) + 7.0, classes


def moments_of(features, labels, origin, deviation=0.0, seed=0):
    """Their second moment about an origin, with the constant, and symmetric noise."""
    whole = np.column_stack([np.ones(len(features)), np.column_stack([features, labels]) - origin])
    size = whole.shape[1]
    noise = np.triu(np.random.default_rng(seed).standard_normal((size, size))) * deviation
    matrix = whole.T @ whole + noise + np.triu(noise, 1).T
    return NoisyMoments(matrix, np.full((size, size), max(deviation, 1e-9) ** 2), True, np.asarray(origin))


@pytest.mark.parametrize("origin", [np.zeros(6), np.array([7.0, 7.0, 7.0, 0.5, 0.5, 0.5])])
def test_ridge_without_noise_is_the_regression_of_each_class(origin):
    features, classes = records()
    labels = np.eye(3)[classes]
    found = class_scores(moments_of(features, labels, origin), [3, 4, 5], [0, 1, 2], ClassRule.RIDGE, 0.0)
    design = np.column_stack([np.ones(len(features)), features])
    truth = np.linalg.lstsq(design, labels, rcond=None)[0]
    assert found.weights == pytest.approx(truth[1:].T, abs=1e-9)
    assert found.constants == pytest.approx(truth[0], abs=1e-8)
    assert found.of(features) == pytest.approx(design @ truth, abs=1e-8)


@pytest.mark.parametrize("origin", [np.zeros(6), np.array([7.0, 7.0, 7.0, 0.5, 0.5, 0.5])])
def test_lda_without_noise_is_the_discriminant_of_the_pooled_covariance(origin):
    features, classes = records()
    labels = np.eye(3)[classes]
    found = class_scores(moments_of(features, labels, origin), [3, 4, 5], [0, 1, 2], ClassRule.LDA, 0.0)
    means = np.array([features[classes == c].mean(axis=0) for c in range(3)])
    pooled = sum(np.cov(features[classes == c].T, bias=True) * np.sum(classes == c) for c in range(3)) / len(features)
    weights = np.linalg.solve(pooled, means.T).T
    constants = np.log(labels.mean(axis=0)) - np.einsum("cd,cd->c", weights, means) / 2.0
    truth = features @ weights.T + constants
    seen = found.of(features)
    # Scores of LDA matter up to what is common to all classes of a row.
    assert seen - seen[:, :1] == pytest.approx(truth - truth[:, :1], abs=1e-5)


@pytest.mark.parametrize("rule", list(ClassRule))
def test_one_column_is_one_class_against_the_other(rule):
    features, classes = records()
    label = (classes == 0).astype(float)
    one = class_scores(moments_of(features, label[:, None], np.zeros(4)), [3], [0, 1, 2], rule, 0.0)
    both = np.column_stack([1.0 - label, label])
    two = class_scores(moments_of(features, both, np.zeros(5)), [3, 4], [0, 1, 2], rule, 0.0)
    assert one.of(features) == pytest.approx(two.of(features), abs=1e-6)


@pytest.mark.parametrize("rule", list(ClassRule))
def test_scores_do_not_depend_on_units(rule):
    features, classes = records()
    labels, units = np.eye(3)[classes], np.array([1000.0, 0.01, 1.0])
    plain = moments_of(features, labels, np.zeros(6), 5.0)
    scale = np.concatenate([[1.0], units, np.ones(3)])
    other = NoisyMoments(
        plain.matrix * np.outer(scale, scale), plain.variance * np.outer(scale, scale) ** 2, True, plain.origin
    )
    first = class_scores(plain, [3, 4, 5], [0, 1, 2], rule, 1.0)
    second = class_scores(other, [3, 4, 5], [0, 1, 2], rule, 1.0)
    assert second.of(features * units) == pytest.approx(first.of(features), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("rule", list(ClassRule))
def test_a_ridge_of_the_size_of_noise_saves_what_noise_would_ruin(rule):
    """Forty features of which three tell the classes apart; noise exceeds how much the other ones vary."""
    features, classes = records(6000)
    rng = np.random.default_rng(1)
    features = np.column_stack([features, 0.02 * rng.standard_normal((len(features), 40))])
    labels = np.eye(3)[classes]
    at, columns = [43, 44, 45], list(range(43))

    def share_right(ridge, seed):
        moments = moments_of(features, labels, np.zeros(46), 60.0, seed)
        found = class_scores(moments, at, columns, rule, ridge)
        return np.mean(found.of(features).argmax(axis=1) == classes)

    held = np.mean([share_right(1.0, seed) for seed in range(5)])
    bare = np.mean([share_right(1e-4, seed) for seed in range(5)])
    without = class_scores(moments_of(features, labels, np.zeros(46)), at, columns, rule, 0.0)
    assert held > np.mean(without.of(features).argmax(axis=1) == classes) - 0.1
    assert held > bare + 0.1


@pytest.mark.parametrize("rule", list(ClassRule))
def test_a_class_of_no_records_has_finite_scores(rule):
    features, classes = records()
    labels = np.eye(4)[classes]
    found = class_scores(moments_of(features, labels, np.zeros(7), 3.0), [3, 4, 5, 6], [0, 1, 2], rule, 1.0)
    assert np.all(np.isfinite(found.of(features)))


@pytest.mark.parametrize("rule", list(ClassRule))
def test_features_that_do_not_vary_at_all_weigh_nothing(rule):
    features, classes = records()
    features = np.column_stack([features, np.zeros(len(features))])
    moments = moments_of(features, np.eye(3)[classes], np.zeros(7))
    found = class_scores(moments, [4, 5, 6], [0, 1, 2, 3], rule, 0.0)
    assert np.all(found.weights[:, 3] == pytest.approx(0.0, abs=1e-9))
    assert np.mean(found.of(features).argmax(axis=1) == classes) > 0.7
