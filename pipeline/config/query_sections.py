"""``[query]``: what is asked of the records, and the public shape of one record."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from blockveil.pipeline.config.fields import Length, Section, Whole, refusal, rule, unique_names
from blockveil.pipeline.config.geometry_section import (
    BoxFeature,
    BoxGeometry,
    EllipsoidGeometry,
    Geometry,
    PointFeature,
)
from blockveil.pipeline.config.grid_axes import Axis
from blockveil.pipeline.config.histogram_section import ColumnHistogramsSection
from blockveil.pipeline.config.marginals_section import MarginalsSection
from blockveil.pipeline.config.model_sections import ModelSection, TrainingSection
from blockveil.pipeline.config.workload_sections import Workload, check_workload

USUAL_BITS = 16
"""Bits of a quantised value where a config declares none and a plan does not choose others."""

_MOST_MULTIPLIED, _MOST_ADDED, _SUM_BITS = 20, 32, 62

USUALLY_ALIKE = 8
"""How often the same values in all columns are taken to occur at most, where a config does not say."""


class Asked(Section):
    """What every query declares."""

    rows_at_most: Annotated[Whole, Field(ge=1, le=10**15)]
    """a public bound on the number of records"""
    missing: Literal["refuse", "impute"]
    """what to do with a missing value"""
    quantisation_bits: Annotated[Whole, Field(ge=8, le=20)] | None = None
    """the bits of one quantised value; by default 16, or 8 if that is faster and noise hides the rounding, or more if
    noise does not hide it"""


class OneShapeSection(Asked):
    """A query of records that lie in one shape."""

    geometry: Geometry
    """the public shape of one record"""

    @property
    def geometries(self) -> dict[str, Geometry]:
        """Shapes by their key."""
        return {"geometry": self.geometry}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the records."""
        return tuple(feature.name for feature in self.geometry.features)

    @rule
    def _imputed(self) -> None:
        check_imputed("geometry", self.geometry, self.missing)


class MomentSection(OneShapeSection):
    """A second moment, or the covariance that follows from it."""

    kind: Literal["covariance", "second-moment"]
    """what is released"""
    duplicates_at_most: Annotated[Whole, Field(ge=1, le=10**15)] | None = None
    """the largest number of records with the same values in all columns, whose rounding errors add up; 8 by default"""


class DirectionsSection(OneShapeSection):
    """The leading principal directions of the records about the origin of their shape."""

    kind: Literal["principal-directions"]
    """what is released"""
    directions: Annotated[Whole, Field(ge=1, le=2**15)]
    """the number of directions, below the number of features"""


class RowsSection(OneShapeSection):
    """The records themselves, with noise on each."""

    kind: Literal["rows"]
    """what is released"""
    rows_at_most: Annotated[Whole, Field(ge=1, le=10**7)]
    """a public bound on the number of records, each of which has a number of its own in the plan"""


class TotalsSection(OneShapeSection):
    """The number of records, and the total and the mean of each column."""

    kind: Literal["totals"]
    """what is released"""
    quantisation_bits: Annotated[Whole, Field(ge=8, le=_MOST_ADDED)] | None = None
    """the bits of one quantised value, above 20 only in a box without norm_at_most and learn; by default as many as add
    up exactly, at most 32 there and 20 in other shapes"""
    duplicates_at_most: Annotated[Whole, Field(ge=1, le=10**15)] | None = None
    """the largest number of records with the same values in all columns, whose rounding errors add up; 8 by default"""

    @rule
    def _bits(self) -> None:
        if (self.quantisation_bits or 0) > _MOST_MULTIPLIED and not _plain_box(self.geometry):
            raise refusal(
                "quantisation_bits",
                f"{self.quantisation_bits}",
                f"Integers of more than {_MOST_MULTIPLIED} bits are those of a box without norm_at_most and learn",
                f"Give at most {_MOST_MULTIPLIED}, or leave it out",
            )


