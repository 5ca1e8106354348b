"""Standard deviations of a large matrix, computed from what its release states in place of being stored.

They would be as many numbers as the matrix has. They follow from a few numbers for each row and column, which are
arrays of the release and in its digest; of a covariance, which is a ratio, from its entries too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.data.zarr_arrays import CHUNK_SIDE, ArrayLikeOnDisk

if TYPE_CHECKING:  # what only checks a release computes none of them, and imports the engine for nothing
    from blockveil.engine.estimates.blocks import CovarianceHead
    from blockveil.engine.estimates.rounding_error import RoundingError
    from blockveil.engine.estimates.shortening import TakenByFeature
    from blockveil.engine.noise.entry_noise import EntryNoise

Array = NDArray[np.float64]
Span = tuple[int, int]

BY_ROW, BY_COLUMN = "noise_by_row", "noise_by_column"
OFF_DIAGONAL, OF_A_STEP = "noise_off_diagonal", "noise_of_a_step"
ROW_UNITS, COLUMN_UNITS = "unit_by_row", "unit_by_column"
ROUNDING_BY_ROW, ROUNDING_BY_COLUMN = "rounding_by_row", "rounding_by_column"
SECOND_ORDER = "rounding_second_order"
"""Arrays of a release that state its noise: sizes by row and by column (of a symmetric matrix by row alone, of a
covariance with the count first), the factor beside the diagonal, what a step stands for, raw units of a row and a
column; and errors by rounding in coordinates, by row and by column, with what products add (:mod:`.rounding_error`)."""


SHORTENED = "clipped_variance"
"""Array of a release in a learned ellipsoid: what shortening is expected to take of each variance."""

_SHARES = "clipped_share", "clipped_share_standard_deviation"
_MOST_SHARE = 1e9
"""Larger ones are no shares, however noisy."""

_OF_RATIO = ("count", "count_standard_deviation", "mean", "mean_standard_deviation")


class DerivedDeviations:
    """Standard deviations of the noise of a matrix, read like an array of the release.

    Parameters
    ----------
    matrix
        The released matrix, shape (m, n).
    stated
        Arrays of the release.
    origin
        Public origin of the records; of a covariance.
    shortened
        Share of records that were shortened to a learned ellipsoid; None where its shape was declared.
    """

    def __init__(
        self,
        matrix: ArrayLikeOnDisk,
        stated: Mapping[str, ArrayLikeOnDisk],
        origin: Array | None,
        shortened: float | None = None,
    ) -> None:
        self._matrix, self._stated, self._origin, self._share = matrix, stated, origin, shortened
        self.shape: tuple[int, ...] = tuple(int(length) for length in matrix.shape)
        self.dtype = np.dtype(np.float64)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Parts that are best read at once: those of the matrix."""
        return tuple(getattr(self._matrix, "chunks", self.shape))

    def __getitem__(self, key: Any) -> Array:
        """Part of it; the key is an ellipsis, a slice of rows, or slices of rows and columns, without steps."""
        keys = key if isinstance(key, tuple) else (key,)
        keys = tuple(slice(None) if part is Ellipsis else part for part in keys)
        if len(keys) > 2 or not all(isinstance(part, slice) and part.step in (None, 1) for part in keys):
            raise IndexError("standard deviations are read by slices of rows and columns")
        spans = [part.indices(length) for part, length in zip((*keys, slice(None))[:2], self.shape, strict=True)]
        (top, bottom, _), (left, right, _) = spans
        rows, columns = (top, max(top, bottom)), (left, max(left, right))
        block = None if self._origin is None else np.asarray(self._matrix[slice(*rows), slice(*columns)], np.float64)
        return self.beside(block, rows, columns)

    def beside(self, value: Array | None, rows: Span, columns: Span) -> Array:
        """Of a block whose entries have been read; only those of a covariance are needed."""
        lead = 0 if self._origin is None else 1
        inner = (rows[0] + lead, rows[1] + lead), (columns[0] + lead, columns[1] + lead)
        units = np.outer(self._units[0][slice(*rows)], self._units[1][slice(*columns)])
        own: Array = units * self._deviations(*inner)
        if self._origin is None or value is None:
            return own
        from blockveil.engine.estimates.blocks import covariance_deviation

        shift_products = np.outer(self._head.shift[slice(*rows)], self._head.shift[slice(*columns)])
        noise = covariance_deviation(value + shift_products, own, self._head, rows, columns)
        if self._taken is None:
            return noise
        down, across = np.arange(*rows)[:, None], np.arange(*columns)
        deviations: Array = np.hypot(noise, self._taken.at(down, across, value)[0])
        return deviations

    def _read(self, name: str) -> Array:
        return np.asarray(self._stated[name][...], np.float64)

    def _deviations(self, rows: Span, columns: Span) -> Array:
        """Of noise and rounding together, in coordinates."""
        deviations = self._noise.standard_deviations(rows, columns)
        return deviations if self._rounding is None else self._rounding.beside(deviations, rows, columns)

    @cached_property
    def _taken(self) -> TakenByFeature | None:
        """What shortening records to a learned ellipsoid is expected to take."""
        if self._share is None:
            return None
        from blockveil.engine.estimates.shortening import TakenByFeature

        return TakenByFeature.of(self._read(SHORTENED), self._share, diagonal_of(self._matrix))

    @cached_property
    def _rounding(self) -> RoundingError | None:
        if SECOND_ORDER not in self._stated:
            return None
        from blockveil.engine.estimates.rounding_error import RoundingError

        rows = self._read(ROUNDING_BY_ROW)
        columns = self._read(ROUNDING_BY_COLUMN) if ROUNDING_BY_COLUMN in self._stated else rows
        return RoundingError(rows, columns, float(self._read(SECOND_ORDER)))

    @cached_property
    def _noise(self) -> EntryNoise:
        from blockveil.engine.noise.entry_noise import EntryNoise

        rows = self._read(BY_ROW)
        columns = self._read(BY_COLUMN) if BY_COLUMN in self._stated else rows
        return EntryNoise(rows, columns, float(self._read(OFF_DIAGONAL)), float(self._read(OF_A_STEP)))

    @cached_property
    def _units(self) -> tuple[Array, Array]:
        rows = self._read(ROW_UNITS)
        return rows, self._read(COLUMN_UNITS) if COLUMN_UNITS in self._stated else rows

    @cached_property
    def _head(self) -> CovarianceHead:
        """Count and mean, and what of their noise is in every entry."""
        from blockveil.engine.estimates.blocks import CovarianceHead
        from blockveil.engine.estimates.matrices import Estimate

        origin, back = self._origin, self._units[0]
        if origin is None:
            raise RuntimeError("this matrix is no ratio")
        count, mean = (
            Estimate(self._read(name), self._read(f"{name}_standard_deviation")) for name in ("count", "mean")
        )
        sums = self._deviations((0, 1), (1, self.shape[1] + 1))[0]
        divisor = max(float(count.value), float(count.standard_deviation), 1.0)
        return CovarianceHead(count, mean, divisor, mean.value - origin, (back * sums) ** 2, back)


