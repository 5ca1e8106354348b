"""The three experiments of the MVG paper with all baselines of its Tables 3 to 5, at what each is private for.

Epsilon is 1 and delta 1/n under replace-one, as in the paper; a config refuses a delta of 1/n, which allows a random
record to be published, and has 0.99 of it. The baselines are exact: Gaussian and Laplace noise at the least size, a
sketch with the least regularisation, and as the exponential mechanism the one with the largest entry as its score,
which is K-norm noise (of directions: the mechanism of Chaudhuri and others).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.papers import data
from benchmarks.papers.claims import REPLACE, K, mvg_problems
from benchmarks.papers.data import Absent
from benchmarks.papers.outcomes import Outcome, Values, Way, lines, noisy, over, sketched
from benchmarks.papers.releases import planned_noise
from blockveil.engine.estimates.matrices import covariance_of
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.kinds.directions.problem import PrincipalDirections
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.directions.exponential import DirectionsDesign, Exponential
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.mechanisms.k_norm.norm_noise import KNorm
from blockveil.engine.mechanisms.laplace import Laplace
from blockveil.engine.mechanisms.published.mvg_noise import Allocation, Mvg
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.study.projections import exact_floor

RIDGE = 1e-9
SKETCHED = 100
"""Rows of a sketch."""

_FIRST = "MVG I, rows 248 x 6, Theorem 2"
_SECOND = "MVG II, covariance 4 x 4, Theorem"
_THIRD = "MVG III, rows 2,126 x 21, Theorem 2"
_CONFIG = {"I": "liver-regression", "rows": "liver-records", "II": "signals", "III": "fetal-heart"}


def _binary(theorem: int, features: int, important: tuple[int, ...]) -> Mvg:
    """MVG as published, 55 % of its budget for the features that the paper calls important."""
    values = tuple(float(feature in important) for feature in range(features))
    return Mvg(theorem, "square-root", Allocation("binary", values, 0.55))


@cache
def _noise(experiment: str) -> dict[str, NoiseDesign]:
    """Noise of the baselines of an experiment's own query."""
    name, important = {
        "I": (_FIRST, (2, 5)),
        "II": (f"{_SECOND} 2", (0, 3)),
        "III": (_THIRD, (0, 4, 6)),
    }[experiment]
    problem, records, _ = mvg_problems()[name]
    guarantee, features = ApproxDP(1.0, 1.0 / records), problem.shape[1]
    made = {
        "gaussian": Gaussian().design(problem, guarantee),
        "laplace": Laplace(Importance("absolute-error")).design(problem, guarantee),
        "mvg, Theorem 2": _binary(2, features, important).design(problem, guarantee),
    }
    if experiment == "II":
        return made | {"mvg, Theorem 3": _binary(3, features, important).design(problem, guarantee)}
    return made | {"k-norm": KNorm().design(problem, guarantee)}


@cache
def _floor(records: int, radius: float) -> float:
    return exact_floor(SKETCHED, radius, ApproxDP(1.0, 1.0 / records), REPLACE)


def regression(trials: int) -> Outcome:
    """Experiment I, Table 3: drinks by blood tests; 248 people learn and 97 test, at random in each trial."""
    ways = [
        Way("non-private", "nothing", "0.0123"),
        Way("covariance, auto", "(1, 0.004)"),
        Way("records, k-norm", "epsilon 1", "0.0220 (exponential)"),
        Way("records, gaussian", "(1, 1/n)", "0.0191"),
        Way("records, laplace", "epsilon 1", "0.0248"),
        Way("sketch of 100 rows", "(1, 1/n)", "0.0168"),
        Way("records, mvg binary", "(1, below 1e-300)", "0.0162"),
        Way("records, mvg max-PNR", "not private: the signal is not charged", "0.0161"),
        Way("no information", "everything", "0.0399"),
    ]
    found = over(trials, _regression)
    return Outcome("MVG I", "root mean squared error on [-1, 1]", "liver, 248 x 6", lines(ways, found))