class OuterProductsSection(Asked):
    """The sum of outer products of the two halves of a record, such as gradients of a linear layer."""

    kind: Literal["outer-products"]
    """what is released"""
    left: Geometry
    """the public shape of the first columns, which become the rows of the matrix"""
    right: Geometry
    """the public shape of the other columns, which become the columns of the matrix"""
    duplicates_at_most: Annotated[Whole, Field(ge=1, le=10**15)] | None = None
    """the largest number of records with the same values in all columns of a factor, whose rounding errors add up; 8 by
    default"""

    @property
    def geometries(self) -> dict[str, Geometry]:
        """Shapes by their key."""
        return {"left": self.left, "right": self.right}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the records."""
        return tuple(feature.name for side in (self.left, self.right) for feature in side.features)

    @rule
    def _sides(self) -> None:
        for key, side in self.geometries.items():
            check_imputed(key, side, self.missing)
            if isinstance(side, EllipsoidGeometry) and side.shape != "diagonal":
                raise refusal(
                    f"{key}.shape", f'"{side.shape}"', "A factor's ellipsoid has semi-axes", 'Set shape = "diagonal"'
                )
        unique_names((*self.left.features, *self.right.features))


class GradientsSection(Section):
    """The sum of the clipped gradients of a model, one gradient a record."""

    kind: Literal["gradients"]
    """what is released"""
    rows_at_most: Annotated[Whole, Field(ge=1, le=10**15)]
    """a public bound on the number of records"""
    missing: Literal["refuse"]
    """what to do with a missing value"""
    quantisation_bits: Annotated[Whole, Field(ge=8, le=20)] = 16
    """the bits of one quantised value"""
    clipping_norm: Length
    """the largest norm of one record's gradient; longer ones are shortened to it"""
    geometry: BoxGeometry
    """the public shape of the features"""
    model: ModelSection
    """the model whose gradients are summed"""
    training: TrainingSection | None = None
    """the steps of training that one release makes, all under its one charge; one sum of gradients where it is not
    given"""

    @property
    def geometries(self) -> dict[str, Geometry]:
        """Shapes by their key."""
        return {"geometry": self.geometry}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the records."""
        return (*(feature.name for feature in self.geometry.features), self.model.target.name)

    @rule
    def _settled(self) -> None:
        check_imputed("geometry", self.geometry, self.missing)
        if self.geometry.norm_at_most is not None:
            raise refusal(
                "geometry.norm_at_most",
                "given for the features of a model",
                "A gradient is bounded as a whole by clipping_norm, whatever its features are",
                "Remove it",
            )
        if self.model.target.name in [feature.name for feature in self.geometry.features]:
            raise refusal(
                "model.target.name",
                f'"{self.model.target.name}" is a feature',
                "The target is a column of its own, the last one",
                "Rename one of them",
            )
        shares = self.training is not None and self.training.errors_share is not None
        if shares and (self.model.loss != "logistic" or self.model.hidden):
            raise refusal(
                "training.errors_share",
                "given for another model than a logistic regression",
                "The Fisher matrix is that of a linear model of two classes",
                'Remove it, or set model.loss = "logistic" without hidden units',
            )
        if self.training is not None and self.training.examples > self.rows_at_most:
            raise refusal(
                "training.examples",
                f"{self.training.examples:,.10g} with rows_at_most = {self.rows_at_most:,}",
                "It is a public guess of the number of records, of which there are at most rows_at_most",
                "Lower it, or raise rows_at_most",
            )


MOST_AXES = 16
MOST_CELLS = 2**28
"""Most cells of a grid: 2 GiB of counts."""


class CountsSection(Section):
    """The number of records in each cell of a grid over one or more columns."""

    kind: Literal["counts"]
    """what is released"""
    rows_at_most: Annotated[Whole, Field(ge=1, le=10**15)]
    """a public bound on the number of records"""
    missing: Literal["refuse", "drop"]
    """what to do with a record that has a missing value"""
    outside: Literal["drop", "clip"]
    """whether a record outside the grid is not counted, or counted in the nearest cell"""
    axes: Annotated[tuple[Axis, ...], Field(min_length=1, max_length=MOST_AXES), AfterValidator(unique_names)]
    """the grid along each column of the records, in their order"""
    workload: Workload | None = None
    """the sums of cells that are asked for: "cells", "prefixes", "ranges", "marginals", "cells-and-total", or a list"""

    @property
    def geometries(self) -> dict[str, Geometry]:
        """None: a count needs no bounds beyond the grid."""
        return {}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the records."""
        return tuple(axis.name for axis in self.axes)

    @rule
    def _within_the_grid(self) -> None:
        cells = [axis.size for axis in self.axes]
        if prod(cells) > MOST_CELLS:
            raise refusal(
                "axes",
                f"{' x '.join(map(str, cells))} cells",
                f"A grid has at most {MOST_CELLS} cells",
                "Declare fewer and wider cells, or count fewer columns together",
            )
        if self.workload is not None and len(cells) > 2:
            raise refusal(
                "workload",
                f"given for {len(cells)} axes",
                "A workload is of one or two axes; counts over more come with those along each axis",
                "Leave it out, or count two columns",
            )
        check_workload(self.workload, (1 if len(cells) == 1 else cells[0], cells[-1]))


