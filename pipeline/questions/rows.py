"""The records themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.cost import GrowthKind, Work
from blockveil.engine.answers.rows import RowsQuery
from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.error_bounds import ErrorReport, error_report
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.records.geometry import Body, Vector, reaches_both_ends
from blockveil.engine.sensitivity import rotation
from blockveil.engine.sensitivity.problems import Rows
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config import query_sections as declared
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks, Large, RecordBlocks
from blockveil.pipeline.questions.question import check_even, directed, extent, mapped_facts, quantiser, span, text


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
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "rows"

    @property
    def origin(self) -> Vector:
        """Origin of the shape."""
        return self.query.quantiser.coordinates.origin

    def check(self, design: NoiseDesign) -> None:
        """A full matrix shape needs noise that is even in coordinates, unless they are meant as directions."""
        if not self.directed:
            check_even(self.query.quantiser, design.spread.columns)

    def facts(self, design: NoiseDesign) -> dict[str, Any]:
        """Shape of a record."""
        facts = {"body": self.problem.body.value, "largest_integer": self.problem.largest}
        return {**facts, **mapped_facts(self.query.quantiser, self.directed)}

    def work(self, rows: int) -> Work:
        """Reading alone."""
        width = self.problem.shape[1]
        return Work(GrowthKind.RECORDS, rows, width, (rows, width))

    def error(self, design: NoiseDesign) -> ErrorReport:
        """Of the records."""
        return error_report(design, np.ones(design.shape[0]), self.query.quantiser.coordinates.to_raw())

    def error_sentence(self, design: NoiseDesign) -> str:
        """Relative to the feature's half width."""
        return f"a value's standard deviation is {span(self._shares(design))} of the feature's half width"

    def _shares(self, design: NoiseDesign) -> NDArray[np.float64]:
        """Standard deviations in half widths, shape (1, d)."""
        share = design.standard_deviations((0, 1), (0, design.shape[1]))
        back = self.query.quantiser.coordinates.to_scaled()
        return share if back is None else np.sqrt(share**2 @ (back**2).T)

    def noise_over_largest(self, design: NoiseDesign) -> tuple[float, float]:
        """A value is at most its half width from the origin."""
        return extent(self._shares(design))

    def arrays(self, released: NDArray[np.int64], design: NoiseDesign, rows: int) -> ReleaseArrays:
        """Noisy records and the standard deviation of a feature's noise."""
        found = matrices.records(released, design, self.query.quantiser.coordinates)
        pair = ("record", "feature")
        return {
            "feature": (text(self.features), ("feature",)),
            "rows": (found.value, pair),
            "rows_standard_deviation": (found.standard_deviation, pair),
        }

    def blocks(self, design: NoiseDesign, rows: int) -> Blocks | None:
        """Records and error."""
        coordinates = self.query.quantiser.coordinates
        if coordinates.mixing is not None:
            return None
        axes: ReleaseArrays = {"feature": (text(self.features), ("feature",))}
        return RecordBlocks(Large((rows, len(self.features)), ("record", "feature")), axes, design, coordinates)


def build(loaded: LoadedConfig, asked: declared.RowsSection) -> RowsQuestion:
    """Question of a config."""
    clip = quantiser(loaded, asked.geometry, augmented=False)
    along = directed(loaded, clip)
    if along is not None and along.coordinates.body is Body.CUBE:
        box = rotation.rows(along, loaded.config.privacy.neighbours, asked.rows_at_most)
        return RowsQuestion(box, RowsQuery(along), asked.columns, directed=True)
    clip = along or clip
    problem = Rows(
        clip.coordinates.body,
        clip.coordinates.scale,
        loaded.config.privacy.neighbours,
        clip.largest,
        asked.rows_at_most,
        even=reaches_both_ends(clip.coordinates, clip.largest),
    )
    return RowsQuestion(problem, RowsQuery(clip), asked.columns, directed=along is not None)
