"""What replacing one record changes in a second moment of records in a box, exact up to sixteen features.

Write ``y_i`` for a coordinate times the root of its weight. It lies between two ends on either side of 0; let
``h_i >= g_i >= 0`` be their sizes, the larger at ``+h_i``, which a sign makes so for both records at once. A constant
coordinate ``sqrt(c)`` is the same in all records. The answer moves by ``yy' - zz'``, whose squared Frobenius norm is
``F = a^2 + b^2 - 2 p^2`` with ``a = |y|^2, b = |z|^2, p = y.z``, constant included.

**Where F is largest.** The box is compact, so that some pair attains the supremum. Either record is 0 there, which is
possible without a constant alone and leaves ``a^2``, largest in the far corner h; or:

1. At most one coordinate of y lies between its ends. Of two or more, I, some ``w != 0`` has ``w.z_I = 0``, and
   ``w'Hw = 4 a |w|^2 + 8 (y_I.w)^2 > 0`` for the Hessian H of F in these, so that F grows along w. The same holds of z.
2. Not one of each. If ``y_i`` does, its second derivative is not positive: ``a + 2 y_i^2 <= z_i^2``; if ``z_j`` does,
   ``b + 2 z_j^2 <= y_j^2``. Together ``a <= z_i^2 - 2 y_i^2 <= b <= y_j^2 - 2 z_j^2 <= a``, so that ``y_i = z_j = 0``,
   ``i != j``, c = 0, and y and z are of one length along j and i. Then moving ``y_i`` by e adds ``e^4``.
3. So let y be in a corner, and z too but for ``z_i = t`` at most, with ``b + 2 t^2 <= y_i^2``. A coordinate in which
   both are at ``-g`` may go to h in both: a, b and p grow by the same s, and F by ``2 s |y - z|^2``.
4. Where they are at different ends, turning y and z around leaves ``p`` and ``a + b`` as they are, and
   ``a^2 + b^2 = ((a + b)^2 + (a - b)^2) / 2`` is largest with all h in one record: in y, as ``y_i^2 >= t^2``.
5. ``y_i`` is at h too. If it were at ``-g_i`` with ``g_i < h_i``, both signs of coordinate i could be turned, since
   ``|t| <= g_i``, and y would not be in a corner then; or ``g_i = 0``, which leaves z = 0.

So **one record of a furthest pair is the far corner h**. The other is 0, or it has each coordinate at h or ``-g``, but
for one at most, which is at a root of ``t^3 + (b' - h_i^2) t - p' h_i`` where the second derivative is not positive; b'
and p' are those of the other coordinates. Coordinates of one (h, g) are counted, not distinguished. Up to 2^16 cases
are tried one by one, which is all of sixteen features.

**Beyond that**, ``(z_i - h_i)(z_i + g_i) <= 0`` gives ``z_i^2 <= g_i h_i + (1 - g_i / h_i) h_i z_i``. At a given p the
sum of these is largest where coordinates turn in the order of ``g_i / h_i``, the largest first: a fractional knapsack.
Along each of its pieces F is a concave parabola, whose top is known. Between the pieces the bound is attained.

Corners alone are not enough: for one feature in [-1, 2] they are 3 apart, and 2 and 0 are 4 apart.

**Source**: derived here; the fractional knapsack is that of Dantzig, 1957.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity

_ROUND_UP = 1.0 + 1e-13
"""A largest F is at least that of h and 0, so that sums of sixteen terms err by far less of it than this."""

_CASES = 2**16


@dataclass(frozen=True, eq=False)
class _Classes:
    """Coordinates by their two ends.

    Attributes
    ----------
    far, near
        Sizes h and g, shape (classes,).
    counts
        How many coordinates have them, int64, shape (classes,).
    """

    far: Vector
    near: Vector
    counts: np.ndarray[tuple[int], np.dtype[np.int64]]

    @property
    def cases(self) -> float:
        """Number of ways to choose how many coordinates of each class are turned."""
        return float(np.prod(self.counts + 1.0))

    @property
    def total(self) -> float:
        """Squared length of the far corner, without the constant."""
        return float(np.sum(self.counts * self.far**2))

    def one_less(self, which: int) -> _Classes:
        """The same without one coordinate of a class."""
        counts = self.counts.copy()
        counts[which] -= 1
        return _Classes(self.far, self.near, counts)


def replaced_in_box(lower: Vector, upper: Vector, constant_weight: float = 0.0) -> Sensitivity:
    """Sensitivity of ``sum y y'`` in Frobenius norm where one record is replaced by another in the same box.

    Parameters
    ----------
    lower, upper
        Ends of each coordinate of y, ``lower <= 0 <= upper`` and one of them not 0, shape (d,).
    constant_weight
        Square of the constant coordinate; 0 where there is none.

    Raises
    ------
    ValueError
        The origin lies outside the box, a coordinate has no width, or a number is not finite.
    """
    ends = np.stack([lower, upper])
    if ends.size == 0 or not np.all(np.isfinite(ends)) or np.any(lower > 0.0) or np.any(upper < 0.0):
        raise ValueError("ends must be finite, with the origin between them")
    sizes, counts = np.unique(np.sort(np.abs(ends), axis=0), axis=1, return_counts=True)
    if np.any(sizes[1] == 0.0) or not 0.0 <= constant_weight < np.inf:
        raise ValueError("each coordinate needs some width, and the constant weight must not be negative")
    classes = _Classes(sizes[1], sizes[0], counts)
    if classes.cases <= _CASES or not np.any(sizes[0]):
        value = float(np.sqrt(_largest_square(classes, constant_weight)))
        return Sensitivity(value * _ROUND_UP, value)
    bound, attained = _between(classes, constant_weight)
    # Running sums of n terms err by n 2^-53 of them, and F, at least that of h and 0, by less than 2^-48 (n + 4) of it.
    above = 1.0 + 2.0**-48 * (lower.size + 4.0)
    return Sensitivity(float(np.sqrt(bound)) * above, float(np.sqrt(attained)))


def _square(total: float, b: Vector, p: Vector, apart: Vector, constant: float) -> Vector:
    """F of the far corner and z, with b, p and ``|y - z|^2`` without the constant c.

    ``(c + a)^2 + (c + b)^2 - 2 (c + p)^2 = 2 c (a + b - 2 p) + a^2 + b^2 - 2 p^2``: a large c cancels in the formula.
    """
    square: Vector = 2.0 * constant * apart + total**2 + b**2 - 2.0 * p**2
    return square


def _largest_square(classes: _Classes, constant: float) -> float:
    """Largest F: 0, all corners, and all that are a corner but for one coordinate."""
    total = classes.total
    alone = total**2 + 2.0 * constant * total  # of h and the origin
    if not np.any(classes.near):
        # z_i^2 <= h_i z_i, so that b <= p and F <= a^2 - p^2 <= a^2 - c^2, which is that of h and the origin.
        return alone
    best = max(alone, float(np.max(_square(total, *_turned(classes), constant))))
    nearest = constant + float(np.sum(classes.counts * classes.near**2))
    for which, (far, near) in enumerate(zip(classes.far, classes.near, strict=True)):
        if far**2 > nearest - near**2:  # else no t has b + 2 t^2 <= h_i^2
            rest = _turned(classes.one_less(which))
            best = max(best, _between_ends(total, rest, float(far), float(near), constant))
    return best


def _turned(classes: _Classes) -> tuple[Vector, Vector, Vector]:
    """``|z|^2``, ``h.z`` and ``|h - z|^2`` of all corners z that differ, without the constant; shape (cases,) each."""
    total = np.array([classes.total])
    b, p, apart = total, total, np.zeros(1)
    for far, near, count in zip(classes.far, classes.near, classes.counts, strict=True):
        turned = np.arange(count + 1.0)
        b = np.subtract.outer(b, turned * (far - near) * (far + near)).ravel()
        p = np.subtract.outer(p, turned * far * (far + near)).ravel()
        apart = np.add.outer(apart, turned * (far + near) ** 2).ravel()
    return b, p, apart


def _between_ends(total: float, rest: tuple[Vector, Vector, Vector], far: float, near: float, constant: float) -> float:
    """Largest F where one coordinate of z lies between its ends, and all others are those of a corner."""
    fits = constant + rest[0] < far**2
    b, p, apart = (values[fits] for values in rest)
    if b.size == 0:
        return 0.0
    # t^3 - 3 r^2 t - q has a local maximum of F at the middle of its three roots, 2 r sin(asin(-q / (2 r^3)) / 3).
    root = np.sqrt((far**2 - constant - b) / 3.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        sine = np.nan_to_num((constant + p) * far / (2.0 * root**3), nan=0.0)
    t = np.clip(-2.0 * root * np.sin(np.arcsin(np.clip(sine, -1.0, 1.0)) / 3.0), -near, far)
    # Any t within the box is that of a pair, so that what t is rounded to can only make F less: by the square of it.
    return float(np.max(_square(total, b + t**2, p + far * t, apart + (far - t) ** 2, constant)))


def _between(classes: _Classes, constant: float) -> tuple[float, float]:
    """An upper bound of F, and the largest F of the corners in which it is attained."""
    order = np.argsort(-classes.near / classes.far, kind="stable")
    far, near, counts = classes.far[order], classes.near[order], classes.counts[order]
    far, near = np.repeat(far, counts), np.repeat(near, counts)
    total = classes.total
    falls = (far - near) * (far + near), far * (far + near), -((far + near) ** 2)
    b, p, apart = (
        start - np.concatenate([[0.0], np.cumsum(fall)]) for start, fall in zip((total, total, 0.0), falls, strict=True)
    )
    corners = _square(total, b, p, apart, constant)
    e, d = falls[1], falls[0]
    # F along a piece is concave in the share s that has turned, d <= e; it is largest at s, or at the nearer end.
    s = np.clip((2.0 * e * (constant + p[:-1]) - d * (constant + b[:-1])) / (2.0 * e**2 - d**2), 0.0, 1.0)
    inside = _square(total, b[:-1] - s * d, p[:-1] - s * e, apart[:-1] - s * falls[2], constant)
    alone = total**2 + 2.0 * constant * total
    attained = max(alone, float(np.max(corners)))
    return max(attained, float(np.max(inside))), attained
