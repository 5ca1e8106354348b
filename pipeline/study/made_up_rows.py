"""Rows of people who do not exist, of the types that the config of an ingest declares."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa

from blockveil.pipeline.config.ingest_columns import BinsColumn, BooleanColumn, CategoryColumn, Column, DateColumn
from blockveil.pipeline.config.ingest_columns import IntegerColumn as WholeColumn
from blockveil.pipeline.config.ingest_file import IngestConfig
from blockveil.pipeline.config.map_columns import CrossColumn


class MadeUpRows:
    """Rows that an ingest takes.

    Parameters
    ----------
    config
        Of the ingest.
    seed
        Of the values.
    """

    def __init__(self, config: IngestConfig, seed: int) -> None:
        self._config, self._rng = config, np.random.default_rng(seed)

    def of_unit(self, unit: int, count: int) -> pa.Table:
        """Rows of one unit, some of which are equal.

        Parameters
        ----------
        unit
            Its number.
        count
            How many rows.
        """
        config, columns = self._config, dict[str, pa.Array]()
        for column in config.columns:
            for name in column.inputs:
                present = columns.get(name)
                values = _values(column, name, self._rng, count)
                # A column that is declared twice holds the values of the narrower declaration.
                if present is None or _RANK.get(type(column), 0) > self._rank(name, column):
                    columns[name] = values
        if config.bounded is not None:
            kind, labels = config.bounded.type, [unit] * count
            columns[config.bounded.column] = pa.array(labels if kind == "whole" else [f"unit {one}" for one in labels])
        if config.ingest.partition is not None:
            columns[config.ingest.partition.column] = _repeated(
                config.ingest.partition.type, config.ingest.partition.value, count
            )
        # Every third row is the one before it.
        return pa.table(columns).take(pa.array([place - (place % 3 == 2) for place in range(count)]))

    def moved(self, rows: pa.Table) -> list[pa.Table]:
        """The same rows in another order, in three parts."""
        other_order = rows.take(pa.array(self._rng.permutation(rows.num_rows)))
        size = max(1, rows.num_rows // 3)
        return [other_order.slice(0, size), other_order.slice(size, size), other_order.slice(2 * size)]

    def _rank(self, name: str, last: Column) -> int:
        """Rank of the narrowest declaration of a column before one."""
        before = self._config.columns[: self._config.columns.index(last)]
        return max((_RANK.get(type(one), 0) for one in before if name in one.inputs), default=0)


_RANK: dict[type[object], int] = {
    BinsColumn: 1,
    WholeColumn: 2,
    DateColumn: 3,
    BooleanColumn: 4,
    CategoryColumn: 5,
    CrossColumn: 6,
}
"""A value of a declaration of higher rank fits the others of the same column."""


def _values(column: Column, name: str, rng: np.random.Generator, count: int) -> pa.Array:
    """Values of a column that fit its declaration."""
    match column:
        case WholeColumn():
            return pa.array(rng.integers(-50, 50, count))
        case BooleanColumn():
            return pa.array(rng.integers(0, 2, count).astype(np.bool_))
        case CategoryColumn():
            return pa.array([column.categories[place] for place in rng.integers(0, len(column.categories), count)])
        case CrossColumn():
            labels = next(each.categories for each in column.columns if each.name == name)
            return pa.array([labels[place] for place in rng.integers(0, len(labels), count)])
        case DateColumn():
            return pa.array(rng.integers(20_000, 20_400, count).astype(np.int32), pa.date32())
        case BinsColumn():
            return pa.array(rng.uniform(column.edges[0], column.edges[-1], count))
    return pa.array(rng.normal(0.0, 1.0, count))


def _repeated(kind: str, value: str, count: int) -> pa.Array:
    """The value of the records that are kept."""
    if kind == "date":
        return pa.array([date.fromisoformat(value)] * count)
    return pa.array([int(value)] * count if kind == "whole" else [value] * count)
