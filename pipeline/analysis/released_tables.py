"""Linear functions of released tables with their errors, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blockveil.engine.estimates.consistent_tables import deviation
from blockveil.engine.workloads.marginal_tables import Axes, MarginalTables
from blockveil.engine.workloads.ordered_axes import along_axis, inverse
from blockveil.pipeline.analysis.results import Results
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.nearest import among
from blockveil.pipeline.data.released import OpenRelease

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LinearAnswer:
    """A linear function of released tables.

    Attributes
    ----------
    value
        Of the released counts.
    standard_error
        Standard deviation of its noise, exact.
    """

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class TableMeasurement:
    """An independent measurement of a table over some axes.

    Attributes
    ----------
    axes
        Names of the axes; none for the number of records.
    values
        Of the table less its means along each axis, an axis of the array each, in records; where the tables themselves
        got noise, of the table.
    standard_deviation
        Of the noise of each entry, before the means were subtracted.
    centred
        Whether the means were subtracted.
    queries
        For each ordered axis, the symmetric matrix by which the values are multiplied along it.
    """

    axes: tuple[str, ...]
    values: Array
    standard_deviation: float
    centred: bool
    queries: Mapping[str, Array] = field(default_factory=dict)


class TableResults(Results):
    """Results of a release that may hold tables of counts."""

    opened: OpenRelease

    def linear_query(self, coefficients: Mapping[tuple[str, ...], ArrayLike]) -> LinearAnswer:
        """A linear function of all released tables and its standard error.

        Parameters
        ----------
        coefficients
            Of the cells of some tables: the names of a table's axes, in the order in which the release has them, and an
            array with an axis for each.

        Raises
        ------
        ConfigError
            The release holds no tables, or not these.
        """
        tables, names = self._tables()
        weights: dict[Axes, Array] = {}
        for table, values in coefficients.items():
            axes = tuple(names.index(name) for name in table if name in names)
            cells = np.asarray(values, dtype=np.float64)
            if axes not in tables.tables or len(axes) != len(table) or cells.shape != tables.shape(axes):
                raise ConfigError(
                    f"The release has no table over {str(table)[:80]} of shape {cells.shape}",
                    "Coefficients are given by the names of a table's axes, for each of its cells",
                    f"Choose {_tables_like(names, tables.tables, table)}",
                )
            weights[axes] = cells
        value = sum(float(np.sum(cells * self._table(tables, axes))) for axes, cells in weights.items())
        return LinearAnswer(value, self._deviation(tables, weights))

    def range_count(self, ranges: Mapping[str, tuple[float, float]]) -> LinearAnswer:
        """How many records lie within ranges of one or more columns, and its standard error.

        Parameters
        ----------
        ranges
            For each column that is named, the lower and the upper edge of a range of cells, the upper one not included:
            of codes the first one and the one after the last. All other columns may have any value in the grid.

        Raises
        ------
        ConfigError
            The release holds no tables, none over all of these columns, or a range ends within a cell.
        """
        tables, names = self._tables()
        axes = {names.index(name) for name in ranges if name in names}
        holding = [table for table in tables.tables if axes <= set(table)]
        if not ranges or len(axes) < len(ranges) or not holding:
            raise ConfigError(
                f"The release has no table over {str(tuple(ranges))[:80]}",
                "Ranges are counted in a table over all of their columns",
                f"Choose {_tables_like(names, tables.tables, tuple(ranges))}",
            )
        table = min(holding, key=tables.size)
        coefficients = np.ones(tables.shape(table))
        for along, axis in enumerate(table):
            if axis in axes:
                inside = self._inside(axis, names[axis], ranges[names[axis]])
                coefficients = coefficients * inside.reshape([-1 if k == along else 1 for k in range(len(table))])
        return self.linear_query({tuple(names[axis] for axis in table): coefficients})

    def _inside(self, axis: int, name: str, ends: tuple[float, float]) -> Array:
        """Ones for the cells between two edges."""
        edges = self._numbers(f"axis_{axis + 1}_edges")
        low, high = (np.flatnonzero(edges == end) for end in ends)
        if not (low.size and high.size and low[0] < high[0]):
            raise ConfigError(
                f"The range {str(ends)[:80]} of {name} is not one of cells",
                "A range begins at an edge and ends at a later one",
                f"Choose two of {str(edges.tolist())[:200]}",
            )
        places = np.arange(edges.size - 1)
        return ((places >= low[0]) & (places < high[0])).astype(np.float64)

    def measurements(self) -> list[TableMeasurement]:
        """What was measured, with independent noise: what a program that makes up records fits.

        Raises
        ------
        ConfigError
            The release holds no tables.
        """
        tables, names = self._tables()
        if "residual_standard_deviation" not in self.opened.arrays:
            flat = self._numbers("tables_standard_deviation")
            return [
                TableMeasurement(
                    tuple(names[axis] for axis in table), self._table(tables, table), float(flat[place.start]), False
                )
                for table, place in zip(tables.tables, tables.places, strict=True)
            ]
        residuals = tables.projected(tables.apart(self._numbers("tables")))
        noise, queries = self._numbers("residual_standard_deviation"), self._queries(tables)
        measurements = []
        for axes, size in zip(tables.sets, noise.tolist(), strict=True):
            values, own_queries = residuals[axes], {axis: queries[axis] for axis in axes if axis in queries}
            for axis, query in own_queries.items():
                values = along_axis(query, values, axes.index(axis))
            by_name = {names[axis]: query for axis, query in own_queries.items()}
            measurements.append(TableMeasurement(tuple(names[axis] for axis in axes), values, size, True, by_name))
        return measurements

    def _tables(self) -> tuple[MarginalTables, list[str]]:
        attributes: Mapping[str, Any] = self.opened.attributes
        if attributes.get("matrix") != "tables":
            raise ConfigError(
                "This release holds no tables", 'Its query is not of kind "marginals"', "Open a release that is"
            )
        mechanism = attributes["mechanism"]
        marginals, ordered = tuple(tuple(table) for table in mechanism["tables"]), tuple(mechanism.get("ordered", ()))
        tables = MarginalTables(tuple(mechanism["cells"]), marginals, ordered)
        return tables, [str(axis["name"]) for axis in attributes["query"]["axes"]]

    def _queries(self, tables: MarginalTables) -> dict[int, Array]:
        """What was measured along each ordered axis."""
        return {axis: self._numbers(f"axis_{axis + 1}_strategy") for axis in tables.ordered}

    def _numbers(self, name: str) -> Array:
        return np.asarray(self.opened.arrays[name][...], dtype=np.float64)

    def _table(self, tables: MarginalTables, axes: Axes) -> Array:
        return self._numbers(f"table_{tables.tables.index(axes) + 1}")

    def _deviation(self, tables: MarginalTables, coefficients: Mapping[Axes, Array]) -> float:
        if "residual_standard_deviation" in self.opened.arrays:
            noise = self._numbers("residual_standard_deviation").tolist()
            inverses = {axis: inverse(query) for axis, query in self._queries(tables).items()}
            return deviation(coefficients, tables, dict(zip(tables.sets, noise, strict=True)), inverses)
        flat = self._numbers("tables_standard_deviation")
        places = dict(zip(tables.tables, tables.places, strict=True))
        # Tables that got noise themselves have independent cells.
        return sqrt(sum(float(flat[places[t].start]) ** 2 * float(np.sum(c**2)) for t, c in coefficients.items()))


def _tables_like(names: Sequence[str], tables: Sequence[Sequence[int]], wanted: Sequence[str]) -> str:
    """The tables of a release in words, those most like the wanted one first."""
    return among(", ".join(map(str, wanted)), [", ".join(names[axis] for axis in table) for table in tables])
