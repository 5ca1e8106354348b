"""Count, totals and means from released sums, each with the standard deviation of its noise. All post-processing.

Write n for the count, s for the sums about the origin in coordinates, and ``x - origin = A v`` for the way back. Then

* totals: ``A s + n origin``, linear in the noise, so that their standard deviations are exact;
* means: ``origin + A s / n``, ratios where the count has noise: standard deviations are first order, at released
  values, and :mod:`.ratios` bounds what is left of the error.

The noise of the totals together is ``D g`` with independent unit entries g and ``D = (origin r_0, A diag(r))``, so that
``D D'`` is at most the sum of both parts' norms. Entries share the noise of the count: a band is safe all the same,
Sidak's for Gaussian noise and Chernoff's for sums of Laplace noise (:mod:`.bands`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blockveil.engine.estimates.bands import CONFIDENCE, GaussianNoise, LaplaceSums
from blockveil.engine.estimates.error_bounds import ErrorReport
from blockveil.engine.estimates.matrices import Estimate, coordinate_estimate, divisor_of
from blockveil.engine.estimates.rounding_error import RoundingError, entry_deviations
from blockveil.engine.noise.design import NoiseDesign, Released
from blockveil.engine.records.geometry import Coordinates, Vector


@dataclass(frozen=True, eq=False)
class TotalsEstimates:
    """Numbers that follow from one row of sums.

    Attributes
    ----------
    count
        Number of records; its standard deviation is 0 where the count is public.
    totals, mean
        Of each column, raw units, shape (d,).
    """

    count: Estimate
    totals: Estimate
    mean: Estimate

    def beside(self, error: Vector) -> TotalsEstimates:
        """The same with errors of means of these standard deviations beside those of noise; raw units, shape (d,)."""
        count = float(divisor_of(float(self.count.value), float(self.count.standard_deviation)))
        totals, mean = (
            Estimate(each.value, np.hypot(each.standard_deviation, times * error))
            for each, times in ((self.totals, count), (self.mean, 1.0))
        )
        return TotalsEstimates(self.count, totals, mean)


def totals_and_means(
    released: Released,
    design: NoiseDesign,
    coordinates: Coordinates,
    public_count: int | None,
    rounding: RoundingError | None = None,
) -> TotalsEstimates:
    """Count, totals and means.

    Parameters
    ----------
    released
        Grid integers, shape (1, d + 1) with the count first, or (1, d) where it is public.
    design
        Noise of the release.
    coordinates
        Map back to raw units.
    public_count
        The exact number of records where the neighbouring relation makes it public (replace-one), else None.
    rounding
        Of the records; it is part of standard deviations.
    """
    noisy = coordinate_estimate(released, design, rounding)
    lead = int(public_count is None)
    count = float(noisy.value[0, 0]) if public_count is None else float(public_count)
    of_count = float(noisy.standard_deviation[0, 0]) if public_count is None else 0.0
    back = coordinates.to_raw()
    sums = back * noisy.value[0, lead:] if back.ndim == 1 else back @ noisy.value[0, lead:]
    variance = raw_variances(noisy.standard_deviation[0, lead:] ** 2, coordinates)
    divisor = float(divisor_of(count, of_count))
    shift = sums / divisor
    return TotalsEstimates(
        count=Estimate(np.asarray(count), np.asarray(of_count)),
        totals=Estimate(sums + count * coordinates.origin, np.sqrt(variance + (coordinates.origin * of_count) ** 2)),
        mean=Estimate(coordinates.origin + shift, np.sqrt(variance + (shift * of_count) ** 2) / divisor),
    )


def raw_variances(variance: Vector, coordinates: Coordinates) -> Vector:
    """Variances of sums in raw units from those in coordinates, which are independent; both of shape (d,)."""
    back = coordinates.to_raw()
    raw: Vector = back**2 * variance if back.ndim == 1 else back**2 @ variance
    return raw


def worst_deviations(
    design: NoiseDesign, coordinates: Coordinates, counted: bool, rows: int, rounding: RoundingError | None = None
) -> tuple[Vector, Vector]:
    """Standard deviations before any data is read, in raw units, shape (d,) each.

    Parameters
    ----------
    design, coordinates
        As for :func:`totals_and_means`.
    counted
        Whether the count comes first.
    rows
        Number of records.
    rounding
        Of the records; it is part of standard deviations.

    Returns
    -------
    Of totals, exact; and of means, first order in the noise, at the mean within the shape where it is largest.
    """
    variance = entry_deviations(design, rounding)[0] ** 2
    of_count = float(variance[0]) if counted else 0.0
    of_sums = raw_variances(variance[int(counted) :], coordinates)
    reach = np.sqrt(np.sum(coordinates.to_raw() ** 2, axis=-1)) if coordinates.mixing is not None else coordinates.scale
    return (
        np.sqrt(of_sums + coordinates.origin**2 * of_count),
        np.sqrt(of_sums + reach**2 * of_count) / rows,  # |mean - origin| is at most the reach of the shape
    )


def totals_error(design: NoiseDesign, coordinates: Coordinates, counted: bool) -> ErrorReport:
    """Error of all totals together; parameters as for :func:`worst_deviations`. Reads no data."""
    deviation = design.entry_standard_deviation()[0]
    totals, _ = worst_deviations(design, coordinates, counted, 1)
    total = float(np.sum(totals**2))
    outside = 1.0 - CONFIDENCE
    if not design.gaussian:
        norm = math.sqrt(total / outside)  # Markov's inequality
        return ErrorReport(total, LaplaceSums().band(totals.size), norm, norm)
    back, sums = coordinates.to_raw(), deviation[int(counted) :]
    widest = float(np.max(back * sums)) if back.ndim == 1 else float(np.linalg.norm(back * sums, 2))
    of_count = float(deviation[0]) * float(np.linalg.norm(coordinates.origin)) if counted else 0.0
    # |D|^2 <= the sum of both parts' squared norms; a norm is Lipschitz in the unit Gaussians by |D|.
    norm = math.sqrt(total) + math.hypot(widest, of_count) * math.sqrt(2.0 * math.log(1.0 / outside))
    return ErrorReport(total, GaussianNoise().band(totals.size), norm, norm)
