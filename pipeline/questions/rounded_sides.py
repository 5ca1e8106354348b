"""How the values of records in a box become integers: on which steps, at which places, and what that adds to an error.

Everything here follows from what a config declares. With K the largest integer, S the steps for one raw unit that the
release states (``steps_per_unit`` of its mechanism; ``K`` over the half width where it states none) and the places of
its ``rounding``, ``k = rint((x - origin) S + w)``. The error by rounding follows from ``rounding_error`` of the same
numbers (:mod:`.rounding_error`): n, m, K, and which features are rounded at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates import rounding_error
from blockveil.engine.estimates.rounding_error import RoundingError
from blockveil.engine.records import dither, fine_dither
from blockveil.engine.records.dither import Dither
from blockveil.engine.records.fine_dither import FineDither
from blockveil.engine.records.geometry import Body, Vector
from blockveil.engine.records.lattice import on_lattice
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.records.quantiser_limits import LARGEST_DITHERED
from blockveil.pipeline.sections.geometry_section import BoxGeometry, Geometry
from blockveil.pipeline.sections.query_sections import USUALLY_ALIKE


@dataclass(frozen=True, eq=False)
class RoundedSide:
    """Records of one shape as integers, and which of their features are rounded.

    Attributes
    ----------
    quantiser
        Clip and quantisation.
    rounded
        Features whose values need not be integers, shape (d,); None where rounding is to nearest, in another shape than
        a box along its own axes.
    spoilt
        Whether a declared step does not fit into these integers, so that its feature is rounded all the same.
    """

    quantiser: Quantiser
    rounded: NDArray[np.bool_] | None
    spoilt: bool = False

    @property
    def tilt(self) -> float:
        """How far places are from even."""
        return 1.0 / dither.PLACES if isinstance(self.quantiser.dither, Dither) else fine_dither.TILT

    def facts(self, of: str = "") -> dict[str, Any]:
        """Places, and steps of raw units where they are not those of the half widths.

        Parameters
        ----------
        of
            What stands before the name of the steps, of one factor of two.
        """
        if self.rounded is None:
            return {}
        c, places = self.quantiser.coordinates, 1.0 / self.tilt
        facts: dict[str, Any] = {"rounding": f"at {int(places)} places by content"}
        if np.any(c.scale != np.maximum(c.upper - c.origin, c.origin - c.lower)):
            facts[f"{of}steps_per_unit"] = (self.quantiser.largest / c.scale).tolist()
        return facts

    def by_coordinate(self, records: int, alike: int) -> Vector:
        """Root mean square errors of sums, the constant first where there is one; see :mod:`.rounding_error`."""
        rounded = np.zeros(0, np.bool_) if self.rounded is None else self.rounded
        own = rounding_error.of_coordinates(rounded, self.quantiser.largest, records, alike, self.tilt)
        return np.concatenate([np.zeros(int(self.quantiser.augmented)), own])


def rounded_side(clip: Quantiser, shape: Geometry) -> RoundedSide:
    """Dither of records in a box along its own axes, whose steps hold declared codes, whole numbers and zeros.

    In other shapes they are rounded to nearest.

    Parameters
    ----------
    clip
        Clip and quantisation, to nearest.
    shape
        As declared.
    """
    c = clip.coordinates
    if c.body not in (Body.CUBE, Body.HALF_CUBE) or c.mixing is not None or not isinstance(shape, BoxGeometry):
        return RoundedSide(clip, None)
    units = np.array([feature.step or 0.0 for feature in shape.features])
    lattice = on_lattice(c, units, clip.largest)
    c, rounded, spoilt = lattice.coordinates, ~lattice.exact, bool(np.any((units > 0.0) & ~lattice.exact))
    coarse = clip.largest <= LARGEST_DITHERED
    places = Dither(c.dimension) if coarse else FineDither(c.dimension, clip.largest)
    return RoundedSide(replace(clip, coordinates=c, dither=places), rounded, spoilt)


def error_of(left: RoundedSide, right: RoundedSide, records: int, alike: int | None) -> RoundingError | None:
    """Error of sums of products of coordinates of two sides; None where rounding is to nearest.

    Parameters
    ----------
    left, right
        Both factors, or the same one twice.
    records, alike
        Largest number of records, and of those of one content.
    """
    if left.rounded is None or right.rounded is None:
        return None
    most = alike or USUALLY_ALIKE
    down, across = (side.by_coordinate(records, most) for side in (left, right))
    return RoundingError(down, across, rounding_error.second_order(records, most))


def error_of_sums(side: RoundedSide, records: int, alike: int | None) -> RoundingError | None:
    """Error of sums of coordinates, one row; other parameters as above."""
    if side.rounded is None:
        return None
    return RoundingError(np.zeros(1), side.by_coordinate(records, alike or USUALLY_ALIKE), 0.0)


@dataclass(frozen=True, eq=False)
class RoundedSums:
    """Sums of rounded records, or of products of two of their values, as far as rounding matters.

    Attributes
    ----------
    sides
        How the values of records are rounded, of each factor; None where that is not known.
    clip
        Clip and quantisation, of the first factor.
    error
        Error by rounding; None where records are rounded to nearest.
    lead
        Constants that lead the columns of the answer.
    records
        Largest number of records.
    largest
        K, the integer that stands for coordinate one.
    alike
        How often one content occurs at most, where that is declared.
    products
        Whether products are summed.
    """

    sides: tuple[RoundedSide | None, ...]
    clip: Quantiser
    error: RoundingError | None
    lead: int
    records: int
    largest: int
    alike: int | None
    products: bool

    @property
    def spoilt(self) -> bool:
        """Whether a declared step does not fit into the integers of records in one shape."""
        return len(self.sides) == 1 and self.sides[0] is not None and self.sides[0].spoilt
