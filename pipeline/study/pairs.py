"""A study of IMGM with any pair of covariances, dense ones among them: what it costs, and what the theorem requires."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import ApproxDP, GaussianDP, compose
from blockveil.engine.study import error_moments, imgm
from blockveil.pipeline.base.errors import ConfigError

_ORDER = 8.0
"""Order at which both Rényi divergences are compared."""


@dataclass(frozen=True)
class PairFindings:
    """What a pair of covariance factors costs over a Frobenius ball.

    Attributes
    ----------
    claim
        The (epsilon, delta) asked for, over all steps.
    steps
        Number of releases with this noise.
    loss
        Exact loss of all steps, over the ball.
    product, required
        Product of the factors' least singular values, and what the theorem requires.
    error
        Moments of the squared error of one step.
    equal_error
        Expected squared error of one step with isotropic noise that keeps the claim.
    published_divergence
        Equation (52) as printed.
    change
        Loss of one step for the given change of the answer, or None.
    """

    claim: ApproxDP
    steps: int
    loss: GaussianDP
    product: float
    required: float
    error: error_moments.LossMoments
    equal_error: float
    published_divergence: float
    change: float | None

    @property
    def holds(self) -> bool:
        """Whether the pair keeps the claim: necessary and sufficient over the ball."""
        return self.loss.delta(self.claim.epsilon) <= self.claim.delta

    def rows(self) -> list[tuple[str, str]]:
        """Lines for a reader."""
        verdict = "holds" if self.holds else "does not hold"
        claim = f"epsilon {self.claim.epsilon:g}, delta {self.claim.delta:g} {verdict}"
        exact = imgm.renyi_divergence(self.loss, _ORDER)
        spread = self.error.coefficient_of_variation
        rows = [
            ("Claimed", f"{claim} over the Frobenius ball, releases: {self.steps}"),
            ("Exact loss", f"mu {self.loss.mu:.6g} of all releases together"),
            ("Least product", f"{self.product:.6g} of least singular values; the claim requires {self.required:.6g}"),
            ("Squared error", f"{self.error.mean:.4g}, relative spread {spread:.1%}"),
            ("Equal noise", f"{self.equal_error:.4g} keeps the claim; no pair that keeps it has less in any direction"),
            ("Rényi", f"{exact:.4g} at order {_ORDER:g}; equation (52) as printed: {self.published_divergence:.4g}"),
        ]
        if self.change is not None:
            rows.append(("This change", f"mu {self.change:.6g} of one release (Theorem 1)"))
        return rows


def pair_findings(
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    sensitivity: float,
    claim: ApproxDP,
    steps: int,
    change: NDArray[np.float64] | None,
) -> PairFindings:
    """What holds for noise ``U1 N U2'``.

    Parameters
    ----------
    left, right
        Factors U1, shape (m, m) or (m,), and U2, shape (n, n) or (n,).
    sensitivity
        Frobenius radius of the ball of changes.
    claim
        Loss of all steps together.
    steps
        Number of releases, at least 1; later ones may depend on earlier ones.
    change
        A known change of the answer, shape (m, n), or None.

    Raises
    ------
    ConfigError
        A factor is no invertible square matrix, or a parameter is out of range.
    """
    try:
        required = imgm.required_product(sensitivity, claim.epsilon, claim.delta, steps)
        squares = [_squares(factor) for factor in (left, right)]
        return PairFindings(
            claim=claim,
            steps=steps,
            loss=compose([imgm.ball_loss(sensitivity, left, right)] * steps),
            product=imgm.least_singular_value(left) * imgm.least_singular_value(right),
            required=required,
            error=error_moments.kronecker_loss_moments(*squares),
            equal_error=squares[0].size * squares[1].size * required**2,
            published_divergence=imgm.published_renyi_bound(claim.epsilon, claim.delta, _ORDER),
            change=None if change is None else imgm.mahalanobis(left, right, change),
        )
    except ValueError as error:
        failure = ConfigError("This study cannot be made", str(error), "Correct the parameter")
    raise failure


def _squares(factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Eigenvalues of ``U U'``."""
    imgm.least_singular_value(factor)  # refuses what is no invertible factor
    values = factor if factor.ndim == 1 else np.linalg.svd(factor, compute_uv=False)
    return np.square(values, dtype=np.float64)
