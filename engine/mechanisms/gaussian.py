"""Isotropic and shaped Gaussian noise: the least that a guarantee allows, for a chosen spread.

The choice of spread is the whole difference between the mechanisms. Write c for the raw unit of a coordinate (half
width of a box) and u for the importance of a feature in raw units.

=========================== ============================ ============================================================
mechanism                   spread of a coordinate       what it minimises
=========================== ============================ ============================================================
gaussian                    1 / c                        noise of the same size on each entry, in raw units
shaped, absolute-error      1 / sqrt(c); ball: one       total noise variance in raw units
shaped, relative-error      one                          noise variance relative to each feature's own declared range
shaped, importance u        1 / sqrt(c sqrt(u))          variance weighted by u (by u_i u_j in a matrix), raw units
=========================== ============================ ============================================================

For a box the budget is linear in the precisions, ``sum c_i^2 / variance_i = mu^2``, and the rows above follow by
Lagrange multipliers; for a box within a ball see :func:`.box_noise.box_with_ball_variances`.
For a ball or an ellipsoid the shape itself is optimal for all importances at once.

**Source**: MVG (CCS 2018) Algorithms 1 and 2 with the exact budget in place of Theorems 2 and 3; IMGM Theorem 2 for
the isotropic case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.abilities import (
    bodies,
    change_by_column,
    composed,
    constants,
    led_by_constants,
    norms_apart,
)
from blockveil.engine.mechanisms.contract import Importance, NotApplicable, Status, free_units
from blockveil.engine.mechanisms.declaration import (
    AIM_MEANING,
    BOTH,
    CatalogueEntry,
    ErrorAim,
    MechanismDeclaration,
    Parameter,
)
from blockveil.engine.noise.additive import Measured, NoiseDesign, add_noise
from blockveil.engine.noise.banded import banded_design
from blockveil.engine.noise.sampled_noise import sampled_design
from blockveil.engine.records.geometry import AnyBody, Body, CappedBox, Vector
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.spread import Spread
from blockveil.engine.shapes.box_noise import box_with_ball_variances

__all__ = ["CannotCalibrate", "Gaussian", "NoiseDesign", "ShapedGaussian", "add_noise"]

_ABSOLUTE = Importance("absolute-error")


@dataclass(frozen=True)
class Gaussian:
    """Noise of the same size on each entry, in raw units; exact."""

    name: ClassVar[str] = "gaussian"

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Least noise of that kind."""
        return least_noise(problem, self.spread(problem), guarantee)

    def spread(self, problem: Problem) -> Spread:
        """Relative size of the noise."""
        return even_spread(problem)

    def measured(self, problem: Problem) -> Measured:
        """The answer itself."""
        return answer_itself(problem, self.spread(problem))

    def parameters(self) -> dict[str, Any]:
        """None."""
        return {}


@dataclass(frozen=True)
class ShapedGaussian:
    """Noise that follows the declared shape; exact.

    Attributes
    ----------
    importance
        The error to make small.
    """

    name: ClassVar[str] = "shaped-gaussian"
    importance: Importance

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Least noise of the best spread."""
        return least_noise(problem, self.spread(problem), guarantee)

    def spread(self, problem: Problem) -> Spread:
        """Relative size of the noise."""
        return shaped_spread(problem, self.importance)

    def measured(self, problem: Problem) -> Measured:
        """The answer itself."""
        return answer_itself(problem, self.spread(problem))

    def parameters(self) -> dict[str, Any]:
        """Importance."""
        return {"importance": self.importance.parameters()}


def even_spread(problem: Problem) -> Spread:
    """Noise of the same size on each entry, in raw units."""
    rows, columns = free_units(problem)
    return spread_of(problem, np.max(rows) / rows, np.max(columns) / columns)


def shaped_spread(problem: Problem, importance: Importance) -> Spread:
    """Noise that minimises the weighted total variance in raw units."""
    if importance.aim == "weights" and all(body is Body.BALL for body in bodies(problem)):
        raise NotApplicable(
            "importances change nothing for a ball or an ellipsoid, whose own shape is optimal for all of them; "
            'choose "relative-error"'
        )
    sides = zip(free_units(problem), importance.weights(problem), bodies(problem), strict=True)
    rows, columns = (_optimal(units, weights, body, norms_apart(problem)) for units, weights, body in sides)
    return spread_of(problem, rows, following_widths(problem, columns, 0.5), importance)


def following_widths(problem: Problem, columns: Vector, power: float) -> Vector:
    """Spread of a box's coordinates, times a power of what one record changes in each of their sums; else as it is."""
    change = change_by_column(problem)
    if change is None:
        return columns
    return columns * (change / np.max(change)) ** power


