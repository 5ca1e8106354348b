"""Sums of three columns, with a count and without, and the records that move them most."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.small_cases import ADD, LARGEST, REPLACE, ROWS, SmallCase, clip_in_a_ball, in_a_ball

_UNITS = np.array([1.0, 3.0, 0.5])
_SIGNS = np.array([[1, -1, 1]]) * LARGEST


def worst_neighbours() -> list[SmallCase]:
    """Return records at the ends of a box against none or the opposite, and records that fill a box within a ball."""
    above, ones = clip_in_a_ball(0.0, 1.0), np.ones(3)
    within = Totals(above.coordinates.body, ones, REPLACE, LARGEST, ROWS, widths=ones)
    counted = np.insert(_SIGNS, 0, LARGEST, axis=1)
    return [
        SmallCase("totals", Totals(Body.CUBE, _UNITS, ADD, LARGEST, ROWS), [(counted, np.zeros((1, 4)))]),
        SmallCase("totals", Totals(Body.CUBE, _UNITS, REPLACE, LARGEST, ROWS), [(_SIGNS, -_SIGNS)]),
        SmallCase("totals", within, list(combinations(in_a_ball(above)[:, None, :], 2))),
    ]
