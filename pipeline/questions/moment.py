"""Covariance and second moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import gram
from blockveil.engine.answers.cost import GrowthKind, Work
from blockveil.engine.answers.second_moment import SecondMomentQuery
from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.error_bounds import ErrorReport, error_report
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.records.dither import PLACES, Dither
from blockveil.engine.records.geometry import Body, Vector, reaches_both_ends
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.sensitivity import rotation
from blockveil.engine.sensitivity.problems import SecondMoment
from blockveil.engine.sensitivity.reach import largest_entries
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.query_sections import MomentSection
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks, CovarianceBlocks, Large, SecondMomentBlocks
from blockveil.pipeline.questions.question import (
    AnyDesign,
    check_even,
    directed,
    extent,
    mapped_facts,
    quantiser,
    span,
    text,
)

_PAIR = ("feature", "feature_")


@dataclass(frozen=True, eq=False)
class Moment:
    """Covariance or second moment.

    Attributes
    ----------
    directed
        Whether noise has declared directions.
    density
        Public bound on the share of values other than zero, where one is declared and the shape lets it be used.
    """

    problem: SecondMoment
    query: SecondMomentQuery
    features: tuple[str, ...]
    directed: bool = False
    density: float | None = None

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "covariance" if self.problem.augmented else "second_moment"

    @property
    def origin(self) -> Vector:
        """Origin of the shape."""
        return self.query.quantiser.coordinates.origin

    def check(self, design: NoiseDesign) -> None:
        """A full matrix shape needs noise that is even in coordinates, unless they are meant as directions."""
        if not self.directed:
            check_even(self.query.quantiser, design.spread.columns[int(self.problem.augmented) :])

    def facts(self, design: AnyDesign) -> dict[str, Any]:
        """Shape of a record."""
        return {
            "body": self.problem.body.value,
            "constant_coordinate": self.problem.augmented,
            "largest_integer": self.problem.largest,
            **mapped_facts(self.query.quantiser, self.directed),
            **({} if self.query.quantiser.dither is None else {"rounding": f"at {PLACES} places by record, version 1"}),
        }

    def work(self, rows: int) -> Work:
        """One triangle of products."""
        lead = int(self.problem.augmented)
        return _work(rows, len(self.features), lead, self.density, self.problem.largest)

    def error(self, design: NoiseDesign) -> ErrorReport:
        """Of the second moment, which everything else follows from."""
        back = self.query.quantiser.coordinates.to_raw()
        if self.problem.augmented:  # the count and the sums are not part of it
            back = np.concatenate([[0.0], back]) if back.ndim == 1 else np.pad(back, ((1, 0), (1, 0)))
        return error_report(design, back, back)

    def error_sentence(self, design: NoiseDesign) -> str:
        """Relative to the product of two features' half widths, at the largest number of rows."""
        rows, back = self.problem.rows_at_most, self.query.quantiser.coordinates.to_scaled()
        if back is None:
            design = design.extremes(int(self.problem.augmented))
        if self.problem.augmented:
            share = matrices.worst_covariance_deviation(design, rows, back)
            lead = f"at {rows:,} rows, a covariance entry's standard deviation is at most"
        else:
            share = matrices.second_moment_deviation(design, back) / rows
            lead = f"at {rows:,} rows, a second moment's standard deviation per row is"
        return f"{lead} {span(share)} of the product of the two features' half widths"

    def noise_over_largest(self, design: NoiseDesign) -> tuple[float, float]:
        """Of the second moment's noise, which a covariance has at the least; see :func:`largest_entries`."""
        coordinates, lead = self.query.quantiser.coordinates, int(self.problem.augmented)
        back = coordinates.to_scaled()
        if back is not None:
            return extent(matrices.second_moment_deviation(design, back)[lead:, lead:] / self.problem.rows_at_most)
        own, product = largest_entries(self.problem.body)
        if self.problem.augmented:
            # Half of the width between two bounds, in half widths about the origin; no covariance exceeds its square.
            range_ = float(np.max((coordinates.upper - coordinates.lower) / (2.0 * coordinates.scale)))
            own, product = (min(largest, range_**2) for largest in (own, product))
        share = design.extremes(lead).entry_standard_deviation()[lead:, lead:] / self.problem.rows_at_most
        return extent(share / np.where(np.eye(share.shape[0]), own, product))

    def arrays(self, released: NDArray[np.int64], design: NoiseDesign, rows: int) -> ReleaseArrays:
        """Matrix, its error and a positive semi-definite version; for a covariance count and mean too."""
        names, coordinates = text(self.features), self.query.quantiser.coordinates
        if not self.problem.augmented:
            moment = matrices.second_moment(released, design, coordinates)
            return {
                "feature": (names, ("feature",)),
                "second_moment": (moment.value, _PAIR),
                "second_moment_standard_deviation": (moment.standard_deviation, _PAIR),
                "second_moment_psd": (matrices.second_moment_psd(released, design, coordinates), _PAIR),
            }
        public_count = rows if self.problem.neighbours is Neighbours.REPLACE_ONE else None
        found = matrices.covariance(released, design, coordinates, public_count)
        return {
            "feature": (names, ("feature",)),
            "count": (found.count.value, ()),
            "count_standard_deviation": (found.count.standard_deviation, ()),
            "mean": (found.mean.value, ("feature",)),
            "mean_standard_deviation": (found.mean.standard_deviation, ("feature",)),
            "covariance": (found.covariance.value, _PAIR),
            "covariance_standard_deviation": (found.covariance.standard_deviation, _PAIR),
            "covariance_psd": (found.covariance_psd, _PAIR),
            "second_moment": (found.second_moment.value, _PAIR),
            "second_moment_standard_deviation": (found.second_moment.standard_deviation, _PAIR),
        }

    def blocks(self, design: NoiseDesign, rows: int) -> Blocks | None:
        """Matrix and error; no positive semi-definite version and no second moment beside a covariance."""
        coordinates = self.query.quantiser.coordinates
        if coordinates.mixing is not None:
            return None
        large = Large((len(self.features), len(self.features)), _PAIR)
        axes: ReleaseArrays = {"feature": (text(self.features), ("feature",))}
        if not self.problem.augmented:
            return SecondMomentBlocks(large, axes, design, coordinates)
        public_count = rows if self.problem.neighbours is Neighbours.REPLACE_ONE else None
        return CovarianceBlocks(large, axes, design, coordinates, public_count)


