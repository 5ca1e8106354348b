"""Error of positive semi-definite versions of releases: eigenvalues shrunk at the released trace, against cut at zero.

Run ``python -m benchmarks.positive [--features 784]``. There is no clock. Each number is the root mean squared error of
the covariance (or second moment), all features counting equally, over that of cutting; beside it that of its
correlations. The demo's records are public, the images are made up, and the spectra are drawn as they are said.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import numpy as np

from blockveil.engine.estimates import matrices
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Box
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.quickstart import CONFIG, SOURCE

_LARGEST = 2**15 - 1
_ROWS_AT_MOST = 10**6
DELTA = 1e-6


@dataclass(frozen=True)
class Truth:
    """Mean and covariance of records in the cube [-1, 1]^d."""

    mean: np.ndarray
    covariance: np.ndarray


def demo() -> Truth:
    """Of the demo's 23 columns between their declared bounds."""
    features = load_config(CONFIG).config.query.geometry.features
    low, high = (np.array([getattr(feature, end) for feature in features]) for end in ("lower", "upper"))
    with np.load(SOURCE) as kept:
        records = np.clip(2.0 * (kept["records"] - low) / (high - low) - 1.0, -1.0, 1.0)
    return Truth(records.mean(axis=0), np.cov(records.T, bias=True))


def images(side: int, number: int = 4000) -> Truth:
    """Of made-up images of strokes, side x side, on a dark ground."""
    rng = np.random.default_rng(side)
    places = np.linspace(0.0, 1.0, side)
    start, turn = rng.uniform(0.2, 0.8, (number, 1, 2)), rng.normal(0.0, 0.12, (number, 12, 2))
    path = start + np.cumsum(turn, axis=1)
    width = rng.uniform(0.02, 0.05, (number, 1, 1))
    down, across = (np.exp(-(((places - path[:, :, [axis]]) / width) ** 2) / 2.0) for axis in (0, 1))
    drawn = np.minimum(np.einsum("nki,nkj->nij", down, across), 1.0).reshape(number, -1)
    records = 2.0 * drawn - 1.0
    return Truth(records.mean(axis=0), np.cov(records.T, bias=True))


def falling(features: int, power: float) -> Truth:
    """Eigenvalues i^-power along the axes, with the largest trace that a cube allows about zero."""
    values = np.arange(1.0, features + 1.0) ** -power
    return Truth(np.zeros(features), np.diag(values / values.max()))


def flat(features: int, rank: int) -> Truth:
    """As many features of variance one, and no others."""
    return Truth(np.zeros(features), np.diag((np.arange(features) < rank).astype(np.float64)))


def errors(truth: Truth, rows: int, epsilon: float, draws: int, augmented: bool = True) -> tuple[float, float]:
    """Root mean squared errors of the shrunk version over those of the cut one: of the matrix, of correlations.

    Parameters
    ----------
    truth
        What is released.
    rows
        Number of records.
    epsilon
        Of the release, at :data:`DELTA` and add-remove.
    draws
        Number of simulated releases, each read in both ways.
    augmented
        Whether a covariance is released; else a second moment.
    """
    d, rng = truth.mean.size, np.random.default_rng(rows)
    coordinates = Box(-np.ones(d), np.ones(d), np.zeros(d)).coordinates()
    problem = SecondMoment(coordinates.body, np.ones(d), Neighbours.ADD_REMOVE, _LARGEST, _ROWS_AT_MOST, augmented)
    design = ShapedGaussian(Importance("relative-error")).design(problem, ApproxDP(epsilon, DELTA))
    lead = np.concatenate([[1.0] * augmented, truth.mean])
    exact = rows * np.outer(lead, lead)
    exact[augmented:, augmented:] += rows * truth.covariance
    wanted = truth.covariance if augmented else exact
    sums = np.zeros((2, 2))
    for _ in range(draws):
        released = drawn(exact, design, rng)
        for way, shrinks in enumerate((False, True)):
            if augmented:
                found = matrices.covariance(released, design, coordinates, None, shrinks).covariance_psd
            else:
                found = matrices.second_moment_psd(released, design, coordinates, shrinks)
            off = found - wanted, correlations(found) - correlations(wanted)
            sums[way] += [float(np.sum(each**2)) for each in off]
    matrix, ratio = np.sqrt(sums[1] / sums[0])
    return float(matrix), float(ratio)


def drawn(exact: np.ndarray, design: NoiseDesign, rng: np.random.Generator) -> np.ndarray:
    """A release in grid steps, with noise of NumPy, which is fast and not secure."""
    steps = design.steps((0, len(exact)), (0, len(exact)))
    noise = rng.standard_normal(exact.shape) * design.grid.standard_deviation
    noise = np.triu(noise) + np.triu(noise, 1).T
    return np.rint(exact * design.shifted_unit / steps + noise).astype(np.int64)


def correlations(matrix: np.ndarray) -> np.ndarray:
    """Correlations; zero where a variance is."""
    deviations = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    both = np.outer(deviations, deviations)
    return np.divide(matrix, both, out=np.zeros_like(matrix), where=both > 0.0)


CASES = [
    ("demo, 23 features", demo, 30_000, 1.0, 40),
    ("demo, 23 features", demo, 30_000, 0.3, 40),
    ("demo, 23 features", demo, 5_000, 1.0, 40),
    ("images of 14 x 14", lambda: images(14), 60_000, 1.0, 6),
    ("images of 14 x 14", lambda: images(14), 60_000, 0.3, 6),
    ("images of 14 x 14", lambda: images(14), 5_000, 1.0, 6),
    ("images of 14 x 14", lambda: images(14), 5_000, 0.3, 6),
    ("images of 28 x 28", lambda: images(28), 20_000, 1.0, 2),
]


def worst(features: int, draws: int) -> tuple[float, str]:
    """Largest ratio over flat and falling spectra of second moments and numbers of records, and where it is."""
    found = (0.0, "")
    shapes = {f"rank {rank}": flat(features, rank) for rank in {1, 2, features // 4, features // 2, features - 1}}
    shapes |= {f"i^-{power:g}": falling(features, power) for power in (0.5, 1.0, 2.0)}
    for name, truth in shapes.items():
        for over in (0.3, 1.0, 2.5, 5.0, 20.0, 1000.0):
            # One feature of variance one then has this many times s d^0.5, s being about d / (sqrt(2) mu).
            rows = math.ceil(over * features**1.5 / (math.sqrt(2.0) * 0.22))
            found = max(found, (errors(truth, rows, 1.0, draws, augmented=False)[0], f"{name}, {rows:,} rows"))
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=784, help="leave out what has more")
    most = parser.parse_args().features
    print("| records | rows | epsilon | matrix | correlations |")
    print("|---|---|---|---|---|")
    for name, made, rows, epsilon, draws in CASES:
        truth = made()
        if truth.mean.size <= most:
            matrix, ratio = errors(truth, rows, epsilon, draws)
            print(f"| {name} | {rows:,} | {epsilon:g} | {matrix:.2f} | {ratio:.2f} |", flush=True)
    for features, draws in ((10, 200), (23, 100), (64, 30)):
        ratio, where = worst(features, draws)
        print(f"{features} features, worst of flat and falling spectra: {ratio:.3f} ({where})", flush=True)


if __name__ == "__main__":
    main()
