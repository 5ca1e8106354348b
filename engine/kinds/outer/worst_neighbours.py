"""Outer products of a ball and a box, and the record that moves their sum most."""

from __future__ import annotations

import numpy as np

from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.small_cases import ADD, LARGEST, ROWS, SmallCase


def worst_neighbours() -> list[SmallCase]:
    """Return a record at the end of an axis and at a corner, against none."""
    problem = OuterProducts(Body.BALL, Body.CUBE, np.ones(2), np.array([1.0, 3.0, 0.5]), ADD, LARGEST, ROWS)
    return [SmallCase("outer-products", problem, [(np.outer([LARGEST, 0], np.full(3, LARGEST)), np.zeros((2, 3)))])]
