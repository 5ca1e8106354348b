"""How exactly entries of sums of outer products will be known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blockveil.engine.estimates.rounding_error import entry_deviations, extremes
from blockveil.engine.records.geometry import Coordinates
from blockveil.pipeline.accuracy.expected import Accuracy
from blockveil.pipeline.accuracy.number_error import ExpectedError, interval_of_an_entry
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.kinds.outer.question import Outer, OuterAnswer


def errors(answer: OuterAnswer, population: Population) -> list[ExpectedError]:
    """Error of an entry of the mean outer product, in products of both features' units: the least and the largest."""
    left, right = answer.question.query.left.coordinates.to_raw(), answer.question.query.right.coordinates.to_raw()
    noise, names = answer.design, (answer.question.left, answer.question.right)
    rows, columns = noise.spread.rows * left, noise.spread.columns * right
    rounding = answer.question.rounding
    errors = []
    for end in (np.argmin, np.argmax):
        i, j = int(end(rows)), int(end(columns))
        own = noise.standard_deviations((i, i + 1), (j, j + 1))
        own = own if rounding is None else rounding.beside(own, (i, i + 1), (j, j + 1))
        deviation = float(own[0, 0] * left[i] * right[j])
        size, widest = interval_of_an_entry(noise) * deviation / population.rows, float(left[i] * right[j])
        note = f"{names[0][i]}, {names[1][j]}; the product of their half widths is {widest:.3g}"
        errors.append(ExpectedError("entry of the mean", size, of=widest, note=note))
    return errors[:1] if errors[1].size <= 1.01 * errors[0].size else errors


def typical(answer: OuterAnswer, population: Population, names: Sequence[str] = ()) -> float:
    """Geometric mean of the noise of an entry of the mean outer product."""
    del names
    deviations = entry_deviations(*extremes(answer.design, answer.question.rounding))
    return float(np.exp(np.mean(np.log(deviations)))) / population.rows


def _features(question: Outer) -> tuple[Coordinates, Coordinates]:
    return question.query.left.coordinates, question.query.right.coordinates


ACCURACY = Accuracy(errors, typical, features=_features)
