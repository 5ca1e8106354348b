"""Simulated records for a preview, from declared bounds and stated numbers alone.

A record is normal in each feature. The first feature is as supposed; each further one correlates with the one before it
as stated, and so with the one before that by the square of it, and so on.

**Source**: an autoregressive process of the first order; Box and Jenkins, 1970.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from blockveil.engine.answers.value_cells import Codes
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.config.query_sections import GradientsSection
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions.cells import CellsQuestion

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
    if isinstance(plan.question, CellsQuestion):
        for column, axis in enumerate(plan.question.query.axes):
            if isinstance(axis, Codes):
                records[:, column] = np.clip(np.rint(records[:, column]), 0, axis.cells - 1)
    if isinstance(plan.config.query, GradientsSection):
        records = np.column_stack([records, _labels(plan.config.query, standard[:, -1])])
    return records


def _chain(rows: int, columns: int, correlation: float) -> Records:
    fresh = np.random.default_rng(_SEED).standard_normal((rows, columns))
    for column in range(1, columns):
        fresh[:, column] = correlation * fresh[:, column - 1] + np.sqrt(1.0 - correlation**2) * fresh[:, column]
    return fresh


def _labels(query: GradientsSection, standard: Records) -> Records:
    """What a model is to predict: classes of equal size, or values across the target's bounds."""
    target, place = query.model.target, ndtr(standard)
    if target.classes is not None:
        return np.asarray(np.minimum(np.floor(place * target.classes), target.classes - 1))
    low, high = float(target.lower or 0.0), float(target.upper or 0.0)
    return np.asarray(low + (high - low) * place)
