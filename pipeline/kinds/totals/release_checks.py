"""Whether a release of totals is what it states: how far a record moves it, and count, totals and means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from blockveil.pipeline.verification.checked_arrays import DEVIATION
from blockveil.pipeline.verification.released_arrays import ULP, ArrayCheck, way_back
from blockveil.pipeline.verification.shortened_errors import ShortenedErrors
from blockveil.pipeline.verification.stated_grid import same
from blockveil.pipeline.verification.stated_noise import replaces
from blockveil.pipeline.verification.stated_numbers import Moved
from blockveil.pipeline.verification.stated_rounding import coordinate_units
from blockveil.pipeline.verification.stated_sensitivity import moved_sums_of


def _arrays(check: ArrayCheck) -> None:
    """Of count, totals and means."""
    geometry = check.query["geometry"]
    lead = 0 if replaces(check.stated) else 1
    if check.mixed("totals", "mean"):
        check.count(check.grid((1, lead + len(geometry["features"]))))
        return
    origin, scale = way_back(geometry)
    scale = coordinate_units(check.stated, scale)
    check.names("feature", geometry)
    grid = check.grid((1, lead + scale.size))
    grid = check.rounded(grid, (geometry, geometry), (0, lead), products=False)
    count, of_count, divisor = check.count(grid)
    one, features = slice(0, 1), slice(lead, None)
    steps = [each[0] * scale for each in grid.steps(one, features)]
    sums = [each[0] * scale for each in grid.deviations(one, features)]
    value = check.read("totals", scale.shape)
    error = ULP * (np.abs(value) + np.abs(count * origin))
    check.on_grid("totals", value - count * origin, (steps[0], steps[1]), error)
    deviation, shortened = check.read(f"totals{DEVIATION}", scale.shape), ShortenedErrors(check, origin).means
    expected = [np.sqrt(each**2 + (origin * of_count) ** 2 + (shortened * divisor) ** 2) for each in sums]
    check.require(f"totals{DEVIATION}", same(deviation, *expected))
    check.mean(origin, (steps, sums), (of_count, divisor), shortened)


def _moved(stated: Mapping[str, Any], arrays: Mapping[str, Any], power: int) -> Moved:
    return moved_sums_of(stated, power, counted=not replaces(stated))


RELEASE_CHECKS = {"moved": _moved, "arrays": _arrays}
