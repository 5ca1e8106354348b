"""Gaussian noise that follows a box's bounds, with a diagonal of its own: second moments in an uneven box, covariances.

What :mod:`.box_diagonal` does where all features count equally is done here where they do not, and for covariances,
whose records have a constant coordinate. Off the diagonal the noise is that of :mod:`.gaussian`, by the same
importance. On it the entry of a feature with spread r has by itself ``r^2a / g`` of the variance that isometric noise
has where its spread is one; under add-remove s numbers more are shared. The count of a covariance has noise of its own,
and the share of its constant coordinate is as it was, so that no less is known of count and sums than with
``shaped-gaussian``.

* Under replace-one, g is the largest that costs nothing, a is 2 and s is 0.
* Under add-remove the total variance times the squared sensitivity is computed for s up to three, a in steps of a
  quarter and g in steps that grow, where no entry off the diagonal gets more noise than it had; of those within a
  hundredth of the least, the one with the least noise of the trace is taken, from which positive semi-definite versions
  are made.

**Source**: derived here; the sensitivity, with its proof, is in :mod:`.diagonal_sizes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.abilities import MomentProblem, compared_diagonal, constants, own_diagonal
from blockveil.engine.mechanisms.contract import Importance, NotApplicable, Status
from blockveil.engine.mechanisms.declaration import (
    AIM_MEANING,
    BOTH,
    CatalogueEntry,
    ErrorAim,
    MechanismDeclaration,
    Parameter,
)
from blockveil.engine.mechanisms.gaussian import least_noise, shaped_spread
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.records.geometry import Body, Vector
from blockveil.engine.sensitivity.diagonal_sizes import added_square, free_gain
from blockveil.engine.sensitivity.moment_diagonal import MOST_FEATURES
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.spread import Diagonal

_MOST_SHARED, _SLACK, _FEW_CASES = 3, 1.01, 1024
_ROOM = 1.0 - 2.0**-10
"""Of the isotropic square of the sensitivity: what rounding of steps adds is less than is left."""

_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class ShapedDiagonal:
    """Noise that follows the declared box, less of it on the diagonal, some of it shared under add-remove; exact.

    Attributes
    ----------
    importance
        The error to make small.
    """

    name: ClassVar[str] = "shaped-diagonal"
    importance: Importance

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Least noise of these sizes."""
        moment = _checked(problem)
        lead, spread = constants(moment)[0], shaped_spread(moment, self.importance)
        rows = spread.rows / np.min(spread.rows[lead:])
        if np.ptp(rows[lead:]) < 1e-9:  # the same but for rounding
            rows[lead:] = 1.0
        units = moment.units[0][lead:] * np.sqrt(self.importance.weights(moment)[0])
        diagonal = diagonal_of(rows, units, moment.neighbours, lead)
        return least_noise(problem, replace(moment.spread(rows, rows), diagonal=diagonal), guarantee)

    def parameters(self) -> dict[str, Any]:
        """Importance."""
        return {"importance": self.importance.parameters()}


def _checked(problem: Problem) -> MomentProblem:
    if not own_diagonal(problem):
        raise NotApplicable(
            "noise that follows a box with a diagonal of its own is for second moments and covariances of records in "
            "a box; choose shaped-gaussian"
        )
    if problem.neighbours is Neighbours.REPLACE_ONE and problem.body is Body.HALF_CUBE:
        raise NotApplicable(
            "noise with a diagonal of its own is not proven for replace-one where the origin is an end of the box; "
            "choose shaped-gaussian, or the midpoint as origin"
        )
    if not 2 <= problem.scale.size <= MOST_FEATURES:
        raise NotApplicable(
            f"noise with a diagonal of its own is for 2 to {MOST_FEATURES} features; choose shaped-gaussian"
        )
    return problem


