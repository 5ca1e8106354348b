"""What is asked of the records, as a mechanism sees it: the answer's shape and what one record can change in it.

Answers are in *coordinates* (:mod:`.geometry`), in which admissible records form a cube, a half cube,
one of these within a ball (:mod:`.reach`), or the unit ball. A mechanism proposes a spread r of the
noise (:mod:`.additive`); a problem tells the sensitivity of the answer divided by it. Write
``N2 = sup |v / r|_2`` and ``N1 = sup |v / r|_1`` over the body.

============== =============================== ======================================= =============================
problem        answer                          L2                                      L1 (distinct entries)
============== =============================== ======================================= =============================
second moment  ``sum v v'`` (d x d)            ``second_moment.py`` beside this file      (N1^2 + N2^2)/2; or see below
rows           the records (n x d)             2 N2, half cube N2                      2 N1, half cube N1
outer products ``sum a b'`` (p x q)            ``outer_problem.py`` beside this file       the same file
counts         cells (m x n)                   1; replace-one sqrt(2)                  1; replace-one 2
totals         ``sum (1, v)``, ``sum v``       ``totals_problem.py`` beside this file  the same file
histograms     bins of d columns               sqrt(d); replace-one sqrt(2 d)          d; replace-one 2 d
marginals      cells of t tables               sqrt(t); replace-one sqrt(2 t)          t; replace-one 2 t
============== =============================== ======================================= =============================

For half cubes replace-one costs no more than add-remove: entries lie in [0, largest], so their differences do too.
For one within a ball: rows sqrt(2) N2 at most. Where the ends of a box are known, :mod:`.box_moments` and the widths
of rows make less of it.
Cube, replace-one, y and z being v / r: off the diagonal ``sum |y_i y_j - z_i z_j|`` is convex in each entry, so largest
at corners: twice the N1 of features whose signs agree times that of the others, at most ``N1^2 / 2`` and at most
``N1^2 - N2^2``; the diagonal adds at most ``N2^2``.

**Source**: MVG (CCS 2018) section 4 for the queries; the constants are derived here and attained unless a sensitivity
says that it is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import ClassVar, Protocol

import numpy as np

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import AnyBody, Body, CappedBox, Vector
from blockveil.engine.sensitivity.box_moments import replaced_in_box
from blockveil.engine.sensitivity.box_products import Ends, over, replaced_triangle, tighter
from blockveil.engine.sensitivity.count_problem import Counts
from blockveil.engine.sensitivity.histogram_problem import Histograms
from blockveil.engine.sensitivity.marginal_problem import Marginals
from blockveil.engine.sensitivity.moment_diagonal import box_sensitivity
from blockveil.engine.sensitivity.outer_problem import OuterProducts
from blockveil.engine.sensitivity.reach import (
    capped_second_moment,
    largest_l1,
    largest_l2,
    uncapped,
    wider_l1,
    wider_l2,
    widest_l1,
    widest_l2,
)
from blockveil.engine.sensitivity.second_moment import Sensitivity, second_moment_sensitivity
from blockveil.engine.sensitivity.spread import Diagonal, Scaling, Spread
from blockveil.engine.sensitivity.totals_problem import Totals

__all__ = [
    "Counts",
    "Histograms",
    "Marginals",
    "OuterProducts",
    "Problem",
    "Rows",
    "SecondMoment",
    "Totals",
    "constants",
]

_ROUND_UP = 1.0 + 1e-13


class Problem(Protocol):
    """A query over a geometry under a neighbouring relation."""

    query: ClassVar[str]

    @property
    def neighbours(self) -> Neighbours:
        """Neighbouring relation."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answer."""

    @property
    def symmetric(self) -> bool:
        """Whether the answer is a symmetric matrix."""

    @property
    def units(self) -> tuple[Vector, Vector]:
        """Raw units of one coordinate, by row and by column of the answer."""

    @property
    def scaling(self) -> Scaling:
        """Exact integers of the answer."""

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Noise of this relative size; ValueError for sizes that do not fit."""

    def l2(self, spread: Spread) -> Sensitivity:
        """L2 sensitivity of the answer divided by the spread; Frobenius norm where it is symmetric."""

    def l1(self, spread: Spread) -> Sensitivity:
        """L1 sensitivity of the distinct entries of the answer divided by the spread."""

    def largest_norm(self) -> float:
        """Largest Frobenius norm of the answer itself, in coordinates, for any admissible data set."""


def constants(problem: Problem) -> tuple[int, int]:
    """How many constant coordinates, which stand for the count, lead the rows and the columns of an answer."""
    if isinstance(problem, Totals):
        return 0, int(problem.counted)
    both = int(getattr(problem, "augmented", False))
    return both, both


def _exact(value: float) -> Sensitivity:
    return Sensitivity(value * _ROUND_UP, value)


@dataclass(frozen=True, eq=False)
class SecondMoment:
    """``sum v v'`` over records, with a constant coordinate in front where ``constant`` is positive.

    Attributes
    ----------
    body
        Set of admissible coordinates.
    scale
        Raw units of a coordinate, shape (d,).
    neighbours
        Neighbouring relation.
    largest
        K, the integer that stands for coordinate one.
    rows_at_most
        Public bound on the number of records.
    augmented
        Whether the constant coordinate one leads each record.
    even
        Whether records reach both ends of a cube (:func:`.geometry.reaches_both_ends`), or it is a
        bound.
    ends
        Of a box, or of one within a ball, the least and the largest value of each coordinate in integers over K, shape
        (d,) each; None where only the body is known.
    """

    query: ClassVar[str] = "second-moment"
    body: AnyBody
    scale: Vector
    neighbours: Neighbours
    largest: int
    rows_at_most: int
    augmented: bool
    even: bool = field(default=True, kw_only=True)
    ends: Ends | None = field(default=None, kw_only=True)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answer."""
        width = self.scale.size + int(self.augmented)
        return width, width

    @property
    def symmetric(self) -> bool:
        """Yes."""
        return True

    @property
    def units(self) -> tuple[Vector, Vector]:
        """Raw units; the constant coordinate counts as one."""
        units = np.concatenate([[1.0], self.scale]) if self.augmented else self.scale
        return units, units

    @property
    def scaling(self) -> Scaling:
        """Sums of products of two integers."""
        return Scaling(self.largest**2, self.rows_at_most * self.largest**2)

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Symmetric noise."""
        if rows.shape != columns.shape or rows.size != self.shape[0] or not np.array_equal(rows, columns):
            raise ValueError("a symmetric answer has equal noise by row and by column")
        return Spread(rows, columns, True, rows.size * (rows.size + 1) // 2)

    @property
    def compared_as(self) -> str:
        """Kind of problem for what ``auto`` compares: a plain second moment in a box has noise that others have not."""
        plain = type(self) is SecondMoment and not self.augmented and isinstance(self.body, Body)
        return "second moment in a box" if plain and self.body is not Body.BALL else self.query

    def l2(self, spread: Spread) -> Sensitivity:
        """See :mod:`.second_moment`; for a diagonal that is not isometric :mod:`.moment_diagonal`."""
        if spread.diagonal is not None:
            return self._with_diagonal(spread, spread.diagonal)
        weights = spread.rows**-2.0
        constant, free = (float(weights[0]), weights[1:]) if self.augmented else (0.0, weights)
        if isinstance(self.body, CappedBox):
            found = capped_second_moment(self.body, free, self.neighbours, constant)
        else:
            found = second_moment_sensitivity(self.body, free, self.neighbours, constant)
        if self.neighbours is Neighbours.REPLACE_ONE and not self.even and uncapped(self.body) is Body.CUBE:
            # A furthest record and one at the origin, which have the constant in common.
            one = largest_l2(self.body, spread.rows[int(self.augmented) :]) ** 2 / _ROUND_UP
            found = Sensitivity(found.bound, min(found.attained, sqrt(one * (one + 2.0 * constant))))
        if self.neighbours is Neighbours.REPLACE_ONE and self.ends is not None:
            within = replaced_in_box(*over(self.ends, spread.rows[int(self.augmented) :]), constant)
            # Records of a box within a ball are in the box; whether they reach what it attains is not known.
            found = tighter(found, within if isinstance(self.body, Body) else Sensitivity(within.bound, 0.0))
        return self._of_triangle(found, weights) if spread.unscaled else found

    def _with_diagonal(self, spread: Spread, diagonal: Diagonal) -> Sensitivity:
        """L2 in the norm of noise whose diagonal has a size of its own; all spreads are the same there."""
        if self.compared_as == self.query or not isinstance(self.body, Body):
            raise CannotCalibrate("noise with a diagonal of its own is for second moments of records in a box")
        found, size = box_sensitivity(self.body, self.shape[0], self.neighbours, diagonal), float(spread.rows[0]) ** 2
        d, attained = self.shape[0], found.attained
        if self.neighbours is Neighbours.REPLACE_ONE and not self.even:
            # A record at one end of every feature and one at the origin.
            attained = min(attained, sqrt(d * (d - 1.0) + diagonal.gain * d))
        return Sensitivity(found.bound / size * _ROUND_UP, attained / size)

    def _of_triangle(self, frobenius: Sensitivity, weights: Vector) -> Sensitivity:
        """L2 of the upper triangle and diagonal of a change D: ``(|D|_F^2 + |diag D|^2) / 2``, at most ``|D|_F^2``."""
        if self.body is Body.BALL and not self.augmented:
            return frobenius  # attained by records along axes, whose changes are diagonal
        if self.neighbours is Neighbours.ADD_REMOVE and not self.augmented and isinstance(self.body, Body):
            # The corner has the largest |v|^2 and the largest entries at once.
            return _exact(float(np.sqrt((np.sum(weights) ** 2 + np.sum(weights**2)) / 2.0)))
        return Sensitivity(frobenius.bound, frobenius.attained * sqrt(0.5))

    def l1(self, spread: Spread) -> Sensitivity:
        """Upper triangle and diagonal."""
        if spread.diagonal is not None:
            raise CannotCalibrate("noise with a diagonal of its own is Gaussian; it has no L1 sensitivity")
        first, rest = (1.0 / float(spread.rows[0]), spread.rows[1:]) if self.augmented else (0.0, spread.rows)
        one, two = first + largest_l1(self.body, rest), first**2 + largest_l2(self.body, rest) ** 2
        # sum over i <= j of |y_i y_j| = (|y|_1^2 + |y|_2^2) / 2; both norms are at most their own suprema.
        value = (one**2 + two) / 2.0
        attained = value if self.body in (Body.CUBE, Body.HALF_CUBE) else value * 0.5  # N1 alone
        if self.neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(value * _ROUND_UP, attained)
        # Cube: see the module; the constant stays. Half cube: entries in [0, largest] differ by at most largest.
        cube = min(one**2 / 2.0, one**2 - two) + two - first**2
        if isinstance(self.body, CappedBox):
            bound = min(2.0 * value, replace(self, body=self.body.box).l1(spread).bound)
        else:
            bound = {Body.HALF_CUBE: value, Body.CUBE: cube, Body.BALL: 2.0 * value}[self.body]
        bound *= _ROUND_UP
        if self.ends is not None:
            within = replaced_triangle(over(self.ends, rest), first)
            bound = within if within < bound * (1.0 - 5e-13) else bound
        # Moving a record from the far end to the origin attains what adding it does, less its constant entry.
        return Sensitivity(bound, max(attained - first**2, 0.0))

    def largest_norm(self) -> float:
        """``rows_at_most * sup |v|^2``."""
        return self.rows_at_most * (float(self.augmented) + largest_l2(self.body, np.ones(self.scale.size)) ** 2)


@dataclass(frozen=True, eq=False)
class Rows:
    """The records themselves, one row each; the number of rows is public, so only replace-one makes sense.

    Attributes
    ----------
    body, scale, neighbours, largest, even, ends
        As for :class:`SecondMoment`.
    rows
        Number of records, public.
    """

    query: ClassVar[str] = "rows"
    body: AnyBody
    scale: Vector
    neighbours: Neighbours
    largest: int
    rows: int
    even: bool = field(default=True, kw_only=True)
    ends: Ends | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse the relation under which the number of rows would be private."""
        if self.neighbours is not Neighbours.REPLACE_ONE:
            raise CannotCalibrate(
                'the rows query shows how many records there are; it needs neighbours = "replace-one"'
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answer."""
        return self.rows, self.scale.size

    @property
    def symmetric(self) -> bool:
        """No."""
        return False

    @property
    def units(self) -> tuple[Vector, Vector]:
        """Raw units of the features, by column."""
        return np.ones(self.rows), self.scale

    @property
    def scaling(self) -> Scaling:
        """Single integers."""
        return Scaling(self.largest, self.largest)

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Noise by feature; each record gets the same."""
        if rows.size != self.rows or columns.size != self.scale.size:
            raise ValueError("the noise of the rows query is given by row and by feature")
        return Spread(rows, columns, False, columns.size)

    def l2(self, spread: Spread) -> Sensitivity:
        """One row changes anywhere within the body: by its diameter."""
        known = self._change(widest_l2(self.body, spread.columns), largest_l2(self.body, spread.columns), spread)
        return self._within(known, wider_l2, spread)

    def l1(self, spread: Spread) -> Sensitivity:
        """One row changes anywhere within the body."""
        known = self._change(widest_l1(self.body, spread.columns), largest_l1(self.body, spread.columns), spread)
        return self._within(known, wider_l1, spread)

    def largest_entry(self, spread: Spread) -> Sensitivity:
        """Largest entry of the answer's change, divided by the spread: the widest feature's width.

        Entries of two records differ by at most the width of their box in each feature, and in one of them by all of
        it, as records at both of its ends show.
        """
        box = uncapped(self.body)
        widths = np.full(self.scale.size, 1.0 if box is Body.HALF_CUBE else 2.0)
        if self.ends is not None and box is not Body.BALL:
            widths = self.ends[1] - self.ends[0]
        value = float(np.max(widths / spread.columns)) / float(np.min(spread.rows))
        reached = isinstance(self.body, Body) and (self.ends is not None or self.even or box is not Body.CUBE)
        # An end that is not reached is half as far away, at the origin; within a ball no more is claimed either.
        return Sensitivity(value * _ROUND_UP, value if reached else value / 2.0)

    def _within(
        self, known: Sensitivity, wider: Callable[[AnyBody, Vector, Vector], Sensitivity], spread: Spread
    ) -> Sensitivity:
        """Coordinates differ by no more than the widths of their box."""
        if self.ends is None:
            return known
        found, least = wider(self.body, self.ends[1] - self.ends[0], spread.columns), float(np.min(spread.rows))
        return tighter(known, Sensitivity(found.bound / least * _ROUND_UP, found.attained / least))

    def _change(self, widest: Sensitivity, largest: float, spread: Spread) -> Sensitivity:
        """Distance from end to end of the body, or from its furthest record to the origin."""
        least = float(np.min(spread.rows))
        across = widest.attained if self.even or uncapped(self.body) is not Body.CUBE else largest / _ROUND_UP
        return Sensitivity(widest.bound / least * _ROUND_UP, across / least)

    def largest_norm(self) -> float:
        """``sqrt(rows) sup |v|``."""
        return sqrt(self.rows) * largest_l2(self.body, np.ones(self.scale.size))
