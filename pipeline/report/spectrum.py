"""Eigenvalues of a released matrix in units of its noise: all of a small one, the leading ones of a large one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from blockveil.engine.estimates.leading import leading_eigenvalues
from blockveil.pipeline.data.zarr_arrays import CHUNK_SIDE
from blockveil.pipeline.report.in_order import in_order
from blockveil.pipeline.report.matrix import Array, EntriesTile, ReleasedMatrix, Span

WHOLE = 2500
"""Smaller side up to which all values are computed: seconds and some 150 MiB."""

LEADING = 40
"""How many values of a larger matrix are computed."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of a symmetric matrix, singular values of another, of the matrix divided by its noise's units.

    Attributes
    ----------
    values
        Descending.
    complete
        Whether these are all.
    errors
        A true value lies within this of each; 0 where rounding is all there is.
    """

    values: Array
    complete: bool
    errors: Array


@dataclass(frozen=True, eq=False)
class Subspace:
    """Leading values and their directions along the columns, shapes (k,) and (n, k), and what computing left open.

    A true value lies within the error of each, shape (k,); 0 where rounding is all there is.
    """

    values: Array
    vectors: Array
    errors: Array


def spectrum(matrix: ReleasedMatrix, row_units: Array, column_units: Array, noise_level: float) -> Spectrum:
    """Spectrum of ``matrix / outer(row_units, column_units)``; of a large one sharp only above the noise."""
    scaled = _Scaled(matrix, row_units, column_units)
    if min(matrix.shape) > WHOLE:
        floor = noise_level if matrix.symmetric else noise_level**2
        ritz = leading_eigenvalues(scaled.multiply_symmetric, scaled.order, LEADING, floor=floor)
        values, errors = (ritz.values, ritz.errors) if matrix.symmetric else _roots(ritz.values, ritz.errors)
        return Spectrum(values, complete=False, errors=errors)
    values = np.linalg.eigvalsh(scaled.small())[::-1].astype(np.float64)
    values = values if matrix.symmetric else np.sqrt(np.maximum(values, 0.0))
    return Spectrum(values, complete=True, errors=np.zeros(values.size))


def leading_subspace(
    matrix: ReleasedMatrix, row_units: Array, column_units: Array, wanted: int, floor: float = -np.inf
) -> Subspace:
    """Leading values and their directions along the columns, in the same units; below the floor they need not settle.

    Values of a symmetric matrix are eigenvalues, the largest first; of another one singular values.
    """
    scaled = _Scaled(matrix, row_units, column_units)
    if min(matrix.shape) > WHOLE:
        least = floor if matrix.symmetric or floor < 0.0 else floor**2
        large = leading_eigenvalues(scaled.multiply_symmetric, scaled.order, wanted, floor=least)
        values, errors, vectors = large.values, large.errors, large.vectors
    else:
        small = scaled.small()
        least_place = max(0, small.shape[0] - wanted)
        values, vectors = scipy.linalg.eigh(small, subset_by_index=[least_place, small.shape[0] - 1])
        values, vectors = values[::-1], vectors[:, ::-1]
        errors = np.zeros(values.size)
        if scaled.wide:
            vectors = scaled.multiply_left(vectors)
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=0), 1e-300)
    if not matrix.symmetric:
        values, errors = _roots(values, errors)
    return Subspace(values, vectors, errors)


def _roots(squares: Array, errors: Array) -> tuple[Array, Array]:
    """Singular values and their errors from eigenvalues of ``A'A`` and theirs."""
    values = np.sqrt(np.maximum(squares, 0.0))
    # |sqrt(a) - sqrt(b)| <= min(|a - b| / sqrt(b), sqrt(|a - b|))
    return values, np.minimum(errors / np.maximum(values, 1e-300), np.sqrt(errors))


class _Scaled:
    """The matrix divided by units of its noise, read by tiles."""

    def __init__(self, matrix: ReleasedMatrix, row_units: Array, column_units: Array) -> None:
        self._matrix, self._units = matrix, (row_units[:, None], column_units[:, None])
        self.wide = not matrix.symmetric and matrix.shape[0] < matrix.shape[1]
        self.order = matrix.shape[1]

    def multiply_right(self, block: Array) -> Array:
        """Product with vectors along the columns."""
        return self._multiply(block, transposed=False)

    def multiply_left(self, block: Array) -> Array:
        """Product of the transpose with vectors along the rows."""
        return self._multiply(block, transposed=True)

    def multiply_symmetric(self, block: Array) -> Array:
        """Product of the matrix where symmetric, else of its transpose times itself."""
        product = self.multiply_right(block)
        return product if self._matrix.symmetric else self.multiply_left(product)

    def _multiply(self, block: Array, *, transposed: bool) -> Array:
        inner, outer = self._units[::-1] if not transposed else self._units
        block = block / inner
        result = np.zeros((self._matrix.shape[1 if transposed else 0], block.shape[1]))

        def product(tile: EntriesTile) -> tuple[EntriesTile, Array, Array | None]:
            rows, columns = slice(*tile.rows), slice(*tile.columns)
            values = self._matrix.signal(tile.rows, tile.columns)
            if transposed:
                return tile, values.T @ block[rows], values @ block[columns] if tile.mirrored else None
            return tile, values @ block[columns], values.T @ block[rows] if tile.mirrored else None

        def add(found: tuple[EntriesTile, Array, Array | None]) -> None:
            tile, own, mirrored = found
            rows, columns = slice(*tile.rows), slice(*tile.columns)
            result[columns if transposed else rows] += own
            if mirrored is not None:
                result[rows if transposed else columns] += mirrored

        in_order(self._matrix.tiles(), product, add)
        return result / outer

    def small(self) -> Array:
        """The matrix itself where symmetric, else its product with its transpose along the shorter side."""
        (rows, columns), matrix = self._matrix.shape, self._matrix
        if matrix.symmetric:
            return matrix.signal((0, rows), (0, columns)) / (self._units[0] * self._units[1].T)
        side = min(rows, columns)
        total = np.zeros((side, side))
        for span in _spans(max(rows, columns)):
            part = matrix.signal((0, rows), span) if self.wide else matrix.signal(span, (0, columns))
            along, other = (slice(0, rows), slice(*span)) if self.wide else (slice(*span), slice(0, columns))
            part = part / (self._units[0][along] * self._units[1][other].T)
            total += part @ part.T if self.wide else part.T @ part
        return total


def _spans(length: int) -> list[Span]:
    return [(start, min(start + CHUNK_SIDE, length)) for start in range(0, length, CHUNK_SIDE)]
