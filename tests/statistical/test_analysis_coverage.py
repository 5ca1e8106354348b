"""Intervals of what follows from a release hold the truth, over releases that the engine draws with its own noise.

Each simulated release is what a night publishes: the exact integers of made-up records, the design of a real plan, its
own sampler under another key each time, and the arrays of the release. Nothing of the analysis is replaced.
"""

from datetime import date
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.noise.design import add_noise
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.analysis.fits import ends
from blockveil.pipeline.analysis.joint_noise import quantile
from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.config.load import load_tables
from blockveil.pipeline.data.released import OpenRelease
from blockveil.pipeline.plan.planning import make_plan

ALPHA = 1e-9
ROWS, FEATURES = 20_000, ("a", "b", "c")


def records():
    rng = np.random.default_rng(17)
    mixed = rng.standard_normal((ROWS, 3)) @ np.array([[0.3, 0.2, 0.1], [0.0, 0.3, 0.1], [0.0, 0.0, 0.2]])
    return np.clip(mixed + np.array([0.1, -0.1, 0.2]), -1.0, 1.0) * [1.0, 50.0, 1000.0]


def answer(folder, mechanism, neighbours, epsilon):
    features = [
        {"name": name, "lower": -wide, "upper": wide} for name, wide in zip(FEATURES, (1, 50, 1000), strict=True)
    ]
    geometry = {"kind": "box", "origin": "midpoint", "features": features}
    tables = {
        "release": {"dataset": "made-up", "name": "covariance"},
        "data": {"store": "records.zarr"},
        "query": {"kind": "covariance", "rows_at_most": 25_000, "missing": "refuse", "geometry": geometry},
        "privacy": {"epsilon": epsilon, "delta": 1e-6, "neighbours": neighbours, "unit": "one person"},
        "mechanism": mechanism,
        "cluster": {"kind": "threads"},
        "output": {"root": "releases", "ledger": "ledger.db", "keys": "keys"},
    }
    return make_plan(load_tables(tables, folder), date(2026, 11, 20)).answer


class Releases:
    """Releases of one data set, each with a key of its own."""

    def __init__(self, folder, mechanism, neighbours="add-remove", epsilon=1.0):
        self.answer = answer(folder, mechanism, neighbours, epsilon)
        integers = self.answer.question.query.quantiser.quantise(records()).astype(np.int64)
        self.exact = integers.T @ integers
        design = self.answer.design
        steps = design.steps((0, design.shape[0]), (0, design.shape[1]))
        # What a night would publish without noise, rounded to the grid as always.
        self.truth = self.opened(add_noise(self.exact, steps, np.zeros_like(self.exact), design.shift))

    def opened(self, released, rows=ROWS):
        made = self.answer.arrays(released, rows)
        arrays = {name: np.asarray(values) for name, (values, _) in made.items()}
        attributes = {
            "matrix": "covariance",
            "query": {"kind": "covariance"},
            "origin": [0.0, 0.0, 0.0],
            "mechanism": self.answer.design.facts(),
            "reliable": True,
        }
        return Release(OpenRelease(Path(), arrays, {name: axes for name, (_, axes) in made.items()}, attributes))

    def draw(self, number):
        key = NoiseKey.derive(bytes(32), f"release {number}".encode())
        return self.opened(self.answer.design.release(key, self.exact))


def regression(release):
    fit = release.regress("c", ["a", "b"]).fit
    return Estimate(fit.values, fit.standard_error)


def above(found):
    pairs = np.triu_indices(len(found.value), 1)
    return Estimate(found.value[pairs], found.standard_deviation[pairs])


STATISTICS = {
    "regression": regression,
    "correlation": lambda release: above(release.estimate("correlation")),
    "raw correlation": lambda release: above(release.estimate("raw_correlation")),
    "partial correlation": lambda release: above(release.estimate("partial_correlation")),
    "partial correlation of two": lambda release: above(release.partial(["a", "b"], given="c")[1]),
    "explained variance": lambda release: release.pca(2).found.variances,
    "covariance": lambda release: release.estimate("covariance"),
    "mean": lambda release: release.estimate("mean"),
}
MECHANISMS = {
    "shaped-gaussian": {"kind": "shaped-gaussian", "optimise_for": "relative-error"},
    "laplace": {"kind": "laplace", "optimise_for": "relative-error"},
}


def held(releases, statistic, trials):
    """Share of releases whose 95 % interval holds each number of the truth."""
    truth, found = statistic(releases.truth).value, []
    reach = quantile(releases.truth.opened, 0.95)
    for number in range(trials):
        low, high = ends(statistic(releases.draw(number)), reach)
        assert np.isfinite(low).all(), "noise is small here: every interval is stated"
        found.append((low <= truth) & (truth <= high))
    return np.mean(found, axis=0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["regression", "mean", "partial correlation of two"])
def test_intervals_hold_the_truth_about_as_often_as_they_say(tmp_path, name, mechanism):
    trials = 200
    share = held(Releases(tmp_path, MECHANISMS[mechanism]), STATISTICS[name], trials)
    assert np.all(share * trials >= stats.binom.ppf(ALPHA, trials, 0.95))


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", STATISTICS)
def test_intervals_hold_the_truth_in_93_to_97_of_100_releases_of_the_engine(tmp_path, name, mechanism, neighbours):
    share = held(Releases(tmp_path, MECHANISMS[mechanism], neighbours), STATISTICS[name], 1000)
    assert 0.93 <= float(np.mean(share)) <= 0.97
    # Chance alone takes one number of 1,000 releases by 3.5 standard errors of 0.7 %.
    assert np.all((share > 0.922) & (share < 0.978))
