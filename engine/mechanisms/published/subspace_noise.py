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
from blockveil.engine.mechanisms.abilities import constants, moment
from blockveil.engine.mechanisms.contract import NotApplicable, Status
from blockveil.engine.mechanisms.declaration import BOTH, CatalogueEntry, MechanismDeclaration
from blockveil.engine.mechanisms.gaussian import even_spread
from blockveil.engine.mechanisms.published import subspace
from blockveil.engine.noise.additive import NoiseDesign, gaussian_design
from blockveil.engine.sensitivity.problems import Problem

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
    if not moment(problem) or constants(problem) != (0, 0):
        raise NotApplicable('the published noise is for second moments; choose query kind "second-moment"')
    if problem.shape[0] < 2:
        raise NotApplicable("a subspace needs at least two features; choose gaussian")
    even = even_spread(problem)
    noise = published(problem.shape[0], problem.record_length(even), guarantee, problem.neighbours)
    spread = replace(even, unscaled=True)
    return gaussian_design(spread, problem.l2(spread), problem.scaling, guarantee, noise.standard_deviation)


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="analyze-gauss",
            title="symmetric Gaussian noise as published (Analyze Gauss)",
            status=Status.PROVEN_LOOSE,
            source="Dwork, Talwar, Thakurta and Zhang, 2014, Algorithm 1",
            theorem=(
                "noise of standard deviation sqrt(2 ln(1.25 / delta)) / epsilon on the upper triangle of a second "
                "moment of records in the unit ball is (epsilon, delta)-private"
            ),
            relations=BOTH,
            needs="public bounds of a record; refused where its exact loss exceeds the claim",
            loss="its exact mu",
            error="R^4 d^2 2 ln(1.25/delta) / epsilon^2, twice the gaussian's for the same size of noise",
            finding=(
                "Valid under add-remove below epsilon 1, false at 10 (2.27 times the delta). Under replace-one, "
                "where a record moves the answer sqrt(2) times as far, false at small delta (24.75 times at 0.5 and "
                "1e-8). The same noise off as on the diagonal wastes nearly half of the variance."
            ),
            use="release",
        ),
        mechanism=AnalyzeGauss,
        form="Analyze Gauss as published, on second moments, at its exact loss.",
        tried=lambda _: (AnalyzeGauss(),),
        audited=(AnalyzeGauss(),),
    ),
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="mod-sulq",
            title="symmetric Gaussian noise as published (MOD-SULQ)",
            status=Status.PROVEN_LOOSE,
            source="Chaudhuri, Sarwate and Sinha, 2013, Algorithm 1",
            theorem=(
                "noise of a standard deviation that grows like d sqrt(ln d) / epsilon on a second moment of records "
                "in the unit ball is (epsilon, delta)-private"
            ),
            relations=BOTH,
            needs="public bounds of a record",
            loss="its exact mu, smaller than the claim by a factor that grows like d",
            error=("R^4 d^2 ((d + 1) sqrt(2 ln((d^2 + d) / (2 sqrt(2 pi) delta))) / epsilon + 1 / sqrt(epsilon))^2"),
            finding=(
                "Valid for every epsilon and delta under both relations: it is too large by a factor that grows like d."
            ),
            use="release",
        ),
        mechanism=ModSulq,
        form="MOD-SULQ as published, on second moments, at its exact loss.",
        tried=lambda _: (ModSulq(),),
        audited=(ModSulq(),),
    ),
)