def derived(arrays: Mapping[str, ArrayLikeOnDisk], attributes: Mapping[str, Any]) -> dict[str, DerivedDeviations]:
    """Standard deviations, by name, of a release that states them and does not store them; none of another."""
    kind = str(attributes.get("matrix"))
    if OF_A_STEP not in arrays or kind not in arrays or not _fits(arrays, kind):
        return {}
    origin = np.asarray(attributes.get("origin", ()), np.float64) if kind == "covariance" else None
    if origin is not None and origin.shape != arrays[kind].shape[:1]:
        return {}
    share = _shortened(attributes) if SHORTENED in arrays else None
    if SHORTENED in arrays and share is None:
        return {}
    return {f"{kind}_standard_deviation": DerivedDeviations(arrays[kind], arrays, origin, share)}


def _shortened(attributes: Mapping[str, Any]) -> float | None:
    """Share of shortened records, and once its noise; None where it is not stated as a release states it."""
    learned = attributes.get("learned")
    shares = [learned.get(key) for key in _SHARES] if isinstance(learned, dict) else []
    parts = [float(each) for each in shares if isinstance(each, int | float) and 0.0 <= each <= _MOST_SHARE]
    return sum(parts) if len(parts) == len(_SHARES) else None


def diagonal_of(array: ArrayLikeOnDisk) -> Array:
    """Diagonal of a square array that is read by tiles, shape (d,)."""
    length = int(array.shape[0])
    ends = [*range(0, length, CHUNK_SIDE), length]
    parts = (slice(*span) for span in pairwise(ends))
    return np.concatenate([np.diagonal(np.asarray(array[part, part], np.float64)) for part in parts])


def _fits(arrays: Mapping[str, ArrayLikeOnDisk], kind: str) -> bool:
    """Whether a release has all that its noise follows from, each in its shape."""
    shape = tuple(int(length) for length in arrays[kind].shape)
    if len(shape) != 2:
        return False
    rows, columns = shape
    shapes: dict[str, tuple[int, ...]] = {OFF_DIAGONAL: (), OF_A_STEP: (), BY_ROW: (rows,), ROW_UNITS: (rows,)}
    if kind == "covariance":
        of_ratio = {name: () if name.startswith("count") else (rows,) for name in _OF_RATIO}
        shapes |= {BY_ROW: (rows + 1,), **of_ratio}
    if BY_COLUMN in arrays or rows != columns:
        shapes |= {BY_COLUMN: (columns,), COLUMN_UNITS: (columns,)}
    if SHORTENED in arrays:
        shapes |= {SHORTENED: (rows,)}
    if SECOND_ORDER in arrays:
        shapes |= {SECOND_ORDER: (), ROUNDING_BY_ROW: shapes[BY_ROW]}
        shapes |= {ROUNDING_BY_COLUMN: (columns,)} if BY_COLUMN in shapes else {}
    actual = {name: tuple(arrays[name].shape) for name in shapes if name in arrays and _is_number(arrays[name].dtype)}
    return actual == shapes


def _is_number(dtype: Any) -> bool:
    return bool(np.dtype(dtype).kind == "f")
