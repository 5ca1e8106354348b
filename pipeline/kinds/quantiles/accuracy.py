"""How exactly ranks of quantiles will be known, in records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.accuracy.expected import Accuracy
from blockveil.pipeline.accuracy.number_error import INTERVAL, ExpectedError, share_of
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.kinds.quantiles.question import QuantilesAnswer, QuantilesQuestion


def errors(answer: QuantilesAnswer, population: Population) -> list[ExpectedError]:
    """Error of the rank of each quantile, in the column that has most noise."""
    sizes = INTERVAL * np.max(answer.rank_deviations(), axis=0)
    return [
        ExpectedError(
            f"rank of the quantile at {probability:g}",
            float(size),
            of=population.rows,
            note=f"{share_of(float(size), population.rows)} of all records",
        )
        for probability, size in zip(answer.question.probabilities, sizes, strict=True)
    ]


def typical(answer: QuantilesAnswer, population: Population, names: Sequence[str]) -> float:
    """Root mean square of the errors of ranks, over the number of records."""
    del names
    return float(np.sqrt(np.mean(answer.rank_deviations() ** 2))) / population.rows


def _features(question: QuantilesQuestion) -> list[tuple[Vector, Vector]]:
    low, high = zip(*((float(least[0]), float(greatest[-1])) for least, greatest in question.ends), strict=True)
    return [(np.array(low), np.array(high))]


ACCURACY = Accuracy(errors, typical, features=_features)
