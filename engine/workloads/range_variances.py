"""Mean variance of ranges along ordered axes of marginal tables that are made of residuals.

What is asked of a table is every combination of a range along each ordered axis and a cell along each other axis, and
together as much as the table has cells (:mod:`.ordered_axes`). With noise of variance d_A^2 in what is measured of the
residual of A, the mean variance of what is asked of a table T is the sum over A within T of

``d_A^2  times  product over A of tr(G_i C_i) / n_i  times  product over T without A of  1'G_i 1 / n_i^3``,

G_i the Gram matrix of what is asked along axis i and C_i the covariance of its residual: ``I - 11' / n`` where the
residual is measured as it is. For all ranges ``tr G = n (n + 2) / 3`` and ``1'G 1 = n (n + 1) (n + 2) / 6``; for the
cells of an axis without an order G is the identity.

**Source**: derived here; sums over all ranges are elementary.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod

import numpy as np

from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.workloads.marginal_tables import Axes, MarginalTables
from blockveil.engine.workloads.ordered_axes import range_gram

Shares = tuple[list[float], list[float]]
"""For each axis ``tr(G C) / n`` and ``1'G 1 / n^3``."""


def mean_shares(tables: MarginalTables, covariances: Mapping[int, Matrix]) -> Shares:
    """What each axis contributes where it is in a set, and where it is not.

    Parameters
    ----------
    tables
        What is asked for.
    covariances
        Of the residual along ordered axes; without one the residual is measured as it is.
    """
    within, without = [], []
    for axis, n in enumerate(tables.sizes):
        alone, together = float(n), float(n)
        if axis in tables.ordered:
            alone, together = n * (n + 2.0) / 3.0, n * (n + 1.0) * (n + 2.0) / 6.0
        plain = alone - together / n
        own = covariances.get(axis)
        within.append((plain if own is None else float(np.sum(range_gram(n) * own))) / n)
        without.append(together / n**3)
    return within, without


def share_of(table: Axes, axes: Axes, shares: Shares) -> float:
    """Mean variance of what is asked of a table for variance one in what is measured of a set within it."""
    within, without = shares
    return prod(within[axis] if axis in axes else without[axis] for axis in table)


def mean_errors(tables: MarginalTables, variances: Vector, shares: Shares) -> Vector:
    """Mean variance of what is asked of each table, shape (tables,), in records squared.

    Parameters
    ----------
    tables, shares
        As for :func:`mean_shares`.
    variances
        Of the noise in what is measured of each set.
    """
    noise = dict(zip(tables.sets, variances.tolist(), strict=True))
    return np.array(
        [
            sum(
                noise[axes] * share_of(table, axes, shares)
                for k in range(len(table) + 1)
                for axes in combinations(table, k)
            )
            for table in tables.tables
        ]
    )
