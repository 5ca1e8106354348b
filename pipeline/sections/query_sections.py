"""``[query]``: what every query declares of the records, and what is known of it before it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.pipeline.sections.fields import Section, Whole, refusal, rule
from blockveil.pipeline.sections.geometry_section import (
    BoxFeature,
    Geometry,
    PointFeature,
)

USUAL_BITS = 16
"""Bits of a quantised value where a config declares none and a plan does not choose others."""

MOST_MULTIPLIED, SUM_BITS = 20, 62
"""Most bits of a value that is multiplied, and of a sum of products."""

USUALLY_ALIKE = 8
"""How often the same values in all columns are taken to occur at most, where a config does not say."""


class QuerySection(Section):
    """What a query declares: ``kind``, ``rows_at_most``, ``missing``, and whatever else it needs.

    Attributes
    ----------
    no_features
        Why nothing can be given by feature; empty where it can.
    in_one_shape
        Whether its answer is of records in one shape, so that noise can follow their features and directions.
    of_features
        Whether its plans are compared by the errors of a few features.
    adds_values
        Whether values are added as they are, so that noise is in proportion to a bound of their norm; else products.
    least_error
        The error that ``auto`` makes small where nobody says which.
    shared_noise
        The ``[mechanism]`` whose noise nights share, where that is a mechanism of its own.
    """

    no_features: ClassVar[str] = ""
    in_one_shape: ClassVar[bool] = True
    of_features: ClassVar[bool] = False
    adds_values: ClassVar[bool] = False
    least_error: ClassVar[str] = "total"
    shared_noise: ClassVar[Mapping[str, str]] = {}

    if TYPE_CHECKING:  # each declares these, with values of its own
        kind: str
        rows_at_most: int
        missing: str

        @property
        def columns(self) -> tuple[str, ...]:
            """Names of the columns of the records."""

    @property
    def geometries(self) -> Mapping[str, Geometry]:
        """Shapes by their key; none where a count needs no bounds."""
        return {}

    @property
    def usual_bits(self) -> int | None:
        """Bits of a quantised value where a config declares none; None where a section says them, or has none."""
        return None

    def by_side(self, values: Mapping[str, float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Values by feature, in order, for the rows and the columns of the answer; empty where a side is free.

        Raises
        ------
        NotApplicable
            Nothing can be given by feature.
        """
        if self.no_features:
            raise NotApplicable(f"{self.no_features}; leave out what is given by feature")
        vector = tuple(float(values[name]) for name in self.columns)
        return vector, vector

    def public_files(self) -> Iterator[tuple[str, str]]:
        """Keys below ``query`` that name a public file, and what to do without it."""
        yield from ()


class Asked(QuerySection):
    """A query of quantised records.

    Attributes
    ----------
    chooses_bits
        Whether a plan chooses the bits of a value where they are left open: of products, by what noise hides.
    """

    chooses_bits: ClassVar[bool] = False

    rows_at_most: Annotated[Whole, Field(ge=1, le=10**15)]
    """a public bound on the number of records"""
    missing: Literal["refuse", "impute"]
    """what to do with a missing value"""
    quantisation_bits: Annotated[Whole, Field(ge=8, le=20)] | None = None
    """the bits of one quantised value; by default 16, or 8 if that is faster and noise hides the rounding, or more if
    noise does not hide it"""

    @property
    def usual_bits(self) -> int:
        """Bits of a quantised value where a config declares none and a plan does not choose others."""
        return USUAL_BITS


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


def most_bits(query: Asked) -> int:
    """Most bits of a quantised value that products of two add up exactly with: ``rows K**2 <= 2**62``, at most 20."""
    return max(8, min(MOST_MULTIPLIED, (SUM_BITS - (query.rows_at_most - 1).bit_length()) // 2 + 1))


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
