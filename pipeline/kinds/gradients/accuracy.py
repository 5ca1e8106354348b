"""How exactly entries of gradients will be known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from blockveil.engine.records.geometry import Coordinates
from blockveil.pipeline.accuracy.expected import Accuracy
from blockveil.pipeline.accuracy.number_error import ExpectedError, interval_of_an_entry
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.kinds.gradients.question import Gradients, GradientsAnswer


def errors(answer: GradientsAnswer, population: Population) -> list[ExpectedError]:
    """Error of an entry of the mean gradient, and of the whole of it."""
    units, longest = np.outer(*answer.question.problem.units), answer.question.query.clip
    deviations = answer.design.entry_standard_deviation() * units / population.rows
    entry = interval_of_an_entry(answer.design) * float(np.max(deviations))
    steps = answer.question.problem.steps
    # Frobenius norms of the noise of all steps and of one differ by sqrt(steps), up to the share of 95 in 100.
    whole = answer.error().frobenius / math.sqrt(steps) / population.rows
    note = f"one gradient is at most {longest:.3g} long"
    of = "" if steps == 1 else f", in each of {steps:,} steps"
    return [
        ExpectedError(f"entry of the mean gradient{of}", entry, of=longest, note=note),
        ExpectedError(f"mean gradient as a whole{of}", whole, of=longest, note="length of its noise, at most"),
    ]


def typical(answer: GradientsAnswer, population: Population, names: Sequence[str] = ()) -> float:
    """Root mean square of the noise of an entry of the mean gradient, over the longest that a gradient may be."""
    del names
    spread = answer.design.entry_standard_deviation() * np.outer(*answer.question.problem.units)
    return float(np.sqrt(np.mean(spread**2))) / population.rows / answer.question.query.clip


def _features(question: Gradients) -> tuple[Coordinates]:
    return (question.query.features.coordinates,)


def _labelled(plan: Any, records: NDArray[np.float64], standard: NDArray[np.float64]) -> NDArray[np.float64]:
    """With what a model is to predict: classes of equal size, or values across the target's bounds."""
    target, place = plan.config.query.model.target, ndtr(standard[:, -1])
    if target.classes is not None:
        labels = np.minimum(np.floor(place * target.classes), target.classes - 1)
    else:
        low, high = float(target.lower or 0.0), float(target.upper or 0.0)
        labels = low + (high - low) * place
    return np.column_stack([records, labels])


ACCURACY = Accuracy(errors, typical, features=_features, completed=_labelled)
