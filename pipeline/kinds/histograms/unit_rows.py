"""Rows of a unit that move a release far."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blockveil.engine.answers.column_bins import HistogramQuery, MissingValue
from blockveil.pipeline.accuracy.extreme_rows import Row
from blockveil.pipeline.kinds.histograms.question import ColumnHistograms
from blockveil.pipeline.sections.query_sections import QuerySection


def unit_rows(question: ColumnHistograms, query: QuerySection, rng: np.random.Generator) -> Iterator[Row]:
    """Rows in bins of the columns that are counted, with zero in all others."""
    del query
    histogram_query = question.query
    for row in _in_bins(histogram_query, rng):
        values = np.zeros(question.stored)
        values[list(histogram_query.at or range(question.stored))] = row.values
        yield Row(row.where, values)


def _in_bins(query: HistogramQuery, rng: np.random.Generator) -> Iterator[Row]:
    """Bins of each column, the first and the last among them, zero, and missing values where they are taken."""
    lower, upper = query.borders()
    sizes = np.array([each.size for each in query.bins])
    columns = np.arange(len(sizes))
    for where, places in (
        ("the first bins", np.zeros(len(sizes), dtype=np.intp)),
        ("the last bins", sizes - 1),
        *(("some bins", rng.integers(sizes)) for _ in range(8)),
    ):
        low, high = lower[columns, places], upper[columns, places]
        yield Row(where, np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 1.0, 0.0)))
    yield Row("zero", np.zeros(len(sizes)))
    if query.missing is not MissingValue.REFUSE:
        yield Row("nothing but missing values", np.full(len(sizes), np.nan))


UNIT_ROWS = unit_rows
