"""The number of records, and the total and the mean of each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from blockveil.engine.answers.learned_spread import SpreadSums
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.estimates.error_bounds import ErrorReport
from blockveil.engine.estimates.rounding_error import RoundingError
from blockveil.engine.estimates.shortening import Shortening
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.totals import estimate as estimates
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.kinds.totals.record_sums import RecordSumsQuery
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.records.geometry import Coordinates, Vector
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.totals.section import TotalsSection
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.question import (
    Answer,
    additive,
    check_even,
    extent,
    mapped_facts,
    quantiser,
    text,
)
from blockveil.pipeline.questions.rounded_sides import RoundedSide, RoundedSums, error_of_sums, rounded_side

_NAMED = 4
"""Features whose expected error a plan gives in their own units."""

_COUNT_SHARE = "least error of the worst mean, version 1"


@dataclass(frozen=True, eq=False)
class TotalsQuestion:
    """Count, totals and means.

    Attributes
    ----------
    side
        How records are rounded.
    alike
        How often one content occurs at most, where that is declared.
    shortening
        What shortening records to a learned ellipsoid takes from them; None where the shape is declared.
    """

    problem: Totals
    query: RecordSumsQuery | SpreadSums
    features: tuple[str, ...]
    side: RoundedSide | None = None
    alike: int | None = None
    shortening: Shortening | None = None

    @property
    def sums(self) -> RoundedSums:
        """Sums of values."""
        problem, clip = self.problem, self.query.quantiser
        lead, records, largest = int(problem.counted), problem.rows_at_most, problem.largest
        return RoundedSums((self.side,), clip, self.rounding, lead, records, largest, self.alike, products=False)

    @property
    def rounding(self) -> RoundingError | None:
        """Error by rounding, which every stated error includes; None where records are rounded to nearest."""
        return None if self.side is None else error_of_sums(self.side, self.problem.rows_at_most, self.alike)

    @property
    def origin(self) -> Vector:
        """Origin of the shape."""
        return self.coordinates.origin

    @property
    def coordinates(self) -> Coordinates:
        """Coordinates in which records are clipped and rounded."""
        return self.query.quantiser.coordinates

    def answer(self, design: Design) -> Answer:
        """The sums with noise."""
        return TotalsAnswer(self, additive(design))


@dataclass(frozen=True, eq=False)
class TotalsAnswer:
    """Count, totals and means with noise; see :class:`.question.Answer`."""

    question: TotalsQuestion
    design: NoiseDesign

    def __post_init__(self) -> None:
        """A full matrix shape needs noise that is even in coordinates."""
        check_even(self.question.query.quantiser, self.design.spread.columns[self._lead :])

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "totals"

    @property
    def shape(self) -> tuple[int, int]:
        """One row, with the count where it is not public."""
        return self.design.shape

    @property
    def _lead(self) -> int:
        return int(self.question.problem.counted)

    def facts(self) -> dict[str, Any]:
        """Shape of a record, and how the count got its share."""
        problem = self.question.problem
        return {
            "body": problem.body.value,
            "largest_integer": problem.largest,
            **({"count_share": _COUNT_SHARE} if problem.counted else {}),
            **mapped_facts(self.question.query.quantiser, False),
            **({} if self.question.side is None else self.question.side.facts()),
        }

    def work(self, rows: int) -> Work:
        """Reading and adding."""
        return Work(GrowthKind.SUMS, rows, len(self.question.features), self.shape)

    def error(self) -> ErrorReport:
        """Expected error of the totals."""
        return estimates.totals_error(self.design, self.question.coordinates, bool(self._lead))

    def error_sentence(self) -> str:
        """Standard deviations of count, totals and means, in the features' own units."""
        rows = self.question.problem.rows_at_most
        question = self.question
        totals, means = estimates.worst_deviations(
            self.design, question.coordinates, bool(self._lead), rows, question.rounding
        )
        names = self.question.features[:_NAMED]
        deviations_of_totals = "; ".join(
            f"the total of {name} {total:.3g}, its mean {mean:.3g} at most"
            for name, total, mean in zip(names, totals, means, strict=False)
        )
        more = len(self.question.features) - len(names)
        count = f"the count {float(self.design.entry_standard_deviation()[0, 0]):.3g} records; " if self._lead else ""
        of = f"; {more:,} more columns in proportion to their bounds" if more else ""
        return f"standard deviations at {rows:,} rows: {count}{deviations_of_totals}{of}"

    def noise_over_largest(self) -> tuple[float, float]:
        """A sum about the origin is at most as many half widths as there are records, and the count as many records."""
        problem, back = self.question.problem, self.question.coordinates.to_scaled()
        deviation = self.design.entry_standard_deviation()[0]
        if back is not None:
            deviation = np.concatenate([deviation[: self._lead], np.sqrt(back**2 @ deviation[self._lead :] ** 2)])
        return extent(deviation / problem.rows_at_most)

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Totals, means and count, each with the standard deviation of its noise."""
        public = None if self._lead else rows
        question = self.question
        totals = estimates.totals_and_means(released, self.design, question.coordinates, public, question.rounding)
        extra_arrays: ReleaseArrays = {}
        if question.shortening is not None:
            variances, means = question.shortening.of_means()
            totals, extra_arrays = totals.beside(means), {"clipped_variance": (variances, ("feature",))}
        return {
            **extra_arrays,
            "feature": (text(self.question.features), ("feature",)),
            "count": (totals.count.value, ()),
            "count_standard_deviation": (totals.count.standard_deviation, ()),
            "totals": (totals.totals.value, ("feature",)),
            "totals_standard_deviation": (totals.totals.standard_deviation, ("feature",)),
            "mean": (totals.mean.value, ("feature",)),
            "mean_standard_deviation": (totals.mean.standard_deviation, ("feature",)),
        }

    def blocks(self, rows: int) -> None:
        """One row is never too large to be held."""


def build(loaded: LoadedConfig, asked: TotalsSection) -> TotalsQuestion:
    """Question of a config."""
    neighbours = loaded.config.privacy.neighbours
    clip = quantiser(loaded, asked.geometry, augmented=neighbours is Neighbours.ADD_REMOVE)
    side = rounded_side(clip, asked.geometry)
    clip = side.quantiser
    ends = clip.ends
    problem = Totals(
        clip.coordinates.body,
        clip.coordinates.scale,
        neighbours,
        clip.largest,
        asked.rows_at_most,
        widths=None if ends is None else (ends[1] - ends[0]) / clip.largest,
        reach=None if ends is None else np.maximum(-ends[0], ends[1]) / clip.largest,
    )
    return TotalsQuestion(problem, RecordSumsQuery(clip), asked.columns, side, asked.duplicates_at_most)


QUESTION = build
