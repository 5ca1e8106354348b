"""Error by rounding of the coordinates of a record, from what a release states: bounds, bits, places and equal records.

A value at one of N places of a step is off by a variance of at most ``1/4 + 1/N`` steps squared and a mean of at most
``1/N``. With n records of which m are equal, and K steps for coordinate one, a sum is off by at most
``r^2 = (1/4 + 1/N) n m / K^2 + (n / (N K))^2``, and a sum of products by ``r_i + r_j + c r_i r_j`` where
``c = 1 / m + 4 / sqrt(n m)``. A feature whose bounds declare a step may be rounded by nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.verification.stated_numbers import largest_integer, sizes, stated_count

Values = NDArray[np.float64]

_USUALLY_ALIKE = 8

STEPS = "steps_per_unit"

_NAMES = (
    (("by_coordinate", STEPS), ("by_coordinate", STEPS)),
    (("by_row", f"left_{STEPS}"), ("by_column", f"right_{STEPS}")),
)
"""Names of errors and steps of both sides: of the same one twice, and of two factors."""

_WHOLE = 1e-6
"""Part of a step that floats may add to a declared value."""


@dataclass(frozen=True, eq=False)
class StatedRounding:
    """Errors by rounding in coordinates.

    Attributes
    ----------
    rows, columns
        r of each coordinate of either side, 0 of a constant one.
    second_order
        Factor of the product of two of them.
    """

    rows: Values
    columns: Values
    second_order: float

    def deviations(self, rows: slice, columns: slice) -> Values:
        """Of a block of sums of products."""
        down, across = self.rows[rows], self.columns[columns]
        deviations: Values = np.add.outer(down, across) + self.second_order * np.multiply.outer(down, across)
        return deviations


def coordinate_units(stated: Mapping[str, Any], scale: Values, of: str = "") -> Values:
    """Raw units of one coordinate: half widths, or K over the steps of a raw unit where these are stated.

    Parameters
    ----------
    stated
        Attributes of the release.
    scale
        Half widths.
    of
        What stands before the name of the steps, of one factor of two.

    Raises
    ------
    KeyError, ValueError
        They are not stated, or none.
    """
    if f"{of}{STEPS}" not in stated["mechanism"]:
        return scale
    return largest_integer(stated) / np.array(sizes(stated["mechanism"], f"{of}{STEPS}", scale.size))


def stated_rounding(
    stated: Mapping[str, Any], sides: Sequence[Mapping[str, Any]], leads: tuple[int, int], *, products: bool
) -> StatedRounding | None:
    """Error by rounding; None where records are rounded to nearest, of which no standard error tells.

    Parameters
    ----------
    stated
        Attributes of the release.
    sides
        Shapes of both factors; of a symmetric answer the same twice.
    leads
        Constant coordinates in front of either.
    products
        Whether sums are of products of both; else the first side is the number one.

    Raises
    ------
    KeyError, TypeError, ValueError
        Something is not stated, or cannot be.
    """
    mechanism, query = stated["mechanism"], stated["query"]
    if "rounding" not in mechanism:
        return None
    places = re.fullmatch(r"at (\d{1,9}) places by content", str(mechanism["rounding"]))
    if places is None or int(places[1]) < 1:
        raise ValueError("rounding")
    tilt, largest, records = 1.0 / int(places[1]), largest_integer(stated), stated_count(query, "rows_at_most")
    alike = stated_count(query, "duplicates_at_most") if "duplicates_at_most" in query else _USUALLY_ALIKE
    alike = min(alike, records)
    r = math.hypot(math.sqrt((0.25 + tilt) * records * alike) / largest, records * tilt / largest)
    down, across = (
        np.concatenate([np.zeros(lead), np.where(_exact(stated, side, *names), 0.0, r)])
        for side, lead, names in zip(sides, leads, _NAMES[sides[0] is not sides[1]], strict=True)
    )
    if not products:
        return StatedRounding(np.zeros(1), across, 0.0)
    return StatedRounding(down, across, 1.0 / alike + 4.0 / math.sqrt(records * alike))


def _exact(stated: Mapping[str, Any], side: Mapping[str, Any], error: str, steps: str) -> NDArray[np.bool_]:
    """Features that are said to be rounded by nothing, each of which must declare a step that is whole in integers.

    Parameters
    ----------
    stated, side
        Attributes of the release, and the shape of one factor.
    error, steps
        Names of the errors by coordinate and of the steps of a raw unit.
    """
    features = side["features"]
    rounding_errors = stated.get("error", {}).get("rounding_error", {}).get(error)
    if rounding_errors is None:
        return np.zeros(len(features), bool)
    exact: NDArray[np.bool_] = np.broadcast_to(np.asarray(rounding_errors, np.float64), len(features)) == 0.0
    step = np.array([float(feature.get("step") or 0.0) for feature in features])
    if np.any(exact & ~(step > 0.0)):
        raise ValueError(error)
    if exact.any() and steps in stated["mechanism"]:
        whole = np.array(sizes(stated["mechanism"], steps, step.size)) * step
        if np.any(exact & (np.abs(whole - np.rint(whole)) > _WHOLE)):
            raise ValueError(error)
    return exact
