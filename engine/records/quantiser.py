"""Records as integers whose bound provably holds, whatever the chunk, the row order, the thread or the machine.

Every step is either elementwise IEEE arithmetic or integer arithmetic, so a record's integers depend on the record
alone. The bound that the sensitivity needs is enforced on the integers themselves:

* cube: ``|k_i| <= K`` for each coordinate, rounded to nearest or at a place that differs between contents
  (:mod:`.dither`, :mod:`.fine_dither`);
* cube along dense directions: ``|k - K A v|_i <= 1/2 + 2**-33`` for a v in the cube, A the integer map, and
  ``|k_i| <= K``; the map is applied to integers of 2**-20 half widths, so that its sums are exact in any order;
* cube within a ball: besides ``sum_i (share_i k_i)**2 <= K**2`` (:class:`.rounding.CappedGrid`);
* ball: ``sum_i k_i**2 <= K**2``, by nearest rounding inside a radius shrunk by half a step a coordinate
  (rounding moves a record by at most ``sqrt(d)/2`` steps), checked afterwards in int64.

Coordinates are ``k / K``. With ``augmented`` a leading constant coordinate ``K`` (the number one) is added, so that one
Gram matrix carries count, sums and second moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records import quantiser_limits
from blockveil.engine.records.dither import Dither
from blockveil.engine.records.fine_dither import FineDither
from blockveil.engine.records.geometry import RAY_LIMIT, Body, CappedBox, Coordinates, Mixing, Vector, half_cube
from blockveil.engine.records.one_pass import OnePass
from blockveil.engine.records.rounding import (
    FINE_BITS,
    CappedGrid,
    CubeGrid,
    copy_settled,
    pull_entries_inside_ball,
    pull_inside_ball,
    to_steps,
)
from blockveil.engine.records.rounding import NotFiniteError as NotFiniteError  # callers know it as a quantiser's

_INPUT_BITS = 16

ROUNDING_ALONG_DIRECTIONS = 0.5 + 2.0**-33
"""Largest distance of an integer from ``K A v`` where a cube is seen along directions."""

_NEARLY = 2.0**-24
"""Steps by which a bound that is whole may be off it."""

_CACHED_BYTES = 2**17
"""Size of the values that are worked on at once; the constants of their grid take three times as much cache."""


@dataclass(frozen=True, eq=False)
class Quantiser:
    """Turns raw records into bounded integers.

    Attributes
    ----------
    coordinates
        Public shape and map of a record.
    largest
        K, the integer that stands for coordinate one.
    augmented
        Whether a constant coordinate is put in front.
    stand_in
        Public constants that replace missing or infinite values, shape (d,), raw units; None refuses such records.
    narrow
        Whether records of single precision are worked on in single precision where that is precise enough for all
        features. False in a part of a quantiser that does not, so that integers do not depend on how answers are cut.
    dither
        Where records in a cube are rounded up; None rounds to nearest.
    """

    coordinates: Coordinates
    largest: int
    augmented: bool
    stand_in: Vector | None
    narrow: bool = True
    dither: Dither | FineDither | None = None

    def __post_init__(self) -> None:
        """Refuse what the proof of the bound does not cover."""
        quantiser_limits.check(self.coordinates, self.largest, self.stand_in, self.dither)

    @property
    def _bounded_whole(self) -> bool:
        """Whether an integer of a record depends on its other values, by a bound of its norm."""
        return self.coordinates.body is Body.BALL or isinstance(self.coordinates.body, CappedBox)

    @property
    def width(self) -> int:
        """Number of integer coordinates of a record: d, or d + 1 when augmented."""
        return self.coordinates.dimension + int(self.augmented)

    @property
    def exact_rows(self) -> int:
        """Rows whose Gram matrix is exact in float64: ``rows * K**2 <= 2**53``."""
        return int(2**53 // self.largest**2)

    def quantise(self, records: NDArray[np.generic]) -> NDArray[np.float64]:
        """Clip and quantise records.

        Parameters
        ----------
        records
            Shape (n, d), any real dtype and byte order. Not modified.

        Returns
        -------
        Shape (n, width), C order, float64 holding integers.

        Raises
        ------
        NotFiniteError
            A value is missing or infinite and there is no ``stand_in``.
        """
        integers = np.empty((records.shape[0], self.width), dtype=np.float64)
        self.quantise_by_steps(records, integers)
        return integers

    def quantise_by_steps(
        self, records: NDArray[np.generic], integers: NDArray[Any], starts: NDArray[np.intp] | None = None
    ) -> None:
        """Clip and quantise records into the first rows of an array, ``width`` columns; see :meth:`quantise`.

        Its type must hold integers of ``largest``. A part receives the starts of its records' dither.
        """
        if self._in_one_pass(records, integers[: len(records)], starts):
            return
        step = self.cached_rows(records.dtype)
        for first in range(0, len(records), step):
            rows = slice(first, min(first + step, len(records)))
            self.quantise_into(records[rows], integers[rows], None if starts is None else starts[rows])

    def parts(self, ranges: Sequence[tuple[int, int]]) -> list[Quantiser]:
        """Quantisers of ranges of integer coordinates alone; none where a coordinate depends on the others."""
        together = self._bounded_whole or self.coordinates.mixing is not None
        return [] if together else [self._part(low, high) for low, high in ranges]

    def _part(self, low: int, high: int) -> Quantiser:
        c, lead = self.coordinates, int(self.augmented)
        features = slice(max(low - lead, 0), high - lead)
        lower, upper, origin, scale = (vector[features] for vector in (c.lower, c.upper, c.origin, c.scale))
        stand_in = None if self.stand_in is None else self.stand_in[features]
        coordinates = Coordinates(c.body, lower, upper, origin, scale)
        lead_here, narrow = self.augmented and low == 0, self._narrow_grid is not None
        dither = None if self.dither is None else self.dither.part(features.start)
        return Quantiser(coordinates, self.largest, lead_here, stand_in, narrow, dither)

    def cached_rows(self, dtype: np.dtype[Any]) -> int:
        """Records of this type that stay in a core's cache while they are worked on."""
        return len(self._tall_grid_for(dtype).steps)

    def quantise_into(
        self, records: NDArray[np.generic], integers: NDArray[Any], starts: NDArray[np.intp] | None = None
    ) -> None:
        """Clip and quantise a few records into an array, shape (n, width); see :meth:`quantise_by_steps`."""
        if self._in_one_pass(records, integers, starts):
            return
        grid = self._tall_grid_for(records.dtype).first(len(records))
        # A leading constant would put every row of the rest out of step with the processor's vectors.
        own = self.augmented or grid.precision != integers.dtype
        values = np.empty((len(records), self.coordinates.dimension), grid.precision) if own else integers
        copy_settled(records, values, self.stand_in)
        with np.errstate(over="ignore"):  # a huge value may overflow to infinity here and is clipped next
            if self.coordinates.body is Body.BALL:
                self._inside_ball(values)
            elif self.coordinates.mixing is not None:
                self._inside_mixed_cube(values, self.coordinates.mixing)
            elif self._capped is not None:
                self._capped.round_inside(values)
            elif self.dither is not None:
                grid.place(values)
                grid.bound(values)
                self.dither.move(values, self.dither.starts(values) if starts is None else starts)
                # The bound of the proof: steps of at most K, moved by less than a half, are rounded to at most K.
                np.rint(values, out=values)
            else:
                grid.round_inside(values)
        if self.augmented:
            integers[:, 0] = self.largest
            integers[:, 1:] = values
        elif own:
            integers[...] = values

    def starts(self, records: NDArray[np.generic]) -> NDArray[np.intp] | None:
        """Starts of the dither of whole records, shape (n,), for parts of them; None where there is no dither.

        Raises
        ------
        NotFiniteError
            See :meth:`quantise`.
        """
        if self.dither is None:
            return None
        if (compiled := self._one_pass(records.dtype)) is not None:
            return compiled.starts(records)
        step, starts = self.cached_rows(records.dtype), np.empty(len(records), np.intp)
        for first in range(0, len(records), step):
            few = records[first : first + step]
            grid = self._tall_grid_for(records.dtype).first(len(few))
            values = np.empty(few.shape, grid.precision)
            copy_settled(few, values, self.stand_in)
            with np.errstate(over="ignore"):
                grid.place(values)
                grid.bound(values)
            starts[first : first + len(few)] = self.dither.starts(values)
        return starts

    def _one_pass(self, dtype: np.dtype[Any]) -> OnePass | None:
        """What this process has compiled for records of this type in a cube along its own axes; None for others."""
        if self._bounded_whole or self.coordinates.mixing is not None or dtype.kind not in "fiub":
            return None
        return OnePass.of(self._grid_for(dtype), self.stand_in, self.dither)

    def _in_one_pass(self, records: NDArray[Any], integers: NDArray[Any], starts: NDArray[np.intp] | None) -> bool:
        """Do the work of :meth:`quantise_into` by what is compiled; whether that was done."""
        if (compiled := self._one_pass(records.dtype)) is None or not compiled.takes(integers):
            return False
        compiled.integers(records, integers, int(self.augmented), starts)
        integers[:, : int(self.augmented)] = self.largest
        return True

    @property
    def ends(self) -> tuple[Vector, Vector] | None:
        """Least and largest integer of each coordinate of a box, shape (d,) each; None in other shapes and if mixed."""
        if self.coordinates.body is Body.BALL or self.coordinates.mixing is not None:
            return None
        # With a dither a bound need not be whole, and a value on one may be rounded to either side of it. Whatever the
        # place is, lowest <= x <= highest and |w| < 1/2 give floor(lowest) <= rint(x + w) <= ceil(highest).
        return np.floor(self._grid.lowest), np.ceil(self._grid.highest)

    @property
    def by_entries(self) -> bool:
        """Whether a value that is zero becomes the same integer in every record, whatever the other values are."""
        c = self.coordinates
        if self.dither is not None:
            zeros = self._zeros(self._grid)
            # In single precision they are off by 2**-14 more at most: no place, below 1/2 - 2**-13, moves them further.
            # Fine places lie below 1/2 - 2**-21, and all is in double precision.
            nearly = 2.0**-15 if isinstance(self.dither, Dither) else 2.0**-23
            return bool(np.all(np.abs(zeros - np.rint(zeros)) <= nearly))
        return c.mixing is None and not (self._bounded_whole and np.any(c.origin))

    def _zeros(self, grid: CubeGrid) -> NDArray[Any]:
        """A record of zeros in steps, shape (d,), clipped."""
        zeros = np.zeros(self.coordinates.dimension, grid.precision)
        grid.place(zeros)
        grid.bound(zeros)
        return zeros

    def at_zero(self, dtype: np.dtype[Any]) -> NDArray[np.int64]:
        """Integers of a record of zeros, shape (width,); other records differ from it only where they are not zero.

        Parameters
        ----------
        dtype
            Type of the records.

        Raises
        ------
        ValueError
            That is not so for this shape; see :attr:`by_entries`.
        """
        if not self.by_entries:
            raise ValueError("in this shape the integer of a zero depends on the rest of its record")
        zeros = np.zeros((1, self.coordinates.dimension), dtype)
        return np.asarray(self.quantise(zeros)[0].astype(np.int64))

    def quantise_entries(
        self, values: NDArray[np.generic], columns: NDArray[np.int64], borders: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """What single values of sparse records add to :attr:`at_zero`.

        Parameters
        ----------
        values, columns
            Values, record by record, and their columns, shape (entries,). All other values are zero.
        borders
            First entry of each record and the end of the last, shape (records + 1,).

        Returns
        -------
        Shape (entries,), int64: with :attr:`at_zero` exactly the integers of :meth:`quantise`.

        Raises
        ------
        NotFiniteError
            As for :meth:`quantise`.
        """
        c, grid = self.coordinates, self._grid_for(values.dtype)
        steps = values.astype(grid.precision)
        missing = ~np.isfinite(steps)
        if missing.any():
            if self.stand_in is None:
                raise NotFiniteError
            steps[missing] = self.stand_in[columns[missing]]
        # The same steps as for whole records: each is elementwise, and norms are exact.
        with np.errstate(over="ignore"):
            if c.body is Body.BALL:
                steps -= c.origin[columns]
                steps /= c.scale[columns]
                to_steps(steps)
                pull_entries_inside_ball(steps, borders, c.dimension, self.largest)
            elif self._capped is not None:
                self._capped.round_entries_inside(steps, columns, borders)
            elif self.dither is not None:
                own = grid.of(columns)
                own.place(steps)
                own.bound(steps)
                starts = self.dither.starts_of_entries(steps, self._zeros(grid), columns, borders)
                steps += self.dither.places(np.repeat(starts, np.diff(borders)), columns)
                np.rint(steps, out=steps)
            else:
                grid.of(columns).round_inside(steps)
        return np.asarray(steps.astype(np.int64) - self.at_zero(values.dtype)[columns + int(self.augmented)])

    def _inside_mixed_cube(self, values: NDArray[np.float64], mixing: Mixing) -> None:
        c = self.coordinates
        np.clip(values, c.lower, c.upper, out=values)
        values -= c.origin
        values /= c.scale
        self._along_directions(values, mixing)

    def _grid_for(self, dtype: np.dtype[Any]) -> CubeGrid:
        """Constants in the precision that records of this type are worked on."""
        narrow = self._narrow_grid if np.can_cast(dtype, np.float32) else None
        return narrow or self._grid

    def _tall_grid_for(self, dtype: np.dtype[Any]) -> CubeGrid:
        """The same for as many records at once as the cache holds."""
        return self._tall_grids[self._grid_for(dtype) is self._narrow_grid]

    @cached_property
    def _tall_grids(self) -> tuple[CubeGrid, CubeGrid]:
        return self._grid.tall(_CACHED_BYTES), (self._narrow_grid or self._grid).tall(_CACHED_BYTES)

    def _along_directions(self, values: NDArray[np.float64], mixing: Mixing) -> None:
        """Integers of ``A v`` from scaled values: v is what is left of them after rounding to 2**-20."""
        least = 0.0 if half_cube(self.coordinates) else -1.0
        inputs = np.clip(np.rint(np.ldexp(values, FINE_BITS)), least * 2.0**FINE_BITS, 2.0**FINE_BITS)
        # |inputs| <= 2**20 and row sums of the integers <= 2**bits <= 2**33: exact, and at most one after scaling.
        mixed = np.ldexp(inputs @ mixing.integers.T, -FINE_BITS - mixing.bits)
        # A float rounding of at most K 2**-53 <= 2**-33, then one to an integer of at most 1/2; none leaves [-K, K].
        np.rint(mixed * float(self.largest), out=values)
        np.clip(values, -self.largest, self.largest, out=values)

    @cached_property
    def _grid(self) -> CubeGrid:
        """Constants of a cube in double precision."""
        c, largest = self.coordinates, float(self.largest)
        box = c.body.box if isinstance(c.body, CappedBox) else c.body
        least = 0.0 if box is Body.HALF_CUBE else -largest
        with np.errstate(over="ignore", invalid="ignore"):  # a ball has no bounds
            steps: Vector = largest / c.scale
            bounds = [(x - c.origin) * steps for x in (c.lower, c.upper)]
            # Whole where values are cut after rounding; where before, only if they are so but for double precision.
            whole = [np.rint(bound) for bound in bounds]
            if self.dither is not None:
                whole = [np.where(np.abs(k - x) <= _NEARLY, k, x) for k, x in zip(whole, bounds, strict=True)]
            lowest, highest = (np.clip(bound, least, largest) for bound in whole)
        return CubeGrid(c.origin, steps, lowest, highest)

    @cached_property
    def _capped(self) -> CappedGrid | None:
        """The same with a bound of the norm, where there is one."""
        body = self.coordinates.body
        return CappedGrid(self._grid, body.shares, self.largest) if isinstance(body, CappedBox) else None

    @cached_property
    def _narrow_grid(self) -> CubeGrid | None:
        """The same in single precision, where it is precise enough."""
        c = self.coordinates
        if not self.narrow or self._bounded_whole or c.mixing is not None or self.largest >= 2**15:
            return None
        if isinstance(self.dither, FineDither):
            return None  # steps of 2**15 times what single precision rounds would shift all records alike
        narrow = self._grid.narrow()
        return narrow if quantiser_limits.is_precise(c, self._grid, narrow, dithered=self.dither is not None) else None

    def _inside_ball(self, values: NDArray[np.float64]) -> None:
        """Integers with ``sum k**2 <= K**2``, by way of fine coordinates in steps of 2**-20 radii."""
        self._to_fine(values)
        pull_inside_ball(values, self.largest)

    def _to_fine(self, values: NDArray[np.float64]) -> None:
        """Fine coordinates, integers of at most 2**24."""
        c = self.coordinates
        bits = FINE_BITS if c.mixing is None else _INPUT_BITS
        values -= c.origin
        values /= c.scale
        to_steps(values, bits)
        if c.mixing is not None:
            # |inputs| <= 2**20 and row sums of the integers <= 2**33: exact in float64 BLAS, in any order of summation.
            mixed = values @ c.mixing.integers.T
            np.rint(np.ldexp(mixed, FINE_BITS - _INPUT_BITS - c.mixing.bits), out=values)
            np.clip(values, -RAY_LIMIT * 2.0**FINE_BITS, RAY_LIMIT * 2.0**FINE_BITS, out=values)
