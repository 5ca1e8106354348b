"""Statistics of a released second moment: their first order is right, and intervals are stated only where they hold."""

import math

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.estimates import components, correlations
from blockveil.engine.estimates.noisy_moments import NoisyMoments, cross_products
from blockveil.engine.estimates.regression import linear_fit

ALPHA = 1e-9
D, ROWS = 4, 4000


MIXED = [[0.4, 0.2, 0.1, 0.05], [0.0, 0.5, 0.2, 0.0], [0.0, 0.0, 0.3, 0.1], [0.0, 0.0, 0.0, 0.2]]


def records(rng):
    values = rng.standard_normal((ROWS, D)) @ np.array(MIXED)
    return np.clip(values, -1.0, 1.0) + 0.1


def exact(constant=True):
    values = records(np.random.default_rng(5))
    wide = np.column_stack([np.ones(ROWS), values]) if constant else values
    return wide.T @ wide


def deviations(size, scale):
    """Isometric noise of uneven features."""
    spread = np.sqrt(np.linspace(0.5, 1.5, size))
    found = scale * np.outer(spread, spread) / math.sqrt(2.0)
    np.fill_diagonal(found, scale * spread**2)
    return found


def moments(matrix, scale, constant=True):
    return NoisyMoments(matrix, deviations(len(matrix), scale) ** 2, constant, np.linspace(1.0, 2.0, D))


def noise(rng, size, scale):
    drawn = np.triu(rng.standard_normal((size, size)) * deviations(size, scale))
    return drawn + np.triu(drawn, 1).T


def every_statistic(constant=True):
    """Each statistic as numbers and standard errors, both flat."""

    def regression(found, ridge=0.0):
        fit = linear_fit(found, 0, [1, 2, 3], ridge)
        return np.append(fit.values, fit.r_squared.value), np.append(
            fit.standard_error, fit.r_squared.standard_deviation
        )

    def pairs(estimate):
        above = np.triu_indices(len(estimate.value), 1)
        return estimate.value[above], estimate.standard_deviation[above]

    def principal(found, scaled):
        made = components.components(found, 2, scaled)
        # A sign means nothing: that of the largest entry is made positive, and no entry here is near a tie.
        parts = (made.variances, made.shares, made.loadings)
        return tuple(
            np.concatenate([np.ravel(getattr(part, name)) for part in parts])
            for name in ("value", "standard_deviation")
        )

    always = {
        "regression": regression,
        "ridge": lambda found: regression(found, 300.0),
        "components": lambda found: principal(found, False),
    }
    if not constant:
        return always
    return {
        **always,
        "raw correlation": lambda found: pairs(correlations.raw_correlation(found)),
        "partial correlation": lambda found: pairs(correlations.partial_correlation(found)),
        "partial correlation of three": lambda found: pairs(correlations.partial_correlation(found.of([3, 0, 1]))),
        "partial correlation given two": lambda found: pairs(correlations.partial_correlation(found, [1, 2])),
        "components of the correlation": lambda found: principal(found, True),
    }


CASES = [(name, constant) for constant in (True, False) for name in every_statistic(constant)]


@pytest.mark.parametrize(("name", "constant"), CASES)
def test_stated_errors_are_those_of_the_numerical_gradient(name, constant):
    statistic, matrix, scale = every_statistic(constant)[name], exact(constant), 0.05
    _, stated = statistic(moments(matrix, scale, constant))
    deviation, variance = deviations(len(matrix), scale), 0.0
    for i, j in zip(*np.triu_indices(len(matrix)), strict=True):
        step = np.zeros(matrix.shape)
        step[i, j] = step[j, i] = 1e-2
        above, below = (statistic(moments(matrix + way * step, scale, constant))[0] for way in (1, -1))
        variance = variance + ((above - below) / 2e-2 * deviation[i, j]) ** 2
    assert stated == pytest.approx(np.sqrt(variance), rel=1e-3)


