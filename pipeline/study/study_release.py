"""Studies of mechanisms that no config can release: numbers, and draws that say on themselves what they are.

A study never reads records and never enters a ledger. It draws noise on a public matrix, or on zeros, and labels every
output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.study import error_constants, error_moments, r1smg, r1smg_attack, r1smg_profile
from blockveil.pipeline.base.durable import store_error
from blockveil.pipeline.base.errors import BlockveilError, ConfigError, StoreError
from blockveil.pipeline.data.zarr_arrays import create_group, write_array

LABEL = "NOT differentially private at the stated epsilon and delta: rank-1 singular Gaussian noise, for study only"
"""Stands in every output of a study."""

_BLOCK = 1024


@dataclass(frozen=True)
class Findings:
    """What R1SMG claims and what holds, for one setting.

    Attributes
    ----------
    claim
        The published (epsilon, delta).
    shape, sensitivity
        Of the answer; M is its number of entries.
    variance
        Published ``sigma_star``: expected squared error of the whole answer.
    true_delta, true_epsilon
        Smallest delta at the claimed epsilon, smallest epsilon at the claimed delta.
    attack_success, allowed_success
        How often the best test tells two neighbours apart, and how often the claim allows it.
    correct_variance
        ``sigma_star`` that would keep the claim.
    gaussian_variance
        Expected squared error of the analytic Gaussian that keeps it.
    """

    claim: ApproxDP
    shape: tuple[int, int]
    sensitivity: float
    variance: float
    true_delta: float
    true_epsilon: float
    attack_success: float
    allowed_success: float
    correct_variance: float
    gaussian_variance: float

    @property
    def entries(self) -> int:
        """M."""
        return self.shape[0] * self.shape[1]

    def rows(self) -> list[tuple[str, str]]:
        """Lines for a reader."""
        claim = f"epsilon {self.claim.epsilon:g} at delta {self.claim.delta:g}"
        return [
            ("Label", LABEL),
            ("Claimed", f"{claim}, for an answer of {self.entries:,} entries"),
            ("True delta", f"{self.true_delta:.4g} at epsilon {self.claim.epsilon:g}"),
            ("True epsilon", f"{self.true_epsilon:.4g} at delta {self.claim.delta:g}"),
            ("Attack", f"succeeds with {self.attack_success:.4f}; the claim allows {self.allowed_success:.7f}"),
            ("Ball test", self._ball_test()),
            ("Squared error", f"{self.variance:.4g} as published; {self.correct_variance:.4g} to keep the claim"),
            ("Gaussian", f"{self.gaussian_variance:.4g} keeps the claim, with the analytic Gaussian"),
            ("Theorem 4", self._constants()),
            ("Theorems 8, 9", self._moments()),
        ]

    def _ball_test(self) -> str:
        """What the elementary test alone proves: whether an output lies within half a sensitivity of one answer."""
        test = r1smg_attack.ball_test(self.entries, math.sqrt(self.variance) / self.sensitivity)
        return (
            f"within half a sensitivity of one answer: probability {test.detection:.3g} against less than "
            f"e^{test.log_false_alarm:.0f}; delta is at least {test.least_delta(self.claim.epsilon):.3g}"
        )

    def _constants(self) -> str:
        """Squared errors by which the paper compares mechanisms, those of other mechanisms as it prints them."""
        parameters = self.entries, self.claim.epsilon, self.claim.delta
        square = self.sensitivity**2
        classic = error_constants.classic_constant(*parameters) * square
        analytic = error_constants.analytic_constant_upper_bound(*parameters) * square
        mvg = error_constants.mvg_constant_lower_bound(min(self.shape), self.entries, self.claim.epsilon) * square
        return (
            f"classic {classic:.4g}; analytic {analytic:.4g}, printed as a lower bound, is an upper one; "
            f"MVG at least {mvg:.4g}"
        )

    def _moments(self) -> str:
        own = error_moments.r1smg_loss_moments(self.variance)
        gaussian = error_moments.gaussian_loss_moments(self.entries, math.sqrt(self.gaussian_variance / self.entries))
        return (
            f"raw kurtosis of the error {own.raw_kurtosis:.4g} against {gaussian.raw_kurtosis:.4g} of the Gaussian, "
            f"which is no stability: relative spread {own.coefficient_of_variation:.1%} against "
            f"{gaussian.coefficient_of_variation:.1%}"
        )


def r1smg_findings(shape: tuple[int, int], claim: ApproxDP, sensitivity: float) -> Findings:
    """What holds at a setting of R1SMG.

    Parameters
    ----------
    shape
        Of the answer.
    claim
        The published loss.
    sensitivity
        L2.

    Raises
    ------
    ConfigError
        A parameter is out of range.
    """
    entries = shape[0] * shape[1]
    try:
        variance = r1smg.published(entries, claim.epsilon, claim.delta, sensitivity).variance
        s = math.sqrt(variance) / sensitivity
        return Findings(
            claim=claim,
            shape=shape,
            sensitivity=sensitivity,
            variance=variance,
            true_delta=r1smg_profile.true_delta(entries, s, claim.epsilon),
            true_epsilon=r1smg_profile.true_epsilon(entries, s, claim.delta),
            attack_success=r1smg_attack.attack_success(entries, s),
            allowed_success=r1smg_attack.allowed_success(claim.epsilon, claim.delta),
            correct_variance=r1smg_profile.correct_variance(entries, claim.epsilon, claim.delta) * sensitivity**2,
            gaussian_variance=error_constants.analytic_constant(entries, claim.epsilon, claim.delta) * sensitivity**2,
        )
    except ValueError as error:
        failure = ConfigError("This study cannot be made", str(error), "Correct the parameter")
    raise failure


def draw_r1smg(findings: Findings, matrix: NDArray[np.float64], key: NoiseKey, output: Path) -> None:
    """Write a public matrix with R1SMG noise, labelled, as a Zarr group that does not exist yet.

    Raises
    ------
    StoreError
        The folder exists or cannot be written.
    """
    blocks = [(r, c) for r in _ranges(matrix.shape[0]) for c in _ranges(matrix.shape[1])]
    factor = r1smg.scale(key, sum(r1smg.block_energy(key, *block) for block in blocks), findings.variance)
    noisy = matrix.astype(np.float64)
    for rows, columns in blocks:
        noisy[slice(*rows), slice(*columns)] += r1smg.noise(key, rows, columns, factor)
    write_draw(output, _attributes(findings), {"not_private": (noisy, ("row", "column"))})


def write_draw(output: Path, attributes: dict[str, Any], arrays: Mapping[str, tuple[Any, tuple[str, ...]]]) -> None:
    """Write what a study drew as a Zarr group that does not exist yet.

    Raises
    ------
    StoreError
        The folder exists or cannot be written.
    """
    if output.exists():
        raise StoreError(f'"{output.name}" exists', "A study writes a new folder", "Choose another name")
    try:
        group = create_group(output, attributes)
        for name, (values, dimensions) in arrays.items():
            write_array(group, name, values, dimensions)
    except OSError as error:
        failure: BlockveilError = store_error(error, "the study cannot be written")
    else:
        return
    raise failure


def _ranges(length: int) -> list[tuple[int, int]]:
    return [(start, min(start + _BLOCK, length)) for start in range(0, length, _BLOCK)]


def _attributes(findings: Findings) -> dict[str, Any]:
    return {
        "label": LABEL,
        "private": False,
        "mechanism": "r1smg as published",
        "claimed": {"epsilon": findings.claim.epsilon, "delta": findings.claim.delta, "holds": False},
        "true_delta_at_claimed_epsilon": findings.true_delta,
        "true_epsilon_at_claimed_delta": findings.true_epsilon,
        "sigma_star": findings.variance,
    }
