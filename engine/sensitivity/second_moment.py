"""Sensitivity of the second moment, attained or an upper bound, over each body and both neighbouring relations.

Records are ``y_i = sqrt(weight_i) v_i`` with coordinates ``v`` in a standard body (:mod:`.geometry`),
optionally with a constant coordinate ``y_0 = sqrt(constant_weight)``. The answer is ``sum y y'``; its distance between
neighbours is the Frobenius norm. Write ``W`` for the sum of weights and w1 >= w2 for the two largest.

add-remove: ``sup |y y'| = sup |y|^2``.

replace-one: ``|yy' - zz'|^2 = |y|^4 + |z|^4 - 2 (y.z)^2``, at most ``2 sup |y|^4``.

* cube. With ``u = (y+z)/2, w = (y-z)/2`` the square is ``8(|u|^2 |w|^2 + (u.w)^2)``. Signs may be taken non-negative
  and both factors grow with u and w, so ``|u_i| + |w_i| = sqrt(weight_i)``; with ``|u_i| = sqrt(weight_i)(1+s_i)/2``
  it becomes ``W^2 + Q^2 - 2 A^2``, ``Q = sum weight s^2 <= W``, ``A = sum weight s``. Hence at most ``2 W^2``,
  reached when signs s split the weights evenly. For m equal weights the best is A = 0 (m even) or abs(A) = 1 weight
  (m odd, m >= 3). Where one weight w1 exceeds all others together, R, and x is its abs(s): ``Q <= w1 x^2 + R`` and
  ``abs(A) >= w1 x - R``, both reached with the other signs against it, so the best x decides: 1, or the least root of
  ``w1 x^3 - (w1 - R) x + R``, where the derivative vanishes. The constant coordinate has s = 1.
* half cube. With a = abs(y)^2, b = abs(z)^2, p = y.z (weights one): (1-y_i^2)(1-z_i^2) >= 0 gives a + b <= W + p,
  whence the square is at most W^2; reached at y = all ones, z = 0.
* ball. ``yy' - zz'`` is a mixture of ``D(aa' - bb')D`` with a, b orthonormal, D = diag(sqrt(weight)); there the
  square is at most (a'D^2a)^2 + (b'D^2b)^2 <= w1^2 + w2^2 (Ky Fan), reached at the two longest axes.

**Source**: sharpens MVG (CCS 2018) Experiments II and III; the cube with equal weights is ``c^2 sqrt(2 m^2 - 2 [m
odd])``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Body, Vector

MOST_SUMMED = 2**17 - 1
"""Most weights of a sum for which :data:`_ROUND_UP` is proven."""

_ROUND_UP = 1.0 + 1e-13
"""Sums and roots of fewer than 2**17 weights err by less than this factor; applying it keeps bounds on the safe side.

