"""Whether a release of sums of outer products is what it states: how far a record moves it, and its matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockveil.pipeline.verification.moved_sums import multiplied
from blockveil.pipeline.verification.released_arrays import ArrayCheck, way_back
from blockveil.pipeline.verification.stated_noise import replaces
from blockveil.pipeline.verification.stated_numbers import Moved, sizes, weights
from blockveil.pipeline.verification.stated_rounding import coordinate_units
from blockveil.pipeline.verification.stated_sensitivity import integers
from blockveil.pipeline.verification.stated_shapes import stated_shape


def _arrays(check: ArrayCheck) -> None:
    """Of sums of outer products."""
    sides = [check.query[side] for side in ("left", "right")]
    scales = [
        coordinate_units(check.stated, way_back(side)[1], of)
        for side, of in zip(sides, ("left_", "right_"), strict=True)
    ]
    for name, side in zip(("row", "column"), sides, strict=True):
        check.names(name, side)
    grid = check.rounded(check.grid((scales[0].size, scales[1].size)), sides, (0, 0))
    check.answer("outer_products", grid, (scales[0], scales[1]), 0)


def _moved(stated: Mapping[str, Any], arrays: Mapping[str, Any], power: int) -> Moved:
    mechanism, query = stated["mechanism"], stated["query"]
    largest = integers(stated, 2)
    shapes = [stated_shape(query[side], largest, mechanism, f"{side}_") for side in ("left", "right")]
    spreads = [
        weights(sizes(mechanism, key, shape.features), power)
        for key, shape in zip(("row_spread", "column_spread"), shapes, strict=True)
    ]
    return multiplied(shapes, spreads, power, replaced=replaces(stated))


RELEASE_CHECKS = {"moved": _moved, "arrays": _arrays}
