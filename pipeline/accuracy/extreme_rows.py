"""Rows that move a release as far as a unit's rows can: constructed from what is declared, and never read.

The largest shift of a sum comes from rows at corners, edges and far beyond the declared shape, where clipping has to
hold them, and under ``replace-one`` also from rows inside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from blockveil.engine.answers.counts import CountQuery
from blockveil.engine.answers.value_cells import Edges, Outside
from blockveil.engine.records.geometry import Coordinates, Vector

FAR = 1e6
"""Far beyond a shape, in its widths."""

FURTHEST = 1e300
"""Further than any number of records is."""


@dataclass(frozen=True, eq=False)
class Row:
    """One row that a unit may have.

    Attributes
    ----------
    where
        Where in the declared shape it is, in words.
    values
        Raw units, shape (columns,).
    """

    where: str
    values: Vector


def in_shape(coordinates: Coordinates, rng: np.random.Generator) -> Iterator[Row]:
    """Corners, edges, faces, the inside and far outside of a box, a ball or an ellipsoid."""
    origin, scale, d = coordinates.origin, coordinates.scale, coordinates.dimension
    low = np.where(np.isfinite(coordinates.lower), coordinates.lower, origin - scale)
    high = np.where(np.isfinite(coordinates.upper), coordinates.upper, origin + scale)
    ends = np.stack([low, high])
    yield Row("the upper corner", high)
    yield Row("the lower corner", low)
    yield Row("the corner furthest from the origin", np.where(high - origin >= origin - low, high, low))
    for _ in range(4):
        yield Row("a corner", ends[rng.integers(2, size=d), np.arange(d)])
    yield Row("the origin", origin.copy())
    for feature in {0, d - 1, int(rng.integers(d))}:
        for end in ends:
            row = origin.copy()
            row[feature] = end[feature]
            yield Row("one feature at a bound", row)
    for some in {1 << k for k in range(1, d.bit_length()) if 1 << k < d}:
        row, places = origin.copy(), rng.permutation(d)[:some]
        row[places] = ends[rng.integers(2, size=some), places]
        yield Row("some features at a bound", row)
    inside = np.stack([low, high, origin, (low + high) / 2.0, (high + 3.0 * origin) / 4.0])
    for _ in range(4):
        yield Row("inside and on faces", inside[rng.integers(len(inside), size=d), np.arange(d)])
    for _ in range(3):
        direction = rng.standard_normal(d)
        yield Row("a direction", origin + scale * direction / np.linalg.norm(direction))
        yield Row("far outside", origin + FAR * scale * direction)
    yield Row("further than any number is", np.where(rng.integers(2, size=d) > 0, FURTHEST, -FURTHEST))


def in_cells(query: CountQuery, rng: np.random.Generator) -> Iterator[Row]:
    """Cells of a grid, the first and the last among them, and a place beyond the grid."""
    ends = np.array([_first_and_last(axis) for axis in query.axes])
    yield Row("the first cell", ends[:, 0])
    yield Row("the last cell", ends[:, 1])
    for _ in range(8):
        yield Row("a cell", np.array([_somewhere(axis, rng) for axis in query.axes]))
    if query.outside in (Outside.CLIP, Outside.DROP):
        yield Row("outside the grid", ends[:, 1] + FAR)


def _first_and_last(axis: object) -> tuple[float, float]:
    if isinstance(axis, Edges):
        return float(axis.edges[0]), float(axis.edges[-1])
    return 0.0, float(getattr(axis, "cells", 1)) - 1.0


def _somewhere(axis: object, rng: np.random.Generator) -> float:
    first, last = _first_and_last(axis)
    return float(rng.uniform(first, last)) if isinstance(axis, Edges) else float(rng.integers(int(last) + 1))
