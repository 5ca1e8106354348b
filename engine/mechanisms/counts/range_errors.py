"""Error of ranges along ordered axes of marginal tables: by residuals, or from noise on the tables themselves.

Noise on the tables is independent, so that the variance of a range is a sum over its cells.

**Source**: :mod:`.range_variances`.
"""

from __future__ import annotations

import numpy as np

from blockveil.engine.estimates.cells import row_deviations
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.counts.residual_strategy import ResidualStrategy
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Vector
from blockveil.engine.workloads.marginal_tables import MarginalTables
from blockveil.engine.workloads.ordered_axes import range_gram


def range_errors(tables: MarginalTables, design: NoiseDesign) -> Vector:
    """Mean variance of what is asked of each table, shape (tables,), in records squared; exact, and reads no data."""
    if isinstance(design.strategy, ResidualStrategy):
        return design.strategy.range_errors(row_deviations(design))
    variances = tables.apart(design.entry_standard_deviation()[0] ** 2)
    errors = []
    for table, own in zip(tables.tables, variances, strict=True):
        for axis in table:
            weights = np.diagonal(range_gram(tables.sizes[axis])) if axis in tables.ordered else np.ones(1)
            own = np.moveaxis(own, 0, -1) * weights
        errors.append(float(np.mean(own)))
    return np.array(errors)


def errors_without_order(tables: MarginalTables, neighbours: Neighbours, records_at_most: int, mu: float) -> Vector:
    """The same of residuals that are measured as they are, at a loss; rounding to the grid is left out."""
    strategy = ResidualStrategy(tables, records_at_most)
    sizes = strategy.least_sizes(neighbours)
    scale = strategy.l2(sizes, neighbours).bound / mu
    return strategy.range_errors(strategy.by_row(sizes * scale))


def ranges_of(tables: MarginalTables, errors: Vector) -> float:
    """Mean of the errors of tables with an ordered axis, each table by its cells."""
    ordered = np.array([bool(set(table) & set(tables.ordered)) for table in tables.tables])
    return float(np.average(errors, weights=tables.cells_of_each * ordered))
