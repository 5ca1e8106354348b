"""``[query]`` of the records themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from blockveil.pipeline.sections.fields import Whole
from blockveil.pipeline.sections.query_sections import OneShapeSection


class RowsSection(OneShapeSection):
    """The records themselves, with noise on each."""

    kind: Literal["rows"]
    """what is released"""
    rows_at_most: Annotated[Whole, Field(ge=1, le=10**7)]
    """a public bound on the number of records, each of which has a number of its own in the plan"""

    def by_side(self, values: Mapping[str, float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """By column: the rows are records."""
        return (), super().by_side(values)[1]


SECTION = RowsSection
