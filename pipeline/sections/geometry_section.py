"""``[query.geometry]``: the public shape of one record, as written in a config.

Every number here is declared by the data's owner and published with the release. None may be taken from the data.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from blockveil.pipeline.sections.fields import (
    SMALLEST,
    Bound,
    Label,
    Length,
    LocalPath,
    Number,
    Section,
    refusal,
    rule,
    unique_names,
)

Span = tuple[float, float]


_NEARLY = 1e-9
"""Part of a step by which a bound, written in decimals, may differ from a multiple."""

BY_DIGITS = ", digits"
"""End of the name of a column's second histogram, after that of the column."""

MOST_FEATURES = 2**17 - 1
"""Largest number of features of one shape, a box; proofs of other shapes and queries cover fewer, and say so."""


def repeated(features: Any) -> Any:
    """Write out a feature that stands for several of one kind: ``{ name = "a", count = 3 }`` becomes a1, a2 and a3."""
    if not isinstance(features, list | tuple):
        return features
    expansion: list[Any] = []
    for feature in features:
        count = feature.get("count") if isinstance(feature, dict) else None
        if isinstance(count, int) and count > MOST_FEATURES:
            raise refusal(
                "",
                f"count = {count}",
                f"A shape has at most {MOST_FEATURES:,} features, as many as its proof covers",
                "Split the features into several releases",
            )
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            expansion.append(feature)  # an unsuitable count is refused as an unknown key
            continue
        common = {key: value for key, value in feature.items() if key != "count"}
        expansion += [{**common, "name": f"{feature.get('name', '')}{i}"} for i in range(1, count + 1)]
    return tuple(expansion)


class BoxFeature(Section):
    """One column with its own bounds."""

    name: Label
    """the name of the feature in the release: printable text of at most 120 characters"""
    lower: Bound
    """the public lower bound, in the feature's unit"""
    upper: Bound
    """the public upper bound, in the feature's unit"""
    impute: Bound | None = None
    """the public value that replaces a missing one"""
    step: Length | None = None
    """the public unit whose multiples all values are, such as 1 for codes and whole numbers: these are not rounded"""

    @rule
    def _ordered(self) -> None:
        # A width below the smallest length would overflow when records are divided by it.
        if not self.upper - self.lower >= SMALLEST:
            raise refusal(
                "lower",
                f'{self.lower!r} with upper = {self.upper!r} (feature "{self.name}")',
                "lower must be below upper" + (f", by {SMALLEST:g} or more" if self.upper > self.lower else ""),
                "Give public bounds that most records respect",
            )

    @rule
    def _stepped(self) -> None:
        ends = () if self.step is None else (self.lower / self.step, self.upper / self.step)
        if any(abs(end - round(end)) > _NEARLY * max(1.0, abs(end)) for end in ends):
            raise refusal(
                "step",
                f'{self.step!r} with bounds {self.lower!r} and {self.upper!r} (feature "{self.name}")',
                "Bounds are admissible values too, hence whole multiples of the step",
                "Give bounds that are multiples, or leave the step out",
            )


class PointFeature(Section):
    """One column of a ball."""

    name: Label
    """the name of the feature in the release: printable text of at most 120 characters"""
    origin: Bound
    """the public centre of the shape along this feature"""
    impute: Bound | None = None
    """the public value that replaces a missing one"""


class AxisFeature(PointFeature):
    """One column of an ellipsoid."""

    semi_axis: Length | None = None
    """the largest distance from the origin along this feature"""


