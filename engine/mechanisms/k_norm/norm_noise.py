"""K-norm noise: what one record may change is a body, and the law of the noise falls with the norm of that body.

For a body K that holds all changes, density ``~ exp(-epsilon |z|_K)`` has pure loss epsilon, whatever the dimension:
``|z + d|_K - |z|_K <= |d|_K <= 1``. Laplace noise is that of the cross-polytope around the changes, which for a box of
d features is d times as far as the box itself. Expected squared error of an entry, for a box of half width one:

========== ============================ =====================================
noise      of one entry                 changes
========== ============================ =====================================
K-norm     ``(d + 1)(d + 2) / 3 s^2``   in a cube ``|d_i| <= s epsilon``
K-norm     ``(d + 1) s^2``              in a ball ``|d|_2 <= s epsilon``
Laplace    ``2 d^2 s^2``                in that cube
========== ============================ =====================================

* **Records in a box.** A record moves by at most its width in each feature, so K is a box. Noise by its largest entry,
  each entry in widths of its feature, is the only choice: narrower noise in any feature would not hide that feature, so
  that no importance of features changes it.
* **Sums of few entries.** Gradients are bounded by their length, so K is a ball.

The set of changes being all of K, this is optimal up to a constant among pure losses (Hardt and Talwar, 2010). With a
delta, Gaussian noise passes it from 50 features on in a box, and from 17 entries on in a ball, at delta 1e-6.

**Source**: Hardt and Talwar, 2010, theorem 4.3 (privacy) and lemma 4.2 (error); whole numbers: :mod:`.cube_noise`,
:mod:`.ball_noise`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.abilities import InBalls, OneRow, in_balls, one_row
from blockveil.engine.mechanisms.contract import NotApplicable, Status
from blockveil.engine.mechanisms.declaration import BOTH, CatalogueEntry, MechanismDeclaration
from blockveil.engine.mechanisms.k_norm import ball_noise, cube_noise
from blockveil.engine.mechanisms.k_norm.ball_noise import BallNoise
from blockveil.engine.mechanisms.k_norm.cube_noise import CubeNoise
from blockveil.engine.mechanisms.k_norm.joint_entries import entry_of
from blockveil.engine.noise.additive import NoiseDesign, pure_design
from blockveil.engine.sensitivity.problems import Problem


@dataclass(frozen=True)
class KNorm:
    """Noise by the norm of what one record may change."""

    name: ClassVar[str] = "k-norm"

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """By the largest entry for records in a box, by the length for gradients; exact."""
        if one_row(problem):
            return _of_rows(problem, guarantee)
        if in_balls(problem):
            return _of_gradient(problem, guarantee)
        raise NotApplicable("K-norm noise is for records in a box and for short gradients; choose laplace")

    def parameters(self) -> dict[str, Any]:
        """None."""
        return {}


def _of_rows(problem: OneRow, guarantee: ApproxDP) -> NoiseDesign:
    widths = problem.row_widths
    if widths is None:
        raise NotApplicable("K-norm noise of records needs bounds of each feature; choose laplace or shaped-gaussian")
    d = widths.size
    if not 2 <= d <= cube_noise.MOST_ENTRIES:
        raise NotApplicable(
            f"K-norm noise of records is for 2 to {cube_noise.MOST_ENTRIES} features; choose laplace or shaped-gaussian"
        )
    spread = problem.spread(np.ones(problem.shape[0]), widths / np.max(widths))
    # Rounding moves two answers at most one step further apart in each entry, and so in the largest.
    return pure_design(spread, problem.largest_entry(spread), problem.scaling, guarantee, CubeNoise(d), 1.0)


def _of_gradient(problem: InBalls, guarantee: ApproxDP) -> NoiseDesign:
    rows, columns = problem.shape
    if not problem.one_ball or not 2 <= rows * columns <= ball_noise.MOST_ENTRIES:
        raise NotApplicable(
            f"K-norm noise of gradients is for one step of 2 to {ball_noise.MOST_ENTRIES} weights; choose gaussian"
        )
    # In coordinates a gradient lies in the unit ball, so that noise of the same size in all of them is the least.
    spread = problem.spread(np.ones(rows), np.ones(columns))
    # Rounding moves two answers at most one step further apart in each entry, and so in length by the root of how many
    # change. Lengths are rounded up by the law itself, which costs less than one step more.
    steps = sqrt(spread.changing) + 1.0
    return pure_design(spread, problem.l2(spread), problem.scaling, guarantee, BallNoise(rows, columns), steps)


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="k-norm",
            title="K-norm noise in whole numbers, of a box or a ball",
            status=Status.PROVEN_EXACT,
            source="Hardt and Talwar, 2010, Theorem 4.3",
            theorem=(
                "if what one record may change lies in a body K, noise with density ~ exp(-epsilon |z|_K) has pure "
                "loss epsilon"
            ),
            relations=BOTH,
            needs="bounds of each feature (2 to 64 features), or of the length of a gradient (2 to 16 weights)",
            loss="epsilon, pure; and for records the sampler's distance, 2^-95 an entry",
            error="a record, widths w: (d + 1)(d + 2) sum w^2 / (3 epsilon^2); ball: d (d + 1) (change / epsilon)^2",
            finding=(
                "Exact. At epsilon 0.9 and delta 1e-6 it has less error than Laplace and Gaussian noise for records of "
                "2 to 49 features and gradients of 2 to 16 weights."
            ),
            use="release",
        ),
        mechanism=KNorm,
        form="Noise by the norm of what one record may change: a pure epsilon, for few features.",
        tried=lambda _: (KNorm(),),
        tried_for=lambda problem: one_row(problem) or in_balls(problem),
        tails=entry_of,
        audit_cases="blockveil.engine.audit.k_norm_cases:k_norm_cases",
    ),
)
