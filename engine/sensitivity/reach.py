"""How far a record, and the difference of two records, can reach from the origin within a body, over a spread.

For a cube within a ball write ``d_i = share_i v_i``, so that ``|d_i| <= share_i, |d|_2 <= 1``
(:mod:`.box_with_ball`), with M and W the largest ``|v / r|^2`` there and in the cube alone:

* a record: M is a fractional knapsack; in L1 the level of :func:`.box_with_ball.water_level`;
* two records: twice as far; in a half cube ``|d| <= sqrt(2)``, for entries of one sign;
* second moment, replace-one: ``|yy' - zz'|^2 = a^2 + b^2 - 2 p^2`` with ``a = |y|^2, b = |z|^2, p = y.z``, at most
  ``2 M^2``; at most what the cube alone has; and at most what the ellipsoid ``|d| <= 1`` alone has. In a half cube
  ``p >= a + b - W`` (:mod:`.second_moment`) and p is at least the constant's weight. At the sum s of a
  and b, ``|a - b| <= 2 M - s``, so that the square is at most ``s^2 - 2 M s + 2 M^2 - 2 (s - W)^2`` for ``s >= W``:
  largest at ``s = 2 W - M``, or at the end ``2 M`` if that is less.

**Source**: derived here.
"""

from __future__ import annotations

from math import isinf, sqrt

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import AnyBody, Body, CappedBox, Vector
from blockveil.engine.sensitivity.box_with_ball import knapsack_loss, water_level
from blockveil.engine.sensitivity.second_moment import Sensitivity, second_moment_sensitivity, uneven_split

MOST_IN_A_BOX = 2**15 - 1
"""Most features of a box in queries other than second moments, whose sums and samplers are proven up to here."""

_UP = 1.0 + 1e-13
_PAIRED = 1.0 + 1e-14
_OF_ONE_SIGN = sqrt(2.0) * _UP
"""Largest norm of the difference of two records without negative entries, each of norm at most one."""


def check_few(body: AnyBody, features: int) -> None:
    """Refuse a box of so many features that only second moments and covariances have a proof for them.

    Raises
    ------
    ValueError
        There are more than :data:`MOST_IN_A_BOX`.
    """
    if body is not Body.BALL and features > MOST_IN_A_BOX:
        raise ValueError(
            f"{features} features, where the proof of this query covers {MOST_IN_A_BOX}; ask for a covariance or a "
            "second moment in a box, or split the features into several releases"
        )


def uncapped(body: AnyBody) -> Body:
    """The body without a bound of a record's norm."""
    return body.box if isinstance(body, CappedBox) else body


def largest_l2(body: AnyBody, spread: Vector) -> float:
    """``sup |v / spread|_2`` over a body."""
    if isinstance(body, CappedBox):
        return _capped_l2(body, spread, 1.0)
    return float(np.max(1.0 / spread)) if body is Body.BALL else float(np.sqrt(np.sum(spread**-2.0)))


def largest_entries(body: AnyBody) -> tuple[float, float]:
    """``sup v_i^2`` and a bound of ``sup |v_i v_j|`` over all features i and j of a body."""
    if isinstance(body, CappedBox):
        # share_i share_j |v_i v_j| <= 1 / 2 within the ball.
        return 1.0, min(1.0, 0.5 / float(np.min(body.shares)) ** 2)
    return (1.0, 0.5) if body is Body.BALL else (1.0, 1.0)


def largest_l1(body: AnyBody, spread: Vector) -> float:
    """``sup |v / spread|_1`` over a body; for the ball by Cauchy-Schwarz, attained along 1 / spread."""
    if isinstance(body, CappedBox):
        return _capped_l1(body, spread, 1.0)
    inverse = 1.0 / spread
    return float(np.sqrt(np.sum(inverse**2))) if body is Body.BALL else float(np.sum(inverse))