def answer_itself(problem: Problem, spread: Spread) -> Measured:
    """The answer, to be measured with noise of a spread."""
    return Measured(spread, problem.l2(spread), problem.scaling)


def least_noise(problem: Problem, spread: Spread, guarantee: ApproxDP) -> NoiseDesign:
    """Least Gaussian noise of a spread for a guarantee.

    Raises
    ------
    CannotCalibrate
        See :func:`.additive.gaussian_design`.
    """
    if composed(problem) and problem.sampling is not None:
        step = problem.l2_of_a_step(spread)
        return sampled_design(spread, step, problem.scaling, guarantee, problem.sampling)
    if composed(problem) and problem.band is not None:
        sensitivity, band = problem.l2_of_the_band(spread, problem.band), problem.band
        return banded_design(spread, sensitivity, problem.scaling, guarantee, band, problem.patterns)
    return answer_itself(problem, spread).design(guarantee)


def spread_of(
    problem: Problem, rows: Vector, columns: Vector, importance: Importance = _ABSOLUTE, norm: int = 2
) -> Spread:
    """Spread of a problem, with its constant coordinate put in front where it has one.

    Parameters
    ----------
    problem
        The problem.
    rows, columns
        Spread by row and by column, without the constant coordinate.
    importance
        The error that the count's share of totals makes small.
    norm
        In which the sensitivity is measured: 2 for Gaussian noise, 1 for Laplace noise.
    """
    if constants(problem) == (0, 0):
        return problem.spread(rows, columns)
    if not led_by_constants(problem):
        raise NotApplicable("noise of the count that leads this answer is not known; choose another query")
    return problem.spread(*problem.with_constants(rows, columns, importance.weights(problem)[1], norm))


def _optimal(units: Vector, importance: Vector, body: AnyBody, norms: float) -> Vector:
    if body is Body.BALL:
        return np.ones(units.size)
    if isinstance(body, CappedBox):
        deviations = np.sqrt(box_with_ball_variances(body.shares, norms, importance / np.max(importance), 1.0))
        ratios: Vector = deviations / body.shares
        return ratios / np.min(ratios)
    weights = units * np.sqrt(importance)
    spread: Vector = (weights / np.max(weights)) ** -0.5
    return spread


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="gaussian",
            title="analytic Gaussian, equal noise in raw units",
            status=Status.PROVEN_EXACT,
            source="Balle and Wang, 2018, Theorem 8; IMGM Theorem 2 for isotropic noise",
            theorem=(
                "noise of standard deviation s on an answer that neighbours change by at most D in L2 is (epsilon, "
                "delta)-private if and only if Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) <= delta "
                "for mu = D / s"
            ),
            relations=BOTH,
            needs="public bounds of a record",
            loss="mu = sensitivity / standard deviation",
            error="entries * (sensitivity / mu)^2; a symmetric answer needs about half of that",
            finding=(
                "Exact (if and only if). The usual double-precision root finder errs at some parameters, on the "
                "unsafe side too; the solver here is within 1e-12 and ends on the private side."
            ),
            use="release",
        ),
        mechanism=Gaussian,
        form="Equal noise for each entry, in raw units.",
        tried=lambda _: (Gaussian(),),
        audited=(Gaussian(),),
    ),
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="shaped-gaussian",
            title="Gaussian whose size follows the declared bounds",
            status=Status.PROVEN_EXACT,
            source="MVG (CCS 2018), section 6, Algorithms 1 and 2, with the exact budget of Balle and Wang, 2018",
            theorem=(
                "independent Gaussian noise of variances v_i is as private as one Gaussian at mu = sup over "
                "neighbours of sqrt(sum of change_i^2 / v_i), exactly; for rows in a box that is mu^2 = sum of c_i^2 "
                "/ v_i"
            ),
            relations=BOTH,
            needs="public bounds of a record; optionally an importance for each feature",
            loss="mu = sup over neighbours of the change divided by the noise, entry by entry",
            error=(
                "box, rows: (sum c_i sqrt(w_i))^2 / mu^2, less within a ball; ellipsoid: tr(E) / mu^2; second "
                "moment: ((tr E)^2 + tr E^2) / (2 mu^2), twice that under replace-one"
            ),
            finding=(
                "Directional noise is worth it exactly when the set of changes is narrower than a ball; then it "
                "saves orders of magnitude."
            ),
            use="release",
        ),
        mechanism=ShapedGaussian,
        form="Noise that follows the declared shape.",
        parameters=(Parameter("optimise_for", ErrorAim(), AIM_MEANING),),
        build=lambda optimise_for: ShapedGaussian(optimise_for),
        tried=lambda aim: tuple(map(ShapedGaussian, (aim, Importance("relative-error"), Importance("absolute-error")))),
        audited=(ShapedGaussian(Importance("relative-error")),),
    ),
)