AnyQuery = (
    MomentSection
    | DirectionsSection
    | RowsSection
    | TotalsSection
    | OuterProductsSection
    | GradientsSection
    | CountsSection
    | ColumnHistogramsSection
    | MarginalsSection
)
Query = Annotated[AnyQuery, Field(discriminator="kind")]

QUERY_KINDS = tuple(kind for each in get_args(AnyQuery) for kind in get_args(each.model_fields["kind"].annotation))
"""Names of the kinds of query."""


def usual_bits(query: Asked) -> int:
    """Bits of a quantised value where a config declares none: for sums as many as add up exactly."""
    records = (query.rows_at_most - 1).bit_length()
    if isinstance(query, TotalsSection):
        most = _MOST_ADDED if _plain_box(query.geometry) else _MOST_MULTIPLIED
        # The bound of the proof: rows K < 2**62 for K < 2**(bits - 1).
        return max(8, min(most, _SUM_BITS + 1 - records))
    return USUAL_BITS


def most_bits(query: Asked) -> int:
    """Most bits of a quantised value that products of two add up exactly with: ``rows K**2 <= 2**62``, at most 20."""
    return max(8, min(_MOST_MULTIPLIED, (_SUM_BITS - (query.rows_at_most - 1).bit_length()) // 2 + 1))


def _plain_box(geometry: Geometry) -> bool:
    return isinstance(geometry, BoxGeometry) and geometry.norm_at_most is None and geometry.learn is None


def check_imputed(where: str, geometry: Geometry, missing: str) -> None:
    """Refuse constants that stand in for missing values where none are wanted, lacking or inadmissible."""
    features: Sequence[BoxFeature | PointFeature] = geometry.features
    for position, (feature, (low, high)) in enumerate(zip(features, geometry.spans(), strict=True)):
        key, value = f"{where}.features[{position}].impute", feature.impute
        if (value is not None) != (missing == "impute"):
            raise refusal(
                key,
                f'{"missing" if value is None else "given"} for feature "{feature.name}"',
                'Each feature has an impute value if and only if missing = "impute"',
                "Give a public constant" if value is None else 'Remove it, or set query.missing = "impute"',
            )
        if value is not None and not low <= value <= high:
            raise refusal(
                key,
                f'{value!r} for feature "{feature.name}"',
                f"An imputed value must be admissible, between {low!r} and {high!r}",
                "Choose a public constant inside the bounds",
            )
