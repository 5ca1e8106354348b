"""The records themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.rows import RowsQuery
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.error_bounds import ErrorReport, error_report
from blockveil.engine.kinds.rows import rotated as rotation
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.records.geometry import Body, Coordinates, Vector, reaches_both_ends
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.rows.section import RowsSection
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks, Large, RecordBlocks
from blockveil.pipeline.questions.question import (
    Answer,
    additive,
    check_even,
    directed,
    ends_in_coordinates,
    extent,
    mapped_facts,
    span,
    text,
)

_PAIR = ("record", "feature")


@dataclass(frozen=True, eq=False)
class RowsQuestion:
    """The records themselves.

    Attributes
    ----------
    directed
        Whether noise has declared directions.
    """

    problem: Rows
    query: RowsQuery
    features: tuple[str, ...]
    directed: bool = False

    @property
    def origin(self) -> Vector:
        """Origin of the shape."""
        return self.coordinates.origin

    @property
    def coordinates(self) -> Coordinates:
        """Coordinates in which records are clipped and rounded."""
        return self.query.quantiser.coordinates

    def answer(self, design: Design) -> Answer:
        """Records with noise."""
        return RowsAnswer(self, additive(design))


@dataclass(frozen=True, eq=False)
class RowsAnswer:
    """Records with noise; see :class:`.question.Answer`."""

    question: RowsQuestion
    design: NoiseDesign

    def __post_init__(self) -> None:
        """A full matrix shape needs noise that is even in coordinates, unless they are meant as directions."""
        if not self.question.directed:
            check_even(self.question.query.quantiser, self.design.spread.columns)

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "rows"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape at the largest number of records."""
        return self.design.shape

    def facts(self) -> dict[str, Any]:
        """Shape of a record."""
        problem = self.question.problem
        facts = {"body": problem.body.value, "largest_integer": problem.largest}
        return {**facts, **mapped_facts(self.question.query.quantiser, self.question.directed)}

    def work(self, rows: int) -> Work:
        """Reading alone."""
        width = self.shape[1]
        return Work(GrowthKind.RECORDS, rows, width, (rows, width))

    def error(self) -> ErrorReport:
        """Expected error of the records."""
        return error_report(self.design, np.ones(self.shape[0]), self.question.coordinates.to_raw())

    def error_sentence(self) -> str:
        """Relative to the feature's half width."""
        return f"a value's standard deviation is {span(self._shares())} of the feature's half width"

    def _shares(self) -> NDArray[np.float64]:
        """Standard deviations in half widths, shape (1, d)."""
        share = self.design.standard_deviations((0, 1), (0, self.shape[1]))
        back = self.question.coordinates.to_scaled()
        return share if back is None else np.sqrt(share**2 @ (back**2).T)

    def noise_over_largest(self) -> tuple[float, float]:
        """A value is at most its half width from the origin."""
        return extent(self._shares())

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Noisy records and the standard deviation of a feature's noise."""
        records = matrices.records(released, self.design, self.question.coordinates)
        return {
            "feature": (text(self.question.features), ("feature",)),
            "rows": (records.value, _PAIR),
            "rows_standard_deviation": (records.standard_deviation, _PAIR),
        }

    def blocks(self, rows: int) -> Blocks | None:
        """Records and error."""
        features, coordinates = self.question.features, self.question.coordinates
        if coordinates.mixing is not None:
            return None
        axes: ReleaseArrays = {"feature": (text(features), ("feature",))}
        return RecordBlocks(Large((rows, len(features)), _PAIR), axes, self.design, coordinates)


def build(loaded: LoadedConfig, asked: RowsSection) -> RowsQuestion:
    """Question of a config."""
    clip, along = directed(loaded, asked.geometry, augmented=False)
    if along and clip.coordinates.body is Body.CUBE:
        box = rotation.rows(clip, loaded.config.privacy.neighbours, asked.rows_at_most)
        return RowsQuestion(box, RowsQuery(clip), asked.columns, directed=True)
    problem = Rows(
        clip.coordinates.body,
        clip.coordinates.scale,
        loaded.config.privacy.neighbours,
        clip.largest,
        asked.rows_at_most,
        even=reaches_both_ends(clip.coordinates, clip.largest),
        ends=ends_in_coordinates(clip),
    )
    return RowsQuestion(problem, RowsQuery(clip), asked.columns, directed=along)


QUESTION = build
