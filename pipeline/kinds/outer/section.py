"""``[query]`` of sums of outer products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from blockveil.pipeline.sections.fields import Whole, refusal, rule, unique_names
from blockveil.pipeline.sections.geometry_section import EllipsoidGeometry, Geometry
from blockveil.pipeline.sections.query_sections import Asked, check_imputed


class OuterProductsSection(Asked):
    """The sum of outer products of the two halves of a record, such as gradients of a linear layer."""

    in_one_shape: ClassVar[bool] = False
    chooses_bits: ClassVar[bool] = True

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

    def by_side(self, values: Mapping[str, float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Rows are the features of the left factor, columns those of the right one."""
        ordered, split = super().by_side(values)[1], len(self.left.features)
        return ordered[:split], ordered[split:]

    @rule
    def _sides(self) -> None:
        for key, side in self.geometries.items():
            check_imputed(key, side, self.missing)
            if isinstance(side, EllipsoidGeometry) and side.shape != "diagonal":
                raise refusal(
                    f"{key}.shape", f'"{side.shape}"', "A factor's ellipsoid has semi-axes", 'Set shape = "diagonal"'
                )
        unique_names((*self.left.features, *self.right.features))


SECTION = OuterProductsSection
