"""A histogram of each column, from which bounds of unknown columns are chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.column_bins import (
    ColumnBins,
    DigitBins,
    EdgeBins,
    HistogramQuery,
    MissingValue,
    PowerBins,
)
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.estimates import cells as cell_estimates
from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.chosen_bounds import BinNoise, ChosenBounds, choose_bounds
from blockveil.engine.estimates.error_bounds import ErrorReport
from blockveil.engine.estimates.narrowed_bounds import DigitCounts, narrowed
from blockveil.engine.kinds.histograms.problem import Histograms
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.histograms.section import BinnedFeature, ColumnHistogramsSection
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.question import Answer, additive, extent, span, text
from blockveil.pipeline.sections.geometry_section import BY_DIGITS

_AXES = ("feature", "bin")

DEVIATION = "histograms_standard_deviation"
"""Array of the standard deviations of counts."""


@dataclass(frozen=True, eq=False)
class ColumnHistograms:
    """A histogram of each column that is counted, or two: between powers of two, and by leading digits.

    Attributes
    ----------
    problem
        Its sensitivity.
    query
        Bins of each histogram, and where its column stands in the records.
    names
        Names of the histograms: those of their columns, and with an end of their own where they are by digits.
    stored
        Number of columns of the records.
    """

    problem: Histograms
    query: HistogramQuery
    names: tuple[str, ...]
    stored: int

    @property
    def origin(self) -> Vector:
        """Zero: counts are about none."""
        return np.zeros(len(self.names))

    def answer(self, design: Design) -> Answer:
        """The histograms with noise."""
        return HistogramsAnswer(self, additive(design))

    def axes(self) -> ReleaseArrays:
        """Names of the columns, ends of their bins, and names of the bins where all columns have the same."""
        lower, upper = self.query.borders()
        arrays: ReleaseArrays = {
            "feature": (text(self.names), ("feature",)),
            "bin_lower": (lower, _AXES),
            "bin_upper": (upper, _AXES),
        }
        if len(set(self.query.bins)) > 1:
            return arrays
        labels = [_label(low, high) for low, high in zip(lower[0], upper[0], strict=True)]
        return {**arrays, "bin": (text(tuple(labels)), ("bin",))}


def _label(low: float, high: float) -> str:
    if np.isnan(low):
        return "missing"
    if low == high:
        return f"{low:.6g}"
    if np.isinf(low):
        return f"below {high:.6g}"
    return f"above {low:.6g}" if np.isinf(high) else f"{low:.6g} to {high:.6g}"


@dataclass(frozen=True, eq=False)
class HistogramsAnswer:
    """Histograms of columns with noise; see :class:`.question.Answer`."""

    question: ColumnHistograms
    design: NoiseDesign

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "histograms"

    @property
    def shape(self) -> tuple[int, int]:
        """Columns that are counted, and the largest number of bins."""
        return self.question.problem.shape

    def facts(self) -> dict[str, Any]:
        """Number of bins of all columns, without those of missing values; the strategy where one is measured."""
        strategy = self.design.strategy
        return {"bins": self._bins, **({} if strategy is None else {"strategy": strategy.facts()})}

    @property
    def _bins(self) -> int:
        return sum(each.size for each in self.question.query.bins)

    def work(self, rows: int) -> Work:
        """Work of reading and counting; all bins are counted in one pass."""
        return Work(GrowthKind.CELLS, rows, self.question.stored, self.shape)

    def error(self) -> ErrorReport:
        """Expected error of all counts."""
        return cell_estimates.report(self.shape, self.design)

    def error_sentence(self) -> str:
        """The expected error in records, and what that means for bounds."""
        deviations, factor = self.deviations(), 2.0 * self.noise.band
        return (
            f"a bin's standard deviation is {span(deviations)} records; a bin of {span(factor * deviations)} "
            "records or more is found, in 95 of 100 releases all of them"
        )

    @property
    def noise(self) -> BinNoise:
        """Noise of the column that has most."""
        return BinNoise(float(np.max(self.deviations())), self.design.gaussian, self._bins)

    def noise_over_largest(self) -> tuple[float, float]:
        """A bin's count is at most the number of records."""
        return extent(self.deviations() / self.question.problem.rows_at_most)

    def deviations(self) -> NDArray[np.float64]:
        """Standard deviations of counts of bins, the least and the largest among them, in records."""
        if self.design.strategy is None:
            return cell_estimates.cell_deviations(self.design.extremes())
        return cell_estimates.cell_deviations(self.design)[self.question.problem.there]

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Noisy counts, their error, and what the bins are; where a strategy was measured, values of each column."""
        design, cells = self.design, cell_estimates.cells(released, self.design)
        arrays: ReleaseArrays = {
            "histograms": (cells.value, _AXES),
            DEVIATION: (cells.standard_deviation, _AXES),
            **self.question.axes(),
        }
        if design.strategy is None:
            return arrays
        answers = matrices.coordinate_estimate(released, design).value
        return {**arrays, **design.strategy.arrays(answers, cell_estimates.row_deviations(design))}

    def blocks(self, rows: int) -> None:
        """No histograms are so large that they are published in tiles."""


def build(loaded: LoadedConfig, asked: ColumnHistogramsSection) -> ColumnHistograms:
    """Question of a config."""
    stored, columns = asked.columns, list[tuple[str, int, ColumnBins]]()
    for feature in asked.counted:
        place = stored.index(feature.name)
        columns.append((feature.name, place, _bins(asked, feature)))
        if asked.digits is not None and feature.edges is None:
            columns.append((feature.name + BY_DIGITS, place, DigitBins(asked.digits)))
    names, at, bins = zip(*columns, strict=True)
    query = HistogramQuery(bins, MissingValue(asked.missing), None if names == stored else at)
    last = query.missing is MissingValue.COUNT
    problem = Histograms(query.sizes, loaded.config.privacy.neighbours, asked.rows_at_most, last)
    return ColumnHistograms(problem, query, names, len(stored))


def _bins(asked: ColumnHistogramsSection, feature: BinnedFeature) -> ColumnBins:
    if feature.edges is not None:
        return EdgeBins(feature.edges)
    if asked.powers is None:  # the section refuses it
        raise ValueError(f'feature "{feature.name}" has no bins; declare query.powers or its edges')
    return PowerBins(*asked.powers)


def chosen(
    arrays: Mapping[str, Any], noise: BinNoise, by_digits: bool, accepted: float = 0.0
) -> list[tuple[str, ChosenBounds | None]]:
    """Bounds of each column from released histograms, None where no bin of it stands out from the noise.

    Parameters
    ----------
    arrays
        Of the release.
    noise
        Of the column that has most.
    by_digits
        Whether columns have histograms by digits too.
    accepted
        Share of a column's values that may lie outside its bounds, 0 to below 1.
    """
    names = [str(name) for name in arrays["feature"][...]]
    digits = {name: row for row, name in enumerate(names) if name.endswith(BY_DIGITS)} if by_digits else {}
    choices = []
    for row, name in enumerate(names):
        if name in digits:
            continue
        octaves, own = _histogram(arrays, row), replace(noise, deviation=float(np.max(arrays[DEVIATION][row])))
        bounds, beside = choose_bounds(*octaves, own, accepted), digits.get(name + BY_DIGITS)
        if bounds is not None and beside is not None:
            behind = _histogram(arrays, beside)[0][1:]  # without zero
            bounds = narrowed(bounds, octaves, DigitCounts(behind, own, len(digits)), accepted)
        choices.append((name, bounds))
    return choices


def _histogram(arrays: Mapping[str, Any], row: int) -> tuple[Vector, Vector, Vector]:
    """Counts of the bins of a row, and their lower and upper ends."""
    lower, upper = (np.asarray(arrays[side][row], dtype=np.float64) for side in ("bin_lower", "bin_upper"))
    there = ~np.isnan(lower)
    return np.asarray(arrays["histograms"][row], dtype=np.float64)[there], lower[there], upper[there]


QUESTION = build
