"""Mechanisms with the calibration that their papers print, for comparison; each is charged at its exact loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError, CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.contract import NotApplicable, free_units
from blockveil.engine.mechanisms.gaussian import bodies, even_spread, least_noise
from blockveil.engine.mechanisms.published import mvg, mvg_allocation, mvg_limits
from blockveil.engine.mechanisms.published.classic import classic_standard_deviation
from blockveil.engine.mechanisms.published.mgm import mgm_mu
from blockveil.engine.noise.additive import NoiseDesign, gaussian_design, usable_mu
from blockveil.engine.records.geometry import Body, Vector
from blockveil.engine.sensitivity.problems import Problem, Rows, SecondMoment


@dataclass(frozen=True)
class ClassicGaussian:
    """Noise of the same size on each entry, by ``sqrt(2 ln(1.25/delta)) sensitivity / epsilon``; epsilon below 1."""

    name: ClassVar[str] = "classic-gaussian"

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Published noise; its exact, smaller loss is charged.

        Raises
        ------
        CannotCalibrate
            epsilon is 1 or more, where the theorem does not hold.
        """
        spread = even_spread(problem)
        sensitivity = problem.l2(spread)
        try:
            deviation = classic_standard_deviation(sensitivity.bound, guarantee.epsilon, guarantee.delta)
        except CalibrationError as error:
            raise CannotCalibrate(str(error)) from None
        return gaussian_design(spread, sensitivity, problem.scaling, guarantee, deviation)

    def parameters(self) -> dict[str, Any]:
        """None."""
        return {}


@dataclass(frozen=True)
class Mgm:
    """Noise of the same size on each entry, by the condition of MGM, which grows with the root of their number."""

    name: ClassVar[str] = "mgm"

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Published noise; its exact, smaller loss is charged."""
        spread = even_spread(problem)
        sensitivity = problem.l2(spread)
        entries = problem.shape[0] * problem.shape[1]
        deviation = sensitivity.bound / mgm_mu(entries, guarantee.epsilon, guarantee.delta)
        return gaussian_design(spread, sensitivity, problem.scaling, guarantee, deviation)

    def parameters(self) -> dict[str, Any]:
        """None."""
        return {}


@dataclass(frozen=True)
class Imgm:
    """Noise with a given pair of covariances, diagonal in raw units, scaled so that IMGM Theorem 2 holds.

    Attributes
    ----------
    row_shape, column_shape
        Relative standard deviations by row and by column of the answer, positive; empty for equal ones, which is
        optimal when nothing but a Frobenius bound of the differences is known.

    **Source**: IMGM, Theorem 2: ``least(U1) least(U2) >= sensitivity / B``.
    """

    name: ClassVar[str] = "imgm"
    row_shape: tuple[float, ...] = ()
    column_shape: tuple[float, ...] = ()

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Published noise; where the geometry is narrower than a Frobenius ball, a smaller loss is charged."""
        even = even_spread(problem)
        rows, columns = (
            self._shape(shape, units, spread)
            for shape, units, spread in zip(
                (self.row_shape, self.column_shape), free_units(problem), (even.rows, even.columns), strict=True
            )
        )
        spread = problem.spread(even.rows * rows, even.columns * columns)
        isotropic = gaussian_design(even, problem.l2(even), problem.scaling, guarantee)
        # No entry has less noise than in the isotropic design: least(U1) least(U2) >= sensitivity / B.
        deviation = isotropic.scale * (1.0 + 1e-11)
        return gaussian_design(spread, problem.l2(spread), problem.scaling, guarantee, deviation)

    @staticmethod
    def _shape(shape: tuple[float, ...], units: Any, spread: Any) -> Any:
        if not shape:
            return np.ones(spread.size)
        relative = np.asarray(shape, dtype=np.float64)
        if relative.size != units.size or not np.all(np.isfinite(relative)) or np.any(relative <= 0):
            raise NotApplicable("a shape has one positive number for each feature; correct it")
        relative = relative / np.min(relative)
        return np.concatenate([np.ones(spread.size - units.size), relative])

    def parameters(self) -> dict[str, Any]:
        """Both shapes."""
        return {"row_shape": list(self.row_shape), "column_shape": list(self.column_shape)}


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
        given = np.asarray(self.values, dtype=np.float64)
        if self.kind == "uniform":
            return mvg_allocation.uniform_allocation(features)
        if given.size != features:
            raise NotApplicable(f"the allocation names {given.size} features of {features}; name each of them")
        if self.kind == "binary":
            return mvg_allocation.binary_allocation(given > 0, self.share)
        if self.kind == "shares":
            return given / np.sum(given)
        precisions = mvg_allocation.exact_box_max_pnr(given, np.ones(features), squared_mu).precisions
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
        if getattr(problem, "augmented", False):
            raise NotApplicable('the published mechanism has no count and mean; choose query kind "second-moment"')
        theorem, features = mvg_limits.Theorem(self.theorem), problem.shape[1 if isinstance(problem, Rows) else 0]
        limit = mvg_limits.precision_limit(
            _public_facts(problem), guarantee.epsilon, guarantee.delta, theorem, mvg_limits.Zeta(self.zeta)
        )
        shares = self.allocation.shares(features, usable_mu(guarantee, 0.0) ** 2)
        if isinstance(problem, SecondMoment):
            deviation = np.sqrt(mvg.equimodal(limit, shares).row_variances)
            return problem.spread(deviation, deviation)
        # Algorithm 1 shares the budget between the rows of its answer; records are columns there.
        others = problem.shape[0 if isinstance(problem, Rows) else 1]
        deviation = np.sqrt(mvg.unimodal(limit, shares, others).row_variances)
        even = np.ones(others)
        return problem.spread(even, deviation) if isinstance(problem, Rows) else problem.spread(deviation, even)

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
        if getattr(problem, "augmented", False) or not isinstance(problem, Rows | SecondMoment):
            raise NotApplicable("the exact budget is that of rows and second moments; choose one of these queries")
        if Body.BALL in bodies(problem):
            raise NotApplicable("the exact budget is that of a box; choose shaped-gaussian for a ball or an ellipsoid")
        shares = self.allocation.shares(problem.shape[1], usable_mu(guarantee, 0.0) ** 2)
        with np.errstate(divide="ignore"):
            deviation = shares**-0.5
        rows = deviation if isinstance(problem, SecondMoment) else np.ones(problem.shape[0])
        return least_noise(problem, problem.spread(rows, deviation), guarantee)

    def parameters(self) -> dict[str, Any]:
        """Allocation."""
        return {"allocation": self.allocation.parameters()}


def _public_facts(problem: Problem) -> mvg_limits.MvgQuery:
    """Shape, largest norm and Frobenius sensitivity of the answer itself, in coordinates."""
    m, n = problem.shape
    plain = problem.spread(np.ones(m), np.ones(n))
    return mvg_limits.MvgQuery(m, n, problem.largest_norm(), problem.l2(plain).bound)
