"""How exactly counts of the cells of tables will be known, in records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blockveil.pipeline.accuracy.expected import Accuracy
from blockveil.pipeline.accuracy.number_error import INTERVAL, ExpectedError, interval_of_an_entry, share_of
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.kinds.marginals.question import MarginalsAnswer


def errors(answer: MarginalsAnswer, population: Population) -> list[ExpectedError]:
    """Error of a cell's count in each table."""
    tables, deviations = answer.question.problem.tables, answer.deviations()
    factor, errors = interval_of_an_entry(answer.design), []
    for table, place in zip(tables.tables, tables.places, strict=True):
        size, mean = factor * float(np.max(deviations[place])), population.rows / tables.size(table)
        note = (
            f"{share_of(size, mean)} of the {mean:,.4g} records that its {tables.size(table):,} cells hold on average"
        )
        errors.append(ExpectedError(f"cell by {answer.question.title(table)}", size, of=mean, note=note))
    return errors + _of_ranges(answer)


def _of_ranges(answer: MarginalsAnswer) -> list[ExpectedError]:
    if not answer.question.problem.tables.ordered:
        return []
    # A range adds up many entries, so that its law is nearly Gaussian, and is Gaussian where a strategy was measured.
    size = INTERVAL * answer.range_deviation()
    return [ExpectedError("range", size, note="root mean square over all ranges of cells along ordered axes")]


def typical(answer: MarginalsAnswer, population: Population, names: Sequence[str] = ()) -> float:
    """Noise of a cell's count over the number of records, root mean square over the cells of all tables."""
    del names
    return float(np.sqrt(np.mean(answer.deviations() ** 2))) / population.rows


ACCURACY = Accuracy(errors, typical)
