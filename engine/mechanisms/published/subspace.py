"""Gaussian noise on a second moment for its leading subspace: published calibrations, their exact loss, their error.

The answer is ``A = sum x x'`` over records of length at most R. Three kinds of noise, s being the standard deviation of
the noise on the diagonal:

============== ============================================= ===========================================================
kind           noise                                         used by
============== ============================================= ===========================================================
isometric      symmetric, ``s / sqrt(2)`` off the diagonal   least noise; the same law as unsymmetrised noise, averaged
unscaled       symmetric, s everywhere                       MOD-SULQ; Analyze Gauss
unsymmetrised  independent entries, s everywhere             SULQ; matrix Gaussian mechanisms (MVG, IMGM)
============== ============================================= ===========================================================

For all three the loss is exactly ``mu = R^2 / s`` under add-remove and ``sqrt(2) R^2 / s`` under replace-one. Unscaled:
the squared norm of the upper triangle of D is ``(|D|_F^2 + |diag D|^2) / 2``, at most ``|D|_F^2``, and records along
axes attain it. So unscaled noise wastes nearly half of its variance.

==================== =============================================== ===================================================
published            standard deviation, R = 1                       verdict
==================== =============================================== ===================================================
MOD-SULQ             ``(d+1) sqrt(2 ln((d^2+d) / (2 sqrt(2 pi)       valid for every epsilon and delta, both relations;
                     delta))) / eps + 1 / sqrt(eps)``                too large by a factor that grows like d
Analyze Gauss        ``sqrt(2 ln(1.25/delta)) / eps``                add-remove: valid below epsilon 1, a little loose;
                                                                     false from about 8 on. replace-one: false for
                                                                     small delta (at 0.5, 1e-8: 25 times the delta)
==================== =============================================== ===================================================

Why MOD-SULQ is valid from d = 2 on: with ``z = -Phi^-1(delta)`` the loss ``1 / mu = (z + sqrt(z^2 + 2 eps)) / (2
eps)`` is enough, since then ``Phi(mu/2 - eps/mu) = delta``. It is at most ``max(z, 0) / eps + 1 / sqrt(2 eps)``, and
``z <= sqrt(2 ln(1 / (2 delta)))`` where positive; times sqrt(2) that is below the published value, as ``(d^2 + d) / (2
sqrt(2 pi)) > 1/2`` and ``d + 1 > sqrt(2)``.

What is charged is always the exact mu, never the claim.

**Source**: Blum, Dwork, McSherry and Nissim, 2005 (SULQ); Chaudhuri, Sarwate and Sinha, 2013, Algorithm 1 (MOD-SULQ);
Dwork, Talwar, Thakurta and Zhang, 2014, Algorithm 1 (Analyze Gauss); Balle and Wang, 2018, Theorem 8 (exact loss).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from blockveil.engine.estimates.error_bounds import subspace_error
from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_log_delta, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, GaussianDP, Neighbours
from blockveil.engine.mechanisms.contract import Status
from blockveil.engine.records.geometry import Matrix, Vector

_ROUND_UP = 1.0 + 2.0**-49


class EntryKind(StrEnum):
    """Which entries of the noise are drawn, and how large they are."""

    ISOMETRIC = "isometric"
    UNSCALED = "unscaled"
    UNSYMMETRISED = "unsymmetrised"


@dataclass(frozen=True)
class MomentNoise:
    """Gaussian noise on a second moment.

    Attributes
    ----------
    kind
        Which entries are drawn.
    dimension
        d, at least 2.
    standard_deviation
        s, of a diagonal entry, in squared units of a record.
    radius
        R, largest length of a record.
    neighbours
        Neighbouring relation.
    """

    kind: EntryKind
    dimension: int
    standard_deviation: float
    radius: float
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Refuse noise that promises nothing."""
        if self.dimension < 2:
            raise CalibrationError(
                f"dimension is {self.dimension}; a subspace needs at least 2; release a number instead"
            )
        if not (0.0 < self.standard_deviation < math.inf and 0.0 < self.radius < math.inf):
            raise CalibrationError(
                "standard deviation and radius must be positive and finite; clip records, then state R"
            )

    @property
    def loss(self) -> GaussianDP:
        """Exact loss, rounded up."""
        return GaussianDP(_sensitivity(self.radius, self.neighbours) / self.standard_deviation * _ROUND_UP)

    @property
    def total_variance(self) -> float:
        """Expected squared Frobenius norm of the released noise, both triangles."""
        pairs = self.dimension * (self.dimension - 1)
        share = 0.5 if self.kind is EntryKind.ISOMETRIC else 1.0
        return self.standard_deviation**2 * (self.dimension + share * pairs)


def least_noise(dimension: int, radius: float, guarantee: ApproxDP, neighbours: Neighbours) -> MomentNoise:
    """Least isotropic symmetric noise for a guarantee."""
    return MomentNoise(EntryKind.ISOMETRIC, dimension, _least(radius, guarantee, neighbours), radius, neighbours)


def matrix_gaussian(dimension: int, radius: float, guarantee: ApproxDP, neighbours: Neighbours) -> MomentNoise:
    """Least independent noise on all d x d entries; its optimum for a Frobenius ball. **Source**: IMGM Theorem 2."""
    return MomentNoise(EntryKind.UNSYMMETRISED, dimension, _least(radius, guarantee, neighbours), radius, neighbours)


