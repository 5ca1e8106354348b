"""What one unit may contribute to the records of a config: constructed rows that move its release as far as they can.

The largest shift of a sum comes from rows at corners, edges and far beyond the declared shape, where clipping has to
hold them, and under ``replace-one`` also from rows inside it. Rows of all these kinds are constructed from what is
declared; nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.column_bins import HistogramQuery, MissingValue
from blockveil.engine.answers.counts import CountQuery
from blockveil.engine.answers.table_counts import TablesQuery
from blockveil.engine.answers.value_cells import Edges, Outside
from blockveil.engine.records.geometry import Coordinates, Vector
from blockveil.pipeline.kinds.counts.question import CellsQuestion
from blockveil.pipeline.kinds.gradients.model_sections import Target
from blockveil.pipeline.kinds.gradients.question import Gradients
from blockveil.pipeline.kinds.gradients.section import GradientsSection
from blockveil.pipeline.kinds.histograms.question import ColumnHistograms
from blockveil.pipeline.kinds.marginals.question import MarginalsQuestion
from blockveil.pipeline.kinds.moments.question import Moment
from blockveil.pipeline.kinds.outer.question import Outer
from blockveil.pipeline.kinds.rows.question import RowsQuestion
from blockveil.pipeline.kinds.totals.question import TotalsQuestion
from blockveil.pipeline.plan.planning import Plan

Records = NDArray[np.float64]

_SEED = 20261124
"""The same rows every time: an audit that is repeated says the same."""

_FAR = 1e6
_FURTHEST = 1e300


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


def rows_of_a_unit(plan: Plan) -> list[Row]:
    """Rows that move the release of a plan far; empty for a query of another package, of which nothing is known."""
    rng = np.random.default_rng(_SEED)
    question = plan.question
    match question:
        case CellsQuestion(query=CountQuery() as query) | MarginalsQuestion(query=TablesQuery(grid=query)):
            return list(_in_cells(query, rng))
        case ColumnHistograms(query=HistogramQuery() as query, stored=stored):
            return [_in_records(row, query, stored) for row in _in_bins(query, rng)]
        case Outer():
            sides = (question.query.left.coordinates, question.query.right.coordinates)
            return _beside(*(list(_in_shape(side, rng)) for side in sides))
        case Gradients():
            rows = list(_in_shape(question.query.features.coordinates, rng))
            return list(_labelled(rows, plan.config.query))
        case Moment() | RowsQuestion() | TotalsQuestion():
            return list(_in_shape(question.coordinates, rng))
    return []


def others(rows: list[Row], number: int) -> Records:
    """Rows of everybody else: some of those of a unit, drawn nearer to their mean.

    Parameters
    ----------
    rows
        What a unit may have.
    number
        How many rows.
    """
    # Codes and labels have to stay whole numbers, so rows are repeated and not mixed.
    near = [row.values for row in rows if np.all(np.abs(row.values) < _FURTHEST / 2)]
    return np.array([near[i % len(near)] for i in range(number)])


def _in_shape(coordinates: Coordinates, rng: np.random.Generator) -> Iterator[Row]:
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
        row, chosen = origin.copy(), rng.permutation(d)[:some]
        row[chosen] = ends[rng.integers(2, size=some), chosen]
        yield Row("some features at a bound", row)
    inside = np.stack([low, high, origin, (low + high) / 2.0, (high + 3.0 * origin) / 4.0])
    for _ in range(4):
        yield Row("inside and on faces", inside[rng.integers(len(inside), size=d), np.arange(d)])
    for _ in range(3):
        direction = rng.standard_normal(d)
        yield Row("a direction", origin + scale * direction / np.linalg.norm(direction))
        yield Row("far outside", origin + _FAR * scale * direction)
    yield Row("further than any number is", np.where(rng.integers(2, size=d) > 0, _FURTHEST, -_FURTHEST))


def _beside(left: list[Row], right: list[Row]) -> list[Row]:
    """Rows whose first columns are those of one shape, and the others those of another."""
    turned = right[1:] + right[:1]
    pairs = [*zip(left, right, strict=False), *zip(left, turned, strict=False)]
    return [Row(f"{a.where}, {b.where}", np.concatenate([a.values, b.values])) for a, b in pairs]


def _labelled(rows: list[Row], query: object) -> Iterator[Row]:
    """Rows with a label: the first and the last class, or both bounds and beyond them."""
    if not isinstance(query, GradientsSection):
        return
    for label in _labels(query.model.target):
        for row in rows:
            yield Row(row.where, np.append(row.values, label))


def _labels(target: Target) -> list[float]:
    if target.classes is not None:
        return [0.0, target.classes - 1.0]
    low, high = float(target.lower or 0.0), float(target.upper or 0.0)
    return [low, high + _FAR * (high - low)]


def _in_cells(query: CountQuery, rng: np.random.Generator) -> Iterator[Row]:
    """Cells of a grid, the first and the last among them, and a place beyond the grid."""
    ends = np.array([_first_and_last(axis) for axis in query.axes])
    yield Row("the first cell", ends[:, 0])
    yield Row("the last cell", ends[:, 1])
    for _ in range(8):
        yield Row("a cell", np.array([_somewhere(axis, rng) for axis in query.axes]))
    if query.outside in (Outside.CLIP, Outside.DROP):
        yield Row("outside the grid", ends[:, 1] + _FAR)


def _first_and_last(axis: object) -> tuple[float, float]:
    if isinstance(axis, Edges):
        return float(axis.edges[0]), float(axis.edges[-1])
    return 0.0, float(getattr(axis, "cells", 1)) - 1.0


def _somewhere(axis: object, rng: np.random.Generator) -> float:
    first, last = _first_and_last(axis)
    return float(rng.uniform(first, last)) if isinstance(axis, Edges) else float(rng.integers(int(last) + 1))


def _in_records(row: Row, query: HistogramQuery, stored: int) -> Row:
    """A row of the columns that are counted, with zero in all others."""
    values = np.zeros(stored)
    values[list(query.at or range(stored))] = row.values
    return Row(row.where, values)


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
