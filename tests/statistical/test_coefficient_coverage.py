"""Intervals of a trained logistic regression hold what is true of the population, over samples that are each released.

Each simulated release is what a night publishes: the exact sums of a new sample, the design of a real plan, its own
sampler under another key each time for the steps and for the stage after them, and the arrays of the release.
"""

from datetime import date
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.config.load import load_tables
from blockveil.pipeline.data.released import OpenRelease
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.stages import Drawn, arrays
from blockveil.pipeline.questions.stepwise import course_of

ALPHA = 1e-9
ROWS, FEATURES = 4000, ("a", "b", "c")
UNITS = np.array([1.0, 50.0, 1000.0])
MIXED = np.array([[0.35, 0.2, 0.1], [0.0, 0.35, 0.1], [0.0, 0.0, 0.4]])
TRUTH = np.array([-0.4, 1.2, -0.8, 0.0]) / np.append(1.0, UNITS)


def plan(folder, epsilon, neighbours="add-remove", steps=40):
    features = [{"name": name, "lower": -wide, "upper": wide} for name, wide in zip(FEATURES, UNITS, strict=True)]
    tables = {
        "release": {"dataset": "made-up", "name": "model"},
        "data": {"store": "records.zarr"},
        "query": {
            "kind": "gradients",
            "rows_at_most": 5000,
            "missing": "refuse",
            "clipping_norm": 1.0,
            "geometry": {"kind": "box", "origin": "midpoint", "features": features},
            "model": {"loss": "logistic", "target": {"name": "y", "classes": 2}},
            "training": {
                "steps": steps,
                "batches": "full",
                "examples": 4000,
                "optimiser": "momentum",
                "momentum": 0.8,
                "learning_rate": 2.0,
                "schedule": "linear",
                "errors_share": 0.5,
            },
        },
        "privacy": {"epsilon": epsilon, "delta": 1e-6, "neighbours": neighbours, "unit": "one person"},
        "mechanism": {"kind": "gaussian"},
        "cluster": {"kind": "threads"},
        "output": {"root": "releases", "ledger": "ledger.db", "keys": "keys"},
    }
    return make_plan(load_tables(tables, folder), date(2026, 11, 20))


def sample(rng, rows=ROWS, link=None):
    """Records of a logistic law, or of another one of the same log odds."""
    values = np.clip(rng.standard_normal((rows, 3)) @ MIXED, -1.0, 1.0) * UNITS
    odds = TRUTH[0] + values @ TRUTH[1:]
    chance = 1.0 / (1.0 + np.exp(-odds)) if link is None else link(odds)
    return np.column_stack([values, rng.random(rows) < chance])


def likeliest(records):
    """Logistic regression of largest likelihood, without noise, in the features' units."""
    inputs = np.column_stack([np.ones(len(records)), records[:, :-1] / UNITS])
    found = np.zeros(4)
    for _ in range(25):
        chance = 1.0 / (1.0 + np.exp(-inputs @ found))
        fisher = (inputs * (chance * (1.0 - chance))[:, None]).T @ inputs
        found -= np.linalg.solve(fisher, inputs.T @ (chance - records[:, -1]))
    return found / np.append(1.0, UNITS)


class Samples:
    """Releases of samples, each of other records and with another key."""

    def __init__(self, made, link=None):
        self.plan, self.link = made, link

    def records(self, number):
        return sample(np.random.default_rng(number), link=self.link)

    def draw(self, number, half=1.0):
        """A release; of ``half`` the noise in the last stage where that is below one."""
        records, stage = self.records(number), self.plan.designed.stage_after
        key = NoiseKey.derive(bytes(32), f"sample {number}".encode())
        course, design = course_of(self.plan.question, self.plan.design), self.plan.design
        released = []
        while not course.done:
            exact = course.query().query.total(records, 0, ROWS, ROWS)
            rows = (course.step * len(exact), (course.step + 1) * len(exact))
            released.append(design.release(key, exact, (rows, (0, design.shape[1]))))
            course.follow(released[-1])
        vectors = stage.question.query(course.weights).vectors(records)
        integers = stage.question.moment.query.quantiser.quantise(vectors).astype(np.int64)
        own = stage.answer.design.release(key.of_stage(b"fisher"), integers.T @ integers)
        made = {
            **self.plan.answer.arrays(np.concatenate(released), ROWS),
            **arrays([Drawn(stage.at(course.weights), own)], ROWS),
        }
        if half != 1.0:
            made = {
                n: (np.asarray(v) * half if n.endswith("_standard_deviation") else v, a) for n, (v, a) in made.items()
            }
        values = {name: np.asarray(array) for name, (array, _) in made.items()}
        attributes = {"query": self.plan.public["query"], "mechanism": design.facts(), "release_id": "made-up"}
        dimensions = {name: axes for name, (_, axes) in made.items()}
        return Release(OpenRelease(Path(), values, dimensions, attributes)).logistic_regression()


