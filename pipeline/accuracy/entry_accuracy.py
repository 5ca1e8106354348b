"""How exactly entries of records, of sums of outer products and of gradients will be known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from blockveil.engine.estimates.rounding_error import entry_deviations, extremes
from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.accuracy.moment_accuracy import MOST_FEATURES
from blockveil.pipeline.accuracy.number_error import ExpectedError, interval_of_an_entry
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.questions.gradients import GradientsAnswer
from blockveil.pipeline.questions.outer import OuterAnswer
from blockveil.pipeline.questions.rows import RowsAnswer


def errors_of_records(answer: RowsAnswer, population: Population) -> list[ExpectedError]:
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
    mixed = share[0] * back if back.ndim == 1 else np.sqrt(share[0] ** 2 @ (back**2).T)
    return np.asarray(mixed)


def errors_of_outer_products(answer: OuterAnswer, population: Population) -> list[ExpectedError]:
    """Error of an entry of the mean outer product, in products of both features' units: the least and the largest."""
    left, right = answer.question.query.left.coordinates.to_raw(), answer.question.query.right.coordinates.to_raw()
    noise, names = answer.design, (answer.question.left, answer.question.right)
    rows, columns = noise.spread.rows * left, noise.spread.columns * right
    rounding = answer.question.rounding
    found = []
    for end in (np.argmin, np.argmax):
        i, j = int(end(rows)), int(end(columns))
        own = noise.standard_deviations((i, i + 1), (j, j + 1))
        own = own if rounding is None else rounding.beside(own, (i, i + 1), (j, j + 1))
        deviation = float(own[0, 0] * left[i] * right[j])
        size, widest = interval_of_an_entry(noise) * deviation / population.rows, float(left[i] * right[j])
        note = f"{names[0][i]}, {names[1][j]}; the product of their half widths is {widest:.3g}"
        found.append(ExpectedError("entry of the mean", size, of=widest, note=note))
    return found[:1] if found[1].size <= 1.01 * found[0].size else found


def errors_of_gradients(answer: GradientsAnswer, population: Population) -> list[ExpectedError]:
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


def typical_record(answer: RowsAnswer, population: Population, names: Sequence[str] = ()) -> float:
    """Geometric mean of the noise of a record's values, over half of the width of their bounds."""
    del population, names
    return float(np.exp(np.mean(np.log(_record_deviations(answer) / answer.question.coordinates.scale))))


def typical_outer_product(answer: OuterAnswer, population: Population, names: Sequence[str] = ()) -> float:
    """Geometric mean of the noise of an entry of the mean outer product."""
    del names
    deviations = entry_deviations(*extremes(answer.design, answer.question.rounding))
    return float(np.exp(np.mean(np.log(deviations)))) / population.rows


def typical_gradient(answer: GradientsAnswer, population: Population, names: Sequence[str] = ()) -> float:
    """Root mean square of the noise of an entry of the mean gradient, over the longest that a gradient may be."""
    del names
    spread = answer.design.entry_standard_deviation() * np.outer(*answer.question.problem.units)
    return float(np.sqrt(np.mean(spread**2))) / population.rows / answer.question.query.clip
