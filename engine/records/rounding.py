"""From raw values to the integers of a cube, of a cube within a ball, or of a ball; in place.

All is elementwise but for norms, and these are summed in integers, so that all depends on the record alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.geometry import RAY_LIMIT

FINE_BITS = 20
"""A radius is 2**20 fine steps."""


class NotFiniteError(ValueError):
    """A record holds a missing or infinite value and no constant was declared to stand in for it."""

    def __init__(self) -> None:
        super().__init__("the records hold a missing or infinite value")


def copy_settled(records: NDArray[Any], values: NDArray[Any], stand_in: NDArray[np.float64] | None) -> None:
    """Copy records to an array of floats of their shape, and settle what is missing; see :func:`settle_missing`."""
    values[...] = records
    if records.dtype.kind == "f":
        settle_missing(values, stand_in)


def settle_missing(values: NDArray[Any], stand_in: NDArray[np.float64] | None) -> None:
    """Replace missing and infinite values of records, shape (n, d), by public constants, shape (d,), in place.

    Raises
    ------
    NotFiniteError
        There are some, and no constants.
    """
    # A sum of squares is finite only if every value is; where finite ones overflow it, each is looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        flat = values.reshape(-1)
        if np.isfinite(np.dot(flat, flat)) or np.isfinite(values).all():
            return
    if stand_in is None:
        raise NotFiniteError
    np.copyto(values, stand_in, where=~np.isfinite(values), casting="same_kind")


@dataclass(frozen=True, eq=False)
class CubeGrid:
    """Constants that turn raw values into the integers of a cube.

    Attributes
    ----------
    origin, steps
        ``k = (x - origin) steps``, shape (d,) each; steps are integers for one raw unit.
    lowest, highest
        The bounds in steps, shape (d,) each; whole where values are cut after they were rounded.

    Of single values, or of several records at once, the shape is theirs.
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

    def tall(self, size: int) -> CubeGrid:
        """Constants for each of as many records as fit in a given number of bytes, at least for one."""
        shape = max(1, size // max(1, self.steps.nbytes)), self.steps.size
        parts = (self.origin, self.steps, self.lowest, self.highest)
        return CubeGrid(*(np.tile(part, (shape[0], 1)) for part in parts))

    def first(self, records: int) -> CubeGrid:
        """The constants for the first of several records."""
        if records == len(self.steps):
            return self
        parts = (self.origin, self.steps, self.lowest, self.highest)
        return CubeGrid(*(part[:records] for part in parts))

    def round_inside(self, values: NDArray[Any]) -> None:
        """Turn raw values, shape (n, d), into integers, in place."""
        self.place(values)
        np.rint(values, out=values)
        self.bound(values)

    def place(self, values: NDArray[Any]) -> None:
        """Steps from the origin, not yet whole, in place."""
        if not self._centred:
            values -= self.origin
        values *= self.steps

    def bound(self, values: NDArray[Any]) -> None:
        """Cut to the bounds, in place."""
        # The bound of the proof, where these are the integers themselves: |k_i| <= K, and 0 <= k_i in a half cube.
        np.minimum(values, self.highest, out=values)
        np.maximum(values, self.lowest, out=values)


@dataclass(frozen=True, eq=False)
class CappedGrid:
    """Constants of a cube whose records are bounded as a whole too: integers have ``sum (share_i k_i)^2 <= K^2``.

    A record is cut to its box, then shrunk towards the origin, which lies in the box, then rounded. With t the steps
    in the box, ``f_i = rint(share_i t_i 2^20 / K)`` and the factor c below, ``c |f| <= R`` and ``c <= 1``, so that

        |share k| / K <= c |share t| / K + |share| / (2 K) <= 2^-20 (R + sqrt(d) / 2) + |share| / (2 K) < 1.

    Attributes
    ----------
    cube
        Constants of the cube, in double precision.
    shares
        Half width of each feature over the largest norm, in (0, 1], shape (d,).
    largest
        K.
    """

    cube: CubeGrid
    shares: NDArray[np.float64]
    largest: int

    def round_inside(self, values: NDArray[np.float64]) -> None:
        """Turn raw values, shape (n, d), into integers, in place."""
        self.cube.place(values)
        self.cube.bound(values)
        values *= self._shrinking(squared_norms(self._lengths(values, self.shares)))[:, None]
        np.rint(values, out=values)
        self.cube.bound(values)  # towards zero, so that no norm grows
        own = values * self.shares
        self._check(np.einsum("ij,ij->i", own, own))

    def round_entries_inside(
        self, values: NDArray[np.float64], columns: NDArray[np.int64], borders: NDArray[np.int64]
    ) -> None:
        """:meth:`round_inside` for the entries of sparse records alone; the origin must be zero in each feature."""
        cube, shares = self.cube.of(columns), self.shares[columns]
        cube.place(values)
        cube.bound(values)
        factors = self._shrinking(entry_norms(self._lengths(values, shares), borders))
        values *= np.repeat(factors, np.diff(borders))
        np.rint(values, out=values)
        cube.bound(values)
        of_record = np.repeat(np.arange(borders.size - 1), np.diff(borders))
        self._check(np.bincount(of_record, weights=(values * shares) ** 2, minlength=borders.size - 1).astype(float))

    def _lengths(self, values: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each value adds to its record's norm, in whole steps of 2**-20 norms: sums of squares are exact."""
        return np.asarray(np.rint(values * (shares * (2.0**FINE_BITS / self.largest))), dtype=np.float64)

    def _shrinking(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Factor of each record of these squared norms, in fine steps."""
        rounding = (
            np.sqrt(self.shares.size) / 2.0 + np.sqrt(np.sum(self.shares**2)) * 2.0 ** (FINE_BITS - 1) / self.largest
        )
        # R: one fine step is to spare, far more than what the few float operations of each value can add.
        radius = 2.0**FINE_BITS - rounding * (1.0 + 1e-9) - 1.0
        factors: NDArray[np.float64] = np.minimum(1.0, radius / np.maximum(np.sqrt(squares), 1.0))
        return factors

    def _check(self, squares: NDArray[np.float64]) -> None:
        # All, not any: what is no number is not inside either. What these sums round is below the step to spare.
        if not np.all(squares <= float(self.largest) ** 2):
            raise ArithmeticError("a quantised record exceeded its norm; the machine's rounding is not IEEE 754")


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
    fine *= np.repeat(_shrinking(entry_norms(fine, borders), dimension, largest), np.diff(borders))
    np.rint(fine, out=fine)
    _check_inside(entry_norms(fine, borders), largest)


def entry_norms(fine: NDArray[np.float64], borders: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sum of squares of each record's entries, integers of at most 2**24; exact as in :func:`squared_norms`."""
    # Sums of all records may leave int64 and wrap around; their differences, below 2**63, are right all the same.
    sums = np.concatenate([[0], np.cumsum(fine.astype(np.int64) ** 2)])
    norms: NDArray[np.float64] = (sums[borders[1:]] - sums[borders[:-1]]).astype(np.float64)
    return norms


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
    norms: NDArray[np.float64] = np.vecdot(values, values)
    # Rounding is monotone, so a float sum below 2**53 had every partial sum below it: exact in any order of summation.
    far = norms >= 2.0**53
    if far.any():
        integers = values[far].astype(np.int64)
        # At most 2**15 squares of at most 2**48.
        norms[far] = np.einsum("ij,ij->i", integers, integers)
    return norms
