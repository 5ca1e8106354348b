"""MVG as published and with its exact budget: matrix-variate Gaussian noise whose precisions follow an allocation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.abilities import bodies, constants, features_axis
from blockveil.engine.mechanisms.contract import NotApplicable, Status
from blockveil.engine.mechanisms.declaration import (
    BOTH,
    CatalogueEntry,
    MechanismDeclaration,
    OneOf,
    Parameter,
    PrecisionShares,
)
from blockveil.engine.mechanisms.gaussian import least_noise
from blockveil.engine.mechanisms.published import mvg, mvg_allocation, mvg_limits
from blockveil.engine.noise.additive import NoiseDesign, gaussian_design, usable_mu
from blockveil.engine.records.geometry import Body, Vector
from blockveil.engine.sensitivity.problems import Problem


@dataclass(frozen=True)
class Allocation:
    """How a precision budget is shared between features: by rule, by hand, or for the best power-to-noise ratio.

    Attributes
    ----------
    kind
        "uniform", "binary", "shares" or "max-pnr".
    values
        Shares ("shares"), ones for important features and zeros for others ("binary"), or public signal variances in
        coordinates ("max-pnr"); one for each feature.
    share
        Of the important features together ("binary").
    """

    kind: str
    values: tuple[float, ...] = ()
    share: float = 0.0

    def shares(self, features: int, squared_mu: float) -> Vector:
        """Shares of the budget that sum to one; ``squared_mu`` is the budget that "max-pnr" fills up.

        Raises
        ------
        CalibrationError
            The values do not fit.
        """
        values = np.asarray(self.values, dtype=np.float64)
        if self.kind == "uniform":
            return mvg_allocation.uniform_allocation(features)
        if values.size != features:
            raise NotApplicable(f"the allocation names {values.size} features of {features}; name each of them")
        if self.kind == "binary":
            return mvg_allocation.binary_allocation(values > 0, self.share)
        if self.kind == "shares":
            return values / np.sum(values)
        precisions = mvg_allocation.exact_box_max_pnr(values, np.ones(features), squared_mu).precisions
        return precisions / np.sum(precisions)

    def parameters(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"kind": self.kind, "values": list(self.values), "share": self.share}


@dataclass(frozen=True)
class Mvg:
    """Matrix-variate Gaussian noise as published: Algorithm 2 for second moments, Algorithm 1 for other queries.

    Attributes
    ----------
    theorem
        2 (any query) or 3 (second moments only).
    zeta
        "published" or "square-root".
    allocation
        Shares of the precision budget by feature (by row of the answer for outer products and counts).
    """

    name: ClassVar[str] = "mvg"
    theorem: int
    zeta: str
    allocation: Allocation

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Published noise; its exact loss, smaller by orders of magnitude, is charged."""
        spread = self._spread(problem, guarantee)
        return gaussian_design(spread, problem.l2(spread), problem.scaling, guarantee, 1.0)

    def _spread(self, problem: Problem, guarantee: ApproxDP) -> Any:
        if constants(problem)[0]:
            raise NotApplicable('the published mechanism has no count and mean; choose query kind "second-moment"')
        axis = features_axis(problem)
        if axis is None:
            raise NotApplicable("the published mechanism is for a matrix of many rows; choose gaussian for totals")
        theorem, features = mvg_limits.Theorem(self.theorem), problem.shape[axis]
        limit = mvg_limits.precision_limit(
            _public_facts(problem), guarantee.epsilon, guarantee.delta, theorem, mvg_limits.Zeta(self.zeta)
        )
        shares = self.allocation.shares(features, usable_mu(guarantee, 0.0) ** 2)
        if problem.symmetric:
            deviation = np.sqrt(mvg.equimodal(limit, shares).row_variances)
            return problem.spread(deviation, deviation)
        # Algorithm 1 shares the budget between the rows of its answer; records are columns there.
        others = problem.shape[1 - axis]
        deviation = np.sqrt(mvg.unimodal(limit, shares, others).row_variances)
        even = np.ones(others)
        return problem.spread(even, deviation) if axis == 1 else problem.spread(deviation, even)

    def parameters(self) -> dict[str, Any]:
        """Theorem, zeta and allocation."""
        return {"theorem": self.theorem, "zeta": self.zeta, "allocation": self.allocation.parameters()}


