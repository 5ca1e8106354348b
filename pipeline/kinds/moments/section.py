"""``[query]`` of a second moment, or of the covariance that follows from it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from blockveil.pipeline.sections.fields import Whole
from blockveil.pipeline.sections.query_sections import OneShapeSection


class MomentSection(OneShapeSection):
    """A second moment, or the covariance that follows from it."""

    of_features: ClassVar[bool] = True
    least_error: ClassVar[str] = "relative"
    chooses_bits: ClassVar[bool] = True

    kind: Literal["covariance", "second-moment"]
    """what is released"""
    duplicates_at_most: Annotated[Whole, Field(ge=1, le=10**15)] | None = None
    """the largest number of records with the same values in all columns, whose rounding errors add up; 8 by default"""


SECTION = MomentSection
