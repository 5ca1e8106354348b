"""Marginal tables as problems of an audit: two tables over three axes, and the records in all their cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np

from blockveil.engine.answers.counts import CountQuery
from blockveil.engine.answers.table_counts import TablesQuery
from blockveil.engine.answers.value_cells import Codes, Edges, Missing, Outside
from blockveil.engine.audit import mutants
from blockveil.engine.audit.bounds import Array
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.marginals.problem import Marginals
from blockveil.engine.workloads.marginal_tables import MarginalTables

TABLES = MarginalTables((2, 3, 2), ((0, 1), (1, 2)))
ORDERED = replace(TABLES, ordered=(1,))
"""The same tables, with ranges along the axis of three cells."""


def problems(rows: int) -> Sequence[tuple[Marginals, Sequence[tuple[Array, Array]]]]:
    """Both relations, with a record in the first cell, against none, and against one in any other cell.

    Parameters
    ----------
    rows
        Public bound on the number of records.
    """
    grid = CountQuery(tuple(map(Codes, TABLES.sizes)), Outside.DROP, Missing.REFUSE)
    records = np.array(list(product(*map(range, TABLES.sizes))))
    counts = [mutants.exact_counts(record[None, :], TablesQuery(grid, TABLES)) for record in records]
    first, *others = (count.astype(np.float64) for count in counts)
    return (
        (Marginals(TABLES, Neighbours.ADD_REMOVE, rows), [(first, np.zeros_like(first))]),
        (Marginals(TABLES, Neighbours.REPLACE_ONE, rows), [(first, other) for other in others]),
        (
            Marginals(ORDERED, Neighbours.ADD_REMOVE, rows),
            [(count.astype(np.float64), np.zeros_like(first)) for count in counts],
        ),
        (
            Marginals(ORDERED, Neighbours.REPLACE_ONE, rows),
            list(combinations([count.astype(np.float64) for count in counts], 2)),
        ),
    )


def unit_query() -> TablesQuery:
    """The tables of records in a unit cube."""
    edges = tuple(Edges(np.linspace(0.0, 1.0, cells + 1)) for cells in TABLES.sizes)
    return TablesQuery(CountQuery(edges, Outside.DROP, Missing.REFUSE), TABLES)
