"""Intervals for a population hold what is true of it, over samples that are each released with the engine's noise."""

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.base.errors import ConfigError
from tests.statistical import test_analysis_coverage as made

ALPHA = 1e-9
MECHANISM = {"kind": "shaped-gaussian", "optimise_for": "relative-error"}
ROWS = 10_000
MIXED = np.array([[0.15, 0.08, 0.05], [0.0, 0.12, 0.04], [0.0, 0.0, 0.1]])
UNITS = np.array([1.0, 50.0, 1000.0])
TRUTH = MIXED.T @ MIXED * np.outer(UNITS, UNITS)


class Samples:
    """Releases of samples, each of other records of one normal law and with another key."""

    def __init__(self, folder, epsilon):
        self.releases = made.Releases(folder, MECHANISM, "replace-one", epsilon=epsilon)

    def draw(self, number, mixed=MIXED) -> Release:
        rng = np.random.default_rng(number)
        values = np.clip(rng.standard_normal((ROWS, 3)) @ mixed, -1.0, 1.0) * UNITS
        integers = self.releases.answer.question.query.quantiser.quantise(values).astype(np.int64)
        key = NoiseKey.derive(bytes(32), f"sample {number}".encode())
        return self.releases.opened(self.releases.answer.design.release(key, integers.T @ integers), ROWS)


def correlation():
    size = np.sqrt(np.diagonal(TRUTH))
    return TRUTH / np.outer(size, size)


def coefficients():
    slopes = np.linalg.solve(TRUTH[:2, :2], TRUTH[:2, 2])
    return np.append(0.0, slopes)


def above(interval, truth):
    pairs = np.triu_indices(3, 1)
    return *(np.asarray(end)[pairs] for end in interval), truth[pairs]


def by_row(table, truth):
    return np.asarray(table["low"]), np.asarray(table["high"]), truth


POPULATION = "population"
STATISTICS = {
    "mean": lambda release: (*map(np.asarray, release.interval("mean", of=POPULATION)), np.zeros(3)),
    "covariance": lambda release: above(release.interval("covariance", of=POPULATION), TRUTH),
    "correlation": lambda release: above(release.interval("correlation", of=POPULATION), correlation()),
    "regression": lambda release: by_row(release.regress("c", ["a", "b"]).interval(of=POPULATION), coefficients()),
    "components": lambda release: by_row(release.pca(2).interval(of=POPULATION), np.linalg.eigvalsh(TRUTH)[::-1][:2]),
    "components of the correlation": lambda release: by_row(
        release.pca(1, standardise=True).interval(of=POPULATION), np.linalg.eigvalsh(correlation())[::-1][:1]
    ),
}


def shares(samples, trials):
    """Share of samples whose interval holds the truth, by statistic."""
    held = {name: [] for name in STATISTICS}
    for number in range(trials):
        release = samples.draw(number)
        for name, statistic in STATISTICS.items():
            low, high, truth = statistic(release)
            held[name].append((low <= truth) & (truth <= high))
    return {name: np.mean(each, axis=0) for name, each in held.items()}


def test_intervals_for_a_population_hold_it_about_as_often_as_they_say(tmp_path):
    trials = 60
    for name, share in shares(Samples(tmp_path, 8.0), trials).items():
        assert np.all(share * trials >= stats.binom.ppf(ALPHA, trials, 0.95)), name


def test_intervals_for_a_population_are_wider_and_need_what_the_release_does_not_tell_of_others(tmp_path):
    release = Samples(tmp_path, 8.0).draw(1)
    for name in ("mean", "covariance"):
        own, wide = release.interval(name), release.interval(name, of=POPULATION)
        assert np.all(np.asarray(wide.low < own.low))
    with pytest.raises(ConfigError, match="error of a sample"):
        release.interval("partial_correlation", of=POPULATION)
    with pytest.raises(ConfigError, match="An interval is not of"):
        release.interval("mean", of="people")
    with pytest.raises(ConfigError, match="An interval is not of"):
        release.pca(1).interval(of="people")


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [8.0, 20.0])
def test_intervals_for_a_population_hold_it_in_93_to_97_of_100_samples(tmp_path, epsilon):
    """With noise about as large as the error of a sample, and with next to none."""
    for name, share in shares(Samples(tmp_path, epsilon), 1000).items():
        assert 0.93 <= float(np.mean(share)) <= 0.97, name
        assert np.all((share > 0.922) & (share < 0.978)), name


def test_p_values_of_coefficients_are_uniform_where_there_is_no_effect_and_small_where_there_is_one(tmp_path):
    samples, found = Samples(tmp_path, 8.0), []
    for number in range(100):
        release = samples.draw(number)
        found.append(release.regress("a", ["b", "c"]).p_values.to_numpy())
    assert np.all(np.median(found, axis=0) < 0.05)
    of_noise = [
        samples.draw(number, np.diag([0.15, 0.12, 0.1])).regress("a", ["b", "c"]).p_values.to_numpy()
        for number in range(150)
    ]
    assert stats.kstest(np.ravel(of_noise), "uniform").pvalue > ALPHA
    assert stats.kstest(np.ravel(of_noise) ** 2, "uniform").pvalue < 1e-6
