"""Gaussian noise for covariances in a box under add-remove, whose count and diagonal have noise in common.

A record that is added changes the count by one, and each entry of the diagonal by a square between zero and one: all of
them upwards. So noise of count and diagonal that moves together hides it for less. What :mod:`.shaped_diagonal` has is
kept: noise off the diagonal by the box, a diagonal with sizes of its own, and s numbers that all its entries share. But
the count takes each of these numbers too, t times, and its own noise is smaller. With less to pay for the count, all
other noise is smaller: by so much that sums may have a smaller share of the loss too.

What is known of count and sums is no less than with ``shaped-gaussian``: with q the squared sensitivity over that of
isometric noise, the weight of the constant in sums is q times what it was, and that of the count's own noise ``(1 + s
t^2) q``, squared weight over squared weight, so that both have at q the noise which ``shaped-gaussian`` has. As the
sensitivity depends on q itself, q is what an iteration from one leads to; each step of it that is kept satisfies both.

Sizes are searched: s up to three, t of one or two, powers of the spread and a gain in steps that grow. Of the best few,
those within three thousandths of the least error, the one with the least noise of the trace is taken, from which
positive semi-definite versions are made.

**Source**: derived here; the sensitivity, with its proof, is in :mod:`.diagonal_sizes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.abilities import MomentProblem, compared_diagonal, constants, own_diagonal
from blockveil.engine.mechanisms.contract import Importance, NotApplicable, Status
from blockveil.engine.mechanisms.declaration import (
    AIM_MEANING,
    CatalogueEntry,
    ErrorAim,
    MechanismDeclaration,
    Parameter,
)
from blockveil.engine.mechanisms.gaussian import least_noise, shaped_spread
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.diagonal_sizes import JoinedCount, added_square
from blockveil.engine.sensitivity.moment_diagonal import MOST_FEATURES
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.spread import Diagonal

_SLACK, _CORNERS, _ROUNDS, _TRIED = 1.003, 1024, 12, 24
_ROOM = 1.0 - 2.0**-10
"""Of the isotropic square of the sensitivity: what rounding of steps adds is less than is left."""

_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
_TAKEN = tuple((shared, times) for shared in (1, 2, 3) for times in (1, 2))


@dataclass(frozen=True)
class JointDiagonal:
    """Noise that follows the declared box, less of it on the diagonal, some of it in common with the count; exact.

    Attributes
    ----------
    importance
        The error to make small.
    """

    name: ClassVar[str] = "joint-diagonal"
    importance: Importance

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Least noise of these sizes."""
        moment = _checked(problem)
        rows = shaped_spread(moment, self.importance).rows
        rows = rows / np.min(rows[1:])
        if np.ptp(rows[1:]) < 1e-9:  # the same but for rounding
            rows[1:] = 1.0
        units = moment.units[0][1:] * np.sqrt(self.importance.weights(moment)[0])
        sizes = _searched(tuple(rows[1:].tolist()), tuple((units / np.max(units)).tolist()), float(rows[0] ** -2.0))
        rows[0] /= sqrt(sizes.part)
        return least_noise(problem, replace(moment.spread(rows, rows), diagonal=sizes.diagonal), guarantee)

    def parameters(self) -> dict[str, Any]:
        """Importance."""
        return {"importance": self.importance.parameters()}


def _checked(problem: Problem) -> MomentProblem:
    counted = constants(problem) == (1, 1)
    if not own_diagonal(problem) or not counted or problem.neighbours is not Neighbours.ADD_REMOVE:
        raise NotApplicable(
            "noise that count and diagonal have in common is for covariances of records in a box under add-remove; "
            "choose shaped-diagonal"
        )
    if not 2 <= problem.scale.size <= MOST_FEATURES:
        raise NotApplicable(
            f"noise with a diagonal of its own is for 2 to {MOST_FEATURES} features; choose shaped-gaussian"
        )
    return problem


@dataclass(frozen=True)
class _Sizes:
    """What a search found.

    Attributes
    ----------
    diagonal
        Noise of count and diagonal.
    part
        q: weight of the constant in sums over what isometric noise has.
    """

    diagonal: Diagonal
    part: float


@lru_cache(maxsize=64)
def _searched(features: tuple[float, ...], units: tuple[float, ...], constant: float) -> _Sizes:
    """Sizes of least error; the same question comes up again for each guarantee that a plan compares."""
    rows, squares, behind = np.array(features), np.array(units) ** 2, np.array((1.0, *features))
    sizes: Vector = rows**-2.0
    beside = (float(np.sum(squares / sizes)) ** 2 - float(np.sum((squares / sizes) ** 2))) / 2.0
    most = _ROOM * (constant + float(np.sum(sizes))) ** 2

    def error(diagonal: Diagonal) -> float:
        """Where q is one."""
        own = diagonal.sizes(behind)[1:]
        return beside + (1.0 + diagonal.shared) * float(np.sum((squares * own) ** 2))

    def of_trace(diagonal: Diagonal) -> float:
        own = diagonal.sizes(behind)[1:]
        return float(np.sum(own**2)) + diagonal.shared * float(np.sum(own)) ** 2

    estimates = _estimates(rows, constant, most)
    estimates.sort(key=lambda each: each.part * error(each.diagonal))
    proven = [_proven(rows, each.diagonal, constant, most) for each in estimates[:_TRIED]]
    candidates = [each for each in proven if each is not None]
    if not candidates:
        raise NotApplicable(
            "count and diagonal of this box cannot have noise in common without more noise elsewhere; choose "
            "shaped-diagonal or shaped-gaussian"
        )
    enough = _SLACK * min(each.part * error(each.diagonal) for each in candidates)
    near = [each for each in candidates if each.part * error(each.diagonal) <= enough]
    return min(near, key=lambda each: each.part * of_trace(each.diagonal))


