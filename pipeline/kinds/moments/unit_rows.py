"""Rows of a unit that move a release far."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blockveil.pipeline.accuracy.extreme_rows import Row, in_shape
from blockveil.pipeline.kinds.moments.question import Moment
from blockveil.pipeline.sections.query_sections import QuerySection


def unit_rows(question: Moment, query: QuerySection, rng: np.random.Generator) -> Iterator[Row]:
    """Rows about the declared shape."""
    del query
    yield from in_shape(question.coordinates, rng)


UNIT_ROWS = unit_rows
