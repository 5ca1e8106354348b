"""Counts in the cells of a grid, and the answers of a declared workload."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.cost import GrowthKind, Work
from blockveil.engine.answers.counts import Codes, CountQuery, Edges, Missing, Outside
from blockveil.engine.estimates import cells as cell_estimates
from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.error_bounds import ErrorReport
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import TILE
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.problems import Counts
from blockveil.engine.workloads.kronecker import intervals
from blockveil.engine.workloads.workload import (
    AllRange,
    Explicit,
    Factor,
    Identity,
    Kronecker,
    Prefix,
    Total,
    Workload,
    marginals,
)
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config import query_sections as declared
from blockveil.pipeline.config.workload_sections import Intervals
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks
from blockveil.pipeline.questions.cell_blocks import CellBlocks, whole_counts
from blockveil.pipeline.questions.question import extent, span, text

MOST_CELLS = 2**24
"""Most cells of a grid with a workload: its expected error takes a few numbers for each cell and level."""

MOST_ANSWERS = 2**18
"""Most answers of a product of the workload that are published; more follow from the published counts."""


@dataclass(frozen=True, eq=False)
class CellsQuestion:
    """Counts in the cells of a grid."""

    problem: Counts
    query: CountQuery
    names: tuple[str, ...]

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "counts"

    @property
    def origin(self) -> Vector:
        """Lower edges of the grid."""
        return np.array([_edges(axis)[0] for axis in self.query.axes])

    def check(self, design: NoiseDesign) -> None:
        """Cells have no full matrix shapes."""

    def facts(self, design: NoiseDesign) -> dict[str, Any]:
        """Cells of the grid, the strategy, and the expected error of the workload."""
        found: dict[str, Any] = {"cells": list(self.query.grid)}
        if self.problem.workload:
            error, weight = self._workload_error(design)
            found["workload"] = {
                "answers": sum(part.shape[0] * part.shape[1] for part in self.problem.workload),
                "expected_squared_error": error,
                "root_mean_square_error": sqrt(error / weight),
            }
        if design.strategy is not None:
            found["strategy"] = design.strategy.facts()
        return found

    def _workload_error(self, design: NoiseDesign) -> tuple[float, float]:
        """Expected squared error of all answers, and the sum of their squared weights."""
        workload = self.problem.workload
        weight = sum(part.weight**2 * part.shape[0] * part.shape[1] for part in workload)
        return cell_estimates.workload_error(workload, design), weight

    def work(self, rows: int) -> Work:
        """Of reading and counting."""
        m, n = self.problem.cells
        work = Work(GrowthKind.CELLS, rows, len(self.query.axes), self.problem.cells)
        if not self.problem.workload:
            return replace(work, grid=self.query.grid)
        # A tree has at most twice as many sums as cells, and fills up one row of a tile for each level; its answers are
        # exact, noised, and estimated from in a few copies.
        return replace(work, last_bytes=9 * 8 * (2 * m * n + 64 * TILE))

    def error(self, design: NoiseDesign) -> ErrorReport:
        """Of the counts."""
        return cell_estimates.report(self.problem.cells, design)

    def error_sentence(self, design: NoiseDesign) -> str:
        """In records."""
        # The least and the largest of independent cells are among a few; a large grid is never held whole.
        few = design.extremes() if design.strategy is None else design
        deviations = cell_estimates.cell_deviations(few)
        sentence = f"a count's standard deviation is {span(deviations)} records"
        if self.problem.workload:
            error, weight = self._workload_error(design)
            sentence += f", a workload answer's root mean square error {sqrt(error / weight):.3g} records"
        return sentence

    def noise_over_largest(self, design: NoiseDesign) -> tuple[float, float]:
        """A count is at most the number of records."""
        few = design.extremes() if design.strategy is None else design
        return extent(cell_estimates.cell_deviations(few) / self.problem.rows_at_most)

    def arrays(self, released: NDArray[np.int64], design: NoiseDesign, rows: int) -> ReleaseArrays:
        """Noisy counts, their error, whole non-negative counts nearest to them, and the edges of the cells.

        Where a strategy was measured its noisy answers, where a workload is declared its answers.
        """
        found = cell_estimates.cells(released, design)
        arrays = self.grid_arrays(found)
        if len(self.names) > 2:
            arrays = {**arrays, **self._along_each_axis(found)}
        if design.strategy is not None:
            answers = matrices.coordinate_estimate(released, design).value
            arrays = {**arrays, **design.strategy.arrays(answers, cell_estimates.row_deviations(design))}
        for number, part in enumerate(self.problem.workload, start=1):
            if part.shape[0] * part.shape[1] <= MOST_ANSWERS:
                answered = cell_estimates.answers(part, found, design)
                arrays = {**arrays, **answer_arrays(f"workload_{number}", part, answered)}
        return arrays

    def grid_arrays(self, found: matrices.Estimate) -> ReleaseArrays:
        """Counts of cells with their error, an axis each, and names and edges of the cells along each axis."""
        return {
            "counts": self.folded(found.value),
            "counts_standard_deviation": self.folded(found.standard_deviation),
            "counts_whole": self.folded(whole_counts(found.value)),
            **self._axes(),
        }

    def _axes(self) -> ReleaseArrays:
        arrays: ReleaseArrays = {}
        for number, (name, axis) in enumerate(zip(self.names, self.query.axes, strict=True), start=1):
            arrays = {
                **arrays,
                f"axis_{number}": (text(_cell_names(axis)), (name,)),
                f"axis_{number}_edges": (_edges(axis), (f"{name}_edge",)),
            }
        return arrays

    def folded(self, cells: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
        """Numbers by cell with an axis for each axis of the grid, and the names of these."""
        return cells.reshape(self.query.grid), self.names

    def _along_each_axis(self, found: matrices.Estimate) -> ReleaseArrays:
        """Counts along each axis alone, of grids that have no workload: sums of cells whose noise is independent."""
        arrays: ReleaseArrays = {}
        value, _ = self.folded(found.value)
        variance, _ = self.folded(found.standard_deviation**2)
        for number, name in enumerate(self.names, start=1):
            others = tuple(axis for axis in range(len(self.names)) if axis != number - 1)
            arrays = {
                **arrays,
                f"along_{number}": (value.sum(axis=others), (name,)),
                f"along_{number}_standard_deviation": (np.sqrt(variance.sum(axis=others)), (name,)),
            }
        return arrays

    def blocks(self, design: NoiseDesign, rows: int) -> Blocks | None:
        """Tile by tile, unless one task needs all cells, as for a workload."""
        return CellBlocks(self.query.grid, self.names, self._axes(), design) if self.work(rows).grid else None


def build(loaded: LoadedConfig, asked: declared.CountsSection) -> CellsQuestion:
    """Question of a config."""
    query = CountQuery(tuple(_axis(axis) for axis in asked.axes), Outside(asked.outside), Missing(asked.missing))
    workload = _workload(asked, query.shape)
    if workload and query.shape[0] * query.shape[1] > MOST_CELLS:
        raise ValueError(
            f"the grid has {query.shape[0]} x {query.shape[1]} cells, and a workload is planned for {MOST_CELLS} at "
            "most; leave query.workload out, or declare fewer cells"
        )
    neighbours = loaded.config.privacy.neighbours
    problem = Counts(query.shape, neighbours, asked.rows_at_most, workload, len(query.axes))
    return CellsQuestion(problem, query, asked.columns)


_KINDS: dict[str, type[Identity | Total | Prefix | AllRange]] = {
    "cells": Identity,
    "total": Total,
    "prefixes": Prefix,
    "ranges": AllRange,
}


def _workload(asked: declared.CountsSection, cells: tuple[int, int]) -> Workload:
    m, n = cells
    match asked.workload:
        case None:
            return ()
        case "marginals":
            return marginals((m, n))
        case "cells-and-total":
            return (Kronecker(Identity(m), Identity(n)), Kronecker(Total(m), Total(n)))
        case str() as kind:
            return (Kronecker(_KINDS[kind](m), _KINDS[kind](n)),)
        case products:
            return tuple(
                Kronecker(_factor(product.rows, m), _factor(product.columns, n), product.weight) for product in products
            )


def _factor(along: str | Intervals, cells: int) -> Factor:
    if isinstance(along, str):
        return _KINDS[along](cells)
    index = np.arange(cells)
    return Explicit([((first <= index) & (index < end)).astype(np.int64) for first, end in along.intervals])


def answer_arrays(name: str, part: Kronecker, answers: matrices.Estimate | None) -> ReleaseArrays:
    """Answers of one product with their errors, and the cells that each of them sums; nothing without answers."""
    if answers is None:
        return {}
    pair = (f"{name}_row", f"{name}_column")
    arrays: ReleaseArrays = {
        f"{name}_answers": (answers.value, pair),
        f"{name}_standard_deviation": (answers.standard_deviation, pair),
    }
    for side, factor, axis in (("rows", part.rows, pair[0]), ("columns", part.columns, pair[1])):
        arrays = {**arrays, f"{name}_{side}": (intervals(factor), (axis, "first_and_end"))}
    return arrays


def _axis(axis: declared.Axis) -> Edges | Codes:
    if axis.edges is not None:
        return Edges(axis.edges)
    if axis.lower is None or axis.upper is None:
        return Codes(axis.size)
    return Edges(np.linspace(axis.lower, axis.upper, axis.size + 1))


def _edges(axis: Edges | Codes) -> Vector:
    return axis.edges if isinstance(axis, Edges) else np.arange(axis.cells + 1, dtype=np.float64)


def _cell_names(axis: Edges | Codes) -> tuple[str, ...]:
    if isinstance(axis, Codes):
        return tuple(str(code) for code in range(axis.cells))
    return tuple(f"{low:.6g} to {high:.6g}" for low, high in zip(axis.edges, axis.edges[1:], strict=False))
