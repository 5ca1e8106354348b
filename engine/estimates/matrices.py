"""From released integers to estimates in raw units, each with the standard deviation of its noise. All post-processing.

Write V for the noisy second moment in coordinates, ``x - origin = A v`` for the way back, n for the count, s for the
sums. Then

* second moment about the origin: ``A V A'``;
* mean: ``origin + A s / n``; covariance: ``A (V/n - (s/n)(s/n)') A'`` (normalised by n).

Standard deviations of linear estimates are exact (to a part in 65,000 where coordinates are mixed); those of ratios
(mean, covariance) are first order in the noise
(``dC = (dV - ds m' - m ds' + (2mm' - V/n) dn) / n``), evaluated at released values, so they cost no privacy. Where dn
and the diagonal of dV have noise in common, twice their covariance counts with that factor of dn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.postprocessing import nearest_psd, symmetrise
from blockveil.engine.estimates.rounding_error import RoundingError, entry_deviations
from blockveil.engine.estimates.shrunk_spectrum import noise_of_covariance, noise_of_moment, shrunk
from blockveil.engine.noise.design import NoiseDesign, Released
from blockveil.engine.records.geometry import Coordinates

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """A released number or array and the standard deviation of its error, both in the unit of the answer.

    The error is the noise, and beside it the rounding of the records where that is stated (:mod:`.rounding_error`).
    """

    value: Array
    standard_deviation: Array


@dataclass(frozen=True, eq=False)
class CovarianceEstimates:
    """Count, mean and covariance from one augmented second moment.

    Attributes
    ----------
    count
        Number of records; its standard deviation is 0 where the count is public.
    mean, covariance
        Raw units; shapes (d,) and (d, d).
    covariance_psd
        Positive semi-definite version, shape (d, d): made in coordinates, where all features count equally.
    second_moment
        About the origin, raw units, shape (d, d), a sum over records.
    """

    count: Estimate
    mean: Estimate
    covariance: Estimate
    covariance_psd: Array
    second_moment: Estimate


def coordinate_estimate(released: Released, design: NoiseDesign, rounding: RoundingError | None = None) -> Estimate:
    """Answer in coordinates, from the released grid integers; both have the answer's shape.

    An answer of rows may have fewer of them than the design has noise for.
    """
    rows, columns = ((0, length) for length in released.shape)
    value = released.astype(np.float64) * design.steps(rows, columns) / design.shifted_unit
    deviation = design.standard_deviations(rows, columns)
    if rounding is not None:
        deviation = rounding.beside(deviation)
    return Estimate(symmetrise(value) if design.spread.symmetric else value, deviation)


def second_moment(
    released: Released, design: NoiseDesign, coordinates: Coordinates, rounding: RoundingError | None = None
) -> Estimate:
    """Second moment about the origin in raw units, shape (d, d), from a query without a constant coordinate."""
    return _to_raw(coordinate_estimate(released, design, rounding), coordinates)


def second_moment_psd(
    released: Released, design: NoiseDesign, coordinates: Coordinates, shrinks: bool = False
) -> Array:
    """Positive semi-definite version of the second moment, raw units, shape (d, d).

    Parameters
    ----------
    released, design, coordinates
        As for :func:`covariance`, without the constant coordinate.
    shrinks
        Whether eigenvalues are shrunk at the released trace (:mod:`.shrunk_spectrum`); else it is the nearest matrix
        in coordinates.
    """
    value = coordinate_estimate(released, design).value
    inside = shrunk(value, noise_of_moment(design)) if shrinks else nearest_psd(value)[0]
    return _congruence(coordinates.to_raw(), inside)


def records(released: Released, design: NoiseDesign, coordinates: Coordinates) -> Estimate:
    """Records in raw units, shape (n, d), from the rows query."""
    noisy, back = coordinate_estimate(released, design), coordinates.to_raw()
    if back.ndim == 1:
        return Estimate(coordinates.origin + noisy.value * back, noisy.standard_deviation * back)
    variance = noisy.standard_deviation**2 @ (back**2).T
    return Estimate(coordinates.origin + noisy.value @ back.T, np.sqrt(variance))


def outer_products(
    released: Released,
    design: NoiseDesign,
    left: Coordinates,
    right: Coordinates,
    rounding: RoundingError | None = None,
) -> Estimate:
    """Sum of outer products about the two origins in raw units, shape (p, q)."""
    noisy = coordinate_estimate(released, design, rounding)
    units = np.outer(left.to_raw(), right.to_raw())
    return Estimate(noisy.value * units, noisy.standard_deviation * units)


def covariance(
    released: Released,
    design: NoiseDesign,
    coordinates: Coordinates,
    public_count: int | None,
    shrinks: bool = False,
    rounding: RoundingError | None = None,
) -> CovarianceEstimates:
    """Count, mean and covariance from an augmented second moment.

    Parameters
    ----------
    released
        Grid integers, shape (d + 1, d + 1), the constant coordinate first.
    design
        Noise of the release.
    coordinates
        Map back to raw units.
    public_count
        The exact number of records where the neighbouring relation makes it public (replace-one), else None.
    shrinks
        As for :func:`second_moment_psd`.
    rounding
        Of the records, the constant coordinate first; it is part of standard deviations.
    """
    noisy = coordinate_estimate(released, design, rounding)
    value, deviation = noisy.value, noisy.standard_deviation
    count_deviation = float(deviation[0, 0]) if public_count is None else 0.0
    count = float(value[0, 0]) if public_count is None else float(public_count)
    divisor = divisor_of(count, count_deviation)
    raw = _to_raw(Estimate(value[1:, 1:], deviation[1:, 1:]), coordinates)
    back = coordinates.to_raw()
    centre = value[0, 1:] / divisor
    shift = _apply(back, centre)
    sums_covariance = _congruence(back, np.diag(deviation[0, 1:] ** 2))
    shape = symmetrise(raw.value / divisor - np.outer(shift, shift))
    mean_variance = np.diagonal(sums_covariance) + shift**2 * count_deviation**2
    spread = _ratio_variance(raw, shift, sums_covariance, divisor, count_deviation)
    if (along := _with_count(design)) is not None:
        factor = 2.0 * np.outer(shift, shift) - raw.value / divisor
        spread = np.maximum(spread + 2.0 * factor * _congruence(back, np.diag(along)), 0.0)
    inside = covariance_of(value, public_count, count_deviation)
    if shrinks:
        positive = shrunk(inside, noise_of_covariance(design, centre, divisor, count_deviation))
    else:
        positive = nearest_psd(inside)[0]
    return CovarianceEstimates(
        count=Estimate(np.asarray(count), np.asarray(count_deviation)),
        mean=Estimate(coordinates.origin + shift, np.sqrt(mean_variance) / divisor),
        covariance=Estimate(shape, np.sqrt(spread) / divisor),
        covariance_psd=_congruence(back, positive),
        second_moment=raw,
    )


def covariance_of(value: Array, public_count: int | None, count_deviation: float) -> Array:
    """Covariance in coordinates from an augmented second moment, both shape (..., d, d) but for the constant.

    Parameters
    ----------
    value
        Second moments, shape (..., d + 1, d + 1), the constant coordinate first.
    public_count
        As for :func:`covariance`.
    count_deviation
        Standard deviation of the noisy count.
    """
    count = value[..., :1, :1] if public_count is None else np.asarray(float(public_count))
    divisor = divisor_of(count, count_deviation)
    centre = value[..., :1, 1:] / divisor
    covariance: Array = value[..., 1:, 1:] / divisor - np.swapaxes(centre, -1, -2) * centre
    return covariance


def worst_covariance_deviation(
    design: NoiseDesign, rows: int, back: Array | None = None, rounding: RoundingError | None = None
) -> Array:
    """Largest standard deviation of the covariance's noise, in half widths, for a data set of ``rows`` records.

    Parameters
    ----------
    design
        Noise of an augmented release.
    rows
        Number of records, public.
    back
        Map from coordinates to half widths, shape (d, d), where they are not the same.
    rounding
        Of the records, where they are the same; of coordinates like those of the design.

    Returns
    -------
    Shape (d, d): covariance noise relative to the product of two features' half widths, first order in the noise, when
    every mean lies at its bound. Reads no data.
    """
    variance = entry_deviations(design, rounding) ** 2
    sums = np.diag(variance[0, 1:]) if back is None else _congruence(back, np.diag(variance[0, 1:]))
    moment = variance[1:, 1:] if back is None else _mixed_variance(back, variance[1:, 1:])
    # |m_i| <= 1 and |V_ij|/n <= 1 in half widths: each of the three terms is at its largest here.
    from_sums = np.add.outer(np.diagonal(sums), np.diagonal(sums)) + 2.0 * np.abs(sums)
    of_all = moment + from_sums + 9.0 * variance[0, 0]
    if (along := _with_count(design)) is not None:
        of_all = of_all + 6.0 * np.abs(np.diag(along) if back is None else _congruence(back, np.diag(along)))
    deviation: Array = np.sqrt(of_all) / rows
    return deviation


def second_moment_deviation(
    design: NoiseDesign, back: Array | None = None, rounding: RoundingError | None = None, lead: int = 0
) -> Array:
    """Standard deviation of a second moment's error in half widths, shape (d, d); without the first ``lead`` rows."""
    deviation = entry_deviations(design, rounding)[lead:, lead:]
    return deviation if back is None else np.sqrt(_mixed_variance(back, deviation**2))


