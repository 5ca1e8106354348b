"""Large answers, published tile by tile: which arrays there are, and what a released tile puts into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.layout import Tile
from blockveil.engine.estimates import blocks as block_estimates
from blockveil.engine.estimates.blocks import CovarianceHead
from blockveil.engine.estimates.rounding_error import RoundingError
from blockveil.engine.estimates.shortening import Shortening, TakenByFeature
from blockveil.engine.noise.design import NoiseDesign, Released
from blockveil.engine.records.geometry import Coordinates
from blockveil.pipeline.data import derived_noise
from blockveil.pipeline.questions.arrays import ReleaseArrays

Block = tuple[str, tuple[slice, ...], NDArray[Any]]
"""Name of an array, where in it, and values."""

_OF_MEANS = "mean_standard_deviation"

_PART = 128
"""Features at once whose variances have their noise looked at: of the products with each other they need few."""


@dataclass(frozen=True)
class Large:
    """An array that is written in blocks.

    Attributes
    ----------
    shape
        Shape of the array.
    dimensions
        Name of each axis.
    dtype
        Type of an entry.
    chunks
        Sides of a stored chunk, where they are not the usual ones.
    shrinks
        Whether its values are worth compressing; entries with noise of their own in double precision are not.
    """

    shape: tuple[int, ...]
    dimensions: tuple[str, ...]
    dtype: type[np.float64 | np.int64] = np.float64
    chunks: tuple[int, ...] | None = None
    shrinks: bool = True


class Blocks(Protocol):
    """A large answer on its way into a release.

    Attributes
    ----------
    large
        Arrays that are written in blocks.
    """

    @property
    def large(self) -> Mapping[str, Large]:
        """Arrays that are written in blocks."""

    def needed_first(self, tile: Tile) -> bool:
        """Whether every other tile waits for this one."""

    def small(self, first: Mapping[Tile, Released]) -> ReleaseArrays:
        """Arrays that are written whole, once the tiles that others wait for are there."""

    def values(self, tile: Tile, released: Released) -> Iterator[Block]:
        """What a released tile puts into the large arrays; mirror images included."""

    def last(self) -> ReleaseArrays:
        """Arrays that are written whole, once all tiles were there."""


class _Plain:
    """An answer each entry of which is estimated alone."""

    def __init__(self, name: str, large: Large, axes: ReleaseArrays) -> None:
        self._name, self._axes = name, axes
        self.large: Mapping[str, Large] = {name: large, f"{name}_standard_deviation": large}

    def needed_first(self, tile: Tile) -> bool:
        """None is."""
        del tile
        return False

    def small(self, first: Mapping[Tile, Released]) -> ReleaseArrays:
        """Names of the axes."""
        del first
        return self._axes

    def last(self) -> ReleaseArrays:
        """None."""
        return {}


class _Stated(_Plain):
    """A matrix whose standard deviations follow from what the release states of its noise, and are not stored."""

    def __init__(self, name: str, large: Large, axes: ReleaseArrays, noise: ReleaseArrays) -> None:
        super().__init__(name, large, {**axes, **noise})
        self.large = {name: replace(large, shrinks=False)}

    def _mirrored(self, rows: tuple[int, int], columns: tuple[int, int], value: NDArray[np.float64]) -> Iterator[Block]:
        yield self._name, (slice(*rows), slice(*columns)), value
        if rows != columns:
            yield self._name, (slice(*columns), slice(*rows)), value.T


def _noise(
    design: NoiseDesign,
    axes: tuple[str, ...],
    units: tuple[NDArray[np.float64], ...],
    lead: int = 0,
    rounding: RoundingError | None = None,
) -> ReleaseArrays:
    """Arrays that state the noise of every entry; see :mod:`.derived_noise`.

    Parameters
    ----------
    design
        Noise of the release.
    axes
        Names of the axes of rows and columns.
    units
        Raw units of a coordinate, by row and, where it is not symmetric, by column.
    lead
        Coordinates before the features.
    rounding
        Of the records, where it is stated.
    """
    noise, along = design.entry_noise, "coordinate" if lead else axes[0]
    arrays: dict[str, tuple[Any, tuple[str, ...]]] = {
        derived_noise.BY_ROW: (noise.rows, (along,)),
        derived_noise.OFF_DIAGONAL: (np.asarray(noise.off_diagonal), ()),
        derived_noise.OF_A_STEP: (np.asarray(noise.of_a_step), ()),
        derived_noise.ROW_UNITS: (units[0], (axes[0],)),
    }
    if len(units) > 1:
        arrays |= {
            derived_noise.BY_COLUMN: (noise.columns, (axes[1],)),
            derived_noise.COLUMN_UNITS: (units[1], (axes[1],)),
        }
    if rounding is not None:
        arrays |= {
            derived_noise.ROUNDING_BY_ROW: (rounding.rows, (along,)),
            derived_noise.SECOND_ORDER: (np.asarray(rounding.second_order), ()),
        }
        arrays |= {derived_noise.ROUNDING_BY_COLUMN: (rounding.columns, (axes[1],))} if len(units) > 1 else {}
    return arrays


class SecondMomentBlocks(_Stated):
    """A second moment."""

    def __init__(
        self,
        large: Large,
        axes: ReleaseArrays,
        design: NoiseDesign,
        coordinates: Coordinates,
        rounding: RoundingError | None,
    ) -> None:
        noise = _noise(design, large.dimensions, (coordinates.scale,), rounding=rounding)
        super().__init__("second_moment", large, axes, noise)
        self._design, self._coordinates = design, coordinates

    def values(self, tile: Tile, released: Released) -> Iterator[Block]:
        """Value."""
        block = block_estimates.second_moment_block(released, self._design, self._coordinates, tile.rows, tile.columns)
        yield from self._mirrored(tile.rows, tile.columns, block)


class OuterBlocks(_Stated):
    """A sum of outer products."""

    def __init__(
        self,
        large: Large,
        axes: ReleaseArrays,
        design: NoiseDesign,
        factors: tuple[Coordinates, Coordinates],
        rounding: RoundingError | None,
    ) -> None:
        left, right = factors
        noise = _noise(design, large.dimensions, (left.scale, right.scale), rounding=rounding)
        super().__init__("outer_products", large, axes, noise)
        self._design, self._left, self._right = design, left, right

    def values(self, tile: Tile, released: Released) -> Iterator[Block]:
        """Value."""
        block = block_estimates.outer_products_block(
            released, self._design, self._left, self._right, tile.rows, tile.columns
        )
        yield self._name, (slice(*tile.rows), slice(*tile.columns)), block


class RecordBlocks(_Plain):
    """Records."""

    def __init__(self, large: Large, axes: ReleaseArrays, design: NoiseDesign, coordinates: Coordinates) -> None:
        super().__init__("rows", large, axes)
        self._design, self._coordinates = design, coordinates

    def values(self, tile: Tile, released: Released) -> Iterator[Block]:
        """Value and error."""
        block = block_estimates.records_block(released, self._design, self._coordinates, tile.rows)
        place = slice(*tile.rows), slice(*tile.columns)
        yield self._name, place, block.value
        yield f"{self._name}_standard_deviation", place, block.standard_deviation


class CovarianceBlocks(_Stated):
    """A covariance: count and sums come first, because every entry is a ratio to them."""

    def __init__(
        self,
        large: Large,
        axes: ReleaseArrays,
        design: NoiseDesign,
        coordinates: Coordinates,
        public_count: int | None,
        rounding: RoundingError | None,
    ) -> None:
        noise = _noise(design, large.dimensions, (coordinates.scale,), 1, rounding)
        super().__init__("covariance", large, axes, noise)
        self._design, self._coordinates, self._public_count = design, coordinates, public_count
        self._rounding = rounding
        self._head: CovarianceHead | None = None

    def needed_first(self, tile: Tile) -> bool:
        """Tiles of the first row, which holds count and sums."""
        return tile.rows[0] == 0

    def small(self, first: Mapping[Tile, Released]) -> ReleaseArrays:
        """Count and mean."""
        parts = [first[tile][0] for tile in sorted(first, key=lambda tile: tile.columns)]
        head = block_estimates.covariance_head(
            np.concatenate(parts), self._design, self._coordinates, self._public_count, self._rounding
        )
        self._head = head
        arrays: dict[str, tuple[Any, tuple[str, ...]]] = dict(self._axes)
        for name, estimate, axes in (("count", head.count, ()), ("mean", head.mean, ("feature",))):
            arrays |= {name: (estimate.value, axes), f"{name}_standard_deviation": (estimate.standard_deviation, axes)}
        return arrays

    def values(self, tile: Tile, released: Released) -> Iterator[Block]:
        """Value, without the constant coordinate."""
        if self._head is None:
            raise RuntimeError("the first row of tiles is needed first")
        rows, columns = ((max(low, 1) - 1, high - 1) for low, high in (tile.rows, tile.columns))
        inner = released[int(tile.rows[0] == 0) :, int(tile.columns[0] == 0) :]
        block = block_estimates.covariance_block(inner, self._design, self._head, rows, columns)
        self._see(block, self._head, rows, columns)
        yield from self._mirrored(rows, columns, block)

    def _see(
        self, value: NDArray[np.float64], head: CovarianceHead, rows: tuple[int, int], columns: tuple[int, int]
    ) -> None:
        """Look at a block on its way into the release; nothing follows from it."""


class ShortenedCovarianceBlocks(CovarianceBlocks):
    """A covariance in a learned ellipsoid: what shortening takes follows from all variances, and comes last."""

    def __init__(
        self,
        large: Large,
        axes: ReleaseArrays,
        design: NoiseDesign,
        coordinates: Coordinates,
        public_count: int | None,
        rounding: RoundingError | None,
        shortening: Shortening,
    ) -> None:
        super().__init__(large, axes, design, coordinates, public_count, rounding)
        self._shortening, (width, _) = shortening, large.shape
        self._variances, self._noise = np.full(width, np.nan), np.full(width, np.nan)

    def small(self, first: Mapping[Tile, Released]) -> ReleaseArrays:
        """Count and mean; the error of the mean comes last."""
        arrays = dict(super().small(first))
        self._of_means = arrays.pop(_OF_MEANS)
        return arrays

    def last(self) -> ReleaseArrays:
        """What shortening takes of each variance, and the error of the mean."""
        clipped_variance = self._shortening.taken(self._variances, self._noise)
        by_feature = TakenByFeature.of(clipped_variance, self._shortening.share, self._variances)
        noise, axes = self._of_means
        return {"clipped_variance": (clipped_variance, axes), _OF_MEANS: (np.hypot(noise, by_feature.means), axes)}

    def _see(
        self, value: NDArray[np.float64], head: CovarianceHead, rows: tuple[int, int], columns: tuple[int, int]
    ) -> None:
        """Keep variances and their noise; each tile on the diagonal has its own, so that threads share none."""
        if rows != columns:
            return
        self._variances[slice(*rows)] = np.diagonal(value)
        for start in range(rows[0], rows[1], _PART):
            part = start, min(start + _PART, rows[1])
            inside = slice(part[0] - rows[0], part[1] - rows[0])
            shift_terms = np.outer(head.shift[slice(*part)], head.shift[slice(*part)])
            own = self._own_noise(head, part)
            deviation = block_estimates.covariance_deviation(value[inside, inside] + shift_terms, own, head, part, part)
            self._noise[slice(*part)] = np.diagonal(deviation)

    def _own_noise(self, head: CovarianceHead, part: tuple[int, int]) -> NDArray[np.float64]:
        """Standard deviations of the noise of products of some features with each other, raw units."""
        inner, back = (part[0] + 1, part[1] + 1), head.back[slice(*part)]
        noise = self._design.standard_deviations(inner, inner)
        noise = noise if self._rounding is None else self._rounding.beside(noise, inner, inner)
        deviations: NDArray[np.float64] = np.outer(back, back) * noise
        return deviations
