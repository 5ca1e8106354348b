"""Rows of a unit that move a release far."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blockveil.pipeline.accuracy.extreme_rows import Row, in_shape
from blockveil.pipeline.kinds.outer.question import Outer
from blockveil.pipeline.sections.query_sections import QuerySection


def unit_rows(question: Outer, query: QuerySection, rng: np.random.Generator) -> Iterator[Row]:
    """Rows about the shapes of both factors."""
    del query
    left, right = (list(in_shape(side.coordinates, rng)) for side in (question.query.left, question.query.right))
    rotation = right[1:] + right[:1]
    for a, b in [*zip(left, right, strict=False), *zip(left, rotation, strict=False)]:
        yield Row(f"{a.where}, {b.where}", np.concatenate([a.values, b.values]))


UNIT_ROWS = unit_rows