def diagonal_of(rows: Vector, units: Vector, neighbours: Neighbours, lead: int) -> Diagonal:
    """Sizes of least error; see the module.

    Parameters
    ----------
    rows
        Spread by row, of features one at least, shape (lead + d,).
    units
        Raw units of each feature times the root of its importance, shape (d,).
    neighbours
        Neighbouring relation.
    lead
        1 with a constant coordinate in front, else 0.

    Raises
    ------
    NotApplicable
        No such sizes leave other entries with as little noise as they had.
    """
    sizes, constant = rows[lead:] ** -2.0, float(rows[0] ** -2.0) if lead else 0.0
    if neighbours is Neighbours.REPLACE_ONE:
        return Diagonal(max(2.0, free_gain(sizes, constant) * (1.0 - 1e-12)), 0, lead=lead)
    return _searched(tuple(rows[lead:].tolist()), tuple((units / np.max(units)).tolist()), constant, lead)


@lru_cache(maxsize=64)
def _searched(features: tuple[float, ...], units: tuple[float, ...], constant: float, lead: int) -> Diagonal:
    """Sizes for add-remove; the same question comes up again for each guarantee that a plan compares."""
    rows, squares, d = np.array(features), np.array(units) ** 2, len(features)
    sizes: Vector = rows**-2.0
    beside = (float(np.sum(squares / sizes)) ** 2 - float(np.sum((squares / sizes) ** 2))) / 2.0
    most = _ROOM * (constant + float(np.sum(sizes))) ** 2
    candidates: list[tuple[float, float, float, int, float]] = []
    for power in _POWERS if np.ptp(sizes) > 0.0 else (2.0,):
        for gain in np.unique(np.round(np.geomspace(2.0, 8.0 * d, 32), 2)):
            own = 1.0 / Diagonal(float(gain), 0, power).sizes(rows)
            for shared in range(1, _MOST_SHARED + 1):
                square = added_square(sizes, own, shared, constant, _FEW_CASES)[0]
                if square > most:
                    continue
                error = (beside + (1.0 + shared) * float(np.sum((squares / own) ** 2))) * square
                trace = (float(np.sum(own**-2.0)) + shared * float(np.sum(1.0 / own)) ** 2) * square
                candidates.append((error, trace, float(gain), shared, power))
    if not candidates:
        raise NotApplicable(
            "one feature of the box outweighs the others, so that a diagonal of its own would cost other entries more "
            "noise; choose shaped-gaussian"
        )
    enough = _SLACK * min(error for error, *_ in candidates)
    _, chosen, numbers, power = min((trace, g, s, a) for error, trace, g, s, a in candidates if error <= enough)
    return Diagonal(chosen, numbers, power, lead)


def _compared(problem: Problem) -> bool:
    """For covariances, and where features do not count equally: for others :mod:`.box_diagonal` is compared."""
    return compared_diagonal(problem) and (constants(problem) == (1, 1) or float(np.ptp(problem.scale)) != 0.0)


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="shaped-diagonal",
            title="Gaussian that follows a box's bounds, with a diagonal of its own",
            status=Status.PROVEN_EXACT,
            source="Balle and Wang, 2018, Theorem 8, at a sensitivity that is derived here",
            theorem=(
                "Gaussian noise of covariance K is as private as one Gaussian at mu = sup over neighbours of the root "
                "of change' K^-1 change, exactly; where a record is added, the supremum is at a corner of the squares, "
                "and where one is replaced, it is at most that of isometric noise for a diagonal that is small enough"
            ),
            relations=BOTH,
            needs="bounds of each feature (2 to 256 features); under replace-one, an origin between the bounds",
            loss="mu = sup over neighbours of the change in the norm of the noise",
            error=(
                "of covariances of 6 features 1.28 times less than shaped-gaussian under add-remove, 1.35 times under "
                "replace-one; of 23 features 1.09 times"
            ),
            finding=(
                "Exact, or a bound that the plan calls so. For second moments in uneven boxes it is within 1.03 of the "
                "least of any Gaussian noise at ten features; for covariances no less is known of count and sums."
            ),
            use="release",
        ),
        mechanism=ShapedDiagonal,
        form="Noise that follows a box, with less of it on the diagonal of a covariance or second moment.",
        parameters=(Parameter("optimise_for", ErrorAim(), AIM_MEANING),),
        build=lambda optimise_for: ShapedDiagonal(optimise_for),
        tried=lambda aim: tuple(map(ShapedDiagonal, (aim, Importance("relative-error"), Importance("absolute-error")))),
        tried_for=_compared,
        audited=(ShapedDiagonal(Importance("relative-error")),),
    ),
)
