"""What others release in place of a night that learns: OpenDP, diffprivlib, and CoinPress in floats.

All get the records in half widths about the middle of their bounds, and epsilon 1 at delta 1e-6 (diffprivlib: the pure
epsilon, for it has no other). OpenDP and diffprivlib are used where they are installed, as :mod:`.peers` says. None of
them is exact, and none has noise that keeps its promise in floats.

**Source**: Biswas, Dong, Kamath and Ullman, 2020 (CoinPress), algorithms 1 and 3.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.peers import gaussian_scale, installed
from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP

Matrix = np.ndarray[Any, np.dtype[np.float64]]

GUARANTEE = ApproxDP(1.0, 1e-6)
_OF_MEAN, _OF_FIRST, _BEYOND = 0.1, (0.05, 0.05, 0.05), 0.01
"""Shares of mu squared of the mean and of all steps but the last; chance that CoinPress clips normal records."""

_DRAWN = 10
"""Features up to which diffprivlib draws principal directions within minutes; it has covariances from these alone."""


def peers(records: Matrix, keys: int) -> Iterator[tuple[str, list[Matrix]]]:
    """Names, and covariances of so many releases each.

    Parameters
    ----------
    records
        In half widths about the middle of their bounds, shape (n, d).
    keys
        How many releases.
    """
    ways: list[tuple[str, Callable[[Matrix, np.random.Generator], Matrix]]] = [("CoinPress, floats", _coinpress)]
    if dp := installed("opendp.prelude"):
        width = records.shape[1]
        # One record moves count, sums and products by one each at most: those on and above the diagonal.
        scale = gaussian_scale(dp, math.sqrt(1.0 + width + width * (width + 1) / 2), GUARANTEE)
        ways.append(("OpenDP, Gaussian", lambda x, rng: _gaussian(x, scale, rng)))
    if (models := installed("diffprivlib.models")) and records.shape[1] <= _DRAWN:
        ways.append(("diffprivlib, pure epsilon", lambda x, rng: _by_diffprivlib(models, x, rng)))
    for name, way in ways:
        yield name, [way(records, np.random.default_rng(key)) for key in range(keys)]


def _gaussian(x: Matrix, scale: float, rng: np.random.Generator) -> Matrix:
    y = np.column_stack([np.ones(len(x)), x])
    noisy = y.T @ y + _symmetric(y.shape[1], scale, rng)
    mean = noisy[0, 1:] / noisy[0, 0]
    covariance: Matrix = noisy[1:, 1:] / noisy[0, 0] - np.outer(mean, mean)
    return covariance


def _by_diffprivlib(models: Any, x: Matrix, rng: np.random.Generator) -> Matrix:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = models.PCA(
            epsilon=GUARANTEE.epsilon,
            data_norm=math.sqrt(x.shape[1]),
            bounds=(-1.0, 1.0),
            random_state=int(rng.integers(2**31)),
        ).fit(x)
        return np.asarray(made.get_covariance())


def _coinpress(x: Matrix, rng: np.random.Generator) -> Matrix:
    n, d = x.shape
    mu = gaussian_mu(GUARANTEE.epsilon, GUARANTEE.delta)
    mean = x.mean(axis=0) + rng.normal(size=d) * math.sqrt(d) / n / (mu * math.sqrt(_OF_MEAN))
    centred, ways, found = x - np.clip(mean, -1.0, 1.0), np.eye(d), np.eye(d)
    far = math.log(n / _BEYOND)
    square = d + 2.0 * math.sqrt(d * far) + 2.0 * far
    for share in (*_OF_FIRST, 1.0 - _OF_MEAN - sum(_OF_FIRST)):
        w = centred @ ways
        w = w * np.minimum(1.0, math.sqrt(square) / np.linalg.norm(w, axis=1))[:, None]
        scale = square / n / (mu * math.sqrt(share))
        noisy = w.T @ w / n + _symmetric(d, scale, rng)
        back = np.linalg.inv(ways)
        found = back.T @ noisy @ back
        # A bound of the spectral norm of the noise: whatever the records are, the next ones have a covariance of one.
        values, vectors = np.linalg.eigh(noisy + scale * 2.0 * math.sqrt(d) * np.eye(d))
        ways = ways @ (vectors / np.sqrt(np.maximum(values, scale))) @ vectors.T
    return found


def _symmetric(size: int, scale: float, rng: np.random.Generator) -> Matrix:
    upper = np.triu(rng.normal(size=(size, size)) * scale)
    found: Matrix = upper + np.triu(upper, 1).T
    return found
