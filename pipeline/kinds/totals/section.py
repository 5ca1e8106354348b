"""``[query]`` of totals and means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from blockveil.pipeline.sections.fields import Whole, refusal, rule
from blockveil.pipeline.sections.geometry_section import BoxGeometry, Geometry
from blockveil.pipeline.sections.query_sections import MOST_MULTIPLIED, SUM_BITS, OneShapeSection

_MOST_ADDED = 32


class TotalsSection(OneShapeSection):
    """The number of records, and the total and the mean of each column."""

    of_features: ClassVar[bool] = True
    adds_values: ClassVar[bool] = True
    least_error: ClassVar[str] = "relative"

    kind: Literal["totals"]
    """what is released"""
    quantisation_bits: Annotated[Whole, Field(ge=8, le=_MOST_ADDED)] | None = None
    """the bits of one quantised value, above 20 only in a box without norm_at_most and learn; by default as many as add
    up exactly, at most 32 there and 20 in other shapes"""
    duplicates_at_most: Annotated[Whole, Field(ge=1, le=10**15)] | None = None
    """the largest number of records with the same values in all columns, whose rounding errors add up; 8 by default"""

    @property
    def usual_bits(self) -> int:
        """As many as add up exactly."""
        most = _MOST_ADDED if _plain_box(self.geometry) else MOST_MULTIPLIED
        # The bound of the proof: rows K < 2**62 for K < 2**(bits - 1).
        return max(8, min(most, SUM_BITS + 1 - (self.rows_at_most - 1).bit_length()))

    def by_side(self, values: Mapping[str, float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """By column: there is one row."""
        return (), super().by_side(values)[1]

    @rule
    def _bits(self) -> None:
        if (self.quantisation_bits or 0) > MOST_MULTIPLIED and not _plain_box(self.geometry):
            raise refusal(
                "quantisation_bits",
                f"{self.quantisation_bits}",
                f"Integers of more than {MOST_MULTIPLIED} bits are those of a box without norm_at_most and learn",
                f"Give at most {MOST_MULTIPLIED}, or leave it out",
            )


def _plain_box(geometry: Geometry) -> bool:
    return isinstance(geometry, BoxGeometry) and geometry.norm_at_most is None and geometry.learn is None


SECTION = TotalsSection
