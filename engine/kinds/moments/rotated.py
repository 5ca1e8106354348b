"""Second moments of records in a box along dense directions; see :mod:`.rotation`."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.records.geometry import GeometryError
from blockveil.engine.records.quantiser import ROUNDING_ALONG_DIRECTIONS, Quantiser
from blockveil.engine.sensitivity.rotated_box import RotatedBox
from blockveil.engine.sensitivity.rotation import longest, records_along
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Spread

_UP = 1.0 + 1e-12


@dataclass(frozen=True, eq=False)
class RotatedSecondMoment(SecondMoment):
    """``sum u u'`` of records in a box along dense directions.

    Attributes
    ----------
    records
        Set of coordinates before they are rounded.
    """

    records: RotatedBox

    def l2(self, spread: Spread) -> Sensitivity:
        """See the module; an upper bound under replace-one, and never above that of the cube around."""
        length = longest(self.records, spread.rows, ROUNDING_ALONG_DIRECTIONS / self.largest)
        # yy' - zz' has squared norm |y|^4 + |z|^4 - 2 (y.z)^2 <= 2 sup |y|^4; with z = 0 it is |y|^4.
        factor = 1.0 if self.neighbours is Neighbours.ADD_REMOVE else sqrt(2.0)
        bound = min(factor * length.bound**2 * _UP, super().l2(spread).bound)
        return Sensitivity(bound, length.attained**2 * (sqrt(0.5) if spread.unscaled else 1.0))

    def l1(self, spread: Spread) -> Sensitivity:
        """That of the cube around: an upper bound."""
        return Sensitivity(super().l1(spread).bound, 0.0)

    def largest_norm(self) -> float:
        """``rows_at_most * sup |u|^2``."""
        length = longest(self.records, np.ones(self.scale.size), ROUNDING_ALONG_DIRECTIONS / self.largest)
        return self.rows_at_most * length.bound**2 * _UP


def second_moment(clip: Quantiser, neighbours: Neighbours, rows_at_most: int) -> RotatedSecondMoment:
    """Second moment of records that a quantiser sees along directions of a box.

    Raises
    ------
    GeometryError
        The coordinates are others, or a constant one leads them.
    """
    if clip.augmented:
        raise GeometryError('directions have no count and mean; choose query kind "second-moment"')
    c = clip.coordinates
    return RotatedSecondMoment(c.body, c.scale, neighbours, clip.largest, rows_at_most, False, records_along(c))
