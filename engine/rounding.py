"""From raw values to the integers of a cube, and from fine integers to those of a ball; elementwise, in place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.geometry import RAY_LIMIT

FINE_BITS = 20
"""A radius is 2**20 fine steps."""


@dataclass(frozen=True, eq=False)
class CubeGrid:
    """Constants that turn raw values into the integers of a cube.

    Attributes
    ----------
    origin, steps
        ``k = (x - origin) steps``, shape (d,) each; steps are integers for one raw unit.
    lowest, highest
        Integers of the bounds, shape (d,) each.
    """

    origin: NDArray[Any]
    steps: NDArray[Any]
    lowest: NDArray[Any]
    highest: NDArray[Any]

    @property
    def precision(self) -> np.dtype[Any]:
        """Type of the constants, and of the values that they work on."""
        return self.steps.dtype

    @cached_property
    def _centred(self) -> bool:
        return not self.origin.any()

    def narrow(self) -> CubeGrid:
        """The same constants in single precision."""
        parts = (self.origin, self.steps, self.lowest, self.highest)
        with np.errstate(over="ignore"):
            return CubeGrid(*(part.astype(np.float32) for part in parts))

    def of(self, columns: NDArray[np.int64]) -> CubeGrid:
        """Constants for single values of these columns."""
        return CubeGrid(*(part[columns] for part in (self.origin, self.steps, self.lowest, self.highest)))

    def round_inside(self, values: NDArray[Any]) -> None:
        """Turn raw values, shape (n, d), into integers, in place."""
        if not self._centred:
            values -= self.origin
        values *= self.steps
        np.rint(values, out=values)
        # The bound of the proof, on the integers themselves: |k_i| <= K, and 0 <= k_i in a half cube.
        np.minimum(values, self.highest, out=values)
        np.maximum(values, self.lowest, out=values)


def pull_inside_ball(fine: NDArray[np.float64], largest: int) -> None:
    """Turn fine coordinates, integers of at most 2**24, into integers with ``sum k**2 <= largest**2`` by row, in place.

    One radius is 2**20 fine steps; rows have fewer than 2**15 of them.
    """
    fine *= _shrinking(squared_norms(fine), fine.shape[1], largest)[:, None]
    np.rint(fine, out=fine)
    _check_inside(squared_norms(fine), largest)


def pull_entries_inside_ball(
    fine: NDArray[np.float64], borders: NDArray[np.int64], dimension: int, largest: int
) -> None:
    """:func:`pull_inside_ball` for the entries of sparse records alone; zeros stay zeros and add nothing to a norm."""

    def norms() -> NDArray[np.float64]:
        # Sums of all records may leave int64 and wrap around; their differences, below 2**63, are right all the same.
        sums = np.concatenate([[0], np.cumsum(fine.astype(np.int64) ** 2)])
        found: NDArray[np.float64] = (sums[borders[1:]] - sums[borders[:-1]]).astype(np.float64)
        return found

    fine *= np.repeat(_shrinking(norms(), dimension, largest), np.diff(borders))
    np.rint(fine, out=fine)
    _check_inside(norms(), largest)


def _shrinking(squares: NDArray[np.float64], dimension: int, largest: int) -> NDArray[np.float64]:
    """Factor of each record of these squared norms, in fine steps, that leads into the ball of integers."""
    radius = largest - (np.sqrt(dimension) / 2.0) * (1.0 + 1e-9) - 1e-3
    steps = np.ldexp(float(largest), -FINE_BITS)
    # Before rounding |k|_2 <= radius (1 + 4 ulp); rounding adds at most sqrt(d)/2, so |k|_2 <= largest.
    factors: NDArray[np.float64] = np.minimum(steps, radius / np.maximum(np.sqrt(squares), 1.0))
    return factors


def _check_inside(squares: NDArray[np.float64], largest: int) -> None:
    # All, not any: what is no number is not inside either.
    if not np.all(squares <= largest * largest):
        raise ArithmeticError("a quantised record left its ball; the machine's rounding is not IEEE 754")


def to_steps(scaled: NDArray[np.float64], bits: int = FINE_BITS) -> None:
    """Whole steps of 2**-bits from scaled values, cut to 16 radii; in place."""
    np.clip(scaled, -RAY_LIMIT, RAY_LIMIT, out=scaled)
    scaled *= 2.0**bits
    np.rint(scaled, out=scaled)


def squared_norms(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of squares of each row of integers of at most 2**24; the same on every machine."""
    norms: NDArray[np.float64] = np.einsum("ij,ij->i", values, values)
    # Rounding is monotone, so a float sum below 2**53 had every partial sum below it: exact in any order of summation.
    far = norms >= 2.0**53
    if far.any():
        integers = values[far].astype(np.int64)
        # At most 2**15 squares of at most 2**48.
        norms[far] = np.einsum("ij,ij->i", integers, integers)
    return norms
