"""Tables without negative counts, and the error of linear functions of tables.

Non-negative tables. Of all tables that agree with each other and have no negative count, those nearest to the released
ones in Euclidean distance are sought by Dykstra's alternating projections; they end with tables that agree to rounding
and whose least count is negative by little. A share of a table that is even in all cells lifts it to zero: the result
agrees and is not negative. All of it is post-processing, and has no standard deviation.

Linear functions. ``sum over tables T of  c_T . table_T`` is ``sum over sets A of  g_A . u_A`` for the residuals u_A
(:mod:`.marginal_tables`) and ``g_A = sum over T above A of  P_A (c_T summed over T without A) / n of T without A``.
Where residuals of independent noise were measured, its variance is ``sum d_A^2 |g_A|^2`` exactly, d_A the standard
deviation of the noise of A before projection. It is the generalised least squares estimate from all that was measured.
Along ordered axes ``Q_i u`` was measured in place of u (:mod:`.ordered_axes`): then it is ``sum d_A^2 |Q_A^+ g_A|^2``,
with Q_A^+ the product of the symmetric matrices ``Q_i^+`` over the ordered axes in A.

**Source**: Boyle and Dykstra, 1986; Xiao, He, Zhang and Kifer, 2023, for the variances.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.workloads.marginal_tables import Axes, MarginalTables
from blockveil.engine.workloads.ordered_axes import along_axis

_MOST_ROUNDS = 400
_CLOSE = 1e-4
"""Share of the average count of a cell by which counts may be negative before they are lifted."""


def non_negative(flat: NDArray[np.float64], tables: MarginalTables) -> NDArray[np.float64]:
    """Tables near released ones that agree with each other and have no negative count.

    Parameters
    ----------
    flat
        Released counts of all tables in one row, shape (cells,).
    tables
        Which tables.

    Returns
    -------
    Shape (cells,). All zero where the released number of records is not positive.
    """
    total = float(tables.projected(tables.apart(flat))[()])
    if total <= 0.0:
        return np.zeros_like(flat)
    beyond, counts = np.zeros_like(flat), flat
    for _ in range(_MOST_ROUNDS):
        clipped = np.maximum(counts + beyond, 0.0)
        beyond = counts + beyond - clipped
        counts = tables.made_of(tables.projected(tables.apart(clipped)))
        if _lacking(counts, tables) <= _CLOSE:
            break
    return _lifted(counts, tables)


def _shares(flat: NDArray[np.float64], tables: MarginalTables) -> tuple[NDArray[np.float64], float]:
    """The same number of records, even in all cells, and that number."""
    total = max(float(np.sum(flat[tables.places[0]])), 0.0)
    even = [np.full(tables.size(table), total / tables.size(table)) for table in tables.tables]
    return np.concatenate(even), total


def _lacking(flat: NDArray[np.float64], tables: MarginalTables) -> float:
    """The most negative count over the average count of the cells of its table."""
    even, total = _shares(flat, tables)
    return 0.0 if total == 0.0 else float(np.max(-flat / even))


def _lifted(flat: NDArray[np.float64], tables: MarginalTables) -> NDArray[np.float64]:
    even, total = _shares(flat, tables)
    if total == 0.0:
        return np.zeros_like(flat)
    lacking = max(_lacking(flat, tables), 0.0)
    # (f + a e) / (1 + a) is at least zero for a e >= -f, and keeps the total.
    return np.maximum((flat + lacking * even) / (1.0 + lacking), 0.0)


def deviation(
    coefficients: Mapping[Axes, NDArray[np.float64]],
    tables: MarginalTables,
    noise: Mapping[Axes, float],
    inverses: Mapping[int, NDArray[np.float64]] | None = None,
) -> float:
    """Standard deviation of a linear function of tables that are made of measured residuals.

    Parameters
    ----------
    coefficients
        Of the cells of some tables, by the axes of the table, an axis of the array each.
    tables
        Which tables there are.
    noise
        Standard deviation of the noise of each set's residual before projection.
    inverses
        ``Q^+`` along ordered axes; None where there are none.
    """
    total = 0.0
    for axes in tables.sets:
        values = tables.sums(coefficients, axes)
        for along, axis in enumerate(axes):
            if inverses and axis in inverses:
                values = along_axis(inverses[axis], values, along)
        total += noise[axes] ** 2 * float(np.sum(values**2))
    return float(np.sqrt(total))
