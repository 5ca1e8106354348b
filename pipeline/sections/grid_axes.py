"""One axis of a grid of cells, as written in a config."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from blockveil.pipeline.sections.fields import SMALLEST, Bound, Label, Section, Whole, refusal, rule


class Axis(Section):
    """One axis of a grid of cells."""

    name: Label
    """the name of the axis in the release"""
    edges: Annotated[tuple[Bound, ...], Field(min_length=2, max_length=2**16 + 1)] | None = None
    """the edges of cells of any widths, ascending, in the column's unit; in place of lower, upper and cells"""
    lower: Bound | None = None
    """the lower edge of the first cell, in the column's unit; without edges the column holds the codes 0, 1, ..."""
    upper: Bound | None = None
    """the upper edge of the last cell, in the column's unit"""
    cells: Annotated[Whole, Field(ge=1, le=2**20)] | None = None
    """the number of cells of equal width, or of codes"""

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.cells if self.edges is None and self.cells is not None else len(self.edges or ()) - 1

    @rule
    def _ordered(self) -> None:
        if (self.edges is None) == (self.cells is None) or (self.edges is not None and self.lower is not None):
            raise refusal(
                "edges",
                f'axis "{self.name}" has {"no cells" if self.edges is None else "them and more"}',
                "An axis has edges, or cells between lower and upper, or cells that are codes",
                "Give edges alone, or cells with or without lower and upper",
            )
        if self.edges is not None and any(b - a < SMALLEST for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise refusal(
                "edges", f'those of axis "{self.name}" do not', "Edges increase strictly", "Sort and deduplicate them"
            )
        if (self.lower is None) != (self.upper is None):
            raise refusal(
                "lower",
                "given without the other edge",
                "lower and upper go together",
                "Give both, or neither for codes",
            )
        if self.lower is not None and self.upper is not None and not self.upper - self.lower >= SMALLEST:
            raise refusal(
                "lower",
                f"{self.lower!r} with upper = {self.upper!r}",
                "lower must be below upper",
                "Give the public extent of the grid",
            )
