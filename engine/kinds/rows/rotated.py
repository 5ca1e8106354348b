"""Records in a box along dense directions; see :mod:`.rotation`."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.records.quantiser import ROUNDING_ALONG_DIRECTIONS, Quantiser
from blockveil.engine.sensitivity.rotated_box import RotatedBox
from blockveil.engine.sensitivity.rotation import changes_along, longest, records_along
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Spread

_UP = 1.0 + 1e-12


@dataclass(frozen=True, eq=False)
class RotatedRows(Rows):
    """Records in a box along dense directions.

    Attributes
    ----------
    records, changes
        Sets of coordinates, and of their differences, before they are rounded.
    """

    records: RotatedBox
    changes: RotatedBox

    def l2(self, spread: Spread) -> Sensitivity:
        """One row changes, and both versions of it are rounded."""
        rounding = 2.0 * ROUNDING_ALONG_DIRECTIONS / self.largest
        length = longest(self.changes, spread.columns * float(np.min(spread.rows)), rounding)
        return Sensitivity(min(length.bound, super().l2(spread).bound), length.attained)

    def l1(self, spread: Spread) -> Sensitivity:
        """That of the cube around: an upper bound."""
        return Sensitivity(super().l1(spread).bound, 0.0)

    def largest_norm(self) -> float:
        """``sqrt(rows) sup |u|``."""
        length = longest(self.records, np.ones(self.scale.size), ROUNDING_ALONG_DIRECTIONS / self.largest)
        return sqrt(self.rows) * length.bound * _UP


def rows(clip: Quantiser, neighbours: Neighbours, count: int) -> RotatedRows:
    """Rows query of records that a quantiser sees along directions of a box; raises as :func:`second_moment`."""
    c = clip.coordinates
    return RotatedRows(c.body, c.scale, neighbours, clip.largest, count, records_along(c), changes_along(c))
