"""A sum of gradients of six weights; neighbours are attacked where a training is audited."""

from __future__ import annotations

import numpy as np

from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.small_cases import ADD, LARGEST, ROWS, SmallCase


def worst_neighbours() -> list[SmallCase]:
    """Return the problem alone."""
    problem = GradientProblem(Body.BALL, Body.BALL, np.ones(2), np.ones(3), ADD, LARGEST, ROWS)
    return [SmallCase("gradients", problem)]
