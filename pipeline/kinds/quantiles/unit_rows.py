"""Rows of a unit that move a release far."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blockveil.pipeline.accuracy.extreme_rows import Row
from blockveil.pipeline.kinds.quantiles.question import QuantilesQuestion
from blockveil.pipeline.sections.query_sections import QuerySection


def unit_rows(question: QuantilesQuestion, query: QuerySection, rng: np.random.Generator) -> Iterator[Row]:
    """Rows in the first, in the last and in some cells, and missing values where they are taken."""
    yield Row("the first cells", np.array([least[0] for least, _ in question.ends]))
    yield Row("the last cells", np.array([greatest[-1] for _, greatest in question.ends]))
    for _ in range(8):
        yield Row("some cells", np.array([rng.choice(least) for least, _ in question.ends]))
    if query.missing == "drop":
        yield Row("nothing but missing values", np.full(len(question.names), np.nan))


UNIT_ROWS = unit_rows