def mod_sulq(dimension: int, radius: float, guarantee: ApproxDP, neighbours: Neighbours) -> MomentNoise:
    """Published noise of MOD-SULQ, for the sum; valid for both relations, see the module.

    **Source**: Chaudhuri, Sarwate and Sinha, 2013, Algorithm 1.
    """
    # ln of the quotient, without overflow for the least deltas.
    log = math.log(dimension**2 + dimension) - math.log(guarantee.delta) - math.log(2.0 * math.sqrt(2.0 * math.pi))
    factor = (dimension + 1) * math.sqrt(2.0 * log) / guarantee.epsilon + 1.0 / math.sqrt(guarantee.epsilon)
    return MomentNoise(EntryKind.UNSCALED, dimension, radius**2 * factor * _ROUND_UP, radius, neighbours)


def analyze_gauss(dimension: int, radius: float, guarantee: ApproxDP, neighbours: Neighbours) -> MomentNoise:
    """Published noise of Analyze Gauss, whatever its validity: ask :func:`verdict`, and charge its exact loss.

    **Source**: Dwork, Talwar, Thakurta and Zhang, 2014, Algorithm 1.
    """
    factor = math.sqrt(2.0 * (math.log(1.25) - math.log(guarantee.delta))) / guarantee.epsilon
    return MomentNoise(EntryKind.UNSCALED, dimension, radius**2 * factor * _ROUND_UP, radius, neighbours)


def log_excess(noise: MomentNoise, claim: ApproxDP) -> float:
    """``ln(true delta / claimed delta)`` at the claimed epsilon; above 0 the claim is false."""
    return gaussian_log_delta(noise.loss.mu, claim.epsilon) - math.log(claim.delta)


def verdict(noise: MomentNoise, claim: ApproxDP) -> Status:
    """Whether noise keeps a claim: not private, loose, or exact to one part in a million."""
    largest = gaussian_mu(claim.epsilon, claim.delta)
    if log_excess(noise, claim) > 0.0 and noise.loss.mu > largest * (1.0 + 1e-11):
        return Status.NOT_PRIVATE
    return Status.PROVEN_EXACT if noise.loss.mu > largest * (1.0 - 1e-6) else Status.PROVEN_LOOSE


def expected_sine_distance(noise: MomentNoise, spectrum: Vector, leading: int, vectors: Matrix | None = None) -> float:
    """Expected squared sine distance of the noisy from the true leading subspace, first order in the noise; at most k.

    ``sum_(i <= k < j) Var(v_i' N v_j) / (lambda_i - lambda_j)^2``. The variance is ``s^2 / 2`` for isometric noise, in
    any basis; ``s^2 (1 - sum_l v_il^2 v_jl^2)`` for unscaled noise, s^2 where eigenvectors are not known. For
    unsymmetrised noise it is the left singular subspace, ``s^2 (l_i^2 + l_j^2) / (l_i^2 - l_j^2)^2``: never less than
    after averaging with the transpose, which costs no privacy.

    Parameters
    ----------
    noise
        The noise.
    spectrum
        Eigenvalues of the sum (assumed or released), not negative, shape (d,).
    leading
        Dimension k of the subspace.
    vectors
        Eigenvectors in columns, in the order of the spectrum, shape (d, d); used for unscaled noise.

    Raises
    ------
    CalibrationError
        The spectrum has another length or the subspace is not proper.

    **Source**: first-order perturbation theory; Davis and Kahan, 1970, bounds the same quantity.
    """
    if spectrum.shape != (noise.dimension,) or not 0 < leading < noise.dimension:
        raise CalibrationError(
            f"the spectrum has shape {spectrum.shape} and k is {leading}; give d eigenvalues and k between 1 and d - 1"
        )
    variance = np.full((noise.dimension, noise.dimension), noise.standard_deviation**2)
    if noise.kind is EntryKind.ISOMETRIC:
        variance /= 2.0
    elif noise.kind is EntryKind.UNSYMMETRISED:
        squares = spectrum**2
        sums = np.add.outer(spectrum, spectrum) ** 2
        # (l_i^2 + l_j^2) / (l_i + l_j)^2 is left when the squared gap is divided by later; 1 for two zeros.
        variance *= np.divide(np.add.outer(squares, squares), sums, out=np.ones_like(sums), where=sums > 0)
    elif vectors is not None:
        variance *= 1.0 - (vectors**2).T @ (vectors**2)
    return subspace_error(np.sqrt(np.maximum(variance, 0.0)), spectrum, leading)


def _sensitivity(radius: float, neighbours: Neighbours) -> float:
    return radius**2 * (1.0 if neighbours is Neighbours.ADD_REMOVE else math.sqrt(2.0))


def _least(radius: float, guarantee: ApproxDP, neighbours: Neighbours) -> float:
    # One more margin than the loss takes, so that the loss charged is within the guarantee.
    return _sensitivity(radius, neighbours) / gaussian_mu(guarantee.epsilon, guarantee.delta) * (1.0 + 1e-12)
