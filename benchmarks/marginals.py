"""Error of marginal tables by residuals against the closed form, separate tables and one grid of all cells.

Run ``python -m benchmarks.marginals``. Expected squared error of all cells of all tables at epsilon 1, delta 1e-6,
under add-remove, over ResidualPlanner's closed form; under replace-one over the bound below which no Gaussian noise
gets. A second table is about ranges of cells along ordered axes, under add-remove: the squared error of residuals that
are measured as they are, and of separate tables, over that with ``ordered``; the latter over the singular value bound
of the ranges, below which no Gaussian noise gets; and what it costs the cells. It reads no data and no clock.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import prod

import numpy as np

from blockveil.engine.estimates.cells import cell_deviations
from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.marginals.problem import Marginals
from blockveil.engine.mechanisms.counts.range_errors import errors_without_order, range_errors
from blockveil.engine.mechanisms.counts.residual_strategy import ResidualStrategy
from blockveil.engine.mechanisms.counts.residuals import ResidualNoise
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.workloads.marginal_tables import MarginalTables
from blockveil.engine.workloads.ordered_axes import range_gram

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


ORDERED = {
    **{f"{n} ordered cells": MarginalTables((n,), ((0,),), (0,)) for n in (2, 5, 10, 20, 50, 100)},
    **{
        f"two-way, {n} ordered cells x 5 x 2": MarginalTables((n, 5, 2), ((0, 1), (0, 2), (1, 2)), (0,))
        for n in (2, 5, 10, 20, 50, 100)
    },
    "two-way, 20 ordered x 30 ordered x 5": MarginalTables((20, 30, 5), ((0, 1), (0, 2), (1, 2)), (0, 1)),
    "two-way, 74 ordered ages and eight columns of Adult": MarginalTables(
        (74, *ADULT), tuple(combinations(range(9), 2)), (0,)
    ),
}


def bound_of_ranges(tables: MarginalTables) -> float:
    """Total squared error of ranges that any Gaussian noise has at least, by the singular values of all that is asked.

    Along axes without an order all matrices have the same eigenvectors; along ordered ones the Gram matrix of ranges
    and that of the total do not, so that their product is taken as it is.
    """
    plain = [axis for axis in range(len(tables.sizes)) if axis not in tables.ordered]
    total = 0.0
    for inside in (chosen for k in range(len(plain) + 1) for chosen in combinations(plain, k)):
        matrix = 0.0
        for table in tables.tables:
            if not set(inside) <= set(table):
                continue
            part = np.ones((1, 1))
            for axis in tables.ordered:
                n = tables.sizes[axis]
                part = np.kron(part, range_gram(n) if axis in table else np.ones((n, n)))
            matrix = matrix + part * prod(tables.sizes[axis] for axis in plain if axis not in table)
        if isinstance(matrix, float):
            continue
        roots = np.sqrt(np.maximum(np.linalg.eigvalsh(matrix), 0.0))
        total += prod(tables.sizes[axis] - 1 for axis in inside) * float(np.sum(roots))
    return total**2 / prod(tables.sizes) / _MU**2


def row_of_ranges(tables: MarginalTables) -> tuple[float, float, float, float]:
    """Ratios of a case: without the order, separate tables; with it over the bound; cells with it over without."""
    problem = Marginals(tables, Neighbours.ADD_REMOVE, _RECORDS)
    errors = [
        float(range_errors(tables, each.design(problem, GUARANTEE)) @ tables.cells_of_each)
        for each in (ResidualNoise(), Gaussian())
    ]
    plain = errors_without_order(tables, Neighbours.ADD_REMOVE, _RECORDS, _MU) @ tables.cells_of_each
    cells = error(tables, Neighbours.ADD_REMOVE) / error(replace(tables, ordered=()), Neighbours.ADD_REMOVE)
    return float(plain) / errors[0], errors[1] / errors[0], errors[0] / bound_of_ranges(tables), cells


def main() -> None:
    """Print the tables."""
    print("| tables | residuals | separate tables | one grid | residuals, replace-one |")
    print("|---|---|---|---|---|")
    for name, tables in CASES.items():
        print(f"| {name} | {' | '.join(f'{ratio:.4g}' for ratio in row(tables))} |")
    print("\n| tables with ranges | residuals without the order | separate tables | with it, over the bound | cells |")
    print("|---|---|---|---|---|")
    for name, tables in ORDERED.items():
        print(f"| {name} | {' | '.join(f'{ratio:.4g}' for ratio in row_of_ranges(tables))} |")


if __name__ == "__main__":
    main()