@pytest.mark.parametrize("common", [None, np.linspace(0.0, 0.2, D + 1)])
def test_correlations_have_the_errors_of_partial_correlations_given_nothing(common):
    """Those of the first know that each of their forms is of two numbers; those of the second take any forms."""
    found = moments(exact(), 0.05)
    found = NoisyMoments(found.matrix, found.variance, True, found.origin, common)
    quick, general = correlations.raw_correlation(found), correlations.partial_correlation(found, [])
    assert quick.value == pytest.approx(general.value, rel=1e-12)
    assert np.isfinite(quick.standard_deviation).all()
    assert quick.standard_deviation == pytest.approx(general.standard_deviation, rel=1e-9)


def correlation_about_the_origin(found):
    estimate, above = correlations.raw_correlation(found), np.triu_indices(D, 1)
    return estimate.value[above], estimate.standard_deviation[above]


@pytest.mark.parametrize("name", [*every_statistic(False), "correlation"])
def test_stated_errors_know_what_the_diagonal_has_in_common(name):
    """Against the numerical gradient along the one number that moves all entries of the diagonal."""
    statistic = {**every_statistic(False), "correlation": correlation_about_the_origin}[name]
    matrix, scale, common = exact(False), 0.05, np.linspace(0.05, 0.2, D)

    def with_common(matrix, sizes):
        found = moments(matrix, scale, False)
        return NoisyMoments(found.matrix, found.variance, False, found.origin, sizes)

    _, own = statistic(with_common(matrix, None))
    _, stated = statistic(with_common(matrix, common))
    step = 0.1 * np.diag(common)
    above, below = (statistic(with_common(matrix + way * step, None))[0] for way in (1, -1))
    assert stated == pytest.approx(np.hypot(own, (above - below) / 0.2), rel=1e-3)
    assert np.max(stated / own) > 1.05


def test_noise_in_common_goes_along_with_the_features_that_are_chosen_and_is_drawn_with_the_others():
    common = np.linspace(0.05, 0.2, D)
    found = NoisyMoments(exact(False), np.zeros((D, D)), False, np.zeros(D), common).of([2, 0])
    assert np.array_equal(found.common, common[[2, 0]])
    drawn = np.concatenate(list(found.drawn(64)))
    assert np.all(drawn[:, 0, 1] == 0.0)
    assert drawn[:, 0, 0] / common[2] == pytest.approx(drawn[:, 1, 1] / common[0])
    assert 0.5 < np.std(drawn[:, 0, 0]) / common[2] < 1.5


def released(statistic, scale, trials, truth, key, wrong=1.0):
    """Errors over stated standard errors of simulated releases; NaN where none is stated."""
    rng, matrix, found = np.random.default_rng(key), exact(), []
    for _ in range(trials):
        value, error = statistic(moments(matrix + wrong * noise(rng, len(matrix), scale), scale))
        found.append(np.where(np.isfinite(error), (value - truth) / np.where(np.isfinite(error), error, 1.0), np.nan))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", every_statistic())
def test_intervals_hold_the_truth_in_93_to_97_of_100_releases(name):
    statistic = every_statistic()[name]
    truth, _ = statistic(moments(exact(), 0.05))
    scores = released(statistic, 1.0, 1000, truth, key=11)
    assert np.isfinite(scores).mean() > 0.99, "noise is small here: every interval is stated"
    held = np.mean(np.abs(scores) <= 1.959964, axis=0)
    # Each of up to twelve numbers over 1,000 releases: chance alone takes one by 3.5 standard errors of 0.7 %.
    assert 0.93 <= np.mean(held) <= 0.97
    assert np.all((held > 0.922) & (held < 0.975))


