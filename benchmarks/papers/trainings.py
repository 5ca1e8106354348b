"""Case III of the R1SMG paper and the types of the IMGM paper: training with noisy gradients or noisy features.

What the papers train are convolutional networks; here it is a linear model on the same kinds of noise, on images of
digits that are shipped, on MNIST where it is found, and on Adult. What is compared is the noise, not the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.papers import data
from benchmarks.papers.data import Absent
from benchmarks.papers.outcomes import Outcome, Result, Way, lines, over
from benchmarks.papers.releases import Releases
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.study import r1smg, r1smg_profile
from blockveil.engine.study.noisy_training import PublicRecords, StudiedNoise, TrainingAsked, accuracy

ASKED = TrainingAsked(ApproxDP(1.0, 1e-5), 0.05, 10.0, 1e-10, 1.0, 2.0)
"""200 steps over samples of a twentieth at a claimed (1, 1e-5)."""

_NAMES = {
    StudiedNoise.NONE: "non-private",
    StudiedNoise.GAUSSIAN: "sampled gradients, gaussian",
    StudiedNoise.R1SMG: "sampled gradients, r1smg as published",
    StudiedNoise.IMGM_GRADIENTS: "all gradients, imgm (type I)",
    StudiedNoise.IMGM_FEATURES: "features, imgm as published (type II)",
}
_METRIC = "share of right answers"
_CONFIGS = "one release of the config"


def trained(trials: int, folder: Path | None, releases: Releases) -> Iterator[Outcome]:
    """Digits and Adult, and MNIST where its files are."""
    images, labels = data.digits()
    cut = 1437
    public = PublicRecords(images[:cut] / 8.0 - 1.0, labels[:cut], images[cut:] / 8.0 - 1.0, labels[cut:])
    runs = max(trials // 20, 1)
    by_config = over(runs, lambda _: {_CONFIGS: _released(releases, "digits-training", images, labels, cut)})
    yield _outcome("R1SMG III and IMGM, digits", "digits, 1,437 x 64", public, runs, by_config)
    x, y, many = data.adult()
    scaled, runs = _about_the_middle(x), max(trials // 50, 1)
    people = PublicRecords(scaled[:many], y[:many], scaled[many:], y[many:])
    by_config = over(runs, lambda _: {_CONFIGS: _released(releases, "adult-income", x, y, many)})
    yield _outcome("IMGM, Adult", "Adult, 32,561 x 105", people, runs, by_config)
    try:
        learn, codes, tested, truth = data.mnist(folder)
    except Absent as absent:
        yield Outcome("R1SMG III and IMGM, MNIST", _METRIC, str(absent), lines(_ways(None), {}))
    else:
        public = PublicRecords(learn, codes, tested, truth)
        yield _outcome("R1SMG III and IMGM, MNIST", "MNIST, 60,000 x 784", public, 2, {})


def _about_the_middle(x: np.ndarray) -> np.ndarray:
    upper = np.concatenate([[90.0, 1_500_000.0, 16.0, 1.0, 1.0, 99.0], np.ones(x.shape[1] - 6)])
    found: np.ndarray = 2.0 * np.clip(x / upper, 0.0, 1.0) - 1.0
    return found


def _released(releases: Releases, name: str, x: np.ndarray, y: np.ndarray, cut: int) -> float:
    """Share of right answers of a model that the product trained."""
    model = releases.release(name, np.column_stack([x[:cut], y[:cut]]))
    return float(np.mean(model.predict(x[cut:]) == y[cut:]))


def _outcome(name: str, note: str, public: PublicRecords, seeds: int, more: dict[str, Result]) -> Outcome:
    found = {
        named: over(max(seeds, 1), lambda seed, noise=noise: {"": accuracy(public, ASKED, noise, seed)})[""]
        for noise, named in _NAMES.items()
    }
    largest = float(np.max(np.bincount(public.truth)) / len(public.truth))
    found["no information"] = Result(largest, 0.0)
    return Outcome(name, _METRIC, note, lines(_ways(public), found | more))


def _ways(public: PublicRecords | None) -> list[Way]:
    step, entries = ASKED.step, public.weights if public else 7850
    rank_one = f"one of {ASKED.steps} steps alone: ({step.epsilon:.2g}, {_true_delta(entries):.2g}); claims (1, 1e-5)"
    features = f"({ASKED.divided.epsilon:g}, {ASKED.divided.delta:g}); claims (1, 1e-5)"
    figure = "a figure only"
    return [
        Way("non-private", "nothing", figure),
        Way(_CONFIGS, "(1, 1e-5)"),
        Way(_NAMES[StudiedNoise.GAUSSIAN], "(1, 1e-5)", figure),
        Way(_NAMES[StudiedNoise.R1SMG], rank_one, "0.95 on MNIST, of a network, at a claimed 16.98"),
        Way(_NAMES[StudiedNoise.IMGM_GRADIENTS], "(1, 1e-5)", "in progress"),
        Way(_NAMES[StudiedNoise.IMGM_FEATURES], features, figure),
        Way("no information", "everything"),
    ]


def _true_delta(entries: int) -> float:
    step = ASKED.step
    variance = r1smg.published(entries, step.epsilon, step.delta, ASKED.clip).variance
    return r1smg_profile.true_delta(entries, (variance / ASKED.clip**2) ** 0.5, step.epsilon)
