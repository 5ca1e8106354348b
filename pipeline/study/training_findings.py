"""A study of training under the noise of several papers, on public data: how well it learns, and what is promised."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.study.noisy_training import PublicRecords, StudiedNoise, TrainingAsked, accuracy
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.study.study_release import Findings, r1smg_findings

LABEL = "public data only, and numbers that are not secure: nothing here is a release"
"""Stands above the findings."""


@dataclass(frozen=True)
class TrainingFindings:
    """Accuracies of a training, and what really holds for each noise.

    Attributes
    ----------
    asked
        The training.
    right
        Share of right answers by noise, the mean over seeds.
    holds
        What is guaranteed, by noise, in words.
    """

    asked: TrainingAsked
    right: dict[StudiedNoise, float]
    holds: dict[StudiedNoise, str]

    def rows(self) -> list[tuple[str, str]]:
        """Lines for a reader."""
        claim, training = self.asked.claim, self.asked
        over = f"{training.steps:,} steps over samples of {training.rate:g}"
        text = f"epsilon {claim.epsilon:g} at delta {claim.delta:g} for {over}"
        rows = [("Label", LABEL), ("Claimed", text)]
        return rows + [(noise.value, f"accuracy {self.right[noise]:.4f}; {self.holds[noise]}") for noise in self.right]


def training_findings(records: PublicRecords, asked: TrainingAsked, seeds: int) -> TrainingFindings:
    """Train with each noise.

    Parameters
    ----------
    records
        Public records.
    asked
        The training.
    seeds
        How often, at least 1.

    Raises
    ------
    ConfigError
        A parameter is out of range.
    """
    try:
        right = {noise: mean(accuracy(records, asked, noise, seed) for seed in range(seeds)) for noise in StudiedNoise}
        holds = _holds(records, asked)
    except ValueError as error:
        failure = ConfigError("This study cannot be made", str(error), "Correct the parameter")
    else:
        return TrainingFindings(asked, right, holds)
    raise failure


def _holds(records: PublicRecords, asked: TrainingAsked) -> dict[StudiedNoise, str]:
    step, divided = asked.step, asked.divided
    one = r1smg_findings((records.classes, records.features.shape[1] + 1), step, asked.clip)
    return {
        StudiedNoise.NONE: "nothing is promised",
        StudiedNoise.GAUSSIAN: "the claim holds, by the law of the loss of all steps",
        StudiedNoise.R1SMG: _rank_one(step, one),
        StudiedNoise.IMGM_GRADIENTS: "the claim holds, by Theorem 4, without amplification by sampling",
        StudiedNoise.IMGM_FEATURES: (
            "the claim is false: noisy features of every record are handed over once, and what is sampled of them "
            f"afterwards amplifies nothing; what holds is epsilon {divided.epsilon:.4g} at delta {divided.delta:.3g}"
        ),
    }


def _rank_one(step: ApproxDP, one: Findings) -> str:
    text = f"one step is said to have epsilon {step.epsilon:.4g} at delta {step.delta:.3g}"
    if one.true_delta <= step.delta:
        return f"{text}, and has"
    return (
        f"the claim is false: {text}; its true delta there is {one.true_delta:.4g}, its true epsilon "
        f"{one.true_epsilon:.4g}, and its squared error of {one.variance:.3g} over {one.entries:,} entries is that of "
        "hardly any noise"
    )


def public_records(path: Path) -> PublicRecords:
    """Records of an ``.npz`` file with ``X`` and ``y``: scaled to within -1 and 1, the last fifth to test on.

    Raises
    ------
    ConfigError
        The file cannot be read, or holds something else.
    """
    try:
        with np.load(path, allow_pickle=False) as bundle:
            x, y = bundle["X"], bundle["y"]
        fits = x.dtype.kind in "fiu" and y.shape == (len(x),) and y.dtype.kind in "iu" and y.min() >= 0
        x = x.reshape(len(x), -1).real.astype(np.float64)
        fits = fits and x.size > 0 and bool(np.isfinite(x).all())
    except (OSError, ValueError, KeyError, EOFError, TypeError):
        fits = False
    if not fits or len(x) < 5 or int(y.max()) > 10_000:
        raise ConfigError(
            f"{path.name} does not hold public records",
            'It has "X", finite numbers, and "y", codes of classes',
            "Correct it",
        )
    order, cut = np.random.default_rng(0).permutation(len(x)), len(x) * 4 // 5
    x, labels = (x / max(float(np.abs(x).max()), 1e-300))[order], y.astype(np.int64)[order]
    return PublicRecords(x[:cut], labels[:cut], x[cut:], labels[cut:])
