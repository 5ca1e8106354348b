"""Case II of the R1SMG paper: components of a covariance, and a classifier on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.papers import data
from benchmarks.papers.claims import REPLACE, K
from benchmarks.papers.data import Absent
from benchmarks.papers.outcomes import Outcome, Values, Way, lines, noisy, over
from benchmarks.papers.releases import planned_noise
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.mechanisms.published.mvg_noise import Allocation, Mvg
from blockveil.engine.mechanisms.published.subspace_noise import ModSulq
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Body
from blockveil.engine.study import r1smg, r1smg_profile

CLAIM = ApproxDP(1e-7, 1e-7)
"""What the paper claims, of 2,400 x 2,400 entries; its limit is below 1 over the number of entries."""

HONEST = ApproxDP(1.0, 1e-7)
_KEPT = 20
"""Components that the classifier sees, as in the paper."""


def components(trials: int, folder: Path | None) -> list[Outcome]:
    """Total deviation of all components, and accuracy of a linear classifier on the first 20."""
    try:
        found, labels = data.swarm(folder)
    except Absent as absent:
        images, labels = data.digits()
        values, note = images / 8.0 - 1.0, f"images of digits, 1,437 x 64, in place of flocks ({absent})"
    else:
        values, note, trials = found.values, found.note, min(trials, 5)
    cut = len(values) * 4 // 5
    features = values.shape[1]
    problem = SecondMoment(Body.CUBE, np.ones(features), REPLACE, K, cut, False)
    planned = planned_noise("digits-components") if features == 64 else None
    best = planned or compare(problem, HONEST, Metric("total")).design
    assert isinstance(best, NoiseDesign)
    designs = {
        "second moment, auto": best,
        "second moment, gaussian": Gaussian().design(problem, HONEST),
        "second moment, mod-sulq": ModSulq().design(problem, HONEST),
        "mvg, Theorem 3": Mvg(3, "square-root", Allocation("uniform")).design(problem, HONEST),
    }
    claim = CLAIM if features == 2400 else ApproxDP(0.5 / features**2, CLAIM.delta)
    squared = 2.0 * features**2
    variance = r1smg.published(features**2, claim.epsilon, claim.delta, squared**0.5).variance
    true = r1smg_profile.true_delta(features**2, (variance / squared) ** 0.5, claim.epsilon)
    honest, figure = f"(1, {HONEST.delta:g})", "a figure only"
    ways = [
        Way("non-private", "nothing"),
        Way("second moment, auto", honest),
        Way("second moment, gaussian", honest, figure),
        Way("second moment, mod-sulq", "(1, below 1e-300)", figure),
        Way("mvg, Theorem 3", "(1, below 1e-300)", figure),
        Way("r1smg as published", f"({claim.epsilon:.2g}, {true:.2g}); claims ({claim.epsilon:.2g}, 1e-07)", figure),
        Way("random directions", "everything"),
    ]
    learn, classes = values[:cut], labels[:cut]
    truth = (learn.T @ learn).astype(float)

    def run(trial: int) -> dict[str, Values]:
        rng = np.random.default_rng([trial, 3])
        unit = rng.standard_normal((features, features))
        rank_one = unit / np.linalg.norm(unit) * rng.standard_normal() * variance**0.5
        released = {name: noisy(design, truth, trial) for name, design in designs.items()}
        released["non-private"] = truth
        released["r1smg as published"] = truth + (rank_one + rank_one.T) / 2.0
        random = rng.standard_normal((features, features))
        released["random directions"] = random + random.T
        bases = {name: np.linalg.eigh(matrix)[1][:, ::-1] for name, matrix in released.items()}
        return {
            "deviation": {name: deviation(truth / cut, basis) for name, basis in bases.items()},
            "accuracy": {
                name: right(learn @ basis[:, :_KEPT], classes, values[cut:] @ basis[:, :_KEPT], labels[cut:])
                for name, basis in bases.items()
            },
        }

    runs = [run(trial) for trial in range(trials)]
    return [
        Outcome(
            f"R1SMG II, {kind}", metric, note, lines(ways, over(trials, lambda trial, kind=kind: runs[trial][kind]))
        )
        for kind, metric in (
            ("deviation", "total deviation of the components' variances, less is better"),
            ("accuracy", f"share of right answers from {_KEPT} components, more is better"),
        )
    ]


def deviation(truth: np.ndarray, basis: np.ndarray) -> float:
    """Sum over components of the difference between an eigenvalue and the variance along the released direction."""
    captured = np.einsum("ij,ij->j", basis, truth @ basis)
    return float(np.sum(np.abs(np.linalg.eigvalsh(truth)[::-1] - captured)))


def right(x: np.ndarray, y: np.ndarray, tested: np.ndarray, truth: np.ndarray) -> float:
    """Share of right answers of least squares on one-hot classes; it sees the records, as in the paper."""
    design, asked = (np.column_stack([np.ones(len(part)), part]) for part in (x, tested))
    weights = np.linalg.lstsq(design, np.eye(int(y.max()) + 1)[y], rcond=None)[0]
    return float(np.mean((asked @ weights).argmax(axis=1) == truth))
