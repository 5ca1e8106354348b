"""What a night asks of its records before its answer, where it learns the shape of the noise: sums and rings.

Both are questions like others, of which only the reading is their own: totals over the features and their squares, and
counts by distance. So their noise, their proofs and their checks are those of totals and of counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from blockveil.engine.answers.counts import CountQuery
from blockveil.engine.answers.learned_spread import RingCounts, SpreadSums, ring_edges
from blockveil.engine.answers.value_cells import Edges, Missing, Outside
from blockveil.engine.estimates.chosen_bounds import BinNoise, ChosenBounds
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.records.geometry import Body, Box, Coordinates, Vector
from blockveil.engine.records.quantiser import Quantiser
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.counts.question import CellsQuestion
from blockveil.pipeline.kinds.histograms import question as column_histograms
from blockveil.pipeline.kinds.histograms.question import ColumnHistograms
from blockveil.pipeline.kinds.histograms.section import BinnedFeature, ColumnHistogramsSection
from blockveil.pipeline.kinds.moments.section import MomentSection
from blockveil.pipeline.kinds.totals.question import TotalsQuestion
from blockveil.pipeline.kinds.totals.section import TotalsSection
from blockveil.pipeline.questions import Question
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.sections.geometry_section import AxisFeature, BoxGeometry, EllipsoidGeometry

_LARGEST = 2**15 - 1

_LEAST = 2.0**-12
"""Least standard deviation of a feature that is learned, in half widths of its bounds, where these are near enough."""

_LEAST_OF_SIZE, _LEAST_ABOUT_ZERO = 2.0**-40, 2.0**-100
"""The same where bounds are learned: of the size of the middle and the mean, and what is added, in half widths."""

_OCTAVES, _DIGITS = 100, 10
"""Powers of two below the narrowest bound, and digits, by which values are counted where bounds are learned."""

_RING = "distance"

Asked = MomentSection | TotalsSection
"""What a shape is learned for."""


@dataclass(frozen=True, eq=False)
class LearningQuestions:
    """The questions of the first two stages.

    Attributes
    ----------
    asked
        The covariance or the totals that the night is for.
    shape
        The box that it declares.
    pilot
        Number of records, sums of the features and of their squares in half widths, in the declared box.
    rings
        Number of records by their distance, in units of the learned axes.
    bounds
        Counts of the values of each feature by powers of two and by digits, from which nearer bounds are chosen; None
        where the declared ones are near enough for a pilot.
    """

    asked: Asked
    shape: BoxGeometry
    pilot: TotalsQuestion
    rings: CellsQuestion
    bounds: ColumnHistograms | None

    @classmethod
    def of(cls, loaded: LoadedConfig) -> LearningQuestions | None:
        """Questions of a config; None where it declares its shape itself."""
        query = loaded.config.query
        if not isinstance(query, Asked) or not isinstance(query.geometry, BoxGeometry):
            return None
        if query.geometry.learn is None:
            return None
        neighbours = loaded.config.privacy.neighbours
        rings = CountQuery((Edges(ring_edges(len(query.columns))),), Outside.CLIP, Missing.REFUSE)
        counts = Counts(rings.shape, neighbours, query.rows_at_most, (), 1)
        lower, upper = np.array(query.geometry.spans(), dtype=np.float64).T
        pilot = _pilot(query, lower, upper, neighbours)
        bounds = column_histograms.build(loaded, _counted(query)) if query.geometry.learn_bounds else None
        return cls(query, query.geometry, pilot, CellsQuestion(counts, rings, (_RING,)), bounds)

    @property
    def largest(self) -> int:
        """The integer that stands for the ellipsoid's own length."""
        return int(2 ** ((self.asked.quantisation_bits or self.asked.usual_bits) - 1) - 1)

    @property
    def middle(self) -> Vector:
        """Middle of the box, raw units."""
        return self.pilot.query.quantiser.coordinates.origin[: len(self.asked.columns)]

    @property
    def half_widths(self) -> Vector:
        """Half widths of the box, raw units."""
        return self.pilot.query.quantiser.coordinates.scale[: len(self.asked.columns)]

    def least(self, mean: Vector) -> Vector:
        """Least standard deviations that are learned, in half widths, shape (d,).

        Parameters
        ----------
        mean
            Where records lie, in half widths about the middle of the box, shape (d,).
        """
        if self.bounds is None:
            return np.full(mean.size, _LEAST)
        # Both have 53 bits, so that bounds about their sum can be told apart.
        return _LEAST_ABOUT_ZERO + _LEAST_OF_SIZE * (np.abs(self.middle / self.half_widths) + np.abs(mean))

    def found_bounds(self, arrays: ReleaseArrays, noise: BinNoise) -> tuple[Vector, Vector]:
        """Bounds by released histograms, in half widths about the middle of the box, shape (d,) each.

        They are the declared ones of features of which the counts tell too little.

        Parameters
        ----------
        arrays
            Of the histograms.
        noise
            Of a bin.
        """
        lower, upper = -np.ones(self.half_widths.size), np.ones(self.half_widths.size)
        values = {name: array for name, (array, _) in arrays.items()}
        bins = int(np.sum(~np.isnan(values["bin_lower"][0])))  # all features have the same by powers of two
        for place, (_, bounds) in enumerate(column_histograms.chosen(values, noise, by_digits=True)):
            if bounds is None or bounds.tells_little(noise, bins):
                continue
            middle, half = self.middle[place], self.half_widths[place]
            low, high = (min(max((end - middle) / half, -1.0), 1.0) for end in _with_tails(bounds))
            if high - low >= self.least(np.full(lower.size, (low + high) / 2.0))[place]:
                lower[place], upper[place] = low, high
        return lower, upper

    def nearer_pilot(self, lower: Vector, upper: Vector) -> TotalsQuestion:
        """The pilot in nearer bounds, in half widths about the middle of the box, shape (d,) each."""
        low, high = (self.middle + each * self.half_widths for each in (lower, upper))
        return _pilot(self.asked, low, high, self.pilot.problem.neighbours)

    def ring_counts(self, centre: Vector, axes: Vector) -> RingCounts:
        """How records are counted by their distance.

        Parameters
        ----------
        centre, axes
            Where distances are taken from, and their units, raw, shape (d,) each.
        """
        furthest = axes * float(ring_edges(centre.size)[-1])
        cube = Coordinates(Body.CUBE, centre - furthest, centre + furthest, centre, furthest)
        return RingCounts(Quantiser(cube, _LARGEST, False, _stand_in(self.asked)))

    def with_shape(self, loaded: LoadedConfig, centre: Vector, semi_axes: Vector) -> LoadedConfig:
        """The config with an ellipsoid in place of its box; parameters in raw units, shape (d,) each."""
        features = tuple(
            AxisFeature(name=each.name, origin=float(middle), semi_axis=float(length), impute=each.impute)
            for each, middle, length in zip(self.shape.features, centre, semi_axes, strict=True)
        )
        shape = EllipsoidGeometry(kind="ellipsoid", shape="diagonal", features=features)
        query = self.asked.model_copy(update={"geometry": shape})
        config = loaded.config.model_copy(update={"query": query})
        return LoadedConfig(config, loaded.path, loaded.overrides)

    def stated_limit(self) -> dict[str, float]:
        """The share of records that may be shortened, as a release states it; empty where the config declares none."""
        limit = self.shape.clipped_share_at_most
        return {} if limit is None else {"clipped_share_at_most": limit}

    def stated(self, question: Question) -> dict[str, Any]:
        """A pilot, histograms or the rings as a release states queries."""
        if isinstance(question, ColumnHistograms):
            return _counted(self.asked).model_dump(mode="json", exclude_none=True)
        return self._stated_pilot(question) if isinstance(question, TotalsQuestion) else self._stated_rings()

    def _stated_pilot(self, pilot: TotalsQuestion) -> dict[str, Any]:
        coordinates, names = pilot.coordinates, pilot.features
        features = [
            {"name": name, "lower": float(low), "upper": float(high)}
            for name, low, high in zip(names, coordinates.lower, coordinates.upper, strict=True)
        ]
        return {
            "kind": "totals",
            "rows_at_most": self.asked.rows_at_most,
            "missing": self.asked.missing,
            "quantisation_bits": _LARGEST.bit_length() + 1,
            "geometry": {"kind": "box", "origin": "midpoint", "features": features},
        }

    def _stated_rings(self) -> dict[str, Any]:
        return {
            "kind": "counts",
            "rows_at_most": self.asked.rows_at_most,
            "missing": "refuse",
            "outside": "clip",
            "axes": [{"name": _RING, "edges": ring_edges(len(self.asked.columns)).tolist()}],
        }


