"""One pass over a released matrix: what its pictures and tables show, in memory that does not grow with it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.report.alone import NoiseAlone
from blockveil.pipeline.report.cells import CellNoise, Cells, CellSums, cells_of
from blockveil.pipeline.report.in_order import in_order
from blockveil.pipeline.report.level import NoiseShape, noise_level, noise_norm
from blockveil.pipeline.report.matrix import Array, EntriesTile, ReleasedMatrix
from blockveil.pipeline.report.noise_apart import NoiseApart

STRONGEST = 10
"""How many of the strongest entries are listed."""


@dataclass(frozen=True)
class ReleasedEntry:
    """One released entry: where, its value and noise in raw units, and its size in the heat map."""

    row: int
    column: int
    value: float
    deviation: float
    relative: float


@dataclass(frozen=True)
class BeyondNoise:
    """Distinct entries of one kind, and how many of them are beyond what noise alone gives."""

    entries: int = 0
    outside: int = 0

    def __add__(self, other: BeyondNoise) -> BeyondNoise:
        """Both together."""
        return BeyondNoise(self.entries + other.entries, self.outside + other.outside)


@dataclass(frozen=True, eq=False)
class Scan:
    """What one pass finds.

    Attributes
    ----------
    alone
        What noise alone gives.
    diagonal, others
        Entries on the diagonal of a symmetric matrix (none of another), and all others.
    beyond_two
        Distinct entries more than two standard deviations from zero. Noise alone has such entries too.
    not_estimable
        Of the others that stand, those without a ratio to the diagonal: an entry there is not clearly positive, or the
        ratio is beyond 1.
    cells
        Heat map: of a symmetric matrix as ratios to its diagonal, else in raw units.
    strongest
        Entries among the others that stand and have a ratio, largest in the heat map's scale first.
    column_means, column_deviations
        Mean entry of each column, and root mean square of its noise, shape (n,).
    noise_level
        Spectral norm that noise alone does not exceed in 95 of 100 releases, in units of the noise.
    noise_norm
        The same of the matrix itself, in products of its features' units.
    row_units, column_units
        Unit of the noise by row and by column: dividing by them makes noise about equal everywhere.
    """

    alone: NoiseAlone
    diagonal: BeyondNoise
    others: BeyondNoise
    beyond_two: int
    not_estimable: int
    cells: Cells
    strongest: tuple[ReleasedEntry, ...]
    column_means: Array
    column_deviations: Array
    noise_level: float
    noise_norm: float
    row_units: Array
    column_units: Array

    @property
    def entries(self) -> int:
        """Number of distinct entries; all of them were searched."""
        return self.diagonal.entries + self.others.entries

    @property
    def outside(self) -> int:
        """Number of distinct entries beyond what noise alone gives."""
        return self.diagonal.outside + self.others.outside


def noise_units(matrix: ReleasedMatrix, *, even: bool = False) -> tuple[Array, Array]:
    """Unit of the noise by row and by column; one for all where noise is not made even by others."""
    m, n = matrix.shape
    if matrix.symmetric:
        noise = NoiseApart.of(matrix)
        squares = matrix.diagonal("deviation") if noise is None else noise.diagonal
        squares = np.full(m, squares.mean()) if even else squares
        units = _positive(np.sqrt(squares))
        return units, units
    squares = np.zeros(n)
    for tile in matrix.tiles():
        squares[slice(*tile.columns)] += np.sum(matrix.deviation(tile.rows, tile.columns) ** 2, axis=0)
    squares = np.full(n, squares.mean()) if even else squares
    return np.ones(m), _positive(np.sqrt(squares / m))


def unit_diagonal(matrix: ReleasedMatrix, alone: NoiseAlone) -> Array:
    """Scale by row that gives a symmetric matrix a unit diagonal.

    It is 0 where the released diagonal entry is not clearly positive: a ratio to what may be noise says nothing.
    """
    value, deviation = matrix.diagonal("kind"), matrix.diagonal("deviation")
    along = np.arange(value.size)
    significant = value > alone.reach(along, along, value, deviation)
    return np.where(significant, 1.0 / np.sqrt(np.where(significant, value, 1.0)), 0.0)


def scan(matrix: ReleasedMatrix, correlation: Array | None = None) -> Scan:
    """Read the matrix once.

    Parameters
    ----------
    matrix
        The matrix.
    correlation
        Estimated correlations, shape (d, d), to be shown in place of ratios to the diagonal.
    """
    passing = _Pass(matrix, NoiseAlone(matrix, cells_of(matrix.shape)), correlation)
    in_order(matrix.tiles(), passing.look, passing.take)
    return passing.result()


@dataclass
class _Sums:
    """Running sums of a pass."""

    on: BeyondNoise = field(default_factory=BeyondNoise)
    off: BeyondNoise = field(default_factory=BeyondNoise)
    beyond_two: int = 0
    not_estimable: int = 0
    strongest: list[tuple[float, int, int, ReleasedEntry]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Seen:
    """What one band of a tile adds to a pass, by the names of its sums; ``on`` and ``off`` the diagonal."""

    tile: EntriesTile
    shown: Array
    raw: Array
    noise: tuple[Array, Array]
    shape: tuple[Array, float, float]
    column_sums: Array
    column_squares: Array
    on: BeyondNoise
    off: BeyondNoise
    beyond_two: int
    not_estimable: int
    strongest: list[tuple[float, int, int, ReleasedEntry]]


class _Pass:
    """State of one pass."""

    def __init__(self, matrix: ReleasedMatrix, alone: NoiseAlone, correlation: Array | None) -> None:
        self._matrix, self._alone, self._correlation = matrix, alone, correlation
        self._units = noise_units(matrix, even=alone.dependent)
        self._scale = unit_diagonal(matrix, alone) if matrix.symmetric else None
        # Weights of the test of a cell are not its colours: those follow from released values.
        mask = np.ones(matrix.shape[0]) if self._scale is None else (self._scale > 0).astype(np.float64)
        self._weights = mask / self._units[0], 1.0 / self._units[1] if self._scale is None else mask / self._units[1]
        self._shown, self._raw = CellSums(matrix.shape), CellSums(matrix.shape)
        self._noise, self._shape = CellNoise(matrix, alone, *self._weights), NoiseShape(matrix.shape)
        self._column_sums, self._column_squares = np.zeros(matrix.shape[1]), np.zeros(matrix.shape[1])
        self._sums = _Sums()

    def look(self, tile: EntriesTile) -> list[_Seen]:
        """What the bands of a tile add; changes nothing, so that several may be looked at side by side."""
        return [self._look(*band) for band in self._matrix.bands(tile)]

    def _look(self, tile: EntriesTile, value: Array, deviation: Array) -> _Seen:
        matrix, rows, columns = self._matrix, slice(*tile.rows), slice(*tile.columns)
        signal = matrix.centred(value, tile.rows, tile.columns)
        scale = self._scale
        if self._correlation is not None:
            relative = self._correlation[rows, columns]
        else:
            relative = value if scale is None else _times(value, scale[rows], scale[columns])
        weights = self._weights[0][rows], self._weights[1][columns]
        units = self._units[0][rows], self._units[1][columns]
        stands = self._alone.stands(tile.rows[0], tile.columns[0], signal, deviation)
        beyond = np.abs(signal) > 2.0 * deviation
        on, others = BeyondNoise(), stands
        if matrix.symmetric and tile.on_diagonal:
            side, others, beyond = stands.shape[0], np.triu(stands, 1), np.triu(beyond)
            on = _tallied(side, np.diagonal(stands))
            off = _tallied(side * (side - 1) // 2, others)
        else:
            off = _tallied(stands.size, stands)
        strongest, without = self._strongest(tile, np.nonzero(others), (value, signal, deviation, relative))
        return _Seen(
            tile,
            shown=self._shown.part(tile, relative),
            raw=self._raw.part(tile, _times(signal, *weights)),
            noise=self._noise.part(tile, _times(deviation, *weights)),
            shape=self._shape.part(
                tile, _times(self._alone.noise(tile, value, deviation), 1.0 / units[0], 1.0 / units[1])
            ),
            column_sums=value.sum(axis=0),
            column_squares=np.sum(deviation**2, axis=0),
            on=on,
            off=off,
            beyond_two=int(np.count_nonzero(beyond)),
            not_estimable=without,
            strongest=strongest,
        )

    def take(self, seen: list[_Seen]) -> None:
        """Add what was seen of a tile."""
        for band in seen:
            self._take(band)

    def _take(self, seen: _Seen) -> None:
        tile, sums, columns = seen.tile, self._sums, slice(*seen.tile.columns)
        self._shown.take(tile, seen.shown)
        self._raw.take(tile, seen.raw)
        self._noise.take(tile, seen.noise)
        self._shape.take(tile, seen.shape)
        self._column_sums[columns] += seen.column_sums
        self._column_squares[columns] += seen.column_squares
        sums.on, sums.off = sums.on + seen.on, sums.off + seen.off
        sums.beyond_two += seen.beyond_two
        sums.not_estimable += seen.not_estimable
        sums.strongest = heapq.nlargest(STRONGEST, [*sums.strongest, *seen.strongest], key=lambda item: item[:3])

    def _strongest(
        self, tile: EntriesTile, outside: tuple[NDArray[np.intp], ...], of: tuple[Array, Array, Array, Array]
    ) -> tuple[list[tuple[float, int, int, ReleasedEntry]], int]:
        """The largest of the entries that stand and can be ranked, and how many cannot be."""
        (i, j), (value, signal, deviation, relative), without = outside, of, 0
        size = np.abs(relative[i, j])
        if self._scale is not None:
            # A ratio beyond 1 is no correlation; rounding of a computed one is let pass.
            ranked = (self._scale[tile.rows[0] + i] * self._scale[tile.columns[0] + j] > 0) & (size <= 1.0 + 1e-9)
            without = int(np.count_nonzero(~ranked))
            i, j, size = i[ranked], j[ranked], size[ranked]
        elif not self._matrix.presenter.ranked_by_value:
            with np.errstate(divide="ignore"):
                size = np.abs(signal[i, j]) / deviation[i, j]
        ranking = []
        for position, largest in _largest(size):
            at = int(i[position]), int(j[position])
            row, column = tile.rows[0] + at[0], tile.columns[0] + at[1]
            entry = ReleasedEntry(row, column, float(value[at]), float(deviation[at]), float(relative[at]))
            ranking.append((largest, -row, -column, entry))
        return ranking, without

    def result(self) -> Scan:
        matrix, sums = self._matrix, self._sums
        # Without noise whatever is not zero is clear.
        clear = np.abs(self._raw.sums) > self._noise.reach(self._raw.sums)
        values = self._shown.sums / self._shown.entries
        if self._scale is not None:
            clear &= np.abs(values) <= 1.0 + 1e-9
        level = noise_level(matrix, self._alone, self._units, self._shape)
        return Scan(
            alone=self._alone,
            diagonal=sums.on,
            others=sums.off,
            beyond_two=sums.beyond_two,
            not_estimable=sums.not_estimable,
            cells=Cells(values, clear),
            strongest=tuple(entry for *_, entry in sums.strongest),
            column_means=self._column_sums / matrix.shape[0],
            column_deviations=np.sqrt(self._column_squares / matrix.shape[0]),
            noise_level=level,
            noise_norm=noise_norm(matrix, self._alone, self._units, self._shape, level),
            row_units=self._units[0],
            column_units=self._units[1],
        )


def _times(values: Array, rows: Array, columns: Array) -> Array:
    """Values times a number for each row and for each column."""
    products = values * rows[:, None]
    products *= columns
    return products


def _largest(sizes: Array) -> Iterator[tuple[int, float]]:
    """Places of the largest sizes and these, the largest first; of equal ones the first."""
    # A partition of a million numbers that are mostly equal takes longer than looking for ten maxima.
    rest = sizes.copy()
    for _ in range(min(STRONGEST, rest.size)):
        at = int(rest.argmax())
        yield at, float(rest[at])
        rest[at] = -np.inf


def _tallied(entries: int, outside: NDArray[np.bool_]) -> BeyondNoise:
    return BeyondNoise(entries, int(np.count_nonzero(outside)))


def _positive(units: Array) -> Array:
    return np.where(units > 0, units, 1.0)
