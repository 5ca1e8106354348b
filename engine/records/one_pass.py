"""One pass from floats to the integers of a cube, compiled: what NumPy does in several passes, with the same result.

The kernels (:mod:`.record_kernels`) are plain Python on arrays, far too slow to run as they are. Whoever has a compiler
calls :func:`compiled_by` with it, and :func:`use` with what that returns; until then NumPy does the work of
:class:`.quantiser.Quantiser`. Records whose norm is bounded, or that are seen along directions, stay with NumPy.

A compiler may neither contract nor reorder a step. :func:`compiled_by` does not take that on trust: it compares both
ways on values at which another rounding, cut or comparison shows, and hands out nothing that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records import record_kernels
from blockveil.engine.records.dither import PLACES, Dither
from blockveil.engine.records.fine_dither import STARTS, FineDither
from blockveil.engine.records.rounding import CubeGrid, NotFiniteError, settle_missing

Kernel = Callable[..., bool]

_PRECISIONS = (np.dtype(np.float32), np.dtype(np.float64))
_KINDS = (*_PRECISIONS, np.dtype(np.int8))
"""Types of the integers; a byte holds those of at most 127, and callers that ask for bytes have no larger ones."""

_COPIED_BYTES = 2**17
"""Size of the values whose type or layout is changed at once."""


class IntegerMismatch(ArithmeticError):
    """What a compiler made gives other integers than NumPy does, so that it may not be used."""


@dataclass(frozen=True)
class Kernels:
    """Compiled functions, which release the interpreter's lock and were compared with NumPy.

    Attributes
    ----------
    moved
        Integers rounded at places of their own, or the starts of records alone.
    finely_moved
        The same at fine places.
    nearest
        Integers rounded to nearest.
    """

    moved: Kernel
    finely_moved: Kernel
    nearest: Kernel


_in_use: list[Kernels] = []


def use(kernels: Kernels | None) -> None:
    """Let every quantiser of this process work with these kernels; None leaves the work to NumPy."""
    _in_use[:] = [] if kernels is None else [kernels]


def compiled_by(compiler: Callable[[Callable[..., bool]], Kernel]) -> Kernels:
    """Kernels for every type of records and of integers, compared with NumPy.

    Parameters
    ----------
    compiler
        Compiles a function of arrays, scalars and numbers for the types of each call.

    Raises
    ------
    IntegerMismatch
        The comparison failed.
    """
    kernels = Kernels(
        compiler(record_kernels.moved), compiler(record_kernels.finely_moved), compiler(record_kernels.nearest)
    )
    for precision in _PRECISIONS:
        for kind in _KINDS:
            for imputed in (False, True):
                _compare(kernels, precision, kind, imputed)
    return kernels


@dataclass(frozen=True, eq=False)
class OnePass:
    """Compiled quantisation of records in a cube.

    Attributes
    ----------
    kernels
        What does the work.
    grid
        Constants for one record.
    stand_in
        What replaces missing or infinite values, shape (d,); None refuses such records.
    dither
        Where records are rounded up; None rounds to nearest.
    """

    kernels: Kernels
    grid: CubeGrid
    stand_in: NDArray[np.float64] | None
    dither: Dither | FineDither | None

    @classmethod
    def of(
        cls, grid: CubeGrid, stand_in: NDArray[np.float64] | None, dither: Dither | FineDither | None
    ) -> OnePass | None:
        """Such a pass; None where this process has no kernels, or where there is no feature."""
        return cls(_in_use[0], grid, stand_in, dither) if _in_use and grid.steps.size else None

    def takes(self, integers: NDArray[Any]) -> bool:
        """Whether integers can be written to this array as it lies in memory."""
        return integers.dtype in _KINDS and integers.dtype.isnative and integers.flags.carray

    def integers(
        self, records: NDArray[Any], integers: NDArray[Any], lead: int, starts: NDArray[np.intp] | None
    ) -> None:
        """Quantise records, shape (n, d), into an array of shape (n, lead + d), but for its leading columns.

        Parameters
        ----------
        records
            Raw values, any real dtype and layout.
        integers
            Receives them; see :meth:`takes`.
        lead
            Columns in front that are left as they are.
        starts
            Of the records' dither, shape (n,), where it is known already.

        Raises
        ------
        NotFiniteError
            A value is missing or infinite and there is no ``stand_in``.
        ValueError
            A shape is wrong, or a start is none.
        """
        count, width = records.shape[0], self.grid.steps.size
        # Kernels check no index.
        if records.shape[1:] != (width,) or integers.shape != (count, lead + width):
            raise ValueError("records and integers differ in shape from the quantiser's")
        if self.dither is None:
            for rows, values in self._pieces(records):
                self._done(self.kernels.nearest(values, *self._constants(), lead, integers[rows]))
            return
        below = PLACES if isinstance(self.dither, Dither) else STARTS
        if starts is not None and (starts.shape != (count,) or np.any((starts < 0) | (starts >= below))):
            raise ValueError("a record has no start of its dither")
        own_starts = np.empty(count, np.intp) if starts is None else np.array(starts, np.intp)
        self._move(records, own_starts, starts is None, lead, integers)

    def starts(self, records: NDArray[Any]) -> NDArray[np.intp]:
        """Starts of the dither of records, shape (n, d); see :meth:`integers` for errors."""
        if records.shape[1:] != self.grid.steps.shape:
            raise ValueError("records differ in shape from the quantiser's")
        starts = np.empty(len(records), np.intp)
        self._move(records, starts, True, 0, np.empty((len(records), 0), self.grid.precision))
        return starts

    def _move(
        self, records: NDArray[Any], starts: NDArray[np.intp], hashed: bool, lead: int, integers: NDArray[Any]
    ) -> None:
        assert self.dither is not None  # noqa: S101 - callers ask
        # Starts are hashes of all features, so a part of them, which has a place in the whole, receives its starts.
        if hashed and self.dither.features != self.grid.steps.size:
            raise ValueError("a part of a record does not tell where it is rounded; give the starts of whole records")
        factors, row = _read_only(self.dither.multipliers), np.empty(self.grid.steps.size, self.grid.precision)
        tables: tuple[Any, ...]
        if isinstance(self.dither, Dither):
            kernel, tables = self.kernels.moved, (factors, _read_only(self.dither.all_places))
        else:
            kernel = self.kernels.finely_moved
            tables = factors, _read_only(self.dither.turns), self.dither.beside
        for rows, values in self._pieces(records):
            self._done(kernel(values, *self._constants(), *tables, starts[rows], hashed, row, lead, integers[rows]))

    def _constants(self) -> tuple[NDArray[Any], ...]:
        g = self.grid
        with np.errstate(over="ignore"):  # as where a stand-in is copied into records
            values = np.empty(0) if self.stand_in is None else self.stand_in
            stand_in = np.ascontiguousarray(values, g.precision)
        return tuple(_read_only(part) for part in (g.origin, g.steps, g.lowest, g.highest, stand_in))

    def _pieces(self, records: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Records in the precision of the grid, as kernels read them: all, or some where they must be copied."""
        # Fine places are for single precision too, each value of which is one of double precision.
        types = (self.grid.precision, np.dtype(np.float32)) if self._fine else (self.grid.precision,)
        ready = records.dtype in types and records.flags.c_contiguous and records.flags.aligned
        step = max(1, len(records) if ready else _COPIED_BYTES // self.grid.steps.nbytes)
        for first in range(0, len(records), step):
            rows = slice(first, first + step)
            few = records[rows]
            with np.errstate(over="ignore"):
                yield rows, _read_only(few if ready else np.array(few, self.grid.precision, order="C"))

    @property
    def _fine(self) -> bool:
        return isinstance(self.dither, FineDither)

    def _done(self, finite: bool) -> None:
        if not finite and self.stand_in is None:
            raise NotFiniteError


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    """The same array, which a compiler takes for one type whether its owner may write to it or not."""
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view


def _compare(kernels: Kernels, precision: np.dtype[Any], kind: np.dtype[Any], imputed: bool) -> None:
    """Compare kernels with NumPy on records that hold ties, cuts, zeros of both signs, and the ends of the format."""
    width = 37  # no processor's vectors fill it
    near = np.linspace(0.25, 3.0, width)
    stand_in = near if imputed else None
    fine = [FineDither(width, 127)] if precision == np.float64 else []
    for dither in (None, Dither(width), *fine):
        bounds = near - 127.0 if dither is not None else np.rint(near - 127.0)
        constants = ((near - 1.5) * 2.0**-7, 127.0 / near, bounds, -bounds)
        grid = CubeGrid(*(part.astype(precision) for part in constants))
        records = _telling(grid, imputed)
        one, actual = OnePass(kernels, grid, stand_in, dither), np.zeros((len(records), width + 1), kind)
        one.integers(records, actual, 1, None)
        expected, starts = _by_numpy(one, records, None)
        same = np.array_equal(actual[:, 1:], expected) and not actual[:, 0].any()
        if starts is not None:
            same &= np.array_equal(one.starts(records), starts)
            tied, again = np.zeros_like(starts), np.zeros((len(records), width), kind)
            one.integers(records, again, 0, tied)
            same &= np.array_equal(again, _by_numpy(one, records, tied)[0])
        if not same:
            raise IntegerMismatch("compiled code gives other integers than NumPy")
        _check_missing(one, records, kind)
        if fine and dither is fine[0]:
            _check_single(one, records, kind)


def _check_single(one: OnePass, records: NDArray[Any], kind: np.dtype[Any]) -> None:
    """Records of single precision must be worked on as the same numbers of double precision."""
    with np.errstate(over="ignore"):
        single = np.clip(records, -1e30, 1e30).astype(np.float32)
    actual, expected = (np.zeros(records.shape, kind) for _ in range(2))
    one.integers(single, actual, 0, None)
    one.integers(single.astype(np.float64), expected, 0, None)
    if not np.array_equal(actual, expected):
        raise IntegerMismatch("compiled code gives other integers to single precision")


def _check_missing(one: OnePass, records: NDArray[Any], kind: np.dtype[Any]) -> None:
    """Without a stand-in, kernels must find each kind of value that is no finite number, wherever it stands."""
    if one.stand_in is not None:
        return
    for place, value in enumerate((np.nan, np.inf, -np.inf)):
        spoilt = records.copy()
        spoilt[-1 - place, -1 - 7 * place] = value
        try:
            one.integers(spoilt, np.empty(spoilt.shape, kind), 0, None)
        except NotFiniteError:
            continue
        raise IntegerMismatch("compiled code takes a missing value for a number")


def _by_numpy(
    one: OnePass, records: NDArray[Any], starts: NDArray[np.intp] | None
) -> tuple[NDArray[Any], NDArray[np.intp] | None]:
    """Integers and starts by the steps of a quantiser, each over all records; starts may be given."""
    values = records.copy()
    settle_missing(values, one.stand_in)
    with np.errstate(over="ignore"):
        if one.dither is None:
            one.grid.round_inside(values)
            return values, None
        one.grid.place(values)
        one.grid.bound(values)
    starts = one.dither.starts(values) if starts is None else starts
    one.dither.move(values, starts)
    np.rint(values, out=values)
    return values, starts


def _telling(grid: CubeGrid, imputed: bool) -> NDArray[Any]:
    """Records at which another rounding shows, shape (72, d)."""
    precision, width = grid.precision, grid.steps.size
    values = np.random.default_rng(7).standard_normal((72, width)).astype(precision)
    limits = np.finfo(precision)
    ends = [0.0, -0.0, limits.max, -limits.max, limits.tiny, limits.smallest_subnormal, 1.0, -1.0, 0.5, 1.5, 2.5]
    values[:11] = np.array(ends, precision)[:, None]
    # Between two integers to the last bit or next to it: rounded to nearest, and at the places of start 0.
    halves = np.arange(-10, 10)[:, None] + 0.5
    values[11:31] = halves / grid.steps.astype(float) + grid.origin
    values[31:51] = (halves - Dither(width).all_places[:width]) / grid.steps.astype(float) + grid.origin
    if imputed:
        values[51:54] = np.array([np.nan, np.inf, -np.inf], precision)[:, None]
        values[54:57, ::5] = np.nan
    return values
