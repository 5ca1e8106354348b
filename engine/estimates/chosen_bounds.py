"""Bounds of columns from noisy histograms, and how many records they leave out.

A bin *stands out* if its noisy count, or the noisy number of values in it and all bins further out, is above what noise
alone gives. The bounds of a column are the outer ends of its outermost bins that stand out: beyond them nothing does.

Let z be the band of :mod:`.bands` for all counts of bins and all such sums of all columns at once, and s the
standard deviation of the noise of a bin of one column. With probability 0.95 no noise of a bin exceeds ``z s``, and
that of a sum of m bins of it never exceeds ``z s sqrt(m)``: it is independent, or that of :mod:`.histogram_sizes`, by
which such a sum is no noisier. Then

* no bin stands out, and widens the bounds, unless it or one further out holds a value;
* a bin of more than ``2 z s`` values stands out, so that it lies within the bounds;
* the true number of values beyond the bounds is within the interval that is given with it.

Where most values are zero, the others may be too few to stand out, however large they are: bounds then lie close to
zero and clip what the column says. The counts tell it: more than half of them are zero, and the upper end of the
interval above exceeds the number of other values within the bounds.

Who accepts that a share of the values lies outside asks for bins and sums that exceed noise by half of that share of
the column's noisy total, on each side.

**Source**: the bands of :mod:`.bands`, and a union bound; noisy histograms over powers of two for bounds as in Wilson
et al., "Differentially private SQL with bounded user contribution", 2020, section 5.1.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import asinh, inf, sqrt

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.bands import GaussianNoise, LaplaceSums

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OutsideShare:
    """Values beyond the bounds of a column: an estimate, and an interval that holds for all columns at once.

    Attributes
    ----------
    values, least, most
        Number of values: estimate, and both ends of its interval, not below zero.
    share, least_share, most_share
        The same over the number of values in any bin; NaN, 0 and 1 where that is not above its noise.
    """

    values: float
    least: float
    most: float
    share: float
    least_share: float
    most_share: float


@dataclass(frozen=True)
class ChosenBounds:
    """Bounds of one column.

    Attributes
    ----------
    lower, upper
        Finite, ascending, raw units.
    outside
        What lies beyond them.
    beyond_widest
        Whether values stand out in a bin that has no end, so that the bound is the last border and not the column's.
    others
        Noisy number of values within the bounds that are not zero; infinite unless most of all values are zero.
    """

    lower: float
    upper: float
    outside: OutsideShare
    beyond_widest: bool
    others: float

    @property
    def mostly_zero(self) -> bool:
        """Whether most values are zero, and of the others more may lie outside than within."""
        return self.outside.most > self.others

    def tells_little(self, noise: BinNoise, bins: int) -> bool:
        """Whether most values are zero, and of the others more lie outside than within, give or take their noise.

        Parameters
        ----------
        noise
            Of a bin.
        bins
            Number of bins of the column.
        """
        return self.outside.values + 2.0 * noise.deviation * sqrt(bins) > self.others


@dataclass(frozen=True)
class BinNoise:
    """Noise of the bins of all columns.

    Attributes
    ----------
    deviation
        Standard deviation of one count, in values.
    gaussian
        Whether it is Gaussian; else Laplace.
    bins
        Number of bins of all columns together.
    """

    deviation: float
    gaussian: bool
    bins: int

    @property
    def band(self) -> float:
        """Standard deviations that no bin, and no sum from either end, exceeds with probability 0.95."""
        return self.band_of(3 * self.bins)  # each bin, and the sums of it with those further out on either side

    def band_of(self, held: int) -> float:
        """Standard deviations that none of so many bins and sums of them exceeds with probability 0.95."""
        if self.gaussian:
            return GaussianNoise().band(held)
        # The rate of a Laplace law on whole numbers of this deviation; that of a finer grid is no larger a factor.
        from_deviation = 2.0 * asinh(sqrt(0.5) / self.deviation)
        return LaplaceSums(Fraction(from_deviation)).band(held)

    @property
    def reach(self) -> float:
        """What one bin does not exceed by noise alone, in values; a bin of twice as many is found."""
        return self.band * self.deviation


def choose_bounds(
    counts: Array, lower: Array, upper: Array, noise: BinNoise, accepted: float = 0.0
) -> ChosenBounds | None:
    """Least bounds beyond which no bin stands out from the noise.

    Parameters
    ----------
    counts
        Noisy counts of the bins of one column, ascending, shape (bins,).
    lower, upper
        Ends of the bins, shape (bins,); the first and the last are infinite.
    noise
        Noise of all columns, which hold at once.
    accepted
        Share of the column's values that may lie outside, 0 to below 1; zero asks for noise alone.

    Returns
    -------
    None where no bin stands out.
    """
    reach, bins = noise.reach, counts.size
    slack = accepted / 2.0 * max(float(np.sum(counts)), 0.0)
    of_sums = reach * np.sqrt(np.arange(1, bins + 1)) + slack
    from_above, from_below = np.cumsum(counts[::-1])[::-1], np.cumsum(counts)
    single = counts > reach + slack
    above = np.flatnonzero(single | (from_above > of_sums[::-1]))
    below = np.flatnonzero(single | (from_below > of_sums))
    if above.size == 0 or below.size == 0:
        return None
    # Values that stand out only as a sum may lie on either side of where it does.
    first, last = sorted((int(below[0]), int(above[-1])))
    low, high = float(lower[first]), float(upper[last])
    open_ends = low == -inf, high == inf
    low, high = (float(upper[0]) if open_ends[0] else low), (float(lower[-1]) if open_ends[1] else high)
    if not low < high:
        low, high, last = _widened(low, lower, upper, last)
    first, last = max(first, 1), min(last, bins - 2)
    outside = _outside(counts, np.r_[0:first], np.r_[last + 1 : bins], reach)
    return ChosenBounds(low, high, outside, any(open_ends), _others(counts, lower, upper, (first, last)))


def _others(counts: Array, lower: Array, upper: Array, within: tuple[int, int]) -> float:
    """As of :class:`ChosenBounds`: where few values that are not zero stand out, bounds may clip nearly all of them."""
    zero = np.flatnonzero((lower == 0.0) & (upper == 0.0))
    if zero.size == 0 or 2.0 * float(counts[zero[0]]) <= float(np.sum(counts)):
        return inf
    return float(np.sum(counts[within[0] : within[1] + 1])) - float(counts[zero[0]])


def _widened(low: float, lower: Array, upper: Array, last: int) -> tuple[float, float, int]:
    """Bounds of a column that has one value alone: with the bin above it, or that below where none is above."""
    if last + 1 < upper.size - 1:
        return low, float(upper[last + 1]), last + 1
    return float(lower[last - 1]), low, last


def _outside(counts: Array, below: NDArray[np.intp], above: NDArray[np.intp], reach: float) -> OutsideShare:
    outside = float(np.sum(counts[below]) + np.sum(counts[above]))
    # Each of both sums is within its own band, so that their sum is within both together.
    give = reach * (sqrt(below.size) + sqrt(above.size))
    least, most = max(outside - give, 0.0), max(outside + give, 0.0)
    total, of_total = float(np.sum(counts)), reach * sqrt(counts.size)
    if total <= of_total:
        return OutsideShare(max(outside, 0.0), least, most, float("nan"), 0.0, 1.0)
    shares = outside / total, least / (total + of_total), most / (total - of_total)
    share, least_share, most_share = (min(max(each, 0.0), 1.0) for each in shares)
    return OutsideShare(max(outside, 0.0), least, most, share, least_share, most_share)
