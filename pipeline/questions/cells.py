"""Counts in the cells of a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import estimates
from engine.cost import Cost, counts_cost
from engine.counts import Codes, CountQuery, Edges, Missing, Outside
from engine.errors import ErrorReport, error_report
from engine.geometry import Vector
from engine.mechanisms.additive import NoiseDesign
from engine.problems import Counts
from pipeline.config import LoadedConfig
from pipeline.config import queries as declared
from pipeline.publishing import ReleaseArrays
from pipeline.questions.question import span, text


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts in the cells of a grid."""

    problem: Counts
    query: CountQuery

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "counts"

    @property
    def origin(self) -> Vector:
        """Lower edges of the grid."""
        return np.array([_edges(axis)[0] for axis in (self.query.rows, self.query.columns)])

    def check(self, design: NoiseDesign) -> None:
        """Cells have no full matrix shapes."""

    def facts(self) -> dict[str, Any]:
        """Cells of the grid."""
        return {"cells": list(self.problem.cells)}

    def cost(self, rows: int, chunk_bytes: int, threads: int, parallel: int) -> Cost:
        """Of reading and counting."""
        return counts_cost(rows, self.problem.cells, chunk_bytes, threads, parallel)

    def error(self, design: NoiseDesign) -> ErrorReport:
        """Of the counts."""
        return error_report(design, *self.problem.units)

    def error_sentence(self, design: NoiseDesign) -> str:
        """In records."""
        return f"a count's standard deviation is {span(design.standard_deviations((0, 1), (0, 1)))} records"

    def arrays(self, released: NDArray[np.int64], design: NoiseDesign, rows: int) -> ReleaseArrays:
        """Noisy counts, their error, whole non-negative counts nearest to them, and the edges of the cells."""
        found = estimates.coordinate_estimate(released, design)
        pair = ("row", "column")
        return {
            "row": (text(_cell_names(self.query.rows)), ("row",)),
            "column": (text(_cell_names(self.query.columns)), ("column",)),
            "row_edges": (_edges(self.query.rows), ("row_edge",)),
            "column_edges": (_edges(self.query.columns), ("column_edge",)),
            "counts": (found.value, pair),
            "counts_standard_deviation": (found.standard_deviation, pair),
            "counts_whole": (np.rint(np.maximum(found.value, 0.0)).astype(np.int64), pair),
        }


def build(loaded: LoadedConfig, asked: declared.CountsQuery) -> Cells:
    """Question of a config."""
    rows, columns = (_axis(axis) for axis in (asked.row_axis, asked.column_axis))
    query = CountQuery(rows, columns, Outside(asked.outside), Missing(asked.missing))
    return Cells(Counts(query.shape, loaded.config.privacy.neighbours, asked.rows_at_most), query)


def _axis(axis: declared.Axis) -> Edges | Codes:
    if axis.lower is None or axis.upper is None:
        return Codes(axis.cells)
    return Edges(np.linspace(axis.lower, axis.upper, axis.cells + 1))


def _edges(axis: Edges | Codes) -> Vector:
    return axis.edges if isinstance(axis, Edges) else np.arange(axis.cells + 1, dtype=np.float64)


def _cell_names(axis: Edges | Codes) -> tuple[str, ...]:
    if isinstance(axis, Codes):
        return tuple(str(code) for code in range(axis.cells))
    return tuple(f"{low:.6g} to {high:.6g}" for low, high in zip(axis.edges, axis.edges[1:], strict=False))
