"""Mechanisms for workloads of counts: a strategy, its noise by the proof of additive noise, and least squares.

Both measure sums of the table in place of its cells (:mod:`.strategy`). What is private about them is
in :mod:`.additive`, with the sensitivity of the strategy's whole numbers in place of that of
the cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.abilities import OneCell, one_cell
from blockveil.engine.mechanisms.contract import NotApplicable, Status
from blockveil.engine.mechanisms.counts.matrix_mechanism import AxisStrategy, ProductStrategy
from blockveil.engine.mechanisms.counts.strategy_search import optimal_product
from blockveil.engine.mechanisms.declaration import (
    BOTH,
    CatalogueEntry,
    IntegerBetween,
    MechanismDeclaration,
    OneOf,
    Parameter,
)
from blockveil.engine.mechanisms.published.hierarchy import Tree
from blockveil.engine.mechanisms.published.tree_search import best_tree
from blockveil.engine.noise.additive import Measured, NoiseDesign, laplace_design
from blockveil.engine.noise.discrete_laplace import LAPLACE_GRID
from blockveil.engine.records.geometry import Vector
from blockveil.engine.records.product_threads import one_thread
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread
from blockveil.engine.workloads.workload import Explicit, Workload

LARGEST_AXIS = 1024
"""Most cells along an axis for which a strategy is optimised: its search takes eigenvectors of such matrices."""

_BITS = 12
_TOLERANCE = 1e-3
_ROUND_UP = 1.0 + 1e-13


@dataclass(frozen=True)
class MatrixMechanism:
    """Gaussian noise on the product strategy of least expected error for the declared workload."""

    name: ClassVar[str] = "matrix-mechanism"

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Noise on the strategy's answers."""
        return self.measured(problem).design(guarantee)

    def measured(self, problem: Problem, weight: int = 1) -> Measured:
        """The strategy's answers; ``weight`` is what a record may count, where it may count several times."""
        counts = _counts(problem)
        if max(counts.cells) > LARGEST_AXIS:
            raise NotApplicable(
                f"the grid has {max(counts.cells)} cells along an axis, and a strategy is optimised for {LARGEST_AXIS} "
                "at most; choose hierarchical, or fewer cells"
            )
        strategy = _product(counts.cells, counts.workload, counts.rows_at_most * weight)
        spread = Spread(
            np.ones(strategy.shape[0]), np.ones(strategy.shape[1]), False, strategy.changing(counts.neighbours)
        )
        scaling = Scaling(strategy.unit, strategy.largest // weight)
        return Measured(spread, strategy.l2(counts.neighbours), scaling, strategy)

    def parameters(self) -> dict[str, Any]:
        """None: the strategy follows from the workload."""
        return {}


@dataclass(frozen=True)
class Hierarchical:
    """Noise on the sums of nested blocks.

    Attributes
    ----------
    noise
        "gaussian" or "laplace".
    branching
        Blocks of the next level along each axis; None for the branching of least expected error.
    """

    name: ClassVar[str] = "hierarchical"
    noise: str
    branching: int | None = None

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Noise whose size depends on the level."""
        if self.noise == "gaussian":
            return self.measured(problem).design(guarantee)
        tree, levels, spread, scaling, each = self._blocks(problem)
        design = laplace_design(spread, _l1(levels, each), scaling, guarantee, LAPLACE_GRID)
        return replace(design, strategy=tree)

    def measured(self, problem: Problem) -> Measured:
        """Sums of the blocks, for Gaussian noise."""
        tree, levels, spread, scaling, each = self._blocks(problem)
        return Measured(spread, _l2(levels, each), scaling, tree)

    def _blocks(self, problem: Problem) -> tuple[Tree, Vector, Spread, Scaling, int]:
        """The tree, noise by level and by row, the answers' range, and how many of a level one record changes."""
        counts, gaussian = _counts(problem), self.noise == "gaussian"
        tree, levels = best_tree(counts.cells, counts.workload, gaussian=gaussian, branching=self.branching)
        rows = np.concatenate(
            [np.full(place.stop - place.start, size) for place, size in zip(tree.level_rows, levels, strict=True)]
        )
        each = tree.changing(counts.neighbours)
        spread = Spread(rows, np.ones(tree.width), False, each * tree.levels)
        # A block holds at most all records.
        return tree, levels, spread, Scaling(1, counts.rows_at_most), each

    def parameters(self) -> dict[str, Any]:
        """Noise, and the branching where it is given."""
        return {"noise": self.noise, **({} if self.branching is None else {"branching": self.branching})}


def _l2(levels: Vector, changing: int) -> Sensitivity:
    value = sqrt(changing * float(np.sum(levels**-2.0)))
    return Sensitivity(value * _ROUND_UP, value)


def _l1(levels: Vector, changing: int) -> Sensitivity:
    value = changing * float(np.sum(1.0 / levels))
    return Sensitivity(value * _ROUND_UP, value)


def _counts(problem: Problem) -> OneCell:
    if one_cell(problem) and problem.axes > 2:
        raise NotApplicable(
            f"a strategy is for grids of one or two axes, and this one has {problem.axes}; choose gaussian or "
            "discrete-laplace"
        )
    if not one_cell(problem) or not problem.workload:
        raise NotApplicable("a strategy is for a workload of counts; declare query.workload")
    if problem.cells == (1, 1):
        raise NotApplicable("a grid of one cell has nothing to sum; choose discrete-laplace or gaussian")
    return problem


def _product(cells: tuple[int, int], workload: Workload, records: int) -> ProductStrategy:
    """Optimised strategy; the same for equal workloads, whatever the neighbours and the guarantee."""
    if any(isinstance(factor, Explicit) for part in workload for factor in (part.rows, part.columns)):
        return _search(workload, records)
    return _cached_search(workload, records)


@lru_cache(maxsize=8)
def _cached_search(workload: Workload, records: int) -> ProductStrategy:
    return _search(workload, records)


def _search(workload: Workload, records: int) -> ProductStrategy:
    # One thread: sums of another order could round to another strategy, and a strategy is part of the plan.
    with one_thread():
        best = optimal_product(workload, _TOLERANCE)
        roots = best.rows.strategy, best.columns.strategy
        for bits in range(_BITS, 3, -1):
            rows, columns = (AxisStrategy.rounded(root, bits) for root in roots)
            if records * rows.largest * columns.largest <= 2**50:
                break
        return ProductStrategy(rows, columns, records)


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="matrix-mechanism",
            title="noise on a strategy of counts, least squares for a workload",
            status=Status.PROVEN_EXACT,
            source="Li, Hay, Rastogi, Miklau and McGregor, 2010; McKenna and others, 2018 (products)",
            theorem=(
                "answers A x with Gaussian noise of standard deviation s have mu = largest change of A x in L2 / s, "
                "and least squares on them is post-processing"
            ),
            relations=BOTH,
            needs=(
                "a grid of cells of at most 1,024 along an axis, and the workload: sums of cells that are asked for"
            ),
            loss="mu = largest change of the strategy's whole-number answers / standard deviation",
            error=(
                "tr(W (A'A)^-1 W') times the variance; for a single product and add-remove within a part in 300 of "
                "the least that any strategy has"
            ),
            finding=(
                "The published guarantee is that of the Gaussian mechanism and holds for any strategy. Strategies "
                "are rounded to whole numbers first, so that the sensitivity is that of the strategy that runs. "
                "Under replace-one a record may leave the grid as well as move within it; where all columns "
                "are the same, that costs more."
            ),
            use="release",
        ),
        mechanism=MatrixMechanism,
        form="Gaussian noise on an optimised strategy for the declared workload of counts.",
        tried=lambda _: (MatrixMechanism(),),
        audited=(MatrixMechanism(),),
    ),
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="hierarchical",
            title="hierarchical counts (Hb) with consistency, in one or two axes",
            status=Status.PROVEN_EXACT,
            source="Hay, Rastogi, Miklau and Suciu, 2010; Qardaji, Yang and Li, 2013, section 3",
            theorem=(
                "a record is in one block of each level, so that the losses of levels add up: squared for Gaussian "
                "noise, as they are for Laplace noise"
            ),
            relations=BOTH,
            needs="a grid of cells, and the workload: sums of cells that are asked for",
            loss=(
                "mu = sqrt(sum over levels of c / variance), or pure epsilon = sum of c / scale; c = 1, or 2 under "
                "replace-one"
            ),
            error=(
                "exact along the tree, in time linear in the cells; branching and shares of the levels are chosen by it"
            ),
            finding=(
                "Right and exact under add-remove; under replace-one the same noise costs twice as much. The "
                "published choice of branching rests on an approximation; equal shares for all levels are not the "
                "best."
            ),
            use="release",
        ),
        mechanism=Hierarchical,
        form="Noise on the sums of nested blocks of the grid, for the declared workload of counts.",
        parameters=(
            Parameter("noise", OneOf(("gaussian", "laplace")), "the law of the noise; Laplace gives a pure epsilon"),
            Parameter(
                "branching",
                IntegerBetween(2, 2**20),
                "the blocks of the next level along each axis; the best for the workload where it is not given",
                required=False,
            ),
        ),
        tried=lambda _: (Hierarchical("gaussian"), Hierarchical("laplace")),
        audited=(Hierarchical("gaussian", 2), Hierarchical("laplace", 3)),
    ),
)
