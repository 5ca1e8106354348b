"""``[query]`` of quantiles of columns: which public cells their values fall in, and which quantiles are asked for."""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, Strict, model_validator

from blockveil.pipeline.sections.fields import Number, Whole, refusal, rule, unique_names
from blockveil.pipeline.sections.grid_axes import Axis
from blockveil.pipeline.sections.query_sections import QuerySection

MOST_CELLS, MOST_CELLS_OF_ALL = 2**12, 2**18
"""Most cells of a column, and of all columns together: each part of the records is multiplied by a matrix of them."""

Share = Annotated[Number, Field(gt=0.0, lt=1.0)]


class QuantileAxis(Axis):
    """One column with its public cells."""

    since: Annotated[date, Strict()] | None = None
    """of a column of days: the public date that counts as 0; lower, upper and edges may be dates then, and quantiles
    are shown as dates"""

    @model_validator(mode="before")
    @classmethod
    def _days(cls, values: Any) -> Any:
        """Write dates of cells as days."""
        if not isinstance(values, dict) or not isinstance(values.get("since"), date):
            return values
        zero = values["since"].toordinal()

        def days(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return tuple(map(days, value))
            return float(value.toordinal() - zero) if isinstance(value, date) else value

        return {key: value if key == "since" else days(value) for key, value in values.items()}

    @property
    def ends(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Least and greatest value of each cell: those of a code are the code."""
        if self.edges is None and self.lower is None:
            codes = tuple(float(code) for code in range(self.size))
            return codes, codes
        edges = self.edges
        if edges is None:
            lower, upper, cells = float(self.lower or 0.0), float(self.upper or 0.0), self.size
            edges = (*(lower + (upper - lower) * (i / cells) for i in range(cells)), upper)
        return edges[:-1], edges[1:]

    @property
    def borders(self) -> tuple[float, ...]:
        """Borders between cells, ascending; values beyond all of them are in the first and in the last cell."""
        least, greatest = self.ends
        return tuple((end + first) / 2.0 for end, first in zip(greatest[:-1], least[1:], strict=True))

    @rule
    def _cut(self) -> None:
        if not 3 <= self.size <= MOST_CELLS:
            raise refusal(
                "cells",
                f'{self.size} for "{self.name}"',
                f"A column of quantiles has 3 to {MOST_CELLS} cells",
                "Give about as many as the values that you tell apart; more cost little privacy",
            )
        if any(low >= high for low, high in pairwise(self.borders)):
            raise refusal(
                "cells",
                f'{self.size} for "{self.name}"',
                "Borders of cells are different numbers",
                "Declare fewer cells, or ends that are further apart",
            )


class QuantilesSection(QuerySection):
    """Quantiles of each column with their intervals, all in one charge."""

    no_features: ClassVar[str] = "all columns of quantiles count the same"
    in_one_shape: ClassVar[bool] = False

    kind: Literal["quantiles"]
    """what is released"""
    rows_at_most: Annotated[Whole, Field(ge=1, le=10**15)]
    """a public bound on the number of records"""
    missing: Literal["refuse", "drop"]
    """what to do with a missing value: refuse all, or leave it out of the quantiles of its column"""
    probabilities: Annotated[tuple[Share, ...], Field(min_length=1, max_length=1000)]
    """the probabilities of the quantiles, ascending, such as [0.05, 0.5, 0.95]; how many there are costs no privacy"""
    confidence: Share = 0.95
    """the probability with which the interval of a quantile holds it"""
    axes: Annotated[tuple[QuantileAxis, ...], Field(min_length=1), AfterValidator(unique_names)]
    """the cells of each column of the records, in their order; values beyond the ends count as the ends"""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the records."""
        return tuple(axis.name for axis in self.axes)

    @rule
    def _ascending(self) -> None:
        if any(low >= high for low, high in pairwise(self.probabilities)):
            raise refusal(
                "probabilities",
                f"{list(self.probabilities)}",
                "Probabilities increase strictly",
                "Sort and deduplicate them",
            )

    @rule
    def _within_memory(self) -> None:
        cells = len(self.axes) * max(axis.size for axis in self.axes)
        if cells > MOST_CELLS_OF_ALL:
            raise refusal(
                "axes",
                f"{len(self.axes)} columns with up to {cells // len(self.axes)} cells each",
                f"Columns have at most {MOST_CELLS_OF_ALL} cells together",
                "Declare fewer cells, or ask for fewer columns at once",
            )


SECTION = QuantilesSection
