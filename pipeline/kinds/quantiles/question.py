"""Quantiles of each column from noisy balances, all columns and probabilities in one charge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from math import ceil, hypot, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from blockveil.engine.answers.column_bins import EdgeBins, HistogramQuery, MissingValue
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.estimates.bands import CONFIDENCE, GaussianNoise, LaplaceSums
from blockveil.engine.estimates.error_bounds import ErrorReport
from blockveil.engine.kinds.quantiles.few_cells import JoinedBins
from blockveil.engine.kinds.quantiles.problem import Quantiles
from blockveil.engine.kinds.quantiles.query import QuantilesQuery
from blockveil.engine.kinds.quantiles.rank_estimate import RankNoise, column_balances, column_noise
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.quantiles.section import QuantilesSection
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.question import Answer, additive, extent, span, text

_CELLS, _PROBABILITIES = ("feature", "cell"), ("feature", "probability")


@dataclass(frozen=True, eq=False)
class QuantilesQuestion:
    """Quantiles of each column.

    Attributes
    ----------
    problem
        Its sensitivity.
    query
        Cells of each column, and what is measured of them.
    names
        Names of the columns.
    probabilities
        Of the quantiles, ascending.
    confidence
        Of their intervals.
    ends
        Least and greatest value of each declared cell, for each column.
    last
        For each column the declared cell with which each measured cell ends; None where these are the declared ones.
    """

    problem: Quantiles
    query: QuantilesQuery
    names: tuple[str, ...]
    probabilities: Vector
    confidence: float
    ends: tuple[tuple[Vector, Vector], ...]
    last: tuple[NDArray[np.int64], ...] | None = None

    @property
    def last_cells(self) -> tuple[NDArray[np.int64], ...]:
        """For each column the declared cell with which each measured cell ends."""
        return self.last or tuple(np.arange(size) for size in self.problem.sizes)

    def joined(self, last: tuple[NDArray[np.int64], ...]) -> QuantilesQuestion:
        """The same of few cells in place of all; parameter as for :attr:`last`."""
        bins = tuple(
            JoinedBins(each, tuple(own.tolist())) for each, own in zip(self.query.histograms.bins, last, strict=True)
        )
        histograms = replace(self.query.histograms, bins=bins)
        problem = replace(self.problem, sizes=histograms.sizes)
        return replace(self, problem=problem, query=QuantilesQuery(histograms, problem), last=last)

    @property
    def origin(self) -> Vector:
        """Zero: counts are about none."""
        return np.zeros(len(self.names))

    def answer(self, design: Design) -> Answer:
        """The balances with noise; NotApplicable where it is not of one size."""
        noise = additive(design)
        if np.ptp(noise.spread.rows) or np.ptp(noise.spread.columns):
            raise NotApplicable('quantiles are for noise of one size; choose "gaussian"')
        return QuantilesAnswer(self, noise)


@dataclass(frozen=True, eq=False)
class QuantilesAnswer:
    """Counts up to each cell with noise, and quantiles; see :class:`.question.Answer`."""

    question: QuantilesQuestion
    design: NoiseDesign

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "cumulative"

    @property
    def shape(self) -> tuple[int, int]:
        """Columns, and the largest number of cells."""
        sizes = self.question.problem.sizes
        return len(sizes), max(sizes)

    def facts(self) -> dict[str, Any]:
        """Cells of each column, and what is measured of them."""
        problem = self.question.problem
        return {
            "cells_by_column": list(problem.sizes),
            "balances": "root of the skew-circulant matrix of halves, version 1",
            "kernels_sha256": sha256(
                b"".join(column.kernel.astype("<i8").tobytes() for column in problem.columns)
            ).hexdigest(),
            "count_weight": problem.weight,
        }

    def work(self, rows: int) -> Work:
        """Work of reading and counting; balances follow in each part."""
        return Work(GrowthKind.CELLS, rows, len(self.question.names), self.question.problem.shape)

    @property
    def noise(self) -> list[RankNoise]:
        """Noise of each column."""
        return column_noise(self.design, self.question.problem)

    @property
    def _law(self) -> GaussianNoise | LaplaceSums:
        return GaussianNoise() if self.design.gaussian else LaplaceSums()

    @property
    def _factor(self) -> float:
        """Standard deviations of a rank that either side of an interval leaves out."""
        outside = 1.0 - self.question.confidence
        if self.design.gaussian:
            return float(-ndtri(outside / 2.0))
        # A band of so many ranks leaves out at most this share in each; a rank is a sum of independent noises.
        return self._law.band(ceil((1.0 - CONFIDENCE) / outside))

    def error(self) -> ErrorReport:
        """Expected error of all counts up to cells."""
        columns, width = self.shape
        noise, problem = self.noise, self.question.problem
        total = width * sum(each.cumulative**2 for each in noise)
        # Of balances and, added to all of them, of half the count: the widest of a sum is at most the sum in square.
        measured = noise[0].balance / problem.columns[0].deviation
        of_balances = measured * max(column.widest for column in problem.columns) * sqrt(width)
        of_counts = noise[0].count / 2.0 * sqrt(width * (columns if problem.complete else 1))
        norm = sqrt(total) + hypot(of_balances, of_counts) * sqrt(2.0 * log(1.0 / (1.0 - CONFIDENCE)))
        if not self.design.gaussian:
            norm = sqrt(total / (1.0 - CONFIDENCE))  # Markov's inequality
        return ErrorReport(total, self._law.band(columns * width), norm, norm)

    def rank_deviations(self) -> NDArray[np.float64]:
        """Standard deviation of the rank of each quantile, in records, shape (columns, probabilities)."""
        return np.array([[each.at(float(p)) for p in self.question.probabilities] for each in self.noise])

    def error_sentence(self) -> str:
        """Standard deviation of the ranks of quantiles."""
        ranks = span(self.rank_deviations())
        return f"the rank of a quantile has a standard deviation of {ranks} records; cells add their width"

    def noise_over_largest(self) -> tuple[float, float]:
        """A count is at most the number of records."""
        deviations = np.array([each.cumulative for each in self.noise])
        return extent(deviations / self.question.problem.rows_at_most)

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Counts up to each cell with their error, what was measured, and quantiles with their intervals."""
        question, shape = self.question, self.shape
        columns = column_balances(released, self.design, question.problem, rows)
        cumulative, deviations, kernels = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64)
        lower, upper = np.full(shape, np.nan), np.full(shape, np.nan)
        last_cells = np.full(shape, -1, dtype=np.int64)
        quantiles, factor = [], self._factor
        for row, (column, matrix, ends, last) in enumerate(
            zip(columns, question.problem.columns, question.ends, question.last_cells, strict=True)
        ):
            size = matrix.cells
            cumulative[row, :size], deviations[row, :size] = column.cumulative, column.noise.cumulative
            lower[row, :size], upper[row, :size] = ends[0][np.append(0, last[:-1] + 1)], ends[1][last]
            kernels[row, :size], last_cells[row, :size] = matrix.kernel, last
            quantiles.append(column.quantiles(question.probabilities, ends, last, factor))
        parts = np.array([[(each.value, each.lower, each.upper) for each in row] for row in quantiles])
        return {
            "cumulative": (cumulative, _CELLS),
            "cumulative_standard_deviation": (deviations, _CELLS),
            "values": (np.array([column.count for column in columns]), ("feature",)),
            "values_standard_deviation": (np.array([column.noise.count for column in columns]), ("feature",)),
            "measured_kernel": (kernels, _CELLS),
            **({} if question.last is None else {"last_cell": (last_cells, _CELLS)}),
            "feature": (text(question.names), ("feature",)),
            "cell_lower": (lower, _CELLS),
            "cell_upper": (upper, _CELLS),
            "probability": (question.probabilities, ("probability",)),
            "quantile": (parts[:, :, 0], _PROBABILITIES),
            "quantile_lower": (parts[:, :, 1], _PROBABILITIES),
            "quantile_upper": (parts[:, :, 2], _PROBABILITIES),
        }

    def blocks(self, rows: int) -> None:
        """Balances of a column need all of its cells."""


def build(loaded: LoadedConfig, asked: QuantilesSection) -> QuantilesQuestion:
    """Question of a config."""
    histograms = HistogramQuery(tuple(EdgeBins(axis.borders) for axis in asked.axes), MissingValue(asked.missing))
    probabilities = np.array(asked.probabilities)
    problem = Quantiles(
        histograms.sizes,
        loaded.config.privacy.neighbours,
        asked.rows_at_most,
        histograms.missing is MissingValue.REFUSE,
        float(np.max(np.abs(probabilities - 0.5))),
    )
    ends = tuple((np.array(least), np.array(greatest)) for least, greatest in (axis.ends for axis in asked.axes))
    query = QuantilesQuery(histograms, problem)
    return QuantilesQuestion(problem, query, asked.columns, probabilities, asked.confidence, ends)


QUESTION = build
