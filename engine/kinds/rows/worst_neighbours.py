"""Two records, of which one moves as far as it can."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.kinds.rows import rotated
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.small_cases import (
    BASIS,
    LARGEST,
    REPLACE,
    SmallCase,
    clip_along,
    clip_in_a_ball,
    corners_along,
    in_a_ball,
)


def worst_neighbours() -> list[SmallCase]:
    """Return records at opposite ends of a box, those that fill a box within a ball, and corners of a turned cube."""
    above, turned = clip_in_a_ball(0.0, 1.0), clip_along(BASIS)
    row = _first_of_two(np.full(3, LARGEST))
    boxed = Rows(Body.CUBE, np.array([1.0, 3.0, 0.5]), REPLACE, LARGEST, 2)
    within = Rows(above.coordinates.body, np.ones(3), REPLACE, LARGEST, 2)
    return [
        SmallCase("rows", boxed, [(row, -row)]),
        SmallCase("rows", within, list(combinations(map(_first_of_two, in_a_ball(above)), 2))),
        SmallCase(
            "rows",
            rotated.rows(turned, REPLACE, 2),
            list(combinations(map(_first_of_two, corners_along(turned)), 2)),
            along_directions=True,
        ),
    ]


def _first_of_two(record: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.vstack([record, np.zeros(3)])