def divisor_of(count: Any, deviation: float) -> Any:
    """What sums are divided by: a count near zero or below is replaced by the size of its noise."""
    return np.maximum(count, max(deviation, 1.0))


def _ratio_variance(
    raw: Estimate, shift: Array, sums_covariance: Array, divisor: float, count_deviation: float
) -> Array:
    """Variance of the covariance's numerator, first order in the noise, shape (d, d)."""
    variances = np.diagonal(sums_covariance)
    crossed = np.outer(shift**2, variances)
    from_sums = crossed + crossed.T + 2.0 * np.outer(shift, shift) * sums_covariance
    from_count = (2.0 * np.outer(shift, shift) - raw.value / divisor) ** 2 * count_deviation**2
    return raw.standard_deviation**2 + from_sums + from_count


def _with_count(design: NoiseDesign) -> Array | None:
    """Covariance of the noise of each feature's own entry with that of the count, shape (d,); None where it is zero."""
    diagonal = design.spread.diagonal
    if diagonal is None or not diagonal.times:
        return None
    size = design.shape[0]
    own = np.diagonal(design.entry_standard_deviation()) / diagonal.grown(size)
    covariance: Array = float(diagonal.times * diagonal.shared * own[0]) * own[1:]
    return covariance


def _apply(back: Array, vector: Array) -> Array:
    return back * vector if back.ndim == 1 else back @ vector


