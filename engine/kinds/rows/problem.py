"""The records themselves, as a mechanism sees them; see :mod:`.problems`.

One row changes, anywhere within the body: by at most its diameter, which is ``2 N2`` in L2 and ``2 N1`` in L1, and no
more than adding a record costs in a half cube, whose entries lie in [0, largest]. Within a ball too it is at most
``sqrt(2) N2``. Where the ends of a box are known, the widths of the features make less of it.

**Source**: MVG (CCS 2018) section 4 for the query; the constants are derived here and attained unless a sensitivity
says that it is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar

import numpy as np

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import AnyBody, Body, CappedBox, Vector
from blockveil.engine.sensitivity.box_products import Ends, tighter
from blockveil.engine.sensitivity.reach import (
    check_few,
    largest_l1,
    largest_l2,
    uncapped,
    wider_l1,
    wider_l2,
    widest_l1,
    widest_l2,
)
from blockveil.engine.sensitivity.root_bounds import differences
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.shaped_bounds import within_ball
from blockveil.engine.sensitivity.spread import Scaling, Spread

_ROUND_UP = 1.0 + 1e-13


@dataclass(frozen=True, eq=False)
class Rows:
    """The records themselves, one row each; the number of rows is public, so only replace-one makes sense.

    Attributes
    ----------
    body, scale, neighbours, largest, even, ends
        As for :class:`.moments.problem.SecondMoment`.
    rows
        Number of records, public.
    """

    query: ClassVar[str] = "rows"
    features_axis: ClassVar[int] = 1
    changes_one_row: ClassVar[bool] = True
    body: AnyBody
    scale: Vector
    neighbours: Neighbours
    largest: int
    rows: int
    even: bool = field(default=True, kw_only=True)
    ends: Ends | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse the relation under which the number of rows would be private, and more features than are proven."""
        check_few(self.body, self.scale.size)
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

    def bodies(self) -> tuple[AnyBody, AnyBody]:
        """Any row may be the one that changes; columns are features."""
        return Body.CUBE, self.body

    @property
    def norms_apart(self) -> float:
        """Norms by which two records without negative entries differ, as both are in the answer's change; else one."""
        # Two of them differ by up to sqrt(2) norms; all other changes scale with one norm.
        return sqrt(2.0) if uncapped(self.body) is Body.HALF_CUBE else 1.0

    @property
    def row_widths(self) -> Vector | None:
        """Width of each feature over that of one of reach one, shape (d,); None where features have no bounds."""
        # Records along directions fill no box of these coordinates.
        if uncapped(self.body) is Body.BALL or type(self) is not Rows:
            return None
        return np.ones(self.scale.size) if self.ends is None else self.ends[1] - self.ends[0]

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Noise by feature; each record gets the same."""
        if rows.size != self.rows or columns.size != self.scale.size:
            raise ValueError("the noise of the rows query is given by row and by feature")
        return Spread(rows, columns, False, columns.size)

    def l2(self, spread: Spread) -> Sensitivity:
        """One row changes anywhere within the body: by its diameter."""
        diameter = self._change(widest_l2(self.body, spread.columns), largest_l2(self.body, spread.columns), spread)
        return self._within(diameter, wider_l2, spread)

    def l1(self, spread: Spread) -> Sensitivity:
        """One row changes anywhere within the body."""
        diameter = self._change(widest_l1(self.body, spread.columns), largest_l1(self.body, spread.columns), spread)
        return self._within(diameter, wider_l1, spread)

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
        change, least = wider(self.body, self.ends[1] - self.ends[0], spread.columns), float(np.min(spread.rows))
        return tighter(known, Sensitivity(change.bound / least * _ROUND_UP, change.attained / least))

    def _change(self, widest: Sensitivity, largest: float, spread: Spread) -> Sensitivity:
        """Distance from end to end of the body, or from its furthest record to the origin."""
        least = float(np.min(spread.rows))
        across = widest.attained if self.even or uncapped(self.body) is not Body.CUBE else largest / _ROUND_UP
        return Sensitivity(widest.bound / least * _ROUND_UP, across / least)

    def root_bound(self, rows: Vector, columns: Vector) -> float | None:
        """See :mod:`.root_bounds`; None where no bound is known."""
        if isinstance(self.body, CappedBox):
            sizes = within_ball(self.body, columns, self.largest) if self.even else None
            side = None if sizes is None else 2.0 * float(np.sum(sizes))
        else:
            side = differences(self.body, self.ends, columns, even=self.even)
        # Any of the n rows may be the one that changes: C has 1 / n of a row's in each.
        return None if side is None else float(np.sum(rows)) / sqrt(rows.size) * side

    def largest_norm(self) -> float:
        """``sqrt(rows) sup |v|``."""
        return sqrt(self.rows) * largest_l2(self.body, np.ones(self.scale.size))
