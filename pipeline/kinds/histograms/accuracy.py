"""How exactly counts of bins will be known."""

from __future__ import annotations

import numpy as np

from blockveil.pipeline.accuracy.expected import Accuracy
from blockveil.pipeline.accuracy.number_error import ExpectedError, interval_of_an_entry, share_of
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.kinds.histograms.question import HistogramsAnswer


def errors(answer: HistogramsAnswer, population: Population) -> list[ExpectedError]:
    """Error of the count of a bin, the largest of all columns."""
    deviation = float(np.max(answer.deviations()))
    size = interval_of_an_entry(answer.design) * deviation
    return [ExpectedError("bin of a column", size, note=f"{share_of(size, population.rows)} of all records")]


ACCURACY = Accuracy(errors)
