"""Rows of a unit that move a release far."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blockveil.pipeline.accuracy.extreme_rows import Row, in_cells
from blockveil.pipeline.kinds.marginals.question import MarginalsQuestion
from blockveil.pipeline.sections.query_sections import QuerySection


def unit_rows(question: MarginalsQuestion, query: QuerySection, rng: np.random.Generator) -> Iterator[Row]:
    """Rows in cells of the grid, and beyond it."""
    del query
    yield from in_cells(question.query.grid, rng)


UNIT_ROWS = unit_rows
