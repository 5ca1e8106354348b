"""Second moments, as a mechanism sees them; see :mod:`.problems`.

**L1 of the distinct entries** is ``(N1^2 + N2^2) / 2`` by adding or removing a record. Cube, replace-one, y and z being
v / r: off the diagonal ``sum |y_i y_j - z_i z_j|`` is convex in each entry, so largest at corners: twice the N1 of
features whose signs agree times that of the others, at most ``N1^2 / 2`` and at most ``N1^2 - N2^2``; the diagonal adds
at most ``N2^2``. Half cube: entries lie in [0, largest], so their differences do too. Where the ends of a box are
known, :mod:`.box_moments` makes less of it.

**L2** is that of :mod:`.second_moment`; of a diagonal that is not isometric, that of :mod:`.moment_diagonal` or, with
sizes by feature or of a covariance, of :mod:`.diagonal_sizes`.

**Source**: MVG (CCS 2018) section 4 for the query; the constants are derived here and attained unless a sensitivity
says that it is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import ClassVar

import numpy as np

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import AnyBody, Body, CappedBox, Vector
from blockveil.engine.sensitivity.box_moments import replaced_in_box
from blockveil.engine.sensitivity.box_products import Ends, over, replaced_triangle, tighter
from blockveil.engine.sensitivity.covariance_bound import least_products
from blockveil.engine.sensitivity.diagonal_sizes import JoinedCount, added_sensitivity, replaced_bound
from blockveil.engine.sensitivity.moment_diagonal import MOST_FEATURES, box_sensitivity, most_gain
from blockveil.engine.sensitivity.reach import capped_second_moment, largest_l1, largest_l2, uncapped
from blockveil.engine.sensitivity.root_bounds import moment_root
from blockveil.engine.sensitivity.second_moment import Sensitivity, second_moment_sensitivity
from blockveil.engine.sensitivity.spread import Diagonal, Scaling, Spread

_ROUND_UP = 1.0 + 1e-13


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
        Whether records reach both ends of a cube, as far as they reach at all, or it is a bound.
    ends
        Of a box, or of one within a ball, the least and the largest value of each coordinate in integers over K, shape
        (d,) each; None where only the body is known.
    """

    query: ClassVar[str] = "second-moment"
    sum_of_squares: ClassVar[bool] = True
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

    @property
    def constants(self) -> tuple[int, int]:
        """The count leads rows and columns of a covariance."""
        return int(self.augmented), int(self.augmented)

    def bodies(self) -> tuple[AnyBody, AnyBody]:
        """Rows and columns are features."""
        return self.body, self.body

    @property
    def own_diagonal(self) -> bool:
        """Whether noise with a diagonal of its own has a proof: where records fill a box."""
        # Problems that are built on second moments have sensitivities of their own, which know no such diagonal.
        return type(self) is SecondMoment and self.body in (Body.CUBE, Body.HALF_CUBE)

    @property
    def positive_version(self) -> bool:
        """Whether a positive semi-definite version is published: of second moments and covariances themselves."""
        return type(self) is SecondMoment

    def with_constants(self, rows: Vector, columns: Vector, importance: Vector, norm: int) -> tuple[Vector, Vector]:
        """Spread with the constant coordinate in front, whose share suits sums and products alike."""
        weights = rows**-2.0
        if isinstance(self.body, CappedBox):
            total = largest_l2(self.body, rows) ** 2
        else:
            total = float(np.max(weights) if self.body is Body.BALL else np.sum(weights))
        # The share that balances noise of sums against noise of products for records as far out as the shape allows.
        constant = 1.0 / (1.0 + np.sqrt(rows.size))
        spread: Vector = np.concatenate([[constant], weights / total * (1.0 - constant)]) ** -0.5
        return spread, spread

    def record_length(self, spread: Spread) -> float:
        """Largest length of a record in units of the spread: its square is what one more record adds to the answer."""
        length: float = max(replace(self, neighbours=Neighbours.ADD_REMOVE).l2(spread).bound, 0.0) ** 0.5
        return length

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Symmetric noise."""
        if rows.shape != columns.shape or rows.size != self.shape[0] or not np.array_equal(rows, columns):
            raise ValueError("a symmetric answer has the same noise by row and by column")
        return Spread(rows, columns, True, rows.size * (rows.size + 1) // 2)

    @property
    def compared_diagonal(self) -> bool:
        """Whether ``auto`` compares such noise: for a covariance if its relation and features have a proof."""
        provable = self.neighbours is Neighbours.ADD_REMOVE or self.body is Body.CUBE
        return self.own_diagonal and (not self.augmented or (provable and 2 <= self.scale.size <= MOST_FEATURES))

    def l2(self, spread: Spread) -> Sensitivity:
        """See :mod:`.second_moment`; for a diagonal that is not isometric :mod:`.moment_diagonal`."""
        if spread.diagonal is not None:
            return self._with_diagonal(spread, spread.diagonal)
        weights = self._reached(spread.rows) ** -2.0
        constant, free = (float(weights[0]), weights[1:]) if self.augmented else (0.0, weights)
        if isinstance(self.body, CappedBox):
            sensitivity = capped_second_moment(self.body, free, self.neighbours, constant)
        else:
            sensitivity = second_moment_sensitivity(self.body, free, self.neighbours, constant)
        if self.neighbours is Neighbours.REPLACE_ONE and not self.even and uncapped(self.body) is Body.CUBE:
            # A furthest record and one at the origin, which have the constant in common.
            one = largest_l2(self.body, self._reached(spread.rows)[int(self.augmented) :]) ** 2 / _ROUND_UP
            sensitivity = Sensitivity(sensitivity.bound, min(sensitivity.attained, sqrt(one * (one + 2.0 * constant))))
        if self.neighbours is Neighbours.REPLACE_ONE and self.ends is not None:
            within = replaced_in_box(*over(self.ends, spread.rows[int(self.augmented) :]), constant)
            # Records of a box within a ball are in the box; whether they reach what it attains is not known.
            sensitivity = tighter(
                sensitivity, within if isinstance(self.body, Body) else Sensitivity(within.bound, 0.0)
            )
        return self._of_triangle(sensitivity, weights) if spread.unscaled else sensitivity

    def _with_diagonal(self, spread: Spread, diagonal: Diagonal) -> Sensitivity:
        """L2 in the norm of noise whose diagonal has a size of its own."""
        if not self.compared_diagonal or not isinstance(self.body, Body) or self.scale.size > MOST_FEATURES:
            raise CannotCalibrate("noise with a diagonal of its own is for second moments of records in a box")
        replaced, rows = self.neighbours is Neighbours.REPLACE_ONE, self._reached(spread.rows)
        beyond, reached_alike = replaced and diagonal.gain > most_gain(self.shape[0]), float(np.ptp(rows)) == 0.0
        by_size = self.augmented or not diagonal.even or beyond or not (replaced or reached_alike)
        if by_size or float(np.ptp(spread.rows)) > 0.0:
            return self._with_sizes(spread, diagonal)
        # Where features do not reach alike, all of them may reach one: then no pair is known to be furthest.
        size = float(rows[0] if reached_alike else spread.rows[0]) ** 2
        sensitivity = box_sensitivity(self.body, self.shape[0], self.neighbours, diagonal)
        d, attained = self.shape[0], sensitivity.attained if reached_alike else 0.0
        if replaced and not self.even:
            # A record at one end of every feature and one at the origin.
            attained = min(attained, sqrt(d * (d - 1.0) + diagonal.gain * d))
        return Sensitivity(sensitivity.bound / size * _ROUND_UP, attained / size)

    def _with_sizes(self, spread: Spread, diagonal: Diagonal) -> Sensitivity:
        """The same where entries of the diagonal have sizes of their own; see :mod:`.diagonal_sizes`."""
        lead = int(self.augmented)
        rows = self._reached(spread.rows)
        # An entry that reaches less than one is as one that reaches one beside as much more noise.
        weights, own = rows**-2.0, (spread.rows / rows) ** 2 / diagonal.sizes(spread.rows)
        constant, sizes = (float(weights[0]), weights[1:]) if lead else (0.0, weights)
        if diagonal.lead != lead or sizes.size < 2:
            raise CannotCalibrate(
                "noise with sizes of its own on the diagonal is for two or more features, after a count"
            )
        if self.neighbours is Neighbours.ADD_REMOVE:
            count = JoinedCount(float(own[0]), diagonal.times) if diagonal.times else None
            return added_sensitivity(sizes, own[lead:], diagonal.shared, constant, count)
        if self.body is Body.HALF_CUBE or diagonal.shared or diagonal.power != 2.0:
            raise CannotCalibrate(
                "noise with this diagonal is not proven where a record is replaced; choose shaped-gaussian"
            )
        bound = replaced_bound(sizes, diagonal.gain, constant)
        # Records at ends of all features do not differ on the diagonal; with ends that are not reached none is known.
        signs = second_moment_sensitivity(Body.CUBE, sizes, self.neighbours, constant).attained if self.even else 0.0
        return Sensitivity(bound, min(bound, signs))

    def _reached(self, rows: Vector) -> Vector:
        """Spread over what each feature of a box reaches of coordinate one: |v_i| <= reach_i, and some v has it."""
        if self.ends is None or self.body not in (Body.CUBE, Body.HALF_CUBE):
            return rows
        ratios = rows.copy()
        ratios[int(self.augmented) :] /= np.maximum(-self.ends[0], self.ends[1])
        return ratios

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
        reached = self._reached(spread.rows)
        first, rest = (1.0 / float(reached[0]), reached[1:]) if self.augmented else (0.0, reached)
        alone = largest_l1(self.body, rest)
        one, two = first + alone, first**2 + largest_l2(self.body, rest) ** 2
        # sum over i <= j of |y_i y_j| = (|y|_1^2 + |y|_2^2) / 2; both norms are at most their own suprema.
        value = (one**2 + two) / 2.0
        attained = value if self.body in (Body.CUBE, Body.HALF_CUBE) else value * 0.5  # N1 alone
        if self.neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(value * _ROUND_UP, attained)
        # Cube: see the module; the constant stays. Half cube: entries in [0, largest] differ by at most largest.
        cube = min(one**2 / 2.0, one**2 - two) + two - first**2
        if first > 8.0 * alone:  # the second of the two, one^2 - first^2, without a difference of near numbers
            cube = alone * (one + first)
        if isinstance(self.body, CappedBox):
            bound = min(2.0 * value, replace(self, body=self.body.box).l1(spread).bound)
        else:
            bound = {Body.HALF_CUBE: value, Body.CUBE: cube, Body.BALL: 2.0 * value}[self.body]
        bound *= _ROUND_UP
        if self.ends is not None:
            within = replaced_triangle(over(self.ends, spread.rows[int(self.augmented) :]), first)
            bound = within if within < bound * (1.0 - 5e-13) else bound
        # Moving a record from the far end to the origin attains what adding it does, less its constant entry.
        return Sensitivity(bound, max(attained - first**2, 0.0))

    def root_bound(self, rows: Vector, columns: Vector) -> float | None:
        """See :mod:`.root_bounds`; None where no bound is known."""
        # Of a covariance the total variance leaves out the count and the sums, which it needs: its bound would say
        # little.
        if type(self) is not SecondMoment or self.augmented:
            return None
        return moment_root(self.body, rows, self.largest, self.neighbours, even=self.even)

    def least_products(self, units: Vector, count: float, sums: Vector) -> float | None:
        """Least total variance of a covariance's products; see :func:`.covariance_bound.least_products`."""
        applicable = type(self) is SecondMoment and self.augmented and self.body is Body.CUBE and self.even
        return least_products(self.neighbours, units, count, sums) if applicable else None

    def largest_norm(self) -> float:
        """``rows_at_most * sup |v|^2``."""
        return self.rows_at_most * (float(self.augmented) + largest_l2(self.body, np.ones(self.scale.size)) ** 2)
