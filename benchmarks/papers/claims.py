"""What the claims of the three papers are worth at the settings of their experiments; nothing is drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.papers.data import city
from blockveil.engine.estimates.cells import cell_deviations
from blockveil.engine.guarantees.calibration import gaussian_delta, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.mechanisms.counts.workload_answers import Hierarchical
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.mechanisms.published.buckets import Buckets, Dawa
from blockveil.engine.mechanisms.published.mvg_noise import Allocation, Mvg
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.study import imgm, r1smg, r1smg_profile
from blockveil.engine.workloads.workload import AllRange, Kronecker

REPLACE = Neighbours.REPLACE_ONE
K = 2**15 - 1


@dataclass(frozen=True)
class Claim:
    """One published calibration against what it really guarantees.

    Attributes
    ----------
    name
        Experiment and mechanism.
    claimed
        What the paper states.
    true_delta
        The least delta that holds at the claimed epsilon.
    excess
        Expected squared error of the whole answer, over that of the exact Gaussian mechanism at the claim; less than
        one only where the claim is false.
    """

    name: str
    claimed: ApproxDP
    true_delta: float
    excess: float


def mvg_problems() -> dict[str, tuple[Problem, int, Mvg]]:
    """Queries of the MVG experiments, with the number of records and the published mechanism (square root of zeta)."""
    even = Allocation("uniform")
    general, symmetric = (Mvg(theorem, "square-root", even) for theorem in (2, 3))
    movement = SecondMoment(Body.CUBE, np.ones(4), REPLACE, K, 10_176, False)
    return {
        "MVG I, rows 248 x 6, Theorem 2": (Rows(Body.CUBE, np.ones(6), REPLACE, K, 248), 248, general),
        "MVG II, covariance 4 x 4, Theorem 2": (movement, 10_176, general),
        "MVG II, covariance 4 x 4, Theorem 3": (movement, 10_176, symmetric),
        "MVG III, rows 2,126 x 21, Theorem 2": (Rows(Body.HALF_CUBE, np.ones(21), REPLACE, K, 2126), 2126, general),
    }


R1SMG = {
    "R1SMG I, counts 89 x 89": (7921, 1e-5, 1e-7, 2.0),
    "R1SMG II, covariance 2,400 x 2,400": (5_760_000, 1e-7, 1e-7, 2.0),
    "R1SMG III, step of 10,000 weights": (10_000, 0.71, 3.33e-7, 1.0),
}
"""Entries of the answer, claimed epsilon and delta, squared sensitivity."""


def claims() -> list[Claim]:
    """The first table."""
    found = []
    for name, (problem, records, mechanism) in mvg_problems().items():
        guarantee = ApproxDP(1.0, 1.0 / records)
        published, exact = mechanism.design(problem, guarantee), Gaussian().design(problem, guarantee)
        # The least delta of a Gaussian of this mu is its own profile.
        true_delta = gaussian_delta(published.loss.mu, guarantee.epsilon)
        found.append(Claim(name, guarantee, true_delta, total(published) / total(exact)))
    for name, (entries, epsilon, delta, squared) in R1SMG.items():
        noise = r1smg.published(entries, epsilon, delta, squared**0.5)
        gaussian = entries * squared / gaussian_mu(epsilon, delta) ** 2
        true_delta = r1smg_profile.true_delta(entries, (noise.variance / squared) ** 0.5, epsilon)
        found.append(Claim(name, ApproxDP(epsilon, delta), true_delta, noise.variance / gaussian))
    # Isotropic noise that meets the condition of IMGM Theorem 2 with equality: its deviation is the least product.
    asked = ApproxDP(1.0, 1e-5)
    deviation = imgm.required_product(1.0, asked.epsilon, asked.delta, 1)
    excess = (deviation * gaussian_mu(asked.epsilon, asked.delta)) ** 2
    true_delta = gaussian_delta(1.0 / deviation, asked.epsilon)
    found.append(Claim("IMGM, sum of clipped gradients, Theorem 2", asked, true_delta, excess))
    return found


def counts_of_a_city() -> dict[str, tuple[str, float]]:
    """R1SMG I: squared error on the 300 cells that the paper keeps, and what it is private for; nothing is drawn."""
    share, guarantee = 300.0 / 7921.0, ApproxDP(0.5, 1e-7)
    problem = Counts((89, 89), REPLACE, 10_000)
    found = compare(problem, guarantee, Metric("total"))
    entries, epsilon, delta, squared = R1SMG["R1SMG I, counts 89 x 89"]
    published = r1smg.published(entries, epsilon, delta, squared**0.5).variance
    true_delta = r1smg_profile.true_delta(entries, (published / squared) ** 0.5, epsilon)
    correct = squared * r1smg_profile.correct_variance(entries, guarantee.epsilon, guarantee.delta)

    def error(mechanism: str) -> float:
        return share * next(row.error for row in found.table if row.mechanism == mechanism and row.error is not None)

    asked = f"epsilon {guarantee.epsilon:g}, delta {guarantee.delta:g}"
    return {
        f"best here: {found.mechanism.name}": (asked, float(found.table[0].error or 0.0) * share),
        "hierarchical (Hb), whole Laplace noise": (asked, _of_blocks(guarantee)),
        "gaussian, exact": (asked, error("gaussian")),
        "gaussian, classic": (asked, error("classic-gaussian")),
        "mgm as published": (asked, error("mgm")),
        "mvg as published": (asked, error("mvg")),
        "R1SMG, calibrated to its true profile": (asked, correct * share),
        "R1SMG as published": (f"epsilon {epsilon:g}, delta {true_delta:.3g} (claims {delta:g})", published * share),
    }


def _of_blocks(guarantee: ApproxDP) -> float:
    """Squared error of Hb, for all ranges along both axes, on the cells that are not empty."""
    every = (Kronecker(AllRange(89), AllRange(89)),)
    design = Hierarchical("laplace").design(Counts((89, 89), REPLACE, 10_000, every), guarantee)
    return float(np.sum(cell_deviations(design)[city() > 0] ** 2))


def counts_by_buckets(trials: int) -> tuple[float, float]:
    """The same of DAWA at epsilon 0.5, whose error depends on the records: mean over draws, and its standard error."""
    pickups = city().astype(np.int64)
    design = Dawa(0.25).design(Counts((89, 89), REPLACE, 10_000), ApproxDP(0.5, 1e-7))
    errors = []
    for trial in range(trials):
        released = Buckets.of(design.release(NoiseKey(trial.to_bytes(32)), pickups), design).cells()
        errors.append(float(np.sum((released - pickups)[pickups > 0] ** 2)))
    return float(np.mean(errors)), float(np.std(errors, ddof=1) / trials**0.5)


def total(design: NoiseDesign) -> float:
    """Expected squared error of all entries, in coordinates."""
    return float(np.sum(design.entry_standard_deviation() ** 2))
