"""Linear functions of released tables with their errors, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blockveil.engine.estimates.consistent_tables import deviation
from blockveil.engine.workloads.marginal_tables import Axes, MarginalTables
from blockveil.pipeline.analysis.results import Results
from blockveil.pipeline.base.errors import ConfigError
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
    """

    axes: tuple[str, ...]
    values: Array
    standard_deviation: float
    centred: bool


class TableResults(Results):
    """Results of a release that may hold tables of counts."""

    opened: OpenRelease

    def linear(self, coefficients: Mapping[tuple[str, ...], ArrayLike]) -> LinearAnswer:
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
        found: dict[Axes, Array] = {}
        for asked, values in coefficients.items():
            axes = tuple(names.index(name) for name in asked if name in names)
            own = np.asarray(values, dtype=np.float64)
            if axes not in tables.tables or len(axes) != len(asked) or own.shape != tables.shape(axes):
                raise ConfigError(
                    f"The release has no table over {str(asked)[:80]} of shape {own.shape}",
                    "Coefficients are given by the names of a table's axes, for each of its cells",
                    f"Choose among {str([tuple(names[axis] for axis in table) for table in tables.tables[:3]])[:200]}",
                )
            found[axes] = own
        value = sum(float(np.sum(own * self._table(tables, axes))) for axes, own in found.items())
        return LinearAnswer(value, self._deviation(tables, found))

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
        noise = self._numbers("residual_standard_deviation")
        return [
            TableMeasurement(tuple(names[axis] for axis in axes), residuals[axes], float(size), True)
            for axes, size in zip(tables.sets, noise, strict=True)
        ]

    def _tables(self) -> tuple[MarginalTables, list[str]]:
        attributes: Mapping[str, Any] = self.opened.attributes
        if attributes.get("matrix") != "tables":
            raise ConfigError(
                "This release holds no tables", 'Its query is not of kind "marginals"', "Open a release that is"
            )
        mechanism = attributes["mechanism"]
        tables = MarginalTables(tuple(mechanism["cells"]), tuple(tuple(table) for table in mechanism["tables"]))
        return tables, [str(axis["name"]) for axis in attributes["query"]["axes"]]

    def _numbers(self, name: str) -> Array:
        return np.asarray(self.opened.arrays[name][...], dtype=np.float64)

    def _table(self, tables: MarginalTables, axes: Axes) -> Array:
        return self._numbers(f"table_{tables.tables.index(axes) + 1}")

    def _deviation(self, tables: MarginalTables, coefficients: Mapping[Axes, Array]) -> float:
        if "residual_standard_deviation" in self.opened.arrays:
            noise = self._numbers("residual_standard_deviation").tolist()
            return deviation(coefficients, tables, dict(zip(tables.sets, noise, strict=True)))
        flat = self._numbers("tables_standard_deviation")
        places = dict(zip(tables.tables, tables.places, strict=True))
        # Tables that got noise themselves have independent cells.
        return sqrt(sum(float(flat[places[t].start]) ** 2 * float(np.sum(c**2)) for t, c in coefficients.items()))
