"""Histograms of three columns, and records in other bins of them."""

from __future__ import annotations

from itertools import product

import numpy as np

from blockveil.engine.kinds.histograms.problem import Histograms
from blockveil.engine.sensitivity.small_cases import ADD, REPLACE, ROWS, SmallCase

_QUERY = "column-histograms"


def worst_neighbours() -> list[SmallCase]:
    """Return records in the first bins against none, and against those in the last bins; with and without values."""
    bins, last = np.eye(3)[[0, 0, 0]], np.eye(3)[[2, 2, 1]]
    parts = [np.array(part)[:, None] for part in list(product((1.0, 0.0), repeat=3))[:-1]]
    replacements = [(bins * part, last * other) for part in parts for other in (np.zeros((3, 1)), *parts)]
    return [
        SmallCase(_QUERY, Histograms((3, 3, 2), ADD, ROWS), [(bins * part, np.zeros((3, 3))) for part in parts]),
        SmallCase(_QUERY, Histograms((3, 3, 2), REPLACE, ROWS), replacements),
    ]
