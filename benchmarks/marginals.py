"""Error of marginal tables by residuals against the closed form, separate tables and one grid of all cells.

Run ``python -m benchmarks.marginals``. Expected squared error of all cells of all tables at epsilon 1, delta 1e-6,
under add-remove, over ResidualPlanner's closed form; under replace-one over the bound below which no Gaussian noise
gets. It reads no data and no clock.
"""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np

from blockveil.engine.estimates.cells import cell_deviations
from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.counts.residual_strategy import ResidualStrategy
from blockveil.engine.mechanisms.counts.residuals import ResidualNoise
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.sensitivity.problems import Marginals
from blockveil.engine.workloads.marginal_tables import MarginalTables

GUARANTEE = ApproxDP(1.0, 1e-6)
_RECORDS = 100_000


def ways(sizes: tuple[int, ...], count: int) -> MarginalTables:
    """All tables of so many axes."""
    return MarginalTables(sizes, tuple(combinations(range(len(sizes)), count)))


ADULT = (9, 16, 7, 15, 6, 5, 2, 42)
CASES = {
    "two-way, eight columns of Adult": ways(ADULT, 2),
    "three-way, eight columns of Adult": ways(ADULT, 3),
    "two-way, 5 x 12 x 365": ways((5, 12, 365), 2),
    "two-way, twenty columns of 10 cells": ways((10,) * 20, 2),
    "two-way, twenty columns of 2 cells": ways((2,) * 20, 2),
}


def closed_form(tables: MarginalTables) -> float:
    """``(sum over sets of sqrt(p v))^2 / mu^2``, the least under add-remove."""
    strategy = ResidualStrategy(tables, _RECORDS)
    shares = np.sqrt(strategy.norms * strategy.error_weights())
    return float(np.sum(shares)) ** 2 / gaussian_mu(GUARANTEE.epsilon, GUARANTEE.delta) ** 2


def least_replaced(tables: MarginalTables) -> float:
    """Bound from below under replace-one: duality for two records in different cells, all pairs equally likely."""
    strategy, cells = ResidualStrategy(tables, _RECORDS), float(prod(tables.sizes))
    # Differences of records say nothing of their number: the empty set, which leads, has no share.
    shares = np.sqrt(strategy.norms * strategy.error_weights())[1:]
    squared = 2.0 * cells / (cells - 1.0) * float(np.sum(shares)) ** 2
    return squared / gaussian_mu(GUARANTEE.epsilon, GUARANTEE.delta) ** 2


def error(tables: MarginalTables, relation: Neighbours, separate: bool = False) -> float:
    """Expected squared error by residuals, or of separate tables with equal noise."""
    problem = Marginals(tables, relation, _RECORDS)
    mechanism = Gaussian() if separate else ResidualNoise()
    return float(np.sum(cell_deviations(mechanism.design(problem, GUARANTEE)) ** 2))


def of_one_grid(tables: MarginalTables) -> float:
    """Of tables that are summed from noisy cells of the grid of all axes: each cell of the grid is in every table."""
    cells = float(prod(tables.sizes))
    return len(tables.tables) * cells / gaussian_mu(GUARANTEE.epsilon, GUARANTEE.delta) ** 2


def row(tables: MarginalTables) -> tuple[float, float, float, float]:
    """Ratios of a case: residuals, separate tables, one grid; residuals under replace-one over their bound."""
    least = closed_form(tables)
    return (
        error(tables, Neighbours.ADD_REMOVE) / least,
        error(tables, Neighbours.ADD_REMOVE, separate=True) / least,
        of_one_grid(tables) / least,
        error(tables, Neighbours.REPLACE_ONE) / least_replaced(tables),
    )


def main() -> None:
    """Print the table."""
    print("| tables | residuals | separate tables | one grid | residuals, replace-one |")
    print("|---|---|---|---|---|")
    for name, tables in CASES.items():
        print(f"| {name} | {' | '.join(f'{ratio:.4g}' for ratio in row(tables))} |")


if __name__ == "__main__":
    main()