NumPy adds up a contiguous vector in blocks of 128 or fewer, by eight sums, and blocks in pairs: a weight is in at
most 15 + 3 + 7 additions of its block, in one for each of at most 11 halvings, and in one with the constant. Positive
weights then have a sum within ``(1 + 2**-53)**37``, below ``1 + 5e-15``. What follows are some twenty operations, in
which that error grows by less than 16: together below ``1 + 9e-14``.
"""


@dataclass(frozen=True)
class Sensitivity:
    """Largest distance of the answer between neighbours.

    Attributes
    ----------
    bound
        No pair of neighbours is further apart. Frobenius norm, in units of the weighted answer.
    attained
        Some admissible pair is at least this far apart; equal to ``bound`` (to rounding) where the bound is exact.
    """

    bound: float
    attained: float

    @property
    def exact(self) -> bool:
        """Whether the bound is known to be attained (to one part in 1e12)."""
        return self.bound <= self.attained * (1.0 + 1e-12)


def second_moment_sensitivity(
    body: Body, weights: Vector, neighbours: Neighbours, constant_weight: float = 0.0
) -> Sensitivity:
    """Sensitivity of ``sum y y'`` in Frobenius norm.

    Parameters
    ----------
    body
        Set of admissible coordinates.
    weights
        Positive, shape (d,): squared scale of each coordinate in the answer.
    neighbours
        Neighbouring relation.
    constant_weight
        Squared scale of the constant coordinate; 0 when there is none.

    Raises
    ------
    ValueError
        Weights are not positive and finite.
    """
    # The bound of the proof: of so many weights the margin covers what rounding takes from a sum.
    if weights.size > MOST_SUMMED:
        raise ValueError(f"{weights.size} features, where the proof of the bound covers {MOST_SUMMED}; ask for fewer")
    if weights.size == 0 or not np.all(np.isfinite(weights)) or np.any(weights <= 0) or constant_weight < 0:
        raise ValueError("weights must be positive and finite, and the constant weight not negative")
    squared_norm = constant_weight + float(np.max(weights) if body is Body.BALL else np.sum(weights))
    if neighbours is Neighbours.ADD_REMOVE:
        return Sensitivity(squared_norm * _ROUND_UP, squared_norm)
    if body is Body.CUBE:
        return _cube(weights, constant_weight)
    if body is Body.HALF_CUBE:
        # y = ones, z = 0 outside the constant: W^2 - constant_weight^2 is attained.
        return Sensitivity(squared_norm * _ROUND_UP, float(np.sqrt(squared_norm**2 - constant_weight**2)))
    return _ball(np.sort(weights)[::-1], constant_weight)


def _cube(free: Vector, constant_weight: float) -> Sensitivity:
    weights = np.append(free, constant_weight) if constant_weight else free
    m, total, largest = weights.size, float(np.sum(weights)), float(np.max(free))
    if m == 1:
        return Sensitivity(total * _ROUND_UP, total)
    if float(np.ptp(weights)) == 0.0:
        value = float(weights[0] * np.sqrt(2.0 * m * m - 2.0 * (m % 2)))
        return Sensitivity(value * _ROUND_UP, value)
    if 2.0 * constant_weight > total:  # its sign is fixed, so |A| is at least what it has more than the others
        # 2 W^2 - 2 (2 c - W)^2 = 8 c (W - c); the difference loses a factor of W / (W - c), the product none.
        rest = float(np.sum(free))
        square = 2.0 * total**2 - 2.0 * (2.0 * constant_weight - total) ** 2
        value = float(np.sqrt(8.0 * constant_weight * rest if total > 8.0 * rest else square))
        return Sensitivity(value * _ROUND_UP, value)
    if 2.0 * largest > total:
        value = largest * _dominated((total - largest) / largest)
        return Sensitivity(value * _ROUND_UP, value)
    return Sensitivity(
        float(np.sqrt(2.0) * total * _ROUND_UP), float(np.sqrt(2 * total**2 - 2 * uneven_split(weights) ** 2))
    )


def _dominated(rest: float) -> float:
    """Root of the largest ``W^2 + (x^2 + R)^2 - 2 (x - R)^2`` over x in [R, 1], ``W = 1 + R``, R below one."""
    x = rest
    # Newton's method from the left on a convex function that is positive there stays left of its least root.
    for _ in range(200):
        value, slope = x**3 - (1.0 - rest) * x + rest, 3.0 * x**2 - (1.0 - rest)
        if value <= 0.0 or slope >= 0.0:
            break
        x = min(x - value / slope, 1.0)
    best = max((t**2 + rest) ** 2 - 2.0 * (t - rest) ** 2 for t in (rest, x, 1.0))
    # The derivative vanishes at the root, so that its own rounding does not show.
    return float(np.sqrt((1.0 + rest) ** 2 + best))


def uneven_split(weights: Vector) -> float:
    """How unevenly the signs of a greedy split leave the weights: largest first, always against the sum so far."""
    imbalance = 0.0
    for weight in np.sort(weights)[::-1]:
        imbalance = abs(imbalance - float(weight))
    return imbalance


def _ball(weights: Vector, constant_weight: float) -> Sensitivity:
    first, second = float(weights[0]), float(weights[1]) if weights.size > 1 else 0.0
    if constant_weight == 0.0:
        value = float(np.hypot(first, second))
        return Sensitivity(value * _ROUND_UP, value)
    bound = np.sqrt(2.0) * (constant_weight + first)
    opposite = np.sqrt(8.0 * constant_weight * first)
    # Two records on the two longest axes, tilted until orthogonal to each other, or simply on those axes.
    across = np.sqrt((constant_weight + first) ** 2 + (constant_weight + second) ** 2 - 2.0 * constant_weight**2)
    tilted = bound if first == second and constant_weight <= first else 0.0
    return Sensitivity(float(bound * _ROUND_UP), float(max(opposite, across, tilted)))
