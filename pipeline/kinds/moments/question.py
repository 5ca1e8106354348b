"""Covariance and second moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from blockveil.engine.answers import gram
from blockveil.engine.answers.second_moment import SecondMomentQuery
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.estimates import matrices, shrunk_spectrum
from blockveil.engine.estimates.error_bounds import ErrorReport, error_report
from blockveil.engine.estimates.rounding_error import RoundingError, extremes
from blockveil.engine.estimates.shortening import Shortening, TakenByShortening
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.moments import rotated as rotation
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.records.geometry import Body, Coordinates, Vector, reaches_both_ends
from blockveil.engine.sensitivity.reach import largest_entries
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.moments.section import MomentSection
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import (
    Blocks,
    CovarianceBlocks,
    Large,
    SecondMomentBlocks,
    ShortenedCovarianceBlocks,
)
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
from blockveil.pipeline.questions.rounded_sides import RoundedSide, RoundedSums, error_of, rounded_side

_PAIR = ("feature", "feature_")

_SHRUNK = "eigenvalues shrunk at the released trace, version 1"


@dataclass(frozen=True, eq=False)
class Moment:
    """Covariance or second moment.

    Attributes
    ----------
    directed
        Whether noise has declared directions.
    density
        Public bound on the share of values other than zero, where one is declared and the shape lets it be used.
    side
        How records are rounded; None along directions, to nearest.
    alike
        How often one content occurs at most, where that is declared.
    shortening
        What shortening records to a learned ellipsoid takes from them; None where the shape is declared.
    """

    problem: SecondMoment
    query: SecondMomentQuery
    features: tuple[str, ...]
    directed: bool = False
    density: float | None = None
    side: RoundedSide | None = None
    alike: int | None = None
    shortening: Shortening | None = None

    @property
    def sums(self) -> RoundedSums:
        """Sums of products of two values."""
        problem, clip = self.problem, self.query.quantiser
        lead, records, largest = self.lead, problem.rows_at_most, problem.largest
        return RoundedSums((self.side,), clip, self.rounding, lead, records, largest, self.alike, products=True)

    @property
    def rounding(self) -> RoundingError | None:
        """Error by rounding, which every stated error includes; None where records are rounded to nearest."""
        return None if self.side is None else error_of(self.side, self.side, self.problem.rows_at_most, self.alike)

    @property
    def origin(self) -> Vector:
        """Origin of the shape."""
        return self.coordinates.origin

    @property
    def coordinates(self) -> Coordinates:
        """Coordinates in which records are clipped and rounded."""
        return self.query.quantiser.coordinates

    @property
    def lead(self) -> int:
        """Number of constant coordinates: one for a covariance, none for a second moment."""
        return int(self.problem.augmented)

    def facts(self) -> dict[str, Any]:
        """Shape of a record."""
        return {
            "body": self.problem.body.value,
            "constant_coordinate": self.problem.augmented,
            "largest_integer": self.problem.largest,
            **mapped_facts(self.query.quantiser, self.directed),
            **({} if self.side is None else self.side.facts()),
        }

    def work(self, rows: int) -> Work:
        """One triangle of products."""
        return _work(rows, len(self.features), self.lead, self.density, self.problem.largest)

    def answer(self, design: Design) -> Answer:
        """A covariance or second moment with noise."""
        return MomentAnswer(self, additive(design))


@dataclass(frozen=True, eq=False)
class MomentAnswer:
    """A covariance or second moment with noise; see :class:`.question.Answer`."""

    question: Moment
    design: NoiseDesign

    def __post_init__(self) -> None:
        """A full matrix shape needs noise that is even in coordinates, unless they are meant as directions."""
        if not self.question.directed:
            check_even(self.question.query.quantiser, self.design.spread.columns[self.question.lead :])

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "covariance" if self.question.lead else "second_moment"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix, its constant coordinate included."""
        return self.design.shape

    @property
    def shrinks(self) -> bool:
        """Whether the positive semi-definite version has shrunk eigenvalues; by the design alone."""
        whole = not self.work(self.question.problem.rows_at_most).blocked
        return whole and shrunk_spectrum.suits(self.design, self.question.lead)

    def facts(self) -> dict[str, Any]:
        """Shape of a record, and how the positive semi-definite version is made if it is not the nearest one."""
        return {**self.question.facts(), **({"psd": _SHRUNK} if self.shrinks else {})}

    def work(self, rows: int) -> Work:
        """One triangle of products."""
        return self.question.work(rows)

    def error(self) -> ErrorReport:
        """Expected error of the second moment, from which everything else follows."""
        back = self.question.coordinates.to_raw()
        if self.question.lead:  # the count and the sums are not part of it
            back = np.concatenate([[0.0], back]) if back.ndim == 1 else np.pad(back, ((1, 0), (1, 0)))
        return error_report(self.design, back, back)

    def error_sentence(self) -> str:
        """Relative to the product of two features' half widths, at the largest number of rows."""
        rows, back = self.question.problem.rows_at_most, self.question.coordinates.to_scaled()
        design, rounding = self.design, None
        if back is None:
            design, rounding = extremes(self.design, self.question.rounding, self.question.lead)
        if self.question.lead:
            share = matrices.worst_covariance_deviation(design, rows, back, rounding)
            lead = f"at {rows:,} rows, a covariance entry's standard deviation is at most"
        else:
            share = matrices.second_moment_deviation(design, back, rounding) / rows
            lead = f"at {rows:,} rows, a second moment's standard deviation per row is"
        return f"{lead} {span(share)} of the product of the two features' half widths"

    def noise_over_largest(self) -> tuple[float, float]:
        """Ratio for the second moment's noise, which a covariance has at the least; see :func:`largest_entries`."""
        problem, coordinates, lead = self.question.problem, self.question.coordinates, self.question.lead
        back = coordinates.to_scaled()
        if back is not None:
            return extent(matrices.second_moment_deviation(self.design, back, lead=lead) / problem.rows_at_most)
        own, product = largest_entries(problem.body)
        if lead:
            # Half of the width between two bounds, in half widths about the origin; no covariance exceeds its square.
            range_ = float(np.max((coordinates.upper - coordinates.lower) / (2.0 * coordinates.scale)))
            own, product = (min(largest, range_**2) for largest in (own, product))
        share = self.design.extremes(lead).entry_standard_deviation()[lead:, lead:] / problem.rows_at_most
        return extent(share / np.where(np.eye(share.shape[0]), own, product))

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Matrix, its error and a positive semi-definite version; for a covariance count and mean too."""
        names, coordinates = text(self.question.features), self.question.coordinates
        if not self.question.lead:
            moment = matrices.second_moment(released, self.design, coordinates, self.question.rounding)
            return {
                "feature": (names, ("feature",)),
                "second_moment": (moment.value, _PAIR),
                "second_moment_standard_deviation": (moment.standard_deviation, _PAIR),
                "second_moment_psd": (
                    matrices.second_moment_psd(released, self.design, coordinates, self.shrinks),
                    _PAIR,
                ),
            }
        rounding = self.question.rounding
        moments = matrices.covariance(
            released, self.design, coordinates, self._public_count(rows), self.shrinks, rounding
        )
        extra_arrays: ReleaseArrays = {}
        if (shortening := self.question.shortening) is not None:
            noise = np.diagonal(moments.covariance.standard_deviation)
            variances = shortening.taken(np.diagonal(moments.covariance.value), noise)
            extra_arrays = {"clipped_variance": (variances, ("feature",))}
            shift = moments.mean.value - coordinates.origin
            moments = TakenByShortening.of(variances, shortening.share, moments.covariance.value, shift).beside(moments)
        return {
            **extra_arrays,
            "feature": (names, ("feature",)),
            "count": (moments.count.value, ()),
            "count_standard_deviation": (moments.count.standard_deviation, ()),
            "mean": (moments.mean.value, ("feature",)),
            "mean_standard_deviation": (moments.mean.standard_deviation, ("feature",)),
            "covariance": (moments.covariance.value, _PAIR),
            "covariance_standard_deviation": (moments.covariance.standard_deviation, _PAIR),
            "covariance_psd": (moments.covariance_psd, _PAIR),
            "second_moment": (moments.second_moment.value, _PAIR),
            "second_moment_standard_deviation": (moments.second_moment.standard_deviation, _PAIR),
        }

    def blocks(self, rows: int) -> Blocks | None:
        """Matrix and error; no positive semi-definite version and no second moment beside a covariance."""
        features, coordinates = self.question.features, self.question.coordinates
        if coordinates.mixing is not None:
            return None
        large = Large((len(features), len(features)), _PAIR)
        axes: ReleaseArrays = {"feature": (text(features), ("feature",))}
        if not self.question.lead:
            return SecondMomentBlocks(large, axes, self.design, coordinates, self.question.rounding)
        count, rounding, shortening = self._public_count(rows), self.question.rounding, self.question.shortening
        if shortening is None:
            return CovarianceBlocks(large, axes, self.design, coordinates, count, rounding)
        return ShortenedCovarianceBlocks(large, axes, self.design, coordinates, count, rounding, shortening)

    def _public_count(self, rows: int) -> int | None:
        return rows if self.question.problem.neighbours is Neighbours.REPLACE_ONE else None


def build(loaded: LoadedConfig, asked: MomentSection) -> Moment:
    """Question of a config."""
    clip, along = directed(loaded, asked.geometry, augmented=asked.kind == "covariance")
    gram.check_no_overflow(asked.rows_at_most, clip.largest)
    if along and clip.coordinates.body is Body.CUBE:
        box = rotation.second_moment(clip, loaded.config.privacy.neighbours, asked.rows_at_most)
        return Moment(box, SecondMomentQuery(clip), asked.columns, directed=True)
    side = rounded_side(clip, asked.geometry)
    clip = side.quantiser
    density = loaded.config.compute.density_at_most if clip.by_entries else None
    sparse = _work(1, len(asked.columns), int(clip.augmented), density, clip.largest).sparse
    problem = SecondMoment(
        clip.coordinates.body,
        clip.coordinates.scale,
        loaded.config.privacy.neighbours,
        clip.largest,
        asked.rows_at_most,
        clip.augmented,
        even=reaches_both_ends(clip.coordinates, clip.largest),
        ends=ends_in_coordinates(clip),
    )
    query = SecondMomentQuery(clip, sparse)
    alike = getattr(asked, "duplicates_at_most", None)  # a section of another package may have none
    return Moment(problem, query, asked.columns, directed=along, density=density, side=side, alike=alike)


def _work(rows: int, features: int, lead: int, density: float | None, largest: int) -> Work:
    """One triangle of products."""
    width = features + lead
    return Work(GrowthKind.PRODUCTS, rows, features, (width, width), True, lead, density=density, largest=largest)


QUESTION = build
