"""How exactly values of records will be known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.accuracy.expected import Accuracy
from blockveil.pipeline.accuracy.number_error import MOST_FEATURES, ExpectedError, interval_of_an_entry
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.kinds.rows.question import RowsAnswer


def errors(answer: RowsAnswer, population: Population) -> list[ExpectedError]:
    """Error of one record's value of each feature, in the feature's own unit, whatever the number of records."""
    del population
    names, coordinates = answer.question.features, answer.question.coordinates
    sizes = interval_of_an_entry(answer.design) * _record_deviations(answer)
    return [
        ExpectedError(f"value of {name}", float(size), of=float(scale))
        for name, size, scale in zip(names[:MOST_FEATURES], sizes, coordinates.scale, strict=False)
    ]


def _record_deviations(answer: RowsAnswer) -> Vector:
    """Standard deviation of a value's noise, raw units, shape (d,)."""
    back, share = answer.question.coordinates.to_raw(), answer.design.standard_deviations((0, 1), (0, answer.shape[1]))
    deviations = share[0] * back if back.ndim == 1 else np.sqrt(share[0] ** 2 @ (back**2).T)
    return np.asarray(deviations)


def typical(answer: RowsAnswer, population: Population, names: Sequence[str] = ()) -> float:
    """Geometric mean of the noise of a record's values, over half of the width of their bounds."""
    del population, names
    return float(np.exp(np.mean(np.log(_record_deviations(answer) / answer.question.coordinates.scale))))


ACCURACY = Accuracy(errors, typical)