def _estimates(rows: Vector, constant: float, most: float) -> list[_Sizes]:
    """All sizes that are tried, with q as the corners of :func:`_corners` alone have it."""
    gains, estimates = np.unique(np.round(np.geomspace(2.0, 8.0 * rows.size, 48), 2)), []
    for power in _POWERS if np.ptp(rows) > 0.0 else (2.0,):
        corners = _corners(rows**-2.0, rows**-power)
        for shared, times in _TAKEN:
            common = shared / (1.0 + shared * (rows.size + times**2))
            first = 1.0 + shared * times**2
            parts = _parts(corners, gains, constant, JoinedCount(constant * sqrt(first), times), common, most)
            estimates += [
                _Sizes(Diagonal(float(gain), shared, power, 1, first, times), float(part))
                for gain, part in zip(gains, parts, strict=True)
                if np.isfinite(part)
            ]
    return estimates


def _corners(sizes: Vector, own: Vector) -> tuple[Vector, Vector, Vector, Vector]:
    """Sums of p, of p^2, of e^2 and of e at corners, for a gain of one; of many features at a few corners alone."""
    d = sizes.size
    if np.ptp(sizes) > 0.0 and 2**d <= _CORNERS:
        chosen = (np.arange(2**d)[:, None] >> np.arange(d)) & 1
    else:
        chosen = np.tril(np.ones((d + 1, d), dtype=np.int64), -1)[:, np.argsort(np.argsort(-sizes, kind="stable"))]
    return chosen @ sizes, chosen @ sizes**2, chosen @ own**2, chosen @ own


def _parts(
    corners: tuple[Vector, Vector, Vector, Vector],
    gains: Vector,
    constant: float,
    count: JoinedCount,
    common: float,
    most: float,
) -> Vector:
    """For each gain q, infinite where it is above one; the constant and the count's part are those where q is one."""
    p, squares, of_own, own = (part[:, None] for part in corners)
    part, least = np.ones(gains.size), np.full(gains.size, np.inf)
    for _ in range(_ROUNDS):
        alone = count.own * np.sqrt(part)
        change = p**2 - squares + 2.0 * part * constant * p + gains * of_own + alone**2
        square = np.max(change - common * (count.times * alone + np.sqrt(gains) * own) ** 2, axis=0)
        fits = square <= part * most
        least = np.where(fits, part, least)
        part = np.where(fits, np.maximum(square / most, 1e-3), part)
    return least


def _proven(rows: Vector, diagonal: Diagonal, constant: float, most: float) -> _Sizes | None:
    """The same for one choice, by the sensitivity that is charged; None where q is above one."""
    own, best, part = 1.0 / diagonal.sizes(np.concatenate([[1.0], rows]))[1:], None, 1.0
    for _ in range(_ROUNDS):
        candidate = replace(diagonal, first=diagonal.first / part)
        count = JoinedCount(constant * part * sqrt(candidate.first), diagonal.times)
        square = added_square(rows**-2.0, own, diagonal.shared, constant * part, count=count)[0]
        if square > part * most:
            break
        best = _Sizes(candidate, part)
        part = max(square / most, 1e-3)
    return best


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="joint-diagonal",
            title="Gaussian for covariances in a box, whose count and diagonal have noise in common",
            status=Status.PROVEN_EXACT,
            source="Balle and Wang, 2018, Theorem 8, at a sensitivity that is derived here",
            theorem=(
                "Gaussian noise of covariance K is as private as one Gaussian at mu = sup over neighbours of the root "
                "of change' K^-1 change, exactly; where a record is added, the supremum is at a corner of the squares, "
                "also where count and diagonal have noise in common"
            ),
            relations=(Neighbours.ADD_REMOVE,),
            needs="bounds of each feature (2 to 256 features)",
            loss="mu = sup over neighbours of the change in the norm of the noise",
            error="of covariances of 4 features 1.26 times less than shaped-diagonal, of 6 features 1.18 times",
            finding=(
                "Exact, or a bound that the plan calls so. With equal bounds it is within 1.01 of the least of any "
                "Gaussian noise that knows count and sums as well, from three features on."
            ),
            use="release",
        ),
        mechanism=JointDiagonal,
        form="Noise that follows a box, some of it shared by the diagonal of a covariance and its count.",
        parameters=(Parameter("optimise_for", ErrorAim(), AIM_MEANING),),
        build=lambda optimise_for: JointDiagonal(optimise_for),
        tried=lambda aim: tuple(map(JointDiagonal, (aim, Importance("relative-error"), Importance("absolute-error")))),
        tried_for=lambda problem: compared_diagonal(problem) and constants(problem) == (1, 1),
        audited=(JointDiagonal(Importance("relative-error")),),
    ),
)
