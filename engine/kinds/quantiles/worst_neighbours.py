"""Quantiles of two columns, and records in any of their cells."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from blockveil.engine.kinds.quantiles.problem import Quantiles
from blockveil.engine.sensitivity.small_cases import ADD, REPLACE, ROWS, SmallCase


def worst_neighbours() -> list[SmallCase]:
    """Return records in any cells against none, and against each other; some of them without a value."""
    added, replaced = (Quantiles((3, 4), relation, ROWS, complete=False, tail=0.45) for relation in (ADD, REPLACE))
    cells = [np.arange(4) == np.array(each)[:, None] for each in product(range(-1, 3), range(-1, 4))]
    # The relation decides the weight of the number of values, and so the integers of a record.
    one, other = (
        [problem.answers(each.astype(np.int64)).astype(np.float64) for each in cells] for problem in (added, replaced)
    )
    return [
        SmallCase("quantiles", added, [(record, np.zeros(added.shape)) for record in one]),
        SmallCase("quantiles", replaced, list(combinations(other, 2))),
    ]
