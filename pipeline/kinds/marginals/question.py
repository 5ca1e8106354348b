"""Tables of counts over chosen columns, which agree with each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.counts import CountQuery
from blockveil.engine.answers.table_counts import TablesQuery
from blockveil.engine.answers.value_cells import Missing, Outside
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.estimates import cells as cell_estimates
from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.consistent_tables import non_negative
from blockveil.engine.estimates.error_bounds import ErrorReport
from blockveil.engine.kinds.marginals.problem import Marginals
from blockveil.engine.mechanisms.counts.range_errors import errors_without_order, range_errors, ranges_of
from blockveil.engine.mechanisms.counts.residual_strategy import ResidualStrategy
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.noise.discrete_gaussian import TILE
from blockveil.engine.noise.level_strategy import ReadNight
from blockveil.engine.records.geometry import Vector
from blockveil.engine.workloads.marginal_tables import Axes
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.counts.question import axis_of, cell_names, edges_of
from blockveil.pipeline.kinds.marginals.section import MarginalsSection
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.question import Answer, additive, extent, span, text

_MOST_NAMES = 2**17
"""Most cells of all tables that are named in one list; the tables themselves name theirs by axis in any case."""

_SECONDS_A_CELL = 2e-5
"""Time of the search for non-negative tables; an estimate, not a measurement."""


@dataclass(frozen=True, eq=False)
class MarginalsQuestion:
    """Counts in the cells of some tables."""

    problem: Marginals
    query: TablesQuery
    names: tuple[str, ...]

    @property
    def origin(self) -> Vector:
        """Lower edges of the grid."""
        return np.array([edges_of(axis)[0] for axis in self.query.grid.axes])

    def answer(self, design: Design) -> Answer:
        """Tables with noise."""
        return MarginalsAnswer(self, additive(design))

    def title(self, table: Axes) -> str:
        """Names of the axes of a table."""
        return ", ".join(self.names[axis] for axis in table)

    def axes(self) -> ReleaseArrays:
        """Names and edges of the cells along each axis, and names of the cells of all tables if they are not many."""
        grid, arrays = self.query.grid.axes, dict[str, Any]()
        for number, (name, axis) in enumerate(zip(self.names, grid, strict=True), start=1):
            arrays[f"axis_{number}"] = (text(cell_names(axis)), (name,))
            arrays[f"axis_{number}_edges"] = (edges_of(axis), (f"{name}_edge",))
        if self.problem.tables.cells <= _MOST_NAMES:
            arrays["cell"] = (text(self._cells()), ("cell",))
        return arrays

    def _cells(self) -> tuple[str, ...]:
        along = [
            [f"{name} {cell}" for cell in cell_names(axis)]
            for name, axis in zip(self.names, self.query.grid.axes, strict=True)
        ]
        tables = self.problem.tables.tables
        return tuple(", ".join(names) for table in tables for names in product(*(along[axis] for axis in table)))


@dataclass(frozen=True, eq=False)
class MarginalsAnswer:
    """Tables of counts with noise; see :class:`.question.Answer`."""

    question: MarginalsQuestion
    design: NoiseDesign

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "tables"

    @property
    def shape(self) -> tuple[int, int]:
        """One row of the cells of all tables."""
        return self.question.problem.shape

    def facts(self) -> dict[str, Any]:
        """Axes of the tables, and the strategy where residuals are measured."""
        tables = self.question.problem.tables
        facts: dict[str, Any] = {"tables": [list(table) for table in tables.tables], "cells": list(tables.sizes)}
        if tables.ordered:
            facts["ordered"] = list(tables.ordered)
        if self.design.strategy is not None:
            facts["strategy"] = self.design.strategy.facts()
        return facts

    def work(self, rows: int) -> Work:
        """Work of reading and counting, and of the search for consistent tables without negative counts."""
        cells, tables = self.shape[1], self.question.problem.tables
        work = Work(GrowthKind.CELLS, rows, len(self.question.names), self.shape)
        # Counts, measured residuals, their noise, and the tables that are made of them, in a few copies.
        last = 9 * 8 * (cells + tables.entries + TILE * len(tables.sets))
        return replace(work, last_bytes=last, last_seconds=_SECONDS_A_CELL * cells)

    def error(self) -> ErrorReport:
        """Expected error of all counts."""
        return cell_estimates.report(self.shape, self.design)

    def error_sentence(self) -> str:
        """The expected error in records."""
        deviations = self.deviations()
        mean = sqrt(float(np.mean(deviations**2)))
        sentence = f"a count's standard deviation is {span(deviations)} records, {mean:.3g} in the mean of squares"
        strategy, tables = self.design.strategy, self.question.problem.tables
        if tables.ordered:
            sentence = f"{sentence}; {self._ranges()}"
        if not isinstance(strategy, ResidualStrategy) or isinstance(self.design.grid, ReadNight) or tables.ordered:
            return (
                sentence  # of nights that share a charge, the lines of the plan compare with one release for all of it
            )
        least = strategy.least_noise(self.question.problem.neighbours).bound / self.design.mu**2
        # Rounded up, so that the statement holds.
        over = ceil(1000.0 * float(np.sum(deviations**2)) / least) / 1000.0
        return f"{sentence}; its total variance is at most {over:g} times the least of any Gaussian noise"

    def _ranges(self) -> str:
        """The error of a range, with and without the order of axes."""
        problem = self.question.problem
        tables, along = problem.tables, ", ".join(self.question.names[axis] for axis in problem.tables.ordered)
        sentence = f"that of a range along {along} is {self.range_deviation():.3g} records in the mean of squares"
        if not isinstance(self.design.strategy, ResidualStrategy) or isinstance(self.design.grid, ReadNight):
            return sentence
        plain = errors_without_order(tables, problem.neighbours, problem.rows_at_most, self.design.mu)
        return f"{sentence}, and {sqrt(ranges_of(tables, plain)):.3g} without query.ordered"

    def range_deviation(self) -> float:
        """Standard deviation of a range along ordered axes, in records, the mean of squares over all their tables."""
        tables = self.question.problem.tables
        return sqrt(ranges_of(tables, range_errors(tables, self.design)))

    def noise_over_largest(self) -> tuple[float, float]:
        """A count is at most the number of records."""
        return extent(self.deviations() / self.question.problem.rows_at_most)

    def deviations(self) -> NDArray[np.float64]:
        """Standard deviation of each count, in records, shape (cells,)."""
        deviations: NDArray[np.float64] = cell_estimates.cell_deviations(self.design)[0]
        return deviations

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Counts of all tables, each table by itself with its error, and tables that are not negative."""
        design, cells = self.design, cell_estimates.cells(released, self.design)
        arrays: ReleaseArrays = {
            "tables": (cells.value[0], ("cell",)),
            "tables_standard_deviation": (cells.standard_deviation[0], ("cell",)),
            **self._each(cells),
            **self.question.axes(),
        }
        if design.strategy is not None:
            answers = matrices.coordinate_estimate(released, design).value
            arrays = {**arrays, **design.strategy.arrays(answers, cell_estimates.row_deviations(design))}
        return arrays

    def _each(self, found: matrices.Estimate) -> ReleaseArrays:
        tables = self.question.problem.tables
        non_negative_tables = tables.apart(non_negative(found.value[0], tables))
        values, deviations = tables.apart(found.value[0]), tables.apart(found.standard_deviation[0])
        arrays: ReleaseArrays = {}
        for number, table in enumerate(tables.tables, start=1):
            name, names = f"table_{number}", tuple(self.question.names[axis] for axis in table)
            arrays = {
                **arrays,
                name: (values[number - 1], names),
                f"{name}_standard_deviation": (deviations[number - 1], names),
                f"{name}_non_negative": (non_negative_tables[number - 1], names),
            }
        return arrays

    def blocks(self, rows: int) -> None:
        """Tables are made of residuals that one task measures."""


def build(loaded: LoadedConfig, asked: MarginalsSection) -> MarginalsQuestion:
    """Question of a config."""
    grid = CountQuery(tuple(axis_of(axis) for axis in asked.axes), Outside(asked.outside), Missing(asked.missing))
    tables = asked.marginal_tables()
    problem = Marginals(tables, loaded.config.privacy.neighbours, asked.rows_at_most)
    return MarginalsQuestion(problem, TablesQuery(grid, tables), asked.columns)


QUESTION = build
