"""How exactly the count, the totals and the means of columns will be known, each in its own unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blockveil.engine.estimates.rounding_error import entry_deviations
from blockveil.engine.kinds.totals.estimate import raw_variances, worst_deviations
from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.accuracy.expected import Accuracy
from blockveil.pipeline.accuracy.number_error import INTERVAL, MOST_FEATURES, ExpectedError, interval_of_an_entry
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.kinds.totals.question import TotalsAnswer


def errors(answer: TotalsAnswer, population: Population) -> list[ExpectedError]:
    """Error of the count where it is not public, and of the total and the mean of each feature.

    Totals and means add up the noise of a sum and of the count; their law is taken for Gaussian.
    """
    has_count = answer.question.problem.counted
    deviations = answer.design.entry_standard_deviation()[0]
    errors = []
    if has_count:
        size = interval_of_an_entry(answer.design) * float(deviations[0])
        share = 100.0 * size / population.rows
        errors.append(ExpectedError("count", size, of=population.rows, note=f"{share:.2g} % of all records"))
    question = answer.question
    if not population.sized:
        usual = typical(answer, population, question.features)
        errors.append(ExpectedError("a mean, in standard deviations of its feature", INTERVAL * usual))
    totals, worst = worst_deviations(answer.design, question.coordinates, has_count, population.rows, question.rounding)
    means = _mean_deviations(answer, population)
    for i, name in enumerate(answer.question.features[:MOST_FEATURES]):
        errors.append(ExpectedError(f"total of {name}", INTERVAL * float(totals[i])))
        errors.append(ExpectedError(f"mean of {name}", INTERVAL * float(means[i]), INTERVAL * float(worst[i])))
    return errors


def _mean_deviations(answer: TotalsAnswer, population: Population) -> Vector:
    """Standard deviation of the error of each mean, first order, raw units, shape (d,)."""
    question, lead = answer.question, int(answer.question.problem.counted)
    variance = entry_deviations(answer.design, question.rounding)[0] ** 2
    shift = population.mean[population.places(question.features)] - question.origin
    of_count = float(variance[0]) if lead else 0.0
    deviations = np.sqrt(raw_variances(variance[lead:], question.coordinates) + shift**2 * of_count)
    return np.asarray(deviations / population.rows)


def typical(answer: TotalsAnswer, population: Population, names: Sequence[str]) -> float:
    """Geometric mean of the errors of the means of some features, over their supposed standard deviations."""
    own = [answer.question.features.index(name) for name in names]
    relative = _mean_deviations(answer, population)[own] / population.size[population.places(names)]
    return float(np.exp(np.mean(np.log(relative))))


ACCURACY = Accuracy(errors, typical)
