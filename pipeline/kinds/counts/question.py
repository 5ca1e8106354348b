"""Counts in the cells of a grid, and the answers of a declared workload."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatchmethod
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.counts import CountQuery
from blockveil.engine.answers.value_cells import Codes, Edges, Missing, Outside
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.estimates import cells as cell_estimates
from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.error_bounds import ErrorReport
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.mechanisms.published.buckets import Buckets, BucketsDesign
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.noise.discrete_gaussian import TILE
from blockveil.engine.records.geometry import Vector
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
from blockveil.pipeline.kinds.counts.cell_blocks import CellBlocks, integer_counts
from blockveil.pipeline.kinds.counts.section import CountsSection
from blockveil.pipeline.kinds.counts.workload_sections import Intervals
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks
from blockveil.pipeline.questions.question import Answer, additive, extent, span, text
from blockveil.pipeline.sections.grid_axes import Axis

MOST_CELLS = 2**24
"""Most cells of a grid with a workload: its expected error takes a few numbers for each cell and level."""

MOST_ANSWERS = 2**18
"""Most answers of a product of the workload that are published; more follow from the published counts."""


SPREADING = "how much the cells of one bucket differ is not in the standard deviations"

_BYTES_A_CELL = 11 * 9 * 8
"""Eleven candidates for each cell, each some nine numbers of memory while the least partition is found."""

_SECONDS_A_CELL = 4e-5
"""Costs and least partition; an estimate, not a measurement."""


@dataclass(frozen=True, eq=False)
class CellsQuestion:
    """Counts in the cells of a grid."""

    problem: Counts
    query: CountQuery
    names: tuple[str, ...]

    @property
    def origin(self) -> Vector:
        """Lower edges of the grid."""
        return np.array([edges_of(axis)[0] for axis in self.query.axes])

    def work(self, rows: int) -> Work:
        """Work of reading and counting."""
        return Work(GrowthKind.CELLS, rows, len(self.query.axes), self.problem.cells)

    @singledispatchmethod
    def answer(self, design: Design) -> Answer:
        """Counts with noise, or counts from buckets."""
        return CellsAnswer(self, additive(design))

    @answer.register
    def _(self, design: BucketsDesign) -> Answer:
        return BucketsAnswer(self, design)

    def grid_arrays(self, found: matrices.Estimate) -> ReleaseArrays:
        """Counts of cells with their error, an axis each, and names and edges of the cells along each axis."""
        return {
            "counts": self.folded(found.value),
            "counts_standard_deviation": self.folded(found.standard_deviation),
            "counts_integer": self.folded(integer_counts(found.value)),
            **self.axes(),
        }

    def axes(self) -> ReleaseArrays:
        """Names and edges of the cells along each axis."""
        arrays: ReleaseArrays = {}
        for number, (name, axis) in enumerate(zip(self.names, self.query.axes, strict=True), start=1):
            arrays = {
                **arrays,
                f"axis_{number}": (text(cell_names(axis)), (name,)),
                f"axis_{number}_edges": (edges_of(axis), (f"{name}_edge",)),
            }
        return arrays

    def folded(self, cells: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
        """Numbers by cell with an axis for each axis of the grid, and the names of these."""
        return cells.reshape(self.query.grid), self.names


@dataclass(frozen=True, eq=False)
class CellsAnswer:
    """Counts in the cells of a grid with noise; see :class:`.question.Answer`."""

    question: CellsQuestion
    design: NoiseDesign

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "counts"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the grid, folded to a table."""
        return self.question.problem.cells

    @property
    def _workload(self) -> Workload:
        return self.question.problem.workload

    def facts(self) -> dict[str, Any]:
        """Cells of the grid, the strategy, and the expected error of the workload."""
        facts: dict[str, Any] = {"cells": list(self.question.query.grid)}
        if self._workload:
            error, weight = self._workload_error()
            facts["workload"] = {
                "answers": sum(part.shape[0] * part.shape[1] for part in self._workload),
                "expected_squared_error": error,
                "root_mean_square_error": sqrt(error / weight),
            }
        if self.design.strategy is not None:
            facts["strategy"] = self.design.strategy.facts()
        return facts

    def _workload_error(self) -> tuple[float, float]:
        """Expected squared error of all answers, and the sum of their squared weights."""
        weight = sum(part.weight**2 * part.shape[0] * part.shape[1] for part in self._workload)
        return cell_estimates.workload_error(self._workload, self.design), weight

    def work(self, rows: int) -> Work:
        """Work of reading and counting, and of the answers of a workload where there is one."""
        work, (m, n) = self.question.work(rows), self.shape
        if not self._workload:
            return replace(work, grid=self.question.query.grid)
        # A tree has at most twice as many sums as cells, and fills up one row of a tile for each level; its answers are
        # exact, noised, and estimated from in a few copies.
        return replace(work, last_bytes=9 * 8 * (2 * m * n + 64 * TILE))

    def error(self) -> ErrorReport:
        """Expected error of the counts."""
        return cell_estimates.report(self.shape, self.design)

    def error_sentence(self) -> str:
        """The expected error in records."""
        sentence = f"a count's standard deviation is {span(self._deviations())} records"
        if self._workload:
            error, weight = self._workload_error()
            sentence += f", a workload answer's root mean square error {sqrt(error / weight):.3g} records"
        return sentence

    def noise_over_largest(self) -> tuple[float, float]:
        """A count is at most the number of records."""
        return extent(self._deviations() / self.question.problem.rows_at_most)

    def _deviations(self) -> NDArray[np.float64]:
        """Standard deviations of counts, the least and the largest among them, in records."""
        # The least and the largest of independent cells are among a few; a large grid is never held whole.
        few = self.design.extremes() if self.design.strategy is None else self.design
        return cell_estimates.cell_deviations(few)

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Noisy counts, their error, whole non-negative counts nearest to them, and the edges of the cells.

        Where a strategy was measured its noisy answers, where a workload is declared its answers.
        """
        design, cells = self.design, cell_estimates.cells(released, self.design)
        arrays = self.question.grid_arrays(cells)
        if len(self.question.names) > 2:
            arrays = {**arrays, **self._along_each_axis(cells)}
        if design.strategy is not None:
            answers = matrices.coordinate_estimate(released, design).value
            arrays = {**arrays, **design.strategy.arrays(answers, cell_estimates.row_deviations(design))}
        for number, part in enumerate(self._workload, start=1):
            if part.shape[0] * part.shape[1] <= MOST_ANSWERS:
                estimate = cell_estimates.answers(part, cells, design)
                arrays = {**arrays, **_answer_arrays(f"workload_{number}", part, estimate)}
        return arrays

    def _along_each_axis(self, found: matrices.Estimate) -> ReleaseArrays:
        """Counts along each axis alone, of grids that have no workload: sums of cells whose noise is independent."""
        arrays: ReleaseArrays = {}
        names = self.question.names
        value, _ = self.question.folded(found.value)
        variance, _ = self.question.folded(found.standard_deviation**2)
        for number, name in enumerate(names, start=1):
            others = tuple(axis for axis in range(len(names)) if axis != number - 1)
            arrays = {
                **arrays,
                f"marginal_{number}": (value.sum(axis=others), (name,)),
                f"marginal_{number}_standard_deviation": (np.sqrt(variance.sum(axis=others)), (name,)),
            }
        return arrays

    def blocks(self, rows: int) -> Blocks | None:
        """Tile by tile, unless one task needs all cells, as for a workload."""
        if not self.work(rows).grid:
            return None
        return CellBlocks(self.question.query.grid, self.question.names, self.question.axes(), self.design)


@dataclass(frozen=True, eq=False)
class BucketsAnswer:
    """Counts in the cells of a grid from buckets that are chosen privately; see :class:`.question.Answer`.

    Their error is known as far as it is noise.
    """

    question: CellsQuestion
    design: BucketsDesign

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "counts"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the grid, folded to a table."""
        return self.question.problem.cells

    def facts(self) -> dict[str, Any]:
        """Cells of the grid; no error is known beforehand."""
        return {"cells": list(self.question.query.grid), "not_in_standard_deviations": SPREADING}

    def work(self, rows: int) -> Work:
        """Work of counting, and of the costs of all candidates."""
        cells = self.shape[0] * self.shape[1]
        return replace(self.question.work(rows), last_bytes=_BYTES_A_CELL * cells, last_seconds=_SECONDS_A_CELL * cells)

    def error(self) -> None:
        """Not known: it depends on the records."""

    def error_sentence(self) -> str:
        """Noise of a bucket."""
        noise = self.design.bucket_law.standard_deviation
        return f"a bucket's noise has standard deviation {noise:.3g} records, shared by its cells; {SPREADING}"

    def noise_over_largest(self) -> tuple[float, float]:
        """A bucket's count is at most the number of records."""
        share = self.design.bucket_law.standard_deviation / self.question.problem.rows_at_most
        return share, share

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Counts of cells with the standard deviation of their noise, and the buckets themselves."""
        buckets = Buckets.of(released, self.design)
        cells = matrices.Estimate(buckets.cells(), buckets.cell_deviations())
        arrays: ReleaseArrays = {
            **self.question.grid_arrays(cells),
            "bucket": self.question.folded(buckets.numbers),
            "bucket_counts": (buckets.counts, ("bucket_number",)),
            "bucket_counts_standard_deviation": (np.full(buckets.counts.size, buckets.deviation), ("bucket_number",)),
        }
        for number, part in enumerate(self.question.problem.workload, start=1):
            deviation = buckets.answer_deviations(part) if part.shape[0] * part.shape[1] <= MOST_ANSWERS else None
            if deviation is not None:
                answers = matrices.Estimate(part.apply(cells.value), deviation)
                arrays = {**arrays, **_answer_arrays(f"workload_{number}", part, answers)}
        return arrays

    def blocks(self, rows: int) -> None:
        """Buckets come from the whole grid."""


def build(loaded: LoadedConfig, asked: CountsSection) -> CellsQuestion:
    """Question of a config."""
    query = CountQuery(tuple(axis_of(axis) for axis in asked.axes), Outside(asked.outside), Missing(asked.missing))
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


def _workload(asked: CountsSection, cells: tuple[int, int]) -> Workload:
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


def _answer_arrays(name: str, part: Kronecker, answers: matrices.Estimate | None) -> ReleaseArrays:
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


def axis_of(axis: Axis) -> Edges | Codes:
    """Cells along an axis as a config declares them."""
    if axis.edges is not None:
        return Edges(axis.edges)
    if axis.lower is None or axis.upper is None:
        return Codes(axis.size)
    return Edges(np.linspace(axis.lower, axis.upper, axis.size + 1))


def edges_of(axis: Edges | Codes) -> Vector:
    """Edges of the cells along an axis; of codes half-open ranges of whole numbers."""
    return axis.edges if isinstance(axis, Edges) else np.arange(axis.cells + 1, dtype=np.float64)


def cell_names(axis: Edges | Codes) -> tuple[str, ...]:
    """Names of the cells along an axis."""
    if isinstance(axis, Codes):
        return tuple(str(code) for code in range(axis.cells))
    return tuple(f"{low:.6g} to {high:.6g}" for low, high in zip(axis.edges, axis.edges[1:], strict=False))


QUESTION = build
