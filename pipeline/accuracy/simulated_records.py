"""Simulated records for a preview, from declared bounds and stated numbers alone.

A record is normal in each feature. The first feature is as supposed; each further one correlates with the one before it
as stated, and so with the one before that by the square of it, and so on.

**Source**: an autoregressive process of the first order; Box and Jenkins, 1970.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.accuracy.expected import NOTHING
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.plan.planning import Plan

Records = NDArray[np.float64]

_SEED = 20261123
"""The same simulated records every time; they protect nobody, and only the noise differs between two previews."""


def simulated_records(plan: Plan, population: Population, rows: int) -> Records:
    """Records of the columns that a plan names, shape (rows, columns), raw units.

    Parameters
    ----------
    plan
        What would be asked of them.
    population
        What is supposed.
    rows
        How many.
    """
    features = population.size.size
    labels = len(plan.columns) - features
    standard = _chain(rows, features + labels, population.correlation)
    records = population.mean + population.size * standard[:, :features]
    return plan.config.kind.part("accuracy", NOTHING).completed(plan, records, standard)


def _chain(rows: int, columns: int, correlation: float) -> Records:
    fresh = np.random.default_rng(_SEED).standard_normal((rows, columns))
    for column in range(1, columns):
        fresh[:, column] = correlation * fresh[:, column - 1] + np.sqrt(1.0 - correlation**2) * fresh[:, column]
    return fresh
