"""Whether a release of records is what it states: how far one record moves it, and each with its noise."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from blockveil.pipeline.verification.checked_arrays import DEVIATION, slabs
from blockveil.pipeline.verification.released_arrays import ULP, ArrayCheck, way_back
from blockveil.pipeline.verification.stated_grid import same
from blockveil.pipeline.verification.stated_noise import StatedLaw, replaces, stated_law
from blockveil.pipeline.verification.stated_numbers import UNIT_BITS, Moved, Weights, weights
from blockveil.pipeline.verification.stated_sensitivity import moved_sums_of, stated_sums
from blockveil.pipeline.verification.stated_shapes import Shape


def _arrays(check: ArrayCheck) -> None:
    """Of records with noise each."""
    geometry = check.query["geometry"]
    if check.mixed("rows"):
        return
    origin, scale = way_back(geometry)
    check.names("feature", geometry)
    grid = check.grid((1, scale.size))
    value, deviation = check.stored("rows", 2), check.stored(f"rows{DEVIATION}", 2)
    low, high = (each[0] * scale for each in grid.steps(slice(0, 1), slice(None)))
    expected = [each[0] * scale for each in grid.deviations(slice(0, 1), slice(None))]
    for part in slabs(value.shape):
        records = np.asarray(value[part], np.float64)
        error = ULP * (np.abs(records) + np.abs(origin))
        check.on_grid("rows", records - origin, (low, high), error)
        check.require(f"rows{DEVIATION}", same(deviation[part], *expected))


def _moved(stated: Mapping[str, Any], arrays: Mapping[str, Any], power: int) -> Moved:
    if not replaces(stated):
        raise ValueError("neighbours")  # the number of rows would be private, and is shown
    if stated_law(stated["mechanism"]) is not StatedLaw.LARGEST:
        return moved_sums_of(stated, power, counted=False)
    shape, spread = stated_sums(stated, counted=False)
    if not shape.high:
        raise ValueError("grid")
    return _largest_entry(shape, weights(spread, 1))


def _largest_entry(shape: Shape, weights: Weights) -> Moved:
    """Of one row of records by its largest entry; weights are inverse sizes."""
    widths = [high - low for low, high in zip(shape.low, shape.high, strict=True)]
    most = [high - low for low, high in zip(*shape.within, strict=True)]
    # In a box within a ball an end may lie outside; half as far, at the origin, is a record along the feature.
    reaches = widths if shape.box else [min(width, shape.radius) for width in widths]
    least = max(w * width for w, width in zip(weights.least, reaches, strict=True))
    unit = shape.largest << UNIT_BITS
    bound = max(w * width for w, width in zip(weights.most, most, strict=True))
    return Moved(Fraction(least, unit) ** 2, Fraction(bound, unit) ** 2)


RELEASE_CHECKS = {
    "moved": _moved,
    "arrays": _arrays,
    "laws": (StatedLaw.GAUSSIAN, StatedLaw.LAPLACE, StatedLaw.LARGEST),
}
