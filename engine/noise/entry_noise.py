"""Noise of every entry of a matrix from a number for each row and column: its steps and its standard deviations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.geometry import Vector

ROUND_UP = 1.0 + 1e-12
"""Covers the float errors of a few products and roots."""


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
        found = self._whole_steps(rows, columns)
        found *= self.of_a_step
        if self.grown is not None:
            places = diagonal_places(rows, columns)
            found[places] *= self.grown[places[0] + rows[0]]
        return found

    def _whole_steps(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.float64]:
        """Steps as floats, which hold them exactly: they are at most 2**60, and a float beyond 2**53 is whole."""
        ideal = np.multiply.outer(self.rows[slice(*rows)], self.columns[slice(*columns)])
        # Rounding up, after covering the float error of the products, only adds noise: each step >= its ideal value.
        ideal *= ROUND_UP
        if self.off_diagonal != 1.0:
            places = diagonal_places(rows, columns)
            kept = ideal[places] if self.own is None else self.own[places[0] + rows[0]] * ROUND_UP
            ideal *= self.off_diagonal
            ideal[places] = kept
        found: NDArray[np.float64] = np.ceil(ideal, out=ideal)
        return found


def diagonal_places(rows: tuple[int, int], columns: tuple[int, int]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where a block holds entries of the diagonal."""
    low, high = max(rows[0], columns[0]), min(rows[1], columns[1])
    diagonal = np.arange(low, max(low, high))
    return diagonal - rows[0], diagonal - columns[0]