def shares(samples, trials, truth=TRUTH, first=0):
    """Share of samples whose 95 % interval holds the truth, for the population and for the records, by coefficient."""
    held = {"population": [], "records": []}
    for number in range(first, first + trials):
        fit = samples.draw(number)
        for of, wanted in (("population", truth), ("records", likeliest(samples.records(number)))):
            ends = fit.interval(of=of)
            held[of].append((np.asarray(ends["low"]) <= wanted) & (wanted <= np.asarray(ends["high"])))
    return {of: np.mean(each, axis=0) for of, each in held.items()}


def test_intervals_of_coefficients_hold_the_population_and_the_records_about_as_often_as_they_say(tmp_path):
    trials = 60
    for of, share in shares(Samples(plan(tmp_path, 8.0)), trials).items():
        assert np.all(share * trials >= stats.binom.ppf(ALPHA, trials, 0.95)), of


def test_intervals_from_half_the_noise_miss_the_records(tmp_path):
    trials, samples, held = 60, Samples(plan(tmp_path, 8.0)), []
    for number in range(trials):
        ends, wanted = samples.draw(number, 0.25).interval(), likeliest(samples.records(number))
        held.append((np.asarray(ends["low"]) <= wanted) & (wanted <= np.asarray(ends["high"])))
    assert np.mean(held) * trials < stats.binom.ppf(ALPHA, trials, 0.95)


def test_p_values_are_uniform_where_a_feature_has_no_effect_and_small_where_it_has_one(tmp_path):
    samples = Samples(plan(tmp_path, 8.0))
    found = np.array([samples.draw(number).p_values.to_numpy() for number in range(150)])
    assert np.all(np.median(found[:, :2], axis=0) < 1e-3)
    assert stats.kstest(found[:, 2], "uniform").pvalue > ALPHA
    assert stats.kstest(found[:, 2] ** 3, "uniform").pvalue < 1e-6


def test_steps_that_are_lacking_are_made_up_for_or_widen_the_interval(tmp_path):
    trials = 60
    share = shares(Samples(plan(tmp_path, 8.0, steps=4)), trials)
    for of in share:
        assert np.all(share[of] * trials >= stats.binom.ppf(ALPHA, trials, 0.95)), of


class RareSamples(Samples):
    """Samples in which a feature is almost always at its lower bound, and has a large effect where it is not."""

    truth = np.array([-1.0, 1.2, 0.0, 0.0]) / np.append(1.0, UNITS) + np.array([0.75, 0.0, 0.0, 0.75 / UNITS[2]])

    def records(self, number):
        rng = np.random.default_rng(number)
        values = np.clip(rng.standard_normal((ROWS, 3)) @ MIXED, -1.0, 1.0) * UNITS
        values[:, 2] = np.where(rng.random(ROWS) < 0.04, 1.0, -1.0) * UNITS[2]
        odds = self.truth[0] + values @ self.truth[1:]
        return np.column_stack([values, rng.random(ROWS) < 1.0 / (1.0 + np.exp(-odds))])


@pytest.mark.parametrize("steps", [2, 4, 40])
def test_rare_values_whose_effect_the_steps_missed_are_within_the_interval(tmp_path, steps):
    trials, samples = 60, RareSamples(plan(tmp_path, 20.0, steps=steps))
    share = shares(samples, trials, samples.truth)
    for of in share:
        assert np.all(share[of] * trials >= stats.binom.ppf(ALPHA, trials, 0.95)), of


@pytest.mark.parametrize("epsilon", [0.3, 0.6, 8.0, 12.0])
def test_a_plan_says_from_how_many_records_errors_are_known(tmp_path, epsilon):
    samples = Samples(plan(tmp_path, epsilon))
    needed = samples.plan.designed.stage_after.records_needed
    assert not ROWS / 2 < needed < ROWS * 2, "the plan is clear of the number of records"
    assert all(samples.draw(number).found.known == (needed < ROWS) for number in range(5))


def other_law(odds):
    """Chances that no logistic law of the features has."""
    return 0.5 + 0.45 * np.sin(2.5 * odds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "neighbours", "link"),
    [(2.5, "add-remove", None), (8.0, "add-remove", None), (4.0, "replace-one", None), (8.0, "add-remove", other_law)],
)
def test_intervals_for_a_population_hold_it_in_93_to_97_of_100_samples(tmp_path, epsilon, neighbours, link):
    """With noise larger than the error of a sample, with less, and of records of another law than a logistic one."""
    truth = TRUTH if link is None else likeliest(sample(np.random.default_rng(99), 3_000_000, link))
    share = shares(Samples(plan(tmp_path, epsilon, neighbours), link), 1000, truth)["population"]
    assert 0.93 <= float(np.mean(share)) <= 0.97
    assert np.all((share > 0.922) & (share < 0.978))
