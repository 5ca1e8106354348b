"""Rows of a unit that move a release far."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blockveil.pipeline.accuracy.extreme_rows import FAR, Row, in_shape
from blockveil.pipeline.kinds.gradients.model_sections import Target
from blockveil.pipeline.kinds.gradients.question import Gradients
from blockveil.pipeline.kinds.gradients.section import GradientsSection


def unit_rows(question: Gradients, query: GradientsSection, rng: np.random.Generator) -> Iterator[Row]:
    """Rows with a label: the first and the last class, or both bounds and beyond them."""
    rows = list(in_shape(question.query.features.coordinates, rng))
    for label in _labels(query.model.target):
        for row in rows:
            yield Row(row.where, np.append(row.values, label))


def _labels(target: Target) -> list[float]:
    if target.classes is not None:
        return [0.0, target.classes - 1.0]
    low, high = float(target.lower or 0.0), float(target.upper or 0.0)
    return [low, high + FAR * (high - low)]


UNIT_ROWS = unit_rows
