"""Principal directions of four features in a box and in a ball; their neighbours are those of second moments."""

from __future__ import annotations

import numpy as np

from blockveil.engine.kinds.directions.problem import PrincipalDirections
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.small_cases import ADD, LARGEST, ROWS, SmallCase


def worst_neighbours() -> list[SmallCase]:
    """Return the problems alone."""
    bodies = (Body.BALL, np.ones(4)), (Body.CUBE, np.array([1.0, 3.0, 0.2, 10.0]))
    return [
        SmallCase("principal-directions", PrincipalDirections(body, units, ADD, LARGEST, ROWS, False, 2))
        for body, units in bodies
    ]
