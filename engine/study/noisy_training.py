"""Softmax regression on public data under the noise of several papers: how well it learns, for what it is worth.

============== ======================================================================= =========================
noise          what is noisy                                                           source
============== ======================================================================= =========================
none           nothing
gaussian       sums of clipped gradients of Poisson samples; proven, by the law of     Abadi et al., 2016
               the loss of all steps
r1smg          the same sums, by rank-1 noise at the step of its equation (16)         R1SMG, section on DPSGD
imgm-gradients the same sums, by isotropic noise for all steps; proven, without        IMGM, section 5, type I
               amplification
imgm-features  the features of all records, once, at ``epsilon / q, delta / q``        IMGM, section 5, type II
============== ======================================================================= =========================

Nothing here is a release: data are public, and the numbers are from a generator that is not secure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.noise.sampled_noise import Sampling, least_multiplier
from blockveil.engine.study.imgm import required_product
from blockveil.engine.study.r1smg import published
from blockveil.engine.study.sampled_steps import published_step

Array = NDArray[np.float64]

_SAMPLERS = 2.0**-70


class StudiedNoise(StrEnum):
    """What is noisy, and by which law."""

    NONE = "none"
    GAUSSIAN = "gaussian"
    R1SMG = "r1smg"
    IMGM_GRADIENTS = "imgm-gradients"
    IMGM_FEATURES = "imgm-features"


@dataclass(frozen=True, eq=False)
class PublicRecords:
    """Public records to train on and to test on.

    Attributes
    ----------
    features, labels
        Shape (n, d), each value between -1 and 1, and codes of classes, shape (n,).
    tested, truth
        The same of the records to test on.
    """

    features: Array
    labels: NDArray[np.int64]
    tested: Array
    truth: NDArray[np.int64]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(max(self.labels.max(), self.truth.max())) + 1

    @property
    def weights(self) -> int:
        """M, the number of entries of a gradient."""
        return int(self.classes * (self.features.shape[1] + 1))


@dataclass(frozen=True)
class TrainingAsked:
    """A training, as the papers declare it.

    Attributes
    ----------
    claim
        Loss of all steps, as claimed.
    rate
        q, probability of a record to take part in a step.
    epochs
        Number of steps times the rate.
    slack
        Part of the delta that composition takes, for R1SMG.
    clip
        Largest norm of a gradient.
    length
        Length of a step, a factor of the mean gradient.
    """

    claim: ApproxDP
    rate: float
    epochs: float
    slack: float
    clip: float
    length: float

    @property
    def steps(self) -> int:
        """Number of steps."""
        return max(1, round(self.epochs / self.rate))

    @property
    def step(self) -> ApproxDP:
        """The step that R1SMG derives."""
        return published_step(self.claim, self.rate, self.epochs, self.slack)

    @property
    def divided(self) -> ApproxDP:
        """The loss at which IMGM's type II draws; a CalibrationError where it is none."""
        return ApproxDP(self.claim.epsilon / self.rate, self.claim.delta / self.rate)


def accuracy(records: PublicRecords, asked: TrainingAsked, noise: StudiedNoise, seed: int) -> float:
    """Share of right answers on the records to test on.

    Parameters
    ----------
    records, asked
        Public records, and the training.
    noise
        What is noisy.
    seed
        Of samples and noise.

    Raises
    ------
    CalibrationError
        A parameter is out of range for this noise.
    """
    rng = np.random.default_rng(seed)
    features = np.column_stack([np.ones(len(records.labels)), records.features])
    if noise is StudiedNoise.IMGM_FEATURES:
        features[:, 1:] = _noisy_features(records.features, asked, rng)
    size = _size(records, asked, noise)
    onehot = np.eye(records.classes)[records.labels]
    weights = np.zeros((records.classes, features.shape[1]))
    for _ in range(asked.steps):
        batch = np.flatnonzero(rng.random(len(features)) < asked.rate)
        total = _clipped(weights, features[batch], onehot[batch], asked.clip)
        total += _drawn(total.shape, size, noise, rng)
        weights -= asked.length * total / (asked.rate * len(features))
    scores = np.column_stack([np.ones(len(records.truth)), records.tested]) @ weights.T
    return float(np.mean(scores.argmax(axis=1) == records.truth))


def _noisy_features(features: Array, asked: TrainingAsked, rng: Generator) -> Array:
    """As type II has it: values of tanh, so that replacing a record moves them by at most ``2 sqrt(d)``."""
    values, claim = np.tanh(features), asked.divided
    size = required_product(2.0 * math.sqrt(features.shape[1]), claim.epsilon, claim.delta, 1)
    return np.asarray(values + size * rng.standard_normal(values.shape))


def _size(records: PublicRecords, asked: TrainingAsked, noise: StudiedNoise) -> float:
    """Standard deviation of each entry; of rank-1 noise, of its length."""
    match noise:
        case StudiedNoise.GAUSSIAN:
            return asked.clip * least_multiplier(Sampling(asked.rate, asked.steps), asked.claim, _SAMPLERS).multiplier
        case StudiedNoise.R1SMG:
            return math.sqrt(published(records.weights, asked.step.epsilon, asked.step.delta, asked.clip).variance)
        case StudiedNoise.IMGM_GRADIENTS:
            return required_product(asked.clip, asked.claim.epsilon, asked.claim.delta, asked.steps)
    return 0.0


def _drawn(shape: tuple[int, int], size: float, noise: StudiedNoise, rng: Generator) -> Array:
    if size == 0.0:
        return np.zeros(shape)
    sample = rng.standard_normal(shape)
    if noise is StudiedNoise.R1SMG:
        return np.asarray(sample * (size * rng.standard_normal() / np.linalg.norm(sample)))
    return np.asarray(sample * size)


def _clipped(weights: Array, features: Array, onehot: Array, clip: float) -> Array:
    """Sum of the clipped gradients of softmax regression, shape (classes, d + 1)."""
    scores = features @ weights.T
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors = shares / shares.sum(axis=1, keepdims=True) - onehot
    norms = np.linalg.norm(errors, axis=1) * np.linalg.norm(features, axis=1)
    errors *= np.minimum(1.0, clip / np.maximum(norms, 1e-300))[:, None]
    return np.asarray(errors.T @ features)
