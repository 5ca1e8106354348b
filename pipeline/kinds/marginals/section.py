"""``[query]`` of marginal tables: which axes are counted together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import comb
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.workloads.marginal_tables import MOST_SETS, Axes, MarginalTables
from blockveil.pipeline.sections.fields import Label, Whole, refusal, rule, unique_names
from blockveil.pipeline.sections.grid_axes import Axis
from blockveil.pipeline.sections.query_sections import QuerySection

MOST_TABLE_AXES = 64


class MarginalsSection(QuerySection):
    """Tables of counts over chosen columns, which agree with each other."""

    no_features: ClassVar[str] = "all cells of a grid count the same"
    in_one_shape: ClassVar[bool] = False
    shared_noise: ClassVar[Mapping[str, str]] = {"kind": "residuals"}

    kind: Literal["marginals"]
    """what is released"""
    rows_at_most: Annotated[Whole, Field(ge=1, le=10**15)]
    """a public bound on the number of records"""
    missing: Literal["refuse", "drop"]
    """what to do with a record that has a missing value"""
    outside: Literal["drop", "clip"]
    """whether a record outside the grid is not counted, or counted in the nearest cell"""
    ways: Annotated[Whole, Field(ge=1, le=MOST_TABLE_AXES)] | None = None
    """the number of axes of a table, to release all tables of that many axes"""
    tables: Annotated[tuple[tuple[Label, ...], ...], Field(min_length=1)] | None = None
    """the names of the axes of each table, to release chosen tables"""
    ordered: Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_TABLE_AXES)] | None = None
    """the names of axes along which ranges of cells matter, such as ages: noise is made small for all ranges"""
    axes: Annotated[tuple[Axis, ...], Field(min_length=1, max_length=MOST_TABLE_AXES), AfterValidator(unique_names)]
    """the cells along each column of the records, in their order; each has at least two"""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the records."""
        return tuple(axis.name for axis in self.axes)

    def marginal_tables(self) -> MarginalTables:
        """Which tables are asked for, by the positions of their axes.

        Raises
        ------
        CalibrationError
            They do not exist, or are too many.
        """
        sizes = tuple(axis.size for axis in self.axes)
        return MarginalTables(sizes, tuple(self._chosen()), self._positions(self.ordered or ()))

    def _positions(self, names: tuple[str, ...]) -> Axes:
        return tuple(sorted(self.columns.index(name) for name in names))

    def _chosen(self) -> list[Axes]:
        if self.tables is None:
            return list(combinations(range(len(self.axes)), self.ways or 1))
        return [self._positions(table) for table in self.tables]

    @rule
    def _asked(self) -> None:
        if (self.ways is None) == (self.tables is None):
            raise refusal(
                "ways",
                "neither it nor tables is given" if self.ways is None else "given beside tables",
                "Either all tables of a given number of axes are asked for, or chosen ones",
                "Give ways = 2, or tables that name their axes",
            )
        if self.ways is not None and not (self.ways <= len(self.axes) and comb(len(self.axes), self.ways) < MOST_SETS):
            raise refusal(
                "ways",
                f"{self.ways} of {len(self.axes)} axes",
                f"Tables have no more axes than there are, and are fewer than {MOST_SETS}",
                "Ask for smaller tables, or for chosen ones",
            )
        unknown = [name for table in self.tables or () for name in table if name not in self.columns]
        if unknown:
            raise refusal(
                "tables", f'"{unknown[0]}" is in one', "A table is of declared axes", "Name some of query.axes"
            )
        unknown = [name for name in self.ordered or () if name not in self.columns]
        if unknown:
            raise refusal("ordered", f'"{unknown[0]}"', "An ordered axis is a declared one", "Name some of query.axes")
        self._check_tables()

    def _check_tables(self) -> None:
        try:
            self.marginal_tables()
        except CalibrationError as error:
            what, _, remedy = str(error).rpartition("; ")
            raise refusal("axes", "no such tables can be released", what.capitalize(), remedy.capitalize()) from None


SECTION = MarginalsSection