@dataclass(frozen=True)
class ExactMvg:
    """Algorithms 1 and 2 of MVG with the exact budget of a box in place of the theorems.

    Attributes
    ----------
    allocation
        Shares of the budget by feature.
    """

    name: ClassVar[str] = "mvg-exact"
    allocation: Allocation

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Least noise whose precisions are in the allocation's proportions."""
        if constants(problem)[0] or not (problem.symmetric or features_axis(problem) == 1):
            raise NotApplicable("the exact budget is that of rows and second moments; choose one of these queries")
        if Body.BALL in bodies(problem):
            raise NotApplicable("the exact budget is that of a box; choose shaped-gaussian for a ball or an ellipsoid")
        shares = self.allocation.shares(problem.shape[1], usable_mu(guarantee, 0.0) ** 2)
        with np.errstate(divide="ignore"):
            deviation = shares**-0.5
        rows = deviation if problem.symmetric else np.ones(problem.shape[0])
        return least_noise(problem, problem.spread(rows, deviation), guarantee)

    def parameters(self) -> dict[str, Any]:
        """Allocation."""
        return {"allocation": self.allocation.parameters()}


def _public_facts(problem: Problem) -> mvg_limits.MvgQuery:
    """Shape, largest norm and Frobenius sensitivity of the answer itself, in coordinates."""
    m, n = problem.shape
    plain = problem.spread(np.ones(m), np.ones(n))
    return mvg_limits.MvgQuery(m, n, problem.largest_norm(), problem.l2(plain).bound)


_EVEN = Allocation("uniform")
_UNEVEN = Allocation("shares", (0.6, 0.3, 0.1))


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="mvg",
            title="matrix-variate Gaussian as published",
            status=Status.PROVEN_LOOSE,
            source=(
                "MVG (CCS 2018), as numbered in the full version: section 4, Theorems 2 and 3; section 6, "
                "Algorithms 1 and 2"
            ),
            theorem=(
                "matrix noise whose precisions are within a bound that follows from the largest norm of the answer, "
                "its sensitivity and the bound of Laurent and Massart is (epsilon, delta)-private"
            ),
            relations=BOTH,
            needs=(
                "public bounds of a record and of the number of records; public allocation; for second moments and "
                "rows public directions, if any"
            ),
            loss="its exact mu, smaller than the claim by factors of 70 to 1e10",
            error="tr(Sigma) tr(Psi)",
            finding=(
                "Both theorems are valid and both zeta variants are safe; the square root is the tight one. The "
                "standard deviation is 70 to 1e10 times what the claim needs. Theorem 7 (max PNR) needs the "
                "positive part and is no Kronecker product; the experiments use data-dependent gamma, directions "
                "and centring. Directions would be waste on gradients, which are bounded as a whole, and on counts; "
                "the sides of an outer product take none."
            ),
            use="release",
        ),
        mechanism=Mvg,
        form="Matrix-variate Gaussian noise as published, at its exact loss.",
        parameters=(
            Parameter("allocation", PrecisionShares(), ""),
            Parameter("theorem", OneOf((2, 3)), "the published theorem: 2 for any query, 3 for second moments"),
            Parameter(
                "zeta",
                OneOf(("published", "square-root")),
                "the bound in it: as printed, or its square root as in the authors' program",
            ),
        ),
        tried=lambda _: (Mvg(2, "square-root", _EVEN), Mvg(3, "square-root", _EVEN), Mvg(2, "published", _EVEN)),
        audited=(Mvg(2, "square-root", _EVEN),),
        audited_along_directions=Mvg(2, "square-root", _UNEVEN),
    ),
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="mvg-exact",
            title="Algorithms 1 and 2 of MVG with the exact budget",
            status=Status.PROVEN_EXACT,
            source="corrects MVG (CCS 2018), section 6, by Balle and Wang, 2018, Theorem 8",
            theorem=(
                "Gaussian noise of any covariance K is (epsilon, delta)-private if and only if sup over neighbours of "
                "|K^-1/2 change| <= mu; in a box the corners decide"
            ),
            relations=BOTH,
            needs="public box bounds; public allocation and directions, if any",
            loss=(
                "mu^2 = sum c_i^2 / variance_i (rows), over the corners along directions; see the second moment's "
                "sensitivity"
            ),
            error="sum of c_i^2 / (theta_i mu^2)",
            finding=(
                "The linear precision budget of the paper is right once its bound is replaced; max PNR becomes "
                "water-filling."
            ),
            use="release",
        ),
        mechanism=ExactMvg,
        form="Matrix-variate Gaussian noise with the exact budget of a box.",
        parameters=(Parameter("allocation", PrecisionShares(), ""),),
        tried=lambda _: (ExactMvg(_EVEN),),
        audited=(ExactMvg(_EVEN),),
        audited_along_directions=ExactMvg(_UNEVEN),
    ),
)
