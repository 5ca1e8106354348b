"""Gaussian noise for second moments in a box whose diagonal follows what a record can change there.

Isotropic noise hides a change of any symmetric matrix. A record in a box cannot make most of them:

* Where it is added or removed, it changes the diagonal by squares, none of which is negative. At a corner all are the
  largest at once, so that only their common part needs much noise: each entry gets little by itself, and all of them
  get the same further numbers.
* Where one is replaced by another, the furthest two change no square at all, so that the diagonal needs little noise.

Both make noise off the diagonal no larger. The sizes are a gain g and a number s of shared integers (:mod:`.spread`).
Under replace-one, g is the largest for which the sensitivity stays that of isotropic noise, and s is zero. Under
add-remove, the total variance times the squared sensitivity is computed for s up to three and g in steps of a quarter;
of those within a hundredth of the least, the one with the least noise of the trace is taken, from which positive
semi-definite versions are made.

Among all Gaussian noise, and so among all choices of sizes, the least for add-remove has this form with real numbers
for g and s: averaged over signs and orders of the features, which leave a cube as it is, the inverse of a covariance
hides each change as well as before, and its trace is no larger.

**Source**: derived here; the sensitivity, with its proof, is in :mod:`.moment_diagonal` of the room of sensitivities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.abilities import compared_diagonal, constants, own_diagonal
from blockveil.engine.mechanisms.contract import NotApplicable, Status
from blockveil.engine.mechanisms.declaration import BOTH, CatalogueEntry, MechanismDeclaration
from blockveil.engine.mechanisms.gaussian import least_noise
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.moment_diagonal import MOST_FEATURES, most_gain
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.spread import Diagonal

_MOST_SHARED, _SLACK = 3, 1.01


@dataclass(frozen=True)
class BoxDiagonal:
    """Isotropic noise off the diagonal, less of it on the diagonal, and under add-remove some that is shared; exact."""

    name: ClassVar[str] = "box-diagonal"

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Least noise of these sizes, the same for all features relative to their own bounds."""
        _check(problem)
        even = problem.spread(np.ones(problem.shape[0]), np.ones(problem.shape[0]))
        return least_noise(problem, replace(even, diagonal=sizes(problem.shape[0], problem.neighbours)), guarantee)

    def parameters(self) -> dict[str, Any]:
        """None."""
        return {}


def _check(problem: Problem) -> None:
    if not own_diagonal(problem) or constants(problem) != (0, 0):
        raise NotApplicable(
            "noise with a diagonal of its own is for second moments of records in a box; choose shaped-gaussian"
        )
    if problem.neighbours is Neighbours.REPLACE_ONE and problem.body is Body.HALF_CUBE:
        raise NotApplicable(
            "noise with a diagonal of its own is not proven for replace-one where the origin is an end of the box; "
            "choose shaped-gaussian, or the midpoint as origin"
        )
    if not 2 <= problem.shape[0] <= MOST_FEATURES:
        raise NotApplicable(
            f"noise with a diagonal of its own is for 2 to {MOST_FEATURES} features; choose shaped-gaussian"
        )


@lru_cache(maxsize=64)
def sizes(features: int, neighbours: Neighbours) -> Diagonal:
    """Sizes of least error; see the module.

    Parameters
    ----------
    features
        Number d of features, from 2 on.
    neighbours
        Neighbouring relation.
    """
    if neighbours is Neighbours.REPLACE_ONE:
        return Diagonal(most_gain(features), 0)
    candidates: list[tuple[float, float, float, int]] = []
    gains = np.arange(8.0, 16.0 * features + 1.0) / 4.0
    for shared in range(1, _MOST_SHARED + 1):
        common = gains * shared / (1.0 + shared * features)
        m = np.arange(features + 1.0)[:, None]
        square = np.max(m * m - m + gains * m - common * m * m, axis=0)
        error = (features * (features - 1) / 2.0 + features * (1.0 + shared) / gains) * square
        trace = (1.0 + shared * features) / gains * square
        candidates += [(float(e), float(t), float(g), shared) for e, t, g in zip(error, trace, gains, strict=True)]
    enough = _SLACK * min(error for error, *_ in candidates)
    _, gain, shared = min((trace, gain, shared) for error, trace, gain, shared in candidates if error <= enough)
    return Diagonal(gain, shared)


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="box-diagonal",
            title="Gaussian for second moments in a box, with a diagonal of its own",
            status=Status.PROVEN_EXACT,
            source="Balle and Wang, 2018, Theorem 8, at a sensitivity that is derived here",
            theorem=(
                "Gaussian noise of covariance K is as private as one Gaussian at mu = sup over neighbours of the root "
                "of change' K^-1 change, exactly; in a box the supremum is at a corner of the squares, or at two "
                "records whose signs differ in half of the features"
            ),
            relations=BOTH,
            needs="bounds of each feature (2 to 256 features); under replace-one, an origin between the bounds",
            loss="mu = sup over neighbours of the change in the norm of the noise",
            error="within 1.02 of the least of any Gaussian noise under add-remove",
            finding=(
                "Exact. It has 1.3 times less squared error than isotropic noise at 6 features, and 1.09 times at 23, "
                "under either relation. Under add-remove, the entries of the diagonal share some of their noise."
            ),
            use="release",
        ),
        mechanism=BoxDiagonal,
        form="Less noise on the diagonal of a second moment in a box.",
        tried=lambda _: (BoxDiagonal(),),
        tried_for=lambda problem: compared_diagonal(problem) and constants(problem) == (0, 0),
        audited=(BoxDiagonal(),),
    ),
)
