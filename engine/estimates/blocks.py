"""Estimates of a large answer, block by block: the bits of :mod:`.matrices` without the whole matrix
in memory.

Only for diagonal maps from coordinates to raw units; a full matrix mixes all features. Of matrices these are the values
alone: their standard deviations follow from numbers by row and column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.matrices import Array, Estimate
from blockveil.engine.estimates.rounding_error import RoundingError
from blockveil.engine.noise.design import NoiseDesign, Released
from blockveil.engine.records.geometry import Coordinates

Range = tuple[int, int]


@dataclass(frozen=True, eq=False)
class CovarianceHead:
    """What every block of a covariance needs: the released counts and sums. Only for diagonal maps back to raw units.

    Attributes
    ----------
    count, mean
        As in :class:`.matrices.CovarianceEstimates`.
    divisor
        The number that sums are divided by.
    shift
        Mean about the origin, raw units, shape (d,).
    sums_variance
        Variance of the noise of the sums, raw units squared, shape (d,).
    back
        Raw units of a coordinate, shape (d,).
    """

    count: Estimate
    mean: Estimate
    divisor: float
    shift: Array
    sums_variance: Array
    back: Array


def covariance_head(
    first_row: NDArray[np.int64],
    design: NoiseDesign,
    coordinates: Coordinates,
    public_count: int | None,
    rounding: RoundingError | None = None,
) -> CovarianceHead:
    """Count, mean and their errors from the first row of an augmented second moment, grid integers, shape (d + 1,).

    Parameters
    ----------
    first_row
        As described.
    design, coordinates, public_count, rounding
        As for :func:`.matrices.covariance`.
    """
    row = (0, 1), (0, first_row.size)
    value = (first_row.astype(np.float64) * design.steps(*row) / design.shifted_unit)[0]
    noise, back = design.standard_deviations(*row), coordinates.scale
    deviation = (noise if rounding is None else rounding.beside(noise, *row))[0]
    count_deviation = float(deviation[0]) if public_count is None else 0.0
    count = float(value[0]) if public_count is None else float(public_count)
    divisor = max(count, count_deviation, 1.0)
    shift, sums_variance = back * (value[1:] / divisor), back * back * deviation[1:] ** 2
    mean_variance = sums_variance + shift**2 * count_deviation**2
    return CovarianceHead(
        count=Estimate(np.asarray(count), np.asarray(count_deviation)),
        mean=Estimate(coordinates.origin + shift, np.sqrt(mean_variance) / divisor),
        divisor=divisor,
        shift=shift,
        sums_variance=sums_variance,
        back=back,
    )


def covariance_block(
    released: Released, design: NoiseDesign, head: CovarianceHead, rows: Range, columns: Range
) -> Array:
    """Block of the covariance, features ``rows`` by ``columns``: the bits of
    :func:`.matrices.covariance`.

    Parameters
    ----------
    released
        Grid integers of the block.
    design
        Noise of the release, the constant coordinate first.
    head
        From :func:`covariance_head`.
    rows, columns
        Half-open ranges of features.
    """
    inner = (rows[0] + 1, rows[1] + 1), (columns[0] + 1, columns[1] + 1)
    block = _raw_block(released, design, *inner, head.back, 1)
    block /= head.divisor
    block -= np.outer(head.shift[slice(*rows)], head.shift[slice(*columns)])
    return block


def covariance_deviation(mean_product: Array, own: Array, head: CovarianceHead, rows: Range, columns: Range) -> Array:
    """Standard deviation of a block of a covariance, first order in the noise.

    Parameters
    ----------
    mean_product
        Released second moment of the block about the origin, divided by the divisor, raw units.
    own
        Standard deviation of that second moment's own noise before the division, raw units.
    head, rows, columns
        As for :func:`covariance_block`.
    """
    down, across = slice(*rows), slice(*columns)
    shift_products = np.outer(head.shift[down], head.shift[across])
    shift_products *= 2.0
    variance: Array = np.outer(head.shift[down] ** 2, head.sums_variance[across])
    variance += np.outer(head.sums_variance[down], head.shift[across] ** 2)
    # The diagonal of the whole matrix, where a feature's own sum enters twice.
    low, high = max(rows[0], columns[0]), min(rows[1], columns[1])
    same = np.arange(low, max(low, high))
    places = same - rows[0], same - columns[0]
    variance[places] += shift_products[places] * head.sums_variance[same]
    variance += own**2
    # What is in every entry of the noise of the count.
    shift_products -= mean_product
    shift_products *= shift_products
    shift_products *= float(head.count.standard_deviation) ** 2
    variance += shift_products
    deviation: Array = np.sqrt(variance, out=variance)
    deviation /= head.divisor
    return deviation


def second_moment_block(
    released: Released, design: NoiseDesign, coordinates: Coordinates, rows: Range, columns: Range
) -> Array:
    """Block of the second moment: the same bits as in :func:`.matrices.second_moment`; parameters as
    above.
    """
    return _raw_block(released, design, rows, columns, coordinates.scale, 0)


def outer_products_block(
    released: Released,
    design: NoiseDesign,
    left: Coordinates,
    right: Coordinates,
    rows: Range,
    columns: Range,
) -> Array:
    """Block of a sum of outer products: the bits of :func:`.matrices.outer_products`; parameters as
    above.
    """
    units = np.outer(left.scale[slice(*rows)], right.scale[slice(*columns)])
    value = released.astype(np.float64) * design.steps(rows, columns) / design.shifted_unit
    block: Array = value * units
    return block


def records_block(released: Released, design: NoiseDesign, coordinates: Coordinates, rows: Range) -> Estimate:
    """Block of records: the same bits as in :func:`.matrices.records`, for a diagonal map."""
    everything = (0, coordinates.dimension)
    value = released.astype(np.float64) * design.steps(rows, everything) / design.shifted_unit
    deviation = design.standard_deviations(rows, everything)
    return Estimate(coordinates.origin + value * coordinates.scale, deviation * coordinates.scale)


def cells_block(released: Released, design: NoiseDesign, rows: Range, columns: Range) -> Estimate:
    """Block of counts with noise of their own: the bits of :func:`.cells.cells`; parameters as
    above.
    """
    value = released.astype(np.float64) * design.steps(rows, columns) / design.shifted_unit
    return Estimate(value, design.standard_deviations(rows, columns))


def _raw_block(
    released: Released,
    design: NoiseDesign,
    rows: Range,
    columns: Range,
    back: Array,
    lead: int,
) -> Array:
    """Block of a symmetric answer in raw units; ``lead`` coordinates stand before the features."""
    value: Array = released.astype(np.float64)
    value *= design.steps(rows, columns)
    value /= design.shifted_unit
    value *= np.outer(back[rows[0] - lead : rows[1] - lead], back[columns[0] - lead : columns[1] - lead])
    return value
