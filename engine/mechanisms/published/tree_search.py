"""Which tree, and how the noise of its levels compares: chosen from the public grid and workload alone.

In a tree of equal blocks of ``B_l`` cells, least squares have the error ``sum over l of (T_l - T_(l+1)) / lambda_l``
with ``T_l = tr(V P_l)``, P_l the mean over blocks of level l, ``lambda_l = sum over k <= l of B_k / s_k^2``. That
formula, which the blocks at the far edges make slightly inexact, only chooses; the error that is stated is exact
(:mod:`.hierarchy`). Spreads are eighth powers of two, found by coordinate descent, so that a
machine with other rounding finds the same tree.

**Source**: replaces the approximation of Qardaji, Yang and Li, 2013, equation 3; derived here.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.mechanisms.published.hierarchy import Tree
from blockveil.engine.records.geometry import Vector
from blockveil.engine.workloads.kronecker import block_energy
from blockveil.engine.workloads.workload import Workload

_PARTS = 8
_FURTHEST = 6 * _PARTS
_BETTER = 1.0 - 1e-9


def best_tree(
    cells: tuple[int, int], workload: Workload, *, gaussian: bool, branching: int | None = None
) -> tuple[Tree, Vector]:
    """Tree of least error and the relative noise of its levels.

    Parameters
    ----------
    cells
        Shape of the table.
    workload
        What is asked of it.
    gaussian
        Gaussian noise, else Laplace.
    branching
        The branching, or None to choose it.

    Returns
    -------
    The tree, and a spread for each level, the least of them one.
    """
    best, least = None, np.inf
    for b in [branching] if branching is not None else branchings(max(cells)):
        tree = Tree(cells, b)
        traces = level_traces(tree, workload)
        spreads, error = _descend(tree, traces, gaussian)
        if error < least * _BETTER:
            best, least = (tree, spreads), error
    if best is None:
        raise CalibrationError(f"the workload over {cells} has no finite error; weigh its parts more evenly")
    return best


def branchings(cells: int) -> list[int]:
    """Least branching of each possible height, most branches last."""
    return sorted({max(2, _root(cells, height)) for height in range(1, 64)})


def level_traces(tree: Tree, workload: Workload) -> Vector:
    """``tr(V P_l)`` for l = 0 to h, h being the whole table."""
    traces = np.zeros(tree.levels + 1)
    for level in range(tree.levels + 1):
        starts = tree.starts(level)
        for part in workload:
            sides = [
                float(np.sum(block_energy(factor, s) / np.diff(np.append(s, factor.cells))))
                for factor, s in zip((part.rows, part.columns), starts, strict=True)
            ]
            traces[level] += part.weight**2 * sides[0] * sides[1]
    return traces


def _descend(tree: Tree, traces: Vector, gaussian: bool) -> tuple[Vector, float]:
    """Coordinate descent over eighth powers of two."""
    sizes = np.array([tree.cells[0] * tree.cells[1] / np.prod(tree.blocks(level)) for level in range(tree.levels)])

    def error(exponents: Iterable[int]) -> float:
        spread = _spreads(exponents)
        # Variances at a loss of one under add-remove; replace-one multiplies all of them by the same factor.
        variances = spread**2 * np.sum(spread**-2.0) if gaussian else 2.0 * spread**2 * np.sum(1.0 / spread) ** 2
        eigenvalues = np.cumsum(sizes / variances)
        gains = traces - np.append(traces[1:], 0.0)
        return float(np.sum(gains / np.append(eigenvalues, eigenvalues[-1])))

    best = [0] * tree.levels
    least, step = error(best), _PARTS
    while step:
        tried = [
            [*best[:level], best[level] + change, *best[level + 1 :]]
            for level in range(tree.levels)
            for change in (-step, step)
            if abs(best[level] + change) <= _FURTHEST
        ]
        errors = [error(exponents) for exponents in tried]
        place = min(range(len(tried)), key=errors.__getitem__)
        if errors[place] < least * _BETTER:
            best, least = tried[place], errors[place]
        else:
            step //= 2
    return _spreads(exponent - min(best) for exponent in best), least


def _spreads(exponents: Iterable[int]) -> Vector:
    # Rounded, since powers may differ in the last bit between machines.
    return np.array([round(2.0 ** (exponent / _PARTS), 9) for exponent in exponents])


def _root(cells: int, height: int) -> int:
    """Least b with ``b^height >= cells``, exactly."""
    b = max(1, int(cells ** (1.0 / height)) - 1)
    while b**height < cells:
        b += 1
    return b