def _regression(trial: int) -> Values:
    learn, test = data.liver(trial)
    with_one = np.column_stack([np.ones(len(learn)), learn])
    best, noise = planned_noise_once("I"), _noise("I")
    sketch = sketched(with_one, _floor(248, 7.0**0.5), SKETCHED, trial)
    found = {
        "non-private": rmse(*moments(learn), test),
        "covariance, auto": rmse(*covariance_and_mean(noisy(best, with_one.T @ with_one, trial), best), test),
        "sketch of 100 rows": rmse(*_of_moment(sketch), test),
        "no information": float(np.sqrt(np.mean((test[:, 5] - np.mean(learn[:, 5])) ** 2))),
    }
    for way, name in (("k-norm", "k-norm"), ("gaussian", "gaussian"), ("laplace", "laplace")):
        found[f"records, {way}"] = rmse(*moments(noisy(noise[name], learn, trial)), test)
    found["records, mvg binary"] = rmse(*moments(noisy(noise["mvg, Theorem 2"], learn, trial)), test)
    return found


@cache
def planned_noise_once(experiment: str) -> NoiseDesign:
    """Noise that the plan of the experiment's config has."""
    return planned_noise(_CONFIG[experiment])


def covariance_and_mean(moment: np.ndarray, design: NoiseDesign) -> tuple[np.ndarray, np.ndarray]:
    """Positive semi-definite covariance and mean of 248 records from their noisy second moment."""
    values, vectors = np.linalg.eigh(covariance_of(moment, 248, 0.0))
    # A ridge of the size of the largest eigenvalue of noise alone, 2 s sqrt(d), for the five features.
    s = float(design.standard_deviations((1, 2), (2, 3))[0, 0]) / 248.0
    inside = (vectors * np.maximum(values, 0.0)) @ vectors.T
    inside[np.diag_indices(5)] += 2.0 * s * np.sqrt(5.0)
    return inside, np.clip(moment[0, 1:] / 248.0, -1.0, 1.0)