def widest_l2(body: AnyBody, spread: Vector) -> Sensitivity:
    """``sup |(v - w) / spread|_2`` over pairs of records."""
    if isinstance(body, CappedBox) and body.box is Body.HALF_CUBE:
        one = _furthest_squares(body, spread**-2.0)
        rest = _furthest_squares(body, spread**-2.0, without=one)
        bound = _capped_l2(body, spread, _OF_ONE_SIGN)
        return Sensitivity(bound, min(bound, sqrt(float(np.sum(one) + np.sum(rest)))))
    return _there_and_back(body, largest_l2(body, spread))


def widest_l1(body: AnyBody, spread: Vector) -> Sensitivity:
    """``sup |(v - w) / spread|_1`` over pairs of records."""
    if isinstance(body, CappedBox) and body.box is Body.HALF_CUBE:
        return Sensitivity(_capped_l1(body, spread, _OF_ONE_SIGN), largest_l1(body, spread) / _UP)
    return _there_and_back(body, largest_l1(body, spread))


def wider_l2(body: AnyBody, widths: Vector, spread: Vector) -> Sensitivity:
    """``sup |(v - w) / spread|_2`` over pairs of records, whose coordinates differ by at most ``widths`` in a box.

    Parameters
    ----------
    body
        Set of admissible coordinates.
    widths
        Difference of the two ends of each coordinate, both of which are reached, positive, shape (d,); of a ball 2.
    spread
        Positive, shape (d,).
    """
    if isinstance(body, CappedBox):
        # d = share (v - w) lies in the box share widths and, two records being each of norm at most one, in a ball.
        bound = min(_capped_l2(*_of_widths(body, widths, spread), _apart(body)), widest_l2(body, spread).bound)
        return Sensitivity(bound, min(bound, _reached(body, widths, widest_l2(body, spread), largest_l2(body, spread))))
    if body is Body.BALL:
        return _safely(2.0 * largest_l2(body, spread))
    # Records in opposite corners differ by the whole width in every coordinate at once.
    apart = widths / spread
    diameter = _safely(float(np.linalg.norm(apart)))
    # BLAS adds up squares in an order of its own, one by one where it has no vectors: beyond 900 of them that may lose
    # more than the margin. NumPy's sum, in pairs, errs by less than 5e-15 (second_moment), its root by half of it.
    return Sensitivity(max(diameter.bound, float(np.sqrt(np.sum(apart**2))) * _PAIRED), diameter.attained)


def wider_l1(body: AnyBody, widths: Vector, spread: Vector) -> Sensitivity:
    """``sup |(v - w) / spread|_1`` over pairs of records; parameters as for :func:`wider_l2`."""
    if isinstance(body, CappedBox):
        bound = min(_capped_l1(*_of_widths(body, widths, spread), _apart(body)), widest_l1(body, spread).bound)
        return Sensitivity(bound, min(bound, _reached(body, widths, widest_l1(body, spread), largest_l1(body, spread))))
    if body is Body.BALL:
        return _safely(2.0 * largest_l1(body, spread))
    return _safely(float(np.sum(widths / spread)))


def _safely(value: float) -> Sensitivity:
    return Sensitivity(value * _UP, value / _UP)


def _of_widths(body: CappedBox, widths: Vector, spread: Vector) -> tuple[CappedBox, Vector]:
    """A box of differences and its spread, in which a difference over the old spread is what it was."""
    return CappedBox(body.box, body.shares * widths), spread / widths


def _apart(body: CappedBox) -> float:
    """Largest norm of the difference of two records of norm at most one."""
    return _OF_ONE_SIGN if body.box is Body.HALF_CUBE else 2.0 * _UP


def _reached(body: CappedBox, widths: Vector, widest: Sensitivity, largest: float) -> float:
    """Distance of some pair: there and back where the body is the same with its signs turned, else to the origin."""
    even = body.box is Body.HALF_CUBE or float(np.min(widths)) >= 2.0
    return (widest.attained if even else largest) / _UP


def _there_and_back(body: AnyBody, largest: float) -> Sensitivity:
    value = largest if body is Body.HALF_CUBE else 2.0 * largest
    return Sensitivity(value, value)


def _capped_l2(body: CappedBox, spread: Vector, radius: float) -> float:
    return knapsack_loss(body.shares, radius, (body.shares * spread) ** 2)


