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
_MU = gaussian_mu(GUARANTEE.epsilon, GUARANTEE.delta)


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


def least(tables: MarginalTables, relation: Neighbours) -> float:
    """Total variance below which no Gaussian noise gets; under add-remove the closed form."""
    return ResidualStrategy(tables, _RECORDS).least_noise(relation).bound / _MU**2


def error(tables: MarginalTables, relation: Neighbours, separate: bool = False) -> float:
    """Expected squared error by residuals, or of separate tables with equal noise."""
    problem = Marginals(tables, relation, _RECORDS)
    mechanism = Gaussian() if separate else ResidualNoise()
    return float(np.sum(cell_deviations(mechanism.design(problem, GUARANTEE)) ** 2))


def of_one_grid(tables: MarginalTables) -> float:
    """Of tables that are summed from noisy cells of the grid of all axes: each cell of the grid is in every table."""
    cells = float(prod(tables.sizes))
    return len(tables.tables) * cells / _MU**2


def row(tables: MarginalTables) -> tuple[float, float, float, float]:
    """Ratios of a case: residuals, separate tables, one grid; residuals under replace-one over their bound."""
    closed = least(tables, Neighbours.ADD_REMOVE)
    return (
        error(tables, Neighbours.ADD_REMOVE) / closed,
        error(tables, Neighbours.ADD_REMOVE, separate=True) / closed,
        of_one_grid(tables) / closed,
        error(tables, Neighbours.REPLACE_ONE) / least(tables, Neighbours.REPLACE_ONE),
    )


def main() -> None:
    """Print the table."""
    print("| tables | residuals | separate tables | one grid | residuals, replace-one |")
    print("|---|---|---|---|---|")
    for name, tables in CASES.items():
        print(f"| {name} | {' | '.join(f'{ratio:.4g}' for ratio in row(tables))} |")


if __name__ == "__main__":
    main()
