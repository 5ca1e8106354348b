"""Hierarchical counts (Hb): noisy sums of nested blocks of a table, made consistent by exact least squares.

Level l holds the sums of blocks of ``b^l`` cells a side, from l = 0 (cells) up to the last level of more than one
block. Blocks at the far edges are smaller; an axis that is one block already is not divided further, so an axis of one
cell gives the usual tree over the other axis.

Least squares. Every block v sums its children c. Going up, with s the deviation of a level and u_c the variance of the
best estimate of a child from below: ``below = sum u_c`` and ``1 / u_v = 1 / s^2 + 1 / below``. Going down, what the sum
of the children lacks is shared in proportion to u_c. With a_v the shares that the cells of v get of one unit of v, the
covariance of all estimated counts is exactly

    s_0^2 I - sum over blocks v of more than one cell of  below_v^2 / (s^2 + below_v) a_v a_v'

(no term for the whole table, which is not measured). Standard deviations and errors of workloads follow from it in time
linear in the cells, and no estimate is noisier than its own cell: every eigenvalue is at most s_0^2.

Privacy. One record lies in at most one block of each level, so a record added or removed changes one answer a level by
one, and a record replaced at most two: with deviations s_l and c = 1 or 2,

* Gaussian: ``mu = sqrt(sum of c / s_l^2)``; Laplace of scales b_l: ``epsilon = sum of c / b_l``;

exact where two cells are in different blocks of every level, as the first and the last are.

**Source**: Hay, Rastogi, Miklau and Suciu, 2010 (tree, inference); Qardaji, Yang and Li, 2013, section 3 (branching;
epsilon / h a level). Verdict: the published guarantee is right, and exact, under add-remove; under replace-one the same
noise costs twice as much. The covariance is derived here (Woodbury, along the tree) and replaces their approximation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.noise.discrete_gaussian import TILE
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.workloads.kronecker import Starts, quadratic, rows_of
from blockveil.engine.workloads.strategy import Arrays
from blockveil.engine.workloads.workload import Kronecker, Numbers, Workload

_MOST_WORK = 2**28
"""Most products that standard deviations of single answers may need, a level."""


@dataclass(frozen=True)
class Tree:
    """Nested blocks of a table, each level of at least two blocks measured.

    Attributes
    ----------
    cells
        Shape of the table, (m, n), with at least two cells.
    branching
        b, at least 2: blocks of the next level along each axis.
    """

    cells: tuple[int, int]
    branching: int

    def __post_init__(self) -> None:
        """Refuse trees that do not exist."""
        if min(self.cells) < 1 or max(self.cells) < 2:
            raise CalibrationError(f"the table is {self.cells}; a tree needs two cells; release the counts themselves")
        if self.branching < 2:
            raise CalibrationError(
                f"branching is {self.branching}; a block has at least 2 parts along an axis; raise it"
            )

    @cached_property
    def levels(self) -> int:
        """Number of measured levels: least h with ``b^h`` cells covering each axis."""
        height, side = 1, self.branching
        while side < max(self.cells):
            height, side = height + 1, side * self.branching
        return height

    @property
    def width(self) -> int:
        """Columns in which answers are laid out; each level starts a new row."""
        return min(TILE, self.cells[0] * self.cells[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answers."""
        return sum(self._rows), self.width

    @property
    def level_rows(self) -> list[slice]:
        """Rows of the answers that hold each level."""
        ends = np.cumsum(self._rows).tolist()
        return [slice(end - rows, end) for end, rows in zip(ends, self._rows, strict=True)]

    def blocks(self, level: int) -> tuple[int, int]:
        """Blocks of a level along each axis."""
        side = self.branching**level
        return -(-self.cells[0] // side), -(-self.cells[1] // side)

    def starts(self, level: int) -> tuple[Starts, Starts]:
        """First cells of the blocks of a level along each axis."""
        first, second = (np.arange(0, size, self.branching**level, dtype=np.int64) for size in self.cells)
        return first, second

    def changing(self, neighbours: Neighbours) -> int:
        """Answers of one level that differ between neighbours at most, each by one."""
        return 1 if neighbours is Neighbours.ADD_REMOVE else 2

    def answers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact sums of all blocks, level by level, int64, shape ``shape``; zeros fill up the last row of a level."""
        if counts.shape != self.cells or counts.dtype != np.int64:
            raise CalibrationError(f"counts must be int64 of shape {self.cells}; build the tree for this table")
        answers = np.zeros(self.shape, dtype=np.int64)
        sums = counts
        for level, rows in enumerate(self.level_rows):
            sums = self._parents(sums) if level else sums
            answers[rows].reshape(-1)[: sums.size] = sums.ravel()
        return answers

    def estimate(self, answers: Matrix, deviations: Vector) -> Matrix:
        """See :class:`.strategy.Strategy`: two passes over the tree."""
        passes, best = self._upward(deviations), [self._level(answers, 0)]
        for level in range(1, self.levels + 1):
            sums = self._parents(best[-1])
            if level < self.levels:
                variance, below, _ = passes[level]
                # Two independent unbiased values: weights by inverse variance.
                sums = sums + (below / (below + variance)) * (self._level(answers, level) - sums)
            best.append(sums)
        counts = best.pop()
        for level in range(self.levels - 1, -1, -1):
            missing = (counts - self._parents(best[level])) / passes[level + 1][1]
            counts = best[level] + passes[level][2] * self._children(missing, level)
        return counts

    def cell_deviations(self, deviations: Vector) -> Matrix:
        """See :class:`.strategy.Strategy`."""
        variance = np.full(self.cells, float(deviations[0]) ** 2)
        for level, weight, shares in self._terms(deviations):
            variance -= self._to_cells(weight, level) * shares**2
        deviation: Matrix = np.sqrt(variance)
        return deviation

    def widest(self, deviations: Vector) -> float:
        """An upper bound: the standard deviation of a cell's own noise."""
        return float(deviations[0])

    def workload_error(self, workload: Workload, deviations: Vector) -> float:
        """See :class:`.strategy.Strategy`."""
        ones, cells = np.ones(self.cells), self.starts(0)
        total = float(deviations[0]) ** 2 * sum(float(np.sum(quadratic(part, ones, *cells))) for part in workload)
        for level, weight, shares in self._terms(deviations):
            starts = self.starts(level)
            total -= sum(float(np.sum(weight * quadratic(part, shares, *starts))) for part in workload)
        return total

    def answer_deviations(self, part: Kronecker, deviations: Vector) -> Matrix | None:
        """See :class:`.strategy.Strategy`."""
        queries = part.shape[0] * part.shape[1]
        if queries * self.cells[1] * self.blocks(1)[0] > _MOST_WORK or max(part.shape) * max(self.cells) > _MOST_WORK:
            return None
        left, right = rows_of(part.rows), rows_of(part.columns)
        variance = float(deviations[0]) ** 2 * np.outer(np.sum(left**2, axis=1), np.sum(right**2, axis=1))
        for level, weight, shares in self._terms(deviations):
            rows, columns = self.starts(level)
            for query, coefficients in enumerate(left):
                # (w a_v)^2 for all blocks v and all queries along the columns at once.
                strips = np.add.reduceat(coefficients[:, None] * shares, rows, axis=0)
                for strip, weights in zip(strips, weight, strict=True):
                    if np.any(strip):
                        variance[query] -= np.add.reduceat(right * strip, columns, axis=1) ** 2 @ weights
        deviation: Matrix = np.sqrt(variance)
        return deviation

    def facts(self) -> dict[str, Any]:
        """Kind, branching and blocks of each level."""
        blocks = [list(self.blocks(level)) for level in range(self.levels)]
        return {"kind": "hierarchy, version 1", "branching": self.branching, "blocks_by_level": blocks}

    def arrays(self, answers: Matrix, deviations: Vector) -> Arrays:
        """Sums of all blocks in one list, and the rows and columns that each of them covers."""
        values, noise, places = [], [], []
        for level, rows in enumerate(self.level_rows):
            values.append(self._level(answers, level).ravel())
            noise.append(np.full(values[-1].size, deviations[rows.start]))
            edges = [
                np.column_stack([s, np.append(s[1:], n)]) for s, n in zip(self.starts(level), self.cells, strict=True)
            ]
            first, second = edges
            places.append(np.hstack([np.repeat(first, len(second), axis=0), np.tile(second, (len(first), 1))]))
        return {
            "strategy_answers": (np.concatenate(values), ("block",)),
            "strategy_standard_deviation": (np.concatenate(noise), ("block",)),
            "strategy_blocks": (np.concatenate(places), ("block", "row_start_end_column_start_end")),
        }

    @cached_property
    def _rows(self) -> list[int]:
        sizes = [self.blocks(level) for level in range(self.levels)]
        return [-(-first * second // self.width) for first, second in sizes]

    def _level(self, answers: Matrix, level: int) -> Matrix:
        blocks = self.blocks(level)
        return answers[self.level_rows[level]].reshape(-1)[: blocks[0] * blocks[1]].reshape(blocks)

    def _upward(self, deviations: Vector) -> list[tuple[float, Matrix, Matrix]]:
        """Variances by level up to the whole: of its noise, of the sum of the children, and of the best from below."""
        variance = float(deviations[0]) ** 2
        none: Matrix = np.zeros(self.cells)
        passes: list[tuple[float, Matrix, Matrix]] = [(variance, none, none + variance)]
        for level in range(1, self.levels + 1):
            below = self._parents(passes[-1][2])
            if level == self.levels:
                passes.append((np.inf, below, below))
                break
            variance = float(deviations[self.level_rows[level].start]) ** 2
            passes.append((variance, below, 1.0 / (1.0 / variance + 1.0 / below)))
        return passes

    def _terms(self, deviations: Vector) -> list[tuple[int, Matrix, Matrix]]:
        """Terms of the covariance: level, weight of each block, and the shares a_v of all cells in their blocks."""
        passes, shares, terms = self._upward(deviations), np.ones(self.cells), []
        for level in range(1, self.levels):
            variance, below, _ = passes[level]
            shares = shares * self._to_cells(passes[level - 1][2] / self._children(below, level - 1), level - 1)
            terms.append((level, below**2 / (variance + below), shares))
        return terms

    def _parents(self, values: Numbers) -> Numbers:
        starts = [np.arange(0, size, self.branching) for size in values.shape]
        sums: Numbers = np.add.reduceat(np.add.reduceat(values, starts[0], axis=0), starts[1], axis=1)
        return sums

    def _children(self, values: Matrix, level: int) -> Matrix:
        """Values of the blocks of the next level, repeated over their parts at this level."""
        m, n = self.blocks(level)
        return np.repeat(np.repeat(values, self.branching, axis=0)[:m], self.branching, axis=1)[:, :n]

    def _to_cells(self, values: Matrix, level: int) -> Matrix:
        side = self.branching**level
        return np.repeat(np.repeat(values, side, axis=0)[: self.cells[0]], side, axis=1)[:, : self.cells[1]]
