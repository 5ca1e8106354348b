"""Laplace noise: no delta in the law, at the price of a sensitivity in L1.

The release is discrete Laplace noise on a grid, so neighbours differ in probability by ``exp(L1 / scale)`` exactly; the
calibration pays for rounding to the grid. The sampler is within a proven total variation of the law (2^-115 an entry),
which the ledger books; nothing else uses delta. For counts the released integers rounded to whole numbers are
post-processing.

**Source**: Dwork, McSherry, Nissim and Smith, 2006, Theorem 1; Ghosh, Roughgarden and Sundararajan, 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.abilities import bodies, whole_numbers
from blockveil.engine.mechanisms.contract import Importance, NotApplicable, Status, free_units
from blockveil.engine.mechanisms.declaration import (
    AIM_MEANING,
    BOTH,
    CatalogueEntry,
    ErrorAim,
    MechanismDeclaration,
    Parameter,
)
from blockveil.engine.mechanisms.gaussian import following_widths, spread_of
from blockveil.engine.noise.additive import NoiseDesign, integer_laplace_design, laplace_design
from blockveil.engine.noise.discrete_laplace import LAPLACE_GRID
from blockveil.engine.records.geometry import AnyBody, Body, Vector
from blockveil.engine.sensitivity.problems import Problem


@dataclass(frozen=True)
class Laplace:
    """Laplace noise that follows the declared bounds.

    Attributes
    ----------
    importance
        The error to make small.
    """

    name: ClassVar[str] = "laplace"
    importance: Importance

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Least noise of the best separable spread, at the whole epsilon."""
        sides = zip(free_units(problem), self.importance.weights(problem), bodies(problem), strict=True)
        rows, columns = (_optimal(units, weights, body) for units, weights, body in sides)
        spread = spread_of(problem, rows, following_widths(problem, columns, 1.0 / 3.0), self.importance, norm=1)
        return laplace_design(spread, problem.l1(spread), problem.scaling, guarantee, LAPLACE_GRID)

    def parameters(self) -> dict[str, Any]:
        """Importance."""
        return {"importance": self.importance.parameters()}


@dataclass(frozen=True)
class IntegerLaplace:
    """Discrete Laplace noise on counts: the release is in whole numbers."""

    name: ClassVar[str] = "discrete-laplace"

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Noise of rate epsilon over the largest change, exactly."""
        if not whole_numbers(problem):
            raise NotApplicable("whole-number noise is for counts; choose laplace for other queries")
        even = problem.spread(np.ones(problem.shape[0]), np.ones(problem.shape[1]))
        return integer_laplace_design(even, problem.l1(even), problem.scaling, guarantee)

    def parameters(self) -> dict[str, Any]:
        """None."""
        return {}


def _optimal(units: Vector, importance: Vector, body: AnyBody) -> Vector:
    """Minimise ``sum w_i c_i^2 r_i^2`` with ``sum 1 / r_i`` fixed: ``r_i ~ (w_i c_i^2)^(-1/3)`` in coordinates."""
    if body is Body.BALL:
        return np.ones(units.size)
    weights = np.cbrt(importance * units**2)
    spread: Vector = np.max(weights) / weights
    return spread


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="laplace",
            title="discrete Laplace on a grid",
            status=Status.PROVEN_EXACT,
            source=("Dwork, McSherry, Nissim and Smith, 2006, Theorem 1; Ghosh, Roughgarden and Sundararajan, 2009"),
            theorem=(
                "Laplace noise of scale b on an answer that neighbours change by at most D in L1 has pure loss D / b"
            ),
            relations=BOTH,
            needs="public bounds of a record",
            loss="epsilon = L1 sensitivity / scale, pure; and the sampler's distance, 2^-115 an entry",
            error="2 entries (L1 / epsilon)^2 for isotropic noise",
            finding=(
                "Exact. Best for counts at small delta; for matrices the L1 sensitivity grows with the number of "
                "entries that one record changes, so that Gaussian noise wins."
            ),
            use="release",
        ),
        mechanism=Laplace,
        form="Laplace noise that follows the declared shape: a pure epsilon.",
        parameters=(Parameter("optimise_for", ErrorAim(), AIM_MEANING),),
        build=lambda optimise_for: Laplace(optimise_for),
        tried=lambda aim: (Laplace(aim),),
        audited=(Laplace(Importance("relative-error")),),
    ),
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="discrete-laplace",
            title="discrete Laplace in whole numbers",
            status=Status.PROVEN_EXACT,
            source="Ghosh, Roughgarden and Sundararajan, 2009",
            theorem=(
                "noise on whole numbers with P(k) ~ exp(-r |k|) has pure loss r times the largest change in L1, exactly"
            ),
            relations=BOTH,
            needs="nothing but the grid of cells",
            loss="epsilon, pure; and the sampler's distance, 2^-115 an entry",
            error="entries / (2 sinh(epsilon / 2 L1)^2)",
            finding="Exact, without rounding; slightly less noise than the continuous law of the same loss.",
            use="release",
        ),
        mechanism=IntegerLaplace,
        form="Discrete Laplace noise on counts, in whole numbers: a pure epsilon.",
        tried=lambda _: (IntegerLaplace(),),
        audited=(IntegerLaplace(),),
    ),
)
