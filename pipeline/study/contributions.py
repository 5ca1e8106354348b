"""What one unit may contribute to the records of a config, and what everybody else does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.accuracy.extreme_rows import FURTHEST, Row, in_shape
from blockveil.pipeline.plan.planning import Plan

Records = NDArray[np.float64]

_SEED = 20261124
"""The same rows every time: an audit that is repeated says the same."""


def rows_of_a_unit(plan: Plan) -> list[Row]:
    """Rows that move the release of a plan far; empty for a query of which nothing is known."""
    rng = np.random.default_rng(_SEED)
    return list(plan.config.kind.part("unit_rows", _about_its_shape)(plan.question, plan.config.query, rng))


def _about_its_shape(question: Any, query: Any, rng: np.random.Generator) -> Iterator[Row]:
    """Of a question whose records lie in one shape; none of another."""
    del query
    coordinates = getattr(question, "coordinates", None)
    if coordinates is not None:
        yield from in_shape(coordinates, rng)


def others(rows: list[Row], number: int) -> Records:
    """Rows of everybody else: some of those of a unit, drawn nearer to their mean."""
    # Codes and labels have to stay whole numbers, so rows are repeated and not mixed.
    near = [row.values for row in rows if np.all(np.abs(row.values) < FURTHEST / 2)]
    return np.array([near[i % len(near)] for i in range(number)])