def _of_moment(moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positive semi-definite covariance and mean of 248 records from a noisy second moment about the origin."""
    mean = np.clip(moment[0, 1:] / 248.0, -1.0, 1.0)
    values, vectors = np.linalg.eigh(moment[1:, 1:] / 248.0 - np.outer(mean, mean))
    return (vectors * np.maximum(values, 0.0)) @ vectors.T, mean


def moments(records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariance and mean of records."""
    return np.cov(records.T, bias=True), records.mean(axis=0)


def rmse(covariance: np.ndarray, mean: np.ndarray, test: np.ndarray) -> float:
    """Error of the regression of the last column on the others that a covariance and a mean give."""
    inner = covariance[:5, :5] + RIDGE * np.eye(5)
    slopes = np.linalg.solve(inner, covariance[:5, 5])
    predicted = mean[5] + (test[:, :5] - mean[:5]) @ slopes
    # Predictions of a value in [-1, 1] are in [-1, 1], whatever noise makes of the slopes.
    return float(np.sqrt(np.mean((np.clip(predicted, -1.0, 1.0) - test[:, 5]) ** 2)))


def first_component(trials: int, folder: Path | None) -> Outcome:
    """Experiment II, Table 4: the leading direction of four signals."""
    ways = [
        Way("non-private", "nothing", "0"),
        Way("second moment, auto", "(1, 9.8e-5)"),
        Way("second moment, gaussian", "(1, 1/n)", "0.229"),
        Way("second moment, laplace", "epsilon 1", "0.243"),
        Way("directions, exponential", "epsilon 1", "0.174"),
        Way("sketch of 100 rows", "(1, 1/n)", "0.226"),
        Way("mvg, Theorem 2", "(1, below 1e-300)", "0.214"),
        Way("mvg, Theorem 3", "(1, below 1e-300)", "0.143"),
        Way("no information", "everything", "0.437"),
    ]
    try:
        real = data.movement(folder)
    except Absent as absent:
        records, note = data.signals, f"made-up signals, 10,176 x 4 ({absent})"
    else:
        records, note = (lambda _: real.values), real.note
    found = over(trials, lambda trial: _first_component(records(trial), trial))
    return Outcome("MVG II", "variance that the released direction loses", note, lines(ways, found))


def _first_component(records: np.ndarray, trial: int) -> Values:
    truth, noise = records.T @ records, _noise("II")
    loss = {
        "second moment, auto": noisy(planned_noise_once("II"), truth, trial),
        "second moment, gaussian": noisy(noise["gaussian"], truth, trial),
        "second moment, laplace": noisy(noise["laplace"], truth, trial),
        "sketch of 100 rows": sketched(records, _floor(10_176, 2.0), SKETCHED, trial),
        "mvg, Theorem 2": noisy(noise["mvg, Theorem 2"], truth, trial),
        "mvg, Theorem 3": noisy(noise["mvg, Theorem 3"], truth, trial),
    }
    found = {way: lost(truth, matrix) / len(records) for way, matrix in loss.items()}
    largest = float(np.linalg.eigvalsh(truth)[-1])
    drawn = _drawn(records, trial)
    found["directions, exponential"] = (largest - float(drawn @ truth @ drawn)) / len(records)
    found["no information"] = (largest - float(np.trace(truth)) / 4.0) / len(records)
    return {"non-private": 0.0, **found}


@cache
def _exponential() -> DirectionsDesign:
    # Records of the cube [-1, 1]^4 are in the ball of radius 2, which is the unit ball in coordinates.
    problem: Problem = PrincipalDirections(Body.BALL, np.full(4, 2.0), REPLACE, K, 10_176, False, 1)
    return Exponential().design(problem, ApproxDP(1.0, 1.0 / 10_176))


def _drawn(records: np.ndarray, trial: int) -> np.ndarray:
    """A direction by the exponential mechanism, from whole numbers that lie in the ball."""
    whole = np.trunc(records / 2.0 * K).astype(np.int64)
    key = NoiseKey.derive(bytes(32), b"directions" + trial.to_bytes(4))
    direction = np.ldexp(_exponential().release(key, whole.T @ whole)[:, 0].astype(float), -40)
    unit: np.ndarray = direction / np.linalg.norm(direction)
    return unit


def lost(truth: np.ndarray, released: np.ndarray) -> float:
    """What the leading direction of a released matrix loses of the largest eigenvalue of the true one."""
    leading = np.linalg.eigh(released)[1][:, -1]
    return float(np.linalg.eigvalsh(truth)[-1] - leading @ truth @ leading)


def all_components(trials: int, folder: Path | None) -> Outcome:
    """Experiment III, Table 5: all components of 21 features of fetal hearts."""
    ways = [
        Way("non-private", "nothing", "0"),
        Way("second moment, auto", "(1, 4.7e-4)"),
        Way("records, k-norm", "epsilon 1", "0.0722 (exponential)"),
        Way("records, gaussian", "(1, 1/n)", "0.0703"),
        Way("records, laplace", "epsilon 1", "0.0711"),
        Way("sketch of 100 rows", "(1, 1/n)", "0.0672"),
        Way("records, mvg binary", "(1, below 1e-300)", "0.0666"),
        Way("no information", "everything", "0.124"),
    ]
    try:
        real = data.fetal_hearts(folder)
    except Absent as absent:
        records, note = data.hearts, f"made-up recordings, 2,126 x 21 ({absent})"
    else:
        records, note = (lambda _: real.values), real.note
    found = over(trials, lambda trial: _all_components(records(trial), trial))
    return Outcome("MVG III", "residual sum of squares over all components", note, lines(ways, found))


def _all_components(records: np.ndarray, trial: int) -> Values:
    count, noise = len(records), _noise("III")
    truth = records.T @ records / count
    released = {"second moment, auto": noisy(planned_noise_once("III"), truth * count, trial)}
    for name, way in (
        ("k-norm", "k-norm"),
        ("gaussian", "gaussian"),
        ("laplace", "laplace"),
        ("mvg, Theorem 2", "mvg binary"),
    ):
        rows = noisy(noise[name], records, trial)
        released[f"records, {way}"] = rows.T @ rows
    released["sketch of 100 rows"] = sketched(records, _floor(2126, 21.0**0.5), SKETCHED, trial)
    random = np.random.default_rng([trial, 2]).standard_normal((21, 21))
    released["no information"] = random + random.T
    return {"non-private": 0.0, **{way: rss(truth, matrix) for way, matrix in released.items()}}


def rss(truth: np.ndarray, released: np.ndarray) -> float:
    """Residual sum of squares of the variances that the released components capture."""
    vectors = np.linalg.eigh(released)[1]
    captured = np.einsum("ij,ik,kj->j", vectors, truth, vectors)
    return float(np.sum((np.linalg.eigvalsh(truth) - captured) ** 2))
