"""``[query]`` of counts in the cells of a grid."""

from __future__ import annotations

from math import prod
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from blockveil.pipeline.kinds.counts.workload_sections import Workload, check_workload
from blockveil.pipeline.sections.fields import Whole, refusal, rule, unique_names
from blockveil.pipeline.sections.grid_axes import Axis
from blockveil.pipeline.sections.query_sections import QuerySection

MOST_AXES = 16
MOST_CELLS = 2**28
"""Most cells of a grid: 2 GiB of counts."""


class CountsSection(QuerySection):
    """The number of records in each cell of a grid over one or more columns."""

    no_features: ClassVar[str] = "all cells of a grid count the same"
    in_one_shape: ClassVar[bool] = False

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


SECTION = CountsSection