def _with_tails(bounds: ChosenBounds) -> tuple[float, float]:
    """Bounds, and one octave more away from zero unless they lie within one: where few of a long tail are."""
    lower, upper = bounds.lower, bounds.upper
    if lower > 0.0 or upper < 0.0:
        near, far = sorted((abs(lower), abs(upper)))
        if far < 2.0 * near:
            return lower, upper
    return 2.0 * lower if lower < 0.0 else lower, 2.0 * upper if upper > 0.0 else upper


def _counted(asked: Asked) -> ColumnHistogramsSection:
    """Histograms from which bounds of all features are learned; a missing value that is imputed is counted in none."""
    sizes = [int(np.ceil(np.log2(max(abs(low), abs(high))))) for low, high in asked.geometry.spans()]
    return ColumnHistogramsSection(
        kind="column-histograms",
        rows_at_most=asked.rows_at_most,
        missing="drop" if asked.missing == "impute" else "refuse",
        powers=(min(sizes) - _OCTAVES, max(sizes)),
        digits=_DIGITS,
        features=tuple(BinnedFeature(name=name) for name in asked.columns),
    )


def _stand_in(asked: Asked) -> Vector | None:
    if asked.missing != "impute":
        return None
    return np.array([feature.impute for feature in asked.geometry.features], dtype=np.float64)


def _pilot(asked: Asked, lower: Vector, upper: Vector, neighbours: Neighbours) -> TotalsQuestion:
    zeros, ones = np.zeros(lower.size), np.ones(lower.size)
    records = Box(lower, upper, (lower + upper) / 2.0).coordinates()
    both = np.concatenate([lower, zeros]), np.concatenate([upper, ones])
    coordinates = Box(*both, (both[0] + both[1]) / 2.0).coordinates()
    quantiser = Quantiser(coordinates, _LARGEST, neighbours is Neighbours.ADD_REMOVE, None)
    problem = Totals(coordinates.body, coordinates.scale, neighbours, _LARGEST, asked.rows_at_most)
    names = (*asked.columns, *(f"{name} squared" for name in asked.columns))
    query = SpreadSums(quantiser, Quantiser(records, _LARGEST, False, _stand_in(asked)))
    return TotalsQuestion(problem, query, names)
