"""Noise of every entry of a matrix from a number for each row and column: its steps and its standard deviations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.geometry import Vector

ROUND_UP = 1.0 + 1e-12
"""Covers the float errors of a few products and roots."""

_MOST_COMPARED = 2**22
"""Most products of different sizes that are looked at one by one."""


@dataclass(frozen=True, eq=False)
class EntryNoise:
    """Noise of every entry of a matrix, from one number for each row and column.

    Attributes
    ----------
    rows, columns
        Size of the noise by row and by column: their product is the ideal step of an entry.
    off_diagonal
        Factor of steps off the diagonal.
    of_a_step
        Standard deviation that one step stands for, in units of the answer.
    own
        Ideal step of each entry of the diagonal, where it is not the product of the sizes.
    grown
        By how much each entry of the diagonal deviates more than its step says, for what it has in common with others.
    """

    rows: Vector
    columns: Vector
    off_diagonal: float
    of_a_step: float
    own: Vector | None = None
    grown: Vector | None = None

    def steps(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.int64]:
        """Grid steps of a block, half-open ranges; shape (rows, columns), int64, at least one."""
        steps: NDArray[np.int64] = self._whole_steps(rows, columns).astype(np.int64)
        return steps

    def standard_deviations(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.float64]:
        """Standard deviation of the noise of a block, in units of the answer."""
        deviations = self._whole_steps(rows, columns)
        deviations *= self.of_a_step
        if self.grown is not None:
            places = diagonal_places(rows, columns)
            deviations[places] *= self.grown[places[0] + rows[0]]
        return deviations

    def step_excess(self) -> float:
        """Largest whole step over its ideal one; a bound where there are too many sizes to compare them all."""
        rows, how_often = np.unique(self.rows, return_counts=True)
        columns = np.unique(self.columns)
        if rows.size * columns.size > _MOST_COMPARED:
            least = float(rows[0] * columns[0]) * min(self.off_diagonal, 1.0)
            least = least if self.own is None else min(least, float(np.min(self.own)))
            return 1.0 + 1.0 / least  # ceil(x) < x + 1
        ideal = np.multiply.outer(rows, columns) * self.off_diagonal
        if self.off_diagonal == 1.0:
            return float(np.max(_excess(ideal)))
        diagonal = self.rows * self.columns if self.own is None else self.own
        # No entry off the diagonal is of one row alone.
        ideal[np.diag_indices_from(ideal)] = np.where(how_often > 1, np.diagonal(ideal), np.max(diagonal))
        excesses = [np.max(_excess(diagonal)), *([np.max(_excess(ideal))] if self.rows.size > 1 else [])]
        return float(max(excesses))

    def _whole_steps(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.float64]:
        """Steps as floats, which hold them exactly: they are at most 2**60, and a float beyond 2**53 is whole."""
        ideal = np.multiply.outer(self.rows[slice(*rows)], self.columns[slice(*columns)])
        # Rounding up, after covering the float error of the products, only adds noise: each step >= its ideal value.
        ideal *= ROUND_UP
        if self.off_diagonal != 1.0:
            places = diagonal_places(rows, columns)
            diagonal = ideal[places] if self.own is None else self.own[places[0] + rows[0]] * ROUND_UP
            ideal *= self.off_diagonal
            ideal[places] = diagonal
        steps: NDArray[np.float64] = np.ceil(ideal, out=ideal)
        return steps


def _excess(ideal: NDArray[np.float64]) -> NDArray[np.float64]:
    ratio: NDArray[np.float64] = np.ceil(ideal * ROUND_UP) / ideal
    return ratio


def diagonal_places(rows: tuple[int, int], columns: tuple[int, int]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where a block holds entries of the diagonal."""
    low, high = max(rows[0], columns[0]), min(rows[1], columns[1])
    diagonal = np.arange(low, max(low, high))
    return diagonal - rows[0], diagonal - columns[0]