def _capped_l1(body: CappedBox, spread: Vector, radius: float) -> float:
    gains = 1.0 / (body.shares * spread)
    largest = float(np.max(gains))
    gains = gains / largest
    level = water_level(body.shares, gains**2, radius)
    if isinf(level):
        return float(np.sum(1.0 / spread))
    d = np.minimum(body.shares, level * gains)
    # Lagrange: sum g d <= sum of max (g d - d^2 / (2 t)) + radius^2 / (2 t) at every t > 0; the maximum is at this d.
    return largest * float(np.sum(gains * d) + (radius**2 - np.sum(d**2)) / (2.0 * level)) * _UP


def capped_second_moment(
    body: CappedBox, weights: Vector, neighbours: Neighbours, constant_weight: float = 0.0
) -> Sensitivity:
    """Sensitivity of ``sum y y'`` in Frobenius norm, ``y_i = sqrt(weight_i) v_i``.

    Parameters
    ----------
    body
        Set of admissible coordinates.
    weights
        Positive, shape (d,).
    neighbours
        Neighbouring relation.
    constant_weight
        Squared scale of the constant coordinate; 0 when there is none.
    """
    own = largest_l2(body, weights**-0.5) ** 2 * _UP
    furthest = (constant_weight + own) * _UP
    if neighbours is Neighbours.ADD_REMOVE:
        return Sensitivity(furthest, constant_weight + float(np.sum(_furthest_squares(body, weights))))
    cube = second_moment_sensitivity(body.box, weights, neighbours, constant_weight).bound
    # d = share v lies in the unit ball, where y_i = sqrt(weight_i) / share_i d_i.
    ball = second_moment_sensitivity(Body.BALL, weights / body.shares**2, neighbours, constant_weight).bound
    one = _furthest_squares(body, weights)
    if body.box is Body.CUBE:
        bound = min(cube, ball, sqrt(2.0) * furthest * _UP)
        square, split = float(np.sum(one)) + constant_weight, uneven_split(np.append(one, constant_weight))
        # Two furthest records whose signs make their inner product small; or one, and one at the origin.
        apart = max(2.0 * square**2 - 2.0 * split**2, square**2 - constant_weight**2)
        return Sensitivity(bound, min(bound, sqrt(max(apart, 0.0))))
    total = constant_weight + float(np.sum(weights)) * _UP
    # p is at least the constant's weight w: 2 M^2 - 2 w^2 = 2 (M - w)(M + w), without a difference of near numbers.
    of_one_sign = min(_of_one_sign(furthest, total), sqrt(2.0 * own * (furthest + constant_weight)))
    bound = min(cube, ball, of_one_sign * _UP**2)
    # A far record and one as far as the features that it leaves allow; or one at the origin.
    rest = _furthest_squares(body, weights, without=one)
    a, b = constant_weight + float(np.sum(one)), constant_weight + float(np.sum(rest))
    apart = sqrt(max(a**2 + b**2 - 2.0 * constant_weight**2, 0.0))
    return Sensitivity(bound, min(bound, apart))


def _of_one_sign(furthest: float, total: float) -> float:
    """Largest ``|yy' - zz'|`` of records without negative entries; see the module."""
    s = min(2.0 * furthest, 2.0 * total - furthest) if 2.0 * furthest > total else 2.0 * furthest
    within = max(s - total, 0.0)
    return sqrt(max(s**2 - 2.0 * furthest * s + 2.0 * furthest**2 - 2.0 * within**2, 0.0))


def _furthest_squares(body: CappedBox, weights: Vector, without: Vector | None = None) -> Vector:
    """Squares ``y_i^2`` of a furthest record: the features of most gain fill the ball first, without those given."""
    sizes = body.shares**2 if without is None else np.where(without > 0, 0.0, body.shares**2)
    order = np.argsort(-weights / body.shares**2, kind="stable")
    room = np.maximum(1.0 - np.concatenate([[0.0], np.cumsum(sizes[order])[:-1]]), 0.0)
    filled = np.zeros(sizes.size)
    filled[order] = np.minimum(sizes[order], room)
    squares: Vector = weights * filled / body.shares**2
    return squares