def build(loaded: LoadedConfig, asked: MomentSection) -> Moment:
    """Question of a config."""
    clip = quantiser(loaded, asked.geometry, augmented=asked.kind == "covariance")
    gram.check_no_overflow(asked.rows_at_most, clip.largest)
    along = directed(loaded, clip)
    if along is not None and along.coordinates.body is Body.CUBE:
        box = rotation.second_moment(along, loaded.config.privacy.neighbours, asked.rows_at_most)
        return Moment(box, SecondMomentQuery(along), asked.columns, directed=True)
    clip = along or clip
    clip = _dithered(clip)
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
    )
    query = SecondMomentQuery(clip, sparse)
    return Moment(problem, query, asked.columns, directed=along is not None, density=density)


def _work(rows: int, features: int, lead: int, density: float | None, largest: int) -> Work:
    """One triangle of products."""
    width = features + lead
    return Work(GrowthKind.PRODUCTS, rows, features, (width, width), True, lead, density=density, largest=largest)


def _dithered(clip: Quantiser) -> Quantiser:
    """Rounding at places of their own for records in a cube with few bits.

    Not where a zero would not be the same integer in all records, which sparse records need: whether a config says
    that they are sparse must not change a bit.
    """
    coordinates = clip.coordinates
    cube = coordinates.body in (Body.CUBE, Body.HALF_CUBE) and coordinates.mixing is None
    if not cube or not gram.arithmetic(clip.largest).single:
        return clip
    dithered = replace(clip, dither=Dither(coordinates.dimension))
    return dithered if dithered.by_entries else clip