@pytest.mark.parametrize(
    ("name", "scale", "trials"),
    [
        *((name, scale, 200) for name in every_statistic() for scale in (8.0, 20.0, 60.0)),
        # Without the judgement of what first order leaves out, 13 of 100 are wrong here: 200 would not tell.
        pytest.param("components of the correlation", 20.0, 2000, marks=pytest.mark.slow),
    ],
)
def test_with_large_noise_at_most_seven_of_a_hundred_releases_state_an_interval_that_is_wrong(name, scale, trials):
    statistic = every_statistic()[name]
    truth, _ = statistic(moments(exact(), 0.05))
    scores = released(statistic, scale, trials, truth, key=12)
    wrong = np.mean(np.abs(scores) > 1.959964, axis=0)  # an interval that is not stated is not wrong
    assert np.all(wrong <= stats.binom.isf(ALPHA, trials, 0.07) / trials)


def test_a_scale_five_per_cent_too_small_is_found_out():
    scale, trials = 0.05, 60_000
    fixed = moments(exact(), scale)
    fit = linear_fit(fixed, 0, [1, 2, 3], 0.0)
    left = np.linalg.inv(fixed.products[1:, 1:])[0] @ fixed.centring[1:]
    right = fixed.centring[0] - fixed.centring[1:].T @ fit.values[1:]
    drawn = np.triu(np.random.default_rng(3).standard_normal((trials, D + 1, D + 1)) * deviations(D + 1, scale))
    drawn += np.swapaxes(np.triu(drawn, 1), 1, 2)
    scores = np.einsum("k,nkl,l->n", left, drawn, right) / fit.standard_error[1]
    low, high = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], trials)
    assert low <= np.sum(scores**2) <= high
    assert not low <= np.sum((1.05 * scores) ** 2) <= high
    assert not low <= np.sum((0.95 * scores) ** 2) <= high


def test_where_noise_exceeds_the_signal_nothing_is_stated():
    rng = np.random.default_rng(2)
    for name, statistic in every_statistic().items():
        _, error = statistic(moments(exact() + noise(rng, D + 1, 3000.0), 3000.0))
        assert not np.isfinite(error).any(), name


def test_a_close_pair_of_eigenvalues_has_no_known_direction_but_known_variances():
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((D, D)))[0]
    matrix = turn @ np.diag([1000.0, 500.0, 499.0, 100.0]) @ turn.T
    found = components.components(moments(matrix, 2.0, constant=False), 4, scaled=False)
    assert list(found.sine_distance < 0.1) == [True, False, False, True]
    assert np.isinf(found.loadings.standard_deviation[1:3]).any()
    assert np.isfinite(found.variances.standard_deviation[[0, 3]]).all()


def test_a_matrix_that_no_records_have_gives_no_regression():
    matrix = exact()
    matrix[2, 2] = -1.0
    fit = linear_fit(moments(matrix, 1.0), 0, [1, 2, 3], 0.0)
    assert np.isinf(fit.standard_error).all()
    assert np.isnan(correlations.partial_correlation(moments(matrix, 1.0)).value).all()
    assert np.isnan(correlations.raw_correlation(moments(matrix, 1.0)).value[1]).all()


def test_cross_products_are_about_the_mean():
    values = records(np.random.default_rng(5))
    centred = values - values.mean(axis=0)
    assert cross_products(exact()[None], True)[0] == pytest.approx(centred.T @ centred)


def test_without_noise_every_error_is_zero():
    for name, statistic in every_statistic().items():
        assert np.all(statistic(moments(exact(), 0.0))[1] == 0.0), name


@pytest.mark.parametrize("scaled", [False, True])
def test_a_few_components_computed_by_themselves_are_those_among_all(monkeypatch, scaled):
    all_ = components.components(moments(exact(), 2.0), 1, scaled)
    monkeypatch.setattr(components, "_FEW_OF", 0)
    few = components.components(moments(exact(), 2.0), 1, scaled)
    for one, other in ((few.variances, all_.variances), (few.shares, all_.shares), (few.loadings, all_.loadings)):
        assert np.isfinite(other.standard_deviation).all()
        assert one.value == pytest.approx(other.value, rel=1e-9)
        assert one.standard_deviation == pytest.approx(other.standard_deviation, rel=1e-6)
    assert few.sine_distance == pytest.approx(all_.sine_distance, rel=1e-9)
