"""Two tables over three axes, and records in all their cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.kinds.marginals.problem import Marginals
from blockveil.engine.sensitivity.small_cases import ADD, REPLACE, ROWS, SmallCase
from blockveil.engine.workloads.marginal_tables import MarginalTables

TABLES = MarginalTables((2, 3, 2), ((0, 1), (1, 2)))
ORDERED = replace(TABLES, ordered=(1,))
"""The same tables, with ranges along the axis of three cells."""


def worst_neighbours() -> list[SmallCase]:
    """Return a record in one cell of each table against none, and against one in any other; with and without ranges."""
    first, *others = records = list(_records())
    none = np.zeros_like(first)
    return [
        SmallCase("marginals", Marginals(TABLES, ADD, ROWS), [(first, none)]),
        SmallCase("marginals", Marginals(TABLES, REPLACE, ROWS), [(first, other) for other in others]),
        SmallCase("marginals", Marginals(ORDERED, ADD, ROWS), [(record, none) for record in records]),
        SmallCase("marginals", Marginals(ORDERED, REPLACE, ROWS), list(combinations(records, 2))),
    ]


def _records() -> Iterator[NDArray[np.float64]]:
    """Counts of one record, for each cell of all axes that it may lie in."""
    for places in np.ndindex(TABLES.sizes):
        counts = np.zeros((1, TABLES.cells))
        for table, values in zip(TABLES.tables, TABLES.apart(counts[0]), strict=True):
            values[tuple(places[axis] for axis in table)] = 1.0
        yield counts
