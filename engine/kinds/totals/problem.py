"""Sums of records, as a mechanism sees them: how far one record moves the count and the sum of each column.

Records are integer vectors k with ``k / K`` in a body (:mod:`.geometry`), so the exact integers of the answer are
``K n`` and ``sum k``, and in coordinates the answer is ``sum (1, v)`` under add-remove and ``sum v`` under replace-one,
where the count is public. Rounding is part of a record here: the suprema are over what the quantiser can produce.

* add-remove: the answer moves by ``(1, v)``. With r the spread, ``|(1, v) / r|_2^2 = 1 / r_0^2 + |v / r|_2^2`` and
  ``|(1, v) / r|_1 = 1 / r_0 + |v / r|_1``, largest where ``|v / r|`` is (:mod:`.reach`).
* replace-one: the answer moves by ``v - w``, so the sensitivity is the diameter of the body. In a box coordinate i
  differs by at most its width u_i, the difference of its two ends in integers over K, and all of them do at once for
  records in opposite corners: ``|u / r|``, attained, wherever the origin lies. In a ball it is twice the radius. In a
  box within a ball ``|share d| <= 2`` as well, or sqrt(2) where no entry is negative, which is a knapsack again.

**The count's share.** A mean about the origin is ``m = s / n``. Its noise is ``(Ds - m Dn) / n`` to first order, and
that of a total ``Ds + origin Dn``. Over means in the body, which is convex, the count's noise adds at most
``B = sup sum w_i c_i^2 v_i^2`` times its variance to the weighted error, for importances w and raw units c, and the
sums' noise adds ``A = sum w_i c_i^2 r_i^2`` times theirs. With Q the squared L2 norm that the sums alone would have,
the least of ``A / t + B / p`` at ``t Q + p = 1`` is at ``p = sqrt(B) / (sqrt(B) + sqrt(A Q))``; with Laplace noise and
Q1 their L1 norm, that of ``A / t^2 + B / p^2`` at ``t Q1 + p = 1`` is at ``p = B^(1/3) / (B^(1/3) + (A Q1^2)^(1/3))``.
For a cube or a ball with equal weights the first is ``1 / (1 + sqrt(d))``, and a mean then costs at most
``(1 + sqrt(d)) / mu`` half widths of noise over n, against ``sqrt(d) / mu`` where the count is public.

**Source**: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import hypot, sqrt
from typing import ClassVar

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import AnyBody, Body, Vector
from blockveil.engine.sensitivity.reach import check_few, largest_l1, largest_l2, uncapped, wider_l1, wider_l2
from blockveil.engine.sensitivity.root_bounds import differences
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread

_ROUND_UP = 1.0 + 1e-13


@dataclass(frozen=True, eq=False)
class Totals:
    """The number of records and the sum of each column about the origin, one row.

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
    widths
        Of a box, the largest difference of two records by coordinate, at most 2, shape (d,); None stands for twice the
        reach of a body about its origin.
    reach
        Of a box, the largest absolute value of each coordinate, at most 1, shape (d,); None stands for 1.
    """

    query: ClassVar[str] = "totals"
    features_axis: ClassVar[None] = None
    body: AnyBody
    scale: Vector
    neighbours: Neighbours
    largest: int
    rows_at_most: int
    widths: Vector | None = field(default=None, kw_only=True)
    reach: Vector | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse more features than are proven."""
        check_few(self.body, self.scale.size)

    @property
    def counted(self) -> bool:
        """Whether the count is asked for; it is public where a record is replaced."""
        return self.neighbours is Neighbours.ADD_REMOVE

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answer."""
        return 1, self.scale.size + int(self.counted)

    @property
    def symmetric(self) -> bool:
        """No."""
        return False

    @property
    def units(self) -> tuple[Vector, Vector]:
        """Raw units by column; the count's is one record."""
        return np.ones(1), np.concatenate([np.ones(int(self.counted)), self.scale])

    @property
    def scaling(self) -> Scaling:
        """Sums of single integers."""
        return Scaling(self.largest, self.rows_at_most * self.largest)

    @property
    def change(self) -> Vector:
        """Largest change of each sum by one record, in coordinates, shape (d,)."""
        if self.counted:
            return np.ones(self.scale.size) if self.reach is None else self.reach
        if self.widths is not None:
            return self.widths
        return np.full(self.scale.size, 1.0 if uncapped(self.body) is Body.HALF_CUBE else 2.0)

    @property
    def constants(self) -> tuple[int, int]:
        """The count leads the columns, where it is asked for."""
        return 0, int(self.counted)

    @property
    def about_count(self) -> bool:
        """Whether a mean is off by the noise of the count too."""
        return self.counted

    def bodies(self) -> tuple[AnyBody, AnyBody]:
        """One row; columns are features."""
        return Body.CUBE, self.body

    @property
    def norms_apart(self) -> float:
        """As for :class:`.rows.problem.Rows`, where the sums change by the difference of two records."""
        return sqrt(2.0) if not self.counted and uncapped(self.body) is Body.HALF_CUBE else 1.0

    @property
    def change_by_column(self) -> Vector | None:
        """Of a box, the largest change of each sum; None within a ball, where sums do not change independently."""
        return self.change if isinstance(self.body, Body) else None

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Noise by column; all of them may change at once."""
        if (rows.size, columns.size) != self.shape:
            raise ValueError("the noise of totals is given by column, with one row")
        return Spread(rows, columns, False, columns.size)

    def l2(self, spread: Spread) -> Sensitivity:
        """Norm of ``(1, v)`` under add-remove, of ``v - w`` under replace-one; see the module."""
        sizes = spread.rows[0] * spread.columns
        if not self.counted:
            return wider_l2(self.body, self.change, sizes)
        # |(1, v) / r|^2 = 1 / r_0^2 + |v / r|^2, and the supremum of the second part is that of the body.
        value = hypot(1.0 / float(sizes[0]), largest_l2(self.body, self._reached(sizes[1:])))
        return Sensitivity(value * _ROUND_UP, value / _ROUND_UP)

    def l1(self, spread: Spread) -> Sensitivity:
        """The same as :meth:`l2` with sums of absolute values."""
        sizes = spread.rows[0] * spread.columns
        if not self.counted:
            return wider_l1(self.body, self.change, sizes)
        value = 1.0 / float(sizes[0]) + largest_l1(self.body, self._reached(sizes[1:]))
        return Sensitivity(value * _ROUND_UP, value / _ROUND_UP)

    def _reached(self, sizes: Vector) -> Vector:
        """Spread of the sums over what each feature of a box reaches: |v_i / r_i| <= reach_i / r_i, all at once."""
        return sizes if self.reach is None or not isinstance(self.body, Body) else sizes / self.reach

    def root_bound(self, rows: Vector, columns: Vector) -> float | None:
        """See :mod:`.root_bounds`; None where no bound is known."""
        units = float(rows[0]) * columns
        if not self.counted:
            ends = None if self.widths is None else (np.zeros(self.scale.size), self.widths)
            return differences(self.body, ends, units, even=False)
        if self.body is Body.BALL:
            return float(units[0]) + sqrt(float(np.sum(units[1:] ** 2)))
        reached = self.widths is not None and bool(np.all(self.widths == 2.0))
        return float(np.sum(units)) if self.body is Body.CUBE and reached else None

    def largest_norm(self) -> float:
        """``rows_at_most sup |(1, v)|``."""
        return self.rows_at_most * hypot(float(self.counted), largest_l2(self.body, np.ones(self.scale.size)))

    def count_weight(self, importance: Vector) -> float:
        """B: what one unit of the count's variance adds at most to the weighted squared error of sums about means.

        Parameters
        ----------
        importance
            Of each column for squared error in raw units, positive, shape (d,).
        """
        return largest_l2(self.body, 1.0 / (np.sqrt(importance) * self.scale)) ** 2

    def with_constants(self, rows: Vector, columns: Vector, importance: Vector, norm: int) -> tuple[Vector, Vector]:
        """Spread with the count in front of the columns; see :meth:`with_count`."""
        return rows, self.with_count(columns, importance, norm)

    def with_count(self, columns: Vector, importance: Vector, norm: int) -> Vector:
        """Spread with the count in front, whose share of the sensitivity makes the worst error least; see the module.

        Parameters
        ----------
        columns
            Spread of the sums, shape (d,).
        importance
            As for :meth:`count_weight`.
        norm
            2 for Gaussian noise, 1 for Laplace noise.
        """
        weighted = np.sqrt(importance) * self.scale
        weighted = weighted / np.max(weighted)  # the share does not depend on the unit of all of them
        of_sums, of_count = float(np.sum((weighted * columns) ** 2)), largest_l2(self.body, 1.0 / weighted) ** 2
        if norm == 2:
            alone = largest_l2(self.body, columns)
            share = sqrt(of_count) / (sqrt(of_count) + sqrt(of_sums) * alone)
            return np.concatenate([[share**-0.5], columns * (alone * (1.0 - share) ** -0.5)])
        alone = largest_l1(self.body, columns)
        share = float(np.cbrt(of_count) / (np.cbrt(of_count) + np.cbrt(of_sums * alone**2)))
        return np.concatenate([[1.0 / share], columns * (alone / (1.0 - share))])
