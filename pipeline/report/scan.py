"""One pass over a released matrix: what its pictures and tables show, in memory that does not grow with it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.report.alone import NoiseAlone
from blockveil.pipeline.report.cells import CellNoise, Cells, CellSums, cells_of
from blockveil.pipeline.report.level import NoiseShape, noise_level
from blockveil.pipeline.report.matrix import Array, EntriesTile, ReleasedMatrix

STRONGEST = 10
"""How many of the strongest entries are listed."""

_BY_VALUE = ("counts", "directions")
"""Matrices without symmetry whose entries have one unit, and are ranked by value; others are by their noise."""


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
    standing: int = 0


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
    row_units: Array
    column_units: Array

    @property
    def entries(self) -> int:
        """Number of distinct entries; all of them were searched."""
        return self.diagonal.entries + self.others.entries

    @property
    def standing(self) -> int:
        """Number of distinct entries beyond what noise alone gives."""
        return self.diagonal.standing + self.others.standing


def noise_units(matrix: ReleasedMatrix, *, even: bool = False) -> tuple[Array, Array]:
    """Unit of the noise by row and by column; one for all where noise is not made even by others."""
    m, n = matrix.shape
    if matrix.symmetric:
        squares = matrix.diagonal("deviation")
        squares = np.full(m, squares.mean()) if even else squares
        units = _positive(np.sqrt(squares))
        return units, units
    squares = np.zeros(n)
    for tile in matrix.tiles():
        squares[slice(*tile.columns)] += np.sum(matrix.deviation(tile.rows, tile.columns) ** 2, axis=0)
    squares = np.full(n, squares.mean()) if even else squares
    return np.ones(m), _positive(np.sqrt(squares / m))


def unit_diagonal(matrix: ReleasedMatrix, alone: NoiseAlone) -> Array:
    """Scale by row that gives the shown version of a symmetric matrix a unit diagonal.

    It is 0 where the released diagonal entry is not clearly positive: a ratio to what may be noise says nothing.
    """
    shown, value, deviation = (matrix.diagonal(name) for name in ("shown", "kind", "deviation"))
    along = np.arange(value.size)
    known = (shown > 0) & (value > alone.reach(along, along, value, deviation))
    return np.where(known, 1.0 / np.sqrt(np.where(known, shown, 1.0)), 0.0)


def scan(matrix: ReleasedMatrix) -> Scan:
    """Read the matrix once."""
    passing = _Pass(matrix, NoiseAlone(matrix, cells_of(matrix.shape)))
    for tile in matrix.tiles():
        passing.add(tile)
    return passing.result()


@dataclass
class _Sums:
    """Running sums of a pass."""

    on: BeyondNoise = field(default_factory=BeyondNoise)
    off: BeyondNoise = field(default_factory=BeyondNoise)
    beyond_two: int = 0
    not_estimable: int = 0
    strongest: list[tuple[float, int, int, ReleasedEntry]] = field(default_factory=list)


class _Pass:
    """State of one pass."""

    def __init__(self, matrix: ReleasedMatrix, alone: NoiseAlone) -> None:
        self._matrix, self._alone = matrix, alone
        self._units = noise_units(matrix, even=alone.dependent)
        self._scale = unit_diagonal(matrix, alone) if matrix.symmetric else None
        # Weights of the test of a cell are not its colours': those follow from released values.
        known = np.ones(matrix.shape[0]) if self._scale is None else (self._scale > 0).astype(np.float64)
        self._weights = known / self._units[0], 1.0 / self._units[1] if self._scale is None else known / self._units[1]
        self._shown, self._raw = CellSums(matrix.shape), CellSums(matrix.shape)
        self._noise, self._shape = CellNoise(matrix, alone, *self._weights), NoiseShape(matrix.shape)
        self._column_sums, self._column_squares = np.zeros(matrix.shape[1]), np.zeros(matrix.shape[1])
        self._sums = _Sums()

    def add(self, tile: EntriesTile) -> None:
        matrix, rows, columns = self._matrix, slice(*tile.rows), slice(*tile.columns)
        signal, deviation = matrix.signal(tile.rows, tile.columns), matrix.deviation(tile.rows, tile.columns)
        value = signal if matrix.centre is None else matrix.value(tile.rows, tile.columns)
        shown = value if matrix.shown == matrix.kind else matrix.shown_value(tile.rows, tile.columns)
        if self._scale is not None:
            shown = shown * np.outer(self._scale[rows], self._scale[columns])
        weights = np.outer(self._weights[0][rows], self._weights[1][columns])
        self._shown.add(tile, shown)
        self._raw.add(tile, signal * weights)
        self._noise.add(tile, deviation * weights)
        self._shape.add(tile, deviation / np.outer(self._units[0][rows], self._units[1][columns]))
        self._column_sums[columns] += value.sum(axis=0)
        self._column_squares[columns] += np.sum(deviation**2, axis=0)
        standing = self._count(tile, signal, deviation)
        self._add_strongest(tile, standing, value, signal, deviation, shown)

    def _count(self, tile: EntriesTile, signal: Array, deviation: Array) -> tuple[NDArray[np.intp], ...]:
        """Tally the tile's distinct entries; where those stand that are not on the diagonal."""
        beyond = np.abs(signal) > 2.0 * deviation
        stands = self._alone.stands(tile.rows[0], tile.columns[0], signal, deviation)
        sums, symmetric = self._sums, self._matrix.symmetric and tile.on_diagonal
        if not symmetric:
            sums.off = _tallied(sums.off, stands.size, stands)
            sums.beyond_two += int(np.count_nonzero(beyond))
            return np.nonzero(stands)
        side, above = stands.shape[0], np.triu(stands, 1)
        sums.on = _tallied(sums.on, side, np.diagonal(stands))
        sums.off = _tallied(sums.off, side * (side - 1) // 2, above)
        sums.beyond_two += int(np.count_nonzero(np.triu(beyond)))
        return np.nonzero(above)

    def _add_strongest(
        self,
        tile: EntriesTile,
        standing: tuple[NDArray[np.intp], ...],
        value: Array,
        signal: Array,
        deviation: Array,
        shown: Array,
    ) -> None:
        """Keep the largest of the entries that stand and can be ranked."""
        i, j = standing
        size = np.abs(shown[i, j])
        if self._scale is not None:
            # A ratio beyond 1 is no correlation; rounding of a computed one is let pass.
            ranked = (self._scale[tile.rows[0] + i] * self._scale[tile.columns[0] + j] > 0) & (size <= 1.0 + 1e-9)
            self._sums.not_estimable += int(np.count_nonzero(~ranked))
            i, j, size = i[ranked], j[ranked], size[ranked]
        elif self._matrix.kind not in _BY_VALUE:
            with np.errstate(divide="ignore"):
                size = np.abs(signal[i, j]) / deviation[i, j]
        few = min(STRONGEST, size.size)
        for position in np.argpartition(size, size.size - few)[size.size - few :] if few else ():
            at = int(i[position]), int(j[position])
            row, column = tile.rows[0] + at[0], tile.columns[0] + at[1]
            entry = ReleasedEntry(row, column, float(value[at]), float(deviation[at]), float(shown[at]))
            keep = heapq.heappush if len(self._sums.strongest) < STRONGEST else heapq.heappushpop
            keep(self._sums.strongest, (float(size[position]), -row, -column, entry))

    def result(self) -> Scan:
        matrix, sums = self._matrix, self._sums
        # Without noise whatever is not zero is clear.
        clear = np.abs(self._raw.sums) > self._noise.reach(self._raw.sums)
        values = self._shown.sums / self._shown.entries
        if self._scale is not None:
            clear &= np.abs(values) <= 1.0 + 1e-9
        return Scan(
            alone=self._alone,
            diagonal=sums.on,
            others=sums.off,
            beyond_two=sums.beyond_two,
            not_estimable=sums.not_estimable,
            cells=Cells(values, clear),
            strongest=tuple(entry for *_, entry in sorted(sums.strongest, key=lambda item: item[:3], reverse=True)),
            column_means=self._column_sums / matrix.shape[0],
            column_deviations=np.sqrt(self._column_squares / matrix.shape[0]),
            noise_level=noise_level(matrix, self._alone, self._units, self._shape),
            row_units=self._units[0],
            column_units=self._units[1],
        )


def _tallied(tally: BeyondNoise, entries: int, standing: NDArray[np.bool_]) -> BeyondNoise:
    return BeyondNoise(tally.entries + entries, tally.standing + int(np.count_nonzero(standing)))


def _positive(units: Array) -> Array:
    return np.where(units > 0, units, 1.0)
