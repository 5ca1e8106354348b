"""Published Gaussian noise on a second moment for its leading subspace: MOD-SULQ and Analyze Gauss.

Both papers draw the same standard deviation on and off the diagonal ("unscaled" in
:mod:`.subspace`, which has the formulas and what is true of them). The release draws exactly
that noise and is charged at its exact loss; where the exact loss exceeds the guarantee the published claim is false,
and the plan is refused.

The papers' records lie in the unit ball. Here R is the largest length of an admissible record in raw units, so that a
box or an ellipsoid is taken for the smallest ball about the origin that holds it, as a user of the papers would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.mechanisms.gaussian import even_spread
from blockveil.engine.mechanisms.published import subspace
from blockveil.engine.noise.additive import NoiseDesign, gaussian_design
from blockveil.engine.sensitivity.problems import Problem, SecondMoment

Published = Callable[[int, float, ApproxDP, Neighbours], subspace.MomentNoise]


@dataclass(frozen=True)
class AnalyzeGauss:
    """Noise of standard deviation ``R^2 sqrt(2 ln(1.25/delta)) / epsilon`` on each distinct entry.

    **Source**: Dwork, Talwar, Thakurta and Zhang, 2014, Algorithm 1.
    """

    name: ClassVar[str] = "analyze-gauss"

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Published noise at its exact loss; refused where that exceeds the claim."""
        return _design(problem, guarantee, subspace.analyze_gauss)

    def parameters(self) -> dict[str, Any]:
        """None."""
        return {}


@dataclass(frozen=True)
class ModSulq:
    """Noise of MOD-SULQ on each distinct entry, for the sum; larger than needed by a factor that grows like d.

    **Source**: Chaudhuri, Sarwate and Sinha, 2013, Algorithm 1.
    """

    name: ClassVar[str] = "mod-sulq"

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Published noise at its exact loss."""
        return _design(problem, guarantee, subspace.mod_sulq)

    def parameters(self) -> dict[str, Any]:
        """None."""
        return {}


def _design(problem: Problem, guarantee: ApproxDP, published: Published) -> NoiseDesign:
    if not isinstance(problem, SecondMoment) or problem.augmented:
        raise NotApplicable('the published noise is for second moments; choose query kind "second-moment"')
    if problem.shape[0] < 2:
        raise NotApplicable("a subspace needs at least two features; choose gaussian")
    even = even_spread(problem)
    # Largest squared length of a record in units of the spread: what one more record adds to the answer.
    radius = max(replace(problem, neighbours=Neighbours.ADD_REMOVE).l2(even).bound, 0.0) ** 0.5
    noise = published(problem.shape[0], radius, guarantee, problem.neighbours)
    spread = replace(even, unscaled=True)
    return gaussian_design(spread, problem.l2(spread), problem.scaling, guarantee, noise.standard_deviation)
