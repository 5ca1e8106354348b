"""Sums of outer products, as a mechanism sees them; see :mod:`.problems`.

A record adds ``a b'``, whose norm is the product of those of its factors over the spread, in L1 and in L2. Replacing it
changes twice the largest at most. Of two half cubes entries lie in [0, largest], so their differences do too; within
balls they are at most sqrt(2) times the largest in L2 and twice in L1, or the half cubes' own if that is less. Where
the ends of both boxes are known, :mod:`.box_products` bounds each entry.

**Source**: derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import AnyBody, Body, Vector
from blockveil.engine.sensitivity.box_products import Ends, over, replaced_products, tighter
from blockveil.engine.sensitivity.reach import check_few, largest_l1, largest_l2, uncapped
from blockveil.engine.sensitivity.root_bounds import extent
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread

_ROUND_UP = 1.0 + 1e-13


@dataclass(frozen=True, eq=False)
class OuterProducts:
    """``sum a b'`` over records (a, b), as per-example gradients of a linear layer.

    Attributes
    ----------
    left, right
        Bodies of a and of b.
    left_scale, right_scale
        Raw units of a coordinate, shapes (p,) and (q,).
    neighbours, rows_at_most
        As for :class:`.moments.problem.SecondMoment`.
    largest
        K, the integer that stands for coordinate one in either factor.
    even
        As for :class:`.moments.problem.SecondMoment`, of either factor.
    left_ends, right_ends
        As ``ends`` of :class:`.moments.problem.SecondMoment`, of a and of b.
    """

    query: ClassVar[str] = "outer-products"
    left: AnyBody
    right: AnyBody
    left_scale: Vector
    right_scale: Vector
    neighbours: Neighbours
    largest: int
    rows_at_most: int
    even: bool = field(default=True, kw_only=True)
    left_ends: Ends | None = field(default=None, kw_only=True)
    right_ends: Ends | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse more features of a side than are proven."""
        check_few(self.left, self.left_scale.size)
        check_few(self.right, self.right_scale.size)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answer."""
        return self.left_scale.size, self.right_scale.size

    @property
    def symmetric(self) -> bool:
        """No."""
        return False

    @property
    def units(self) -> tuple[Vector, Vector]:
        """Raw units of a and of b."""
        return self.left_scale, self.right_scale

    @property
    def scaling(self) -> Scaling:
        """Sums of products of two integers."""
        return Scaling(self.largest**2, self.rows_at_most * self.largest**2)

    def bodies(self) -> tuple[AnyBody, AnyBody]:
        """Of a and of b."""
        return self.left, self.right

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Noise by row and by column."""
        if (rows.size, columns.size) != self.shape:
            raise ValueError("the noise of outer products is given by row and by column")
        return Spread(rows, columns, False, rows.size * columns.size)

    def l2(self, spread: Spread) -> Sensitivity:
        """``|a b'|_F = |a| |b|``."""
        return self._within(self._change(largest_l2, sqrt(2.0), spread), 2, spread)

    def l1(self, spread: Spread) -> Sensitivity:
        """``|a b'|_1 = |a|_1 |b|_1``."""
        return self._within(self._change(largest_l1, 2.0, spread), 1, spread)

    def _within(self, known: Sensitivity, norm: int, spread: Spread) -> Sensitivity:
        """Products differ by no more than the ends of their factors allow."""
        if self.neighbours is Neighbours.ADD_REMOVE or self.left_ends is None or self.right_ends is None:
            return known
        change = replaced_products(over(self.left_ends, spread.rows), over(self.right_ends, spread.columns), norm)
        both_boxes = isinstance(self.left, Body) and isinstance(self.right, Body)
        return tighter(known, change if both_boxes else Sensitivity(change.bound, 0.0))

    def _change(self, largest: Callable[[AnyBody, Vector], float], disjoint: float, spread: Spread) -> Sensitivity:
        rows = _reached(self.left, self.left_ends, spread.rows)
        columns = _reached(self.right, self.right_ends, spread.columns)
        norm = largest(self.left, rows) * largest(self.right, columns)
        if self.neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(norm * _ROUND_UP, norm)
        if uncapped(self.left) is not Body.HALF_CUBE or uncapped(self.right) is not Body.HALF_CUBE:
            # a = c, b = -d attains it where either body is symmetric about 0; else a record and one at the origin.
            return Sensitivity(2.0 * norm * _ROUND_UP, (2.0 if self.even else 1.0) * norm)
        # Entries of one sign differ by no more than the largest of them, and are furthest apart where none meet.
        cubes = largest(Body.HALF_CUBE, rows) * largest(Body.HALF_CUBE, columns)
        return Sensitivity(min(cubes, disjoint * norm) * _ROUND_UP, norm)

    def root_bound(self, rows: Vector, columns: Vector) -> float | None:
        """See :mod:`.root_bounds`; None where no bound is known."""
        left, right = extent(self.left, rows), extent(self.right, columns)
        # Which gradients there are depends on the weights of a model.
        if type(self) is not OuterProducts or left is None or right is None or not self.even:
            return None
        # a b' becomes -a b', where records are replaced.
        return left * right * (1.0 if self.neighbours is Neighbours.ADD_REMOVE else 2.0)

    def largest_norm(self) -> float:
        """``rows_at_most sup |a| |b|``."""
        p, q = self.shape
        return self.rows_at_most * largest_l2(self.left, np.ones(p)) * largest_l2(self.right, np.ones(q))


def _reached(body: AnyBody, ends: Ends | None, spread: Vector) -> Vector:
    """Spread over what each coordinate of a box reaches: |v_i| <= reach_i, and some record has all of them at once."""
    if ends is None or not isinstance(body, Body):
        return spread
    return spread / np.maximum(-ends[0], ends[1])