def _congruence(back: Array, matrix: Array) -> Array:
    return np.outer(back, back) * matrix if back.ndim == 1 else symmetrise(back @ matrix @ back.T)


def _to_raw(noisy: Estimate, coordinates: Coordinates) -> Estimate:
    back = coordinates.to_raw()
    value = _congruence(back, noisy.value)
    if back.ndim == 1:
        return Estimate(value, np.outer(back, back) * noisy.standard_deviation)
    return Estimate(value, np.sqrt(_mixed_variance(back, noisy.standard_deviation**2)))


def _mixed_variance(back: Array, variance: Array) -> Array:
    """Variance of ``A Z A'`` for symmetric Z whose distinct entries are independent, shape (d, d).

    Sum over k of ``A_ik^2 A_jk^2 D_k`` and over k != l of ``A_ik^2 A_jl^2 O_kl + A_ik A_jk A_il A_jl O_kl``. The noise
    is separable, ``O_kl = share r_k r_l`` with ``D_k = r_k^2``, but for steps rounded up by a part in 65,000.
    """
    size = np.sqrt(np.diagonal(variance))
    share = float(variance[0, 1] / (size[0] * size[1])) if size.size > 1 else 0.0
    scaled = back * np.sqrt(size)  # A Z A' = B Y B' with B = A diag(r)^1/2, and Y of variance one and share
    squares = scaled**2
    same = squares @ squares.T
    rows = squares.sum(axis=1)
    pairs = np.outer(rows, rows) - same + (scaled @ scaled.T) ** 2 - same
    return same + share * pairs