class BoxGeometry(Section):
    """Each feature lies between its own two bounds."""

    kind: Literal["box"]
    """the kind of shape"""
    origin: Literal["midpoint", "zero"]
    """the point about which moments are taken"""
    norm_at_most: Length | None = None
    """the largest Euclidean distance of a record from the origin, in the features' unit, besides their bounds"""
    bounds: LocalPath | None = None
    """the file of bounds that a charged release gave, relative to the config file, for features that declare none"""
    bounds_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """the SHA-256 of that file, 64 hexadecimal digits; filled in when it is not given"""
    bounds_release: Label | None = None
    """the release that paid for the bounds; filled in from the file"""
    learn: Literal["correlation", "covariance", "mean"] | None = None
    """learn where the records lie within these bounds and their scales, in the same charge or from the night before,
    and shape the noise by them for the least error of correlations, of covariances, or of the means of totals"""
    learn_bounds: Literal[True] | None = None
    """whether to learn narrower bounds first, from private histograms; for columns whose known bounds are far too
    wide"""
    # It is left out of every description of the config: a night may be finished, and learned from, with another value.
    clipped_share_at_most: Annotated[Number, Field(gt=0, lt=1)] | None = Field(default=None, exclude=True)
    """the share of records that a learned shape may clip; a night that clips more is released and warns in its
    report, its log and an alarm; no noise or charge depends on it"""
    features: Annotated[
        tuple[BoxFeature, ...], Field(min_length=1), BeforeValidator(repeated), AfterValidator(unique_names)
    ]
    """one table a column, in the order of the columns"""

    @rule
    def _origin_inside(self) -> None:
        outside = [f.name for f in self.features if self.origin == "zero" and not f.lower <= 0.0 <= f.upper]
        if outside:
            raise refusal(
                "origin",
                f'"zero" with feature "{outside[0]}", whose bounds do not contain 0',
                "Moments are taken about a point inside the bounds",
                'Set origin = "midpoint", or widen the bounds to contain 0',
            )

    @rule
    def _bounds_are_pinned(self) -> None:
        flags = [value is not None for value in (self.bounds, self.bounds_sha256, self.bounds_release)]
        if any(flags) and not all(flags):
            raise refusal(
                "bounds",
                "not read from a file, or pinned without one",
                "Bounds that a release gave are those of a file, with its digest and its release",
                "Name the file, or leave bounds, bounds_sha256 and bounds_release out",
            )

    @rule
    def _only_learned_shapes_shorten(self) -> None:
        if self.clipped_share_at_most is not None and self.learn is None:
            raise refusal(
                "clipped_share_at_most",
                f"{self.clipped_share_at_most!r} without learn",
                "Only a shape that is learned shortens records",
                "Add learn, or leave clipped_share_at_most out",
            )

    def stated(self) -> dict[str, Any]:
        """The box as a release states shapes: no path is part of it."""
        tree = self.model_dump(mode="json", exclude_none=True)
        return tree | ({} if self.bounds is None else {"bounds": "file"})

    def spans(self) -> tuple[Span, ...]:
        """Interval that contains each feature of every admissible record."""
        bounds = ((feature.lower, feature.upper) for feature in self.features)
        if self.norm_at_most is None:
            return tuple(bounds)
        middle = self.origin == "midpoint"
        origins = [(feature.lower + feature.upper) / 2.0 if middle else 0.0 for feature in self.features]
        reach = self.norm_at_most
        return tuple(
            (max(lower, origin - reach), min(upper, origin + reach))
            for (lower, upper), origin in zip(bounds, origins, strict=True)
        )


class BallGeometry(Section):
    """Every record lies within a Euclidean distance of the origin."""

    kind: Literal["ball"]
    """the kind of shape"""
    radius: Length
    """the largest Euclidean distance of a record from the origin"""
    features: Annotated[
        tuple[PointFeature, ...], Field(min_length=1), BeforeValidator(repeated), AfterValidator(unique_names)
    ]
    """one table a column, in the order of the columns"""

    def spans(self) -> tuple[Span, ...]:
        """Interval that contains each feature of every admissible record."""
        return tuple((f.origin - self.radius, f.origin + self.radius) for f in self.features)


class EllipsoidGeometry(Section):
    """Every record lies in an ellipsoid about the origin."""

    kind: Literal["ellipsoid"]
    """the kind of shape"""
    shape: Annotated[str, StringConstraints(pattern=r"^(diagonal|.+\.npy)$")]
    """either "diagonal" (semi-axes along the features) or the .npy file of a positive definite d x d matrix"""
    shape_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """the SHA-256 of the matrix file, 64 hexadecimal digits; filled in when it is not given"""
    features: Annotated[
        tuple[AxisFeature, ...], Field(min_length=1), BeforeValidator(repeated), AfterValidator(unique_names)
    ]
    """one table a column, in the order of the columns"""

    @property
    def semi_axes(self) -> list[float]:
        """Semi-axes in column order, raw units; empty where a matrix gives the shape."""
        return [feature.semi_axis for feature in self.features if feature.semi_axis is not None]

    @rule
    def _one_shape(self) -> None:
        diagonal = self.shape == "diagonal"
        for position, feature in enumerate(self.features):
            if diagonal != (feature.semi_axis is not None):
                raise refusal(
                    f"features[{position}].semi_axis",
                    f'{"missing" if diagonal else "given"} for feature "{feature.name}"',
                    'Semi-axes belong to shape = "diagonal", and there each feature needs one',
                    "Give each feature a semi_axis" if diagonal else "Remove it: the matrix file gives the shape",
                )
        if diagonal and self.shape_sha256 is not None:
            raise refusal("shape_sha256", "given without a matrix file", "It pins a matrix file", "Remove it")

    def spans(self) -> tuple[Span, ...]:
        """Interval that contains each feature of every admissible record; unbounded where a matrix gives the shape."""
        if self.shape != "diagonal":
            return tuple((-math.inf, math.inf) for _ in self.features)
        return tuple((f.origin - a, f.origin + a) for f, a in zip(self.features, self.semi_axes, strict=True))


Geometry = Annotated[BoxGeometry | BallGeometry | EllipsoidGeometry, Field(discriminator="kind")]
