"""Bounds within an octave or two, from noisy counts of values by their leading binary digits: for values far from zero.

Bounds of :mod:`.chosen_bounds` end at powers of two, so that those of values near 4,100 are 2,048 and 8,192. Counts by
leading digits (:class:`.column_bins.DigitBins`) tell where in an octave values lie, and not in which one. Where all
bins that stand out are of one sign and of at most two octaves next to each other, each digit has one place in them:
|x| 4^k lies in (1, 4] once.

Cells of the digits are taken together by 1, 2, 4, ... For each such width the cells that stand out, and as much again
on either side of them, are a candidate for bounds. Its complement, the octaves' count less that of its cells, must not
stand out from noise, and with one standard deviation of it be within a twentieth of the octaves' values. The narrowest
such candidate is taken, at least three times as wide as the cells that surely hold values.

Values elsewhere may have digits within the window too, at most as many as lie beyond the octaves. So the number of
values beyond the window is at least the complement, and at most that and twice those beyond the octaves.

Sums of all windows are held at once with those of :mod:`.chosen_bounds`, each family with half of the error.

**Source**: derived here, from the bands of :mod:`.bands`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log2, sqrt

import numpy as np

from blockveil.engine.estimates.chosen_bounds import Array, BinNoise, ChosenBounds, OutsideShare

_MOST_OUTSIDE = 0.05
"""Share of the octaves' values that a window may leave out, as far as noise lets one tell."""


@dataclass(frozen=True, eq=False)
class DigitCounts:
    """Noisy counts of the values of a column by leading digits.

    Attributes
    ----------
    counts
        Of the bins of :class:`.column_bins.DigitBins` without that of zero, shape (2^(b + 1),).
    noise
        Noise of all columns, of which each bin of this one has the standard deviation.
    columns
        Columns that have such counts.
    """

    counts: Array
    noise: BinNoise
    columns: int

    @property
    def band(self) -> float:
        """Standard deviations that no window of any column, and no cells next to each other, exceed."""
        # Windows have two ends among the cells, in one of two orders; 2 for half of the error.
        return self.noise.band_of(2 * self.columns * 2 * (self.counts.size + 1) ** 2)


def narrowed(
    chosen: ChosenBounds, octaves: tuple[Array, Array, Array], digits: DigitCounts, accepted: float
) -> ChosenBounds:
    """The bounds of a column, narrower where its digits tell that its values lie in a part of its octaves.

    Parameters
    ----------
    chosen
        Bounds between powers of two.
    octaves
        Noisy counts of the bins that these were chosen from, and their lower and upper ends, shape (bins,) each.
    digits
        Of the same column, with bins of the same noise.
    accepted
        Share of the column's values that may lie outside, as for the others.
    """
    counts, lower, upper = octaves
    negative = chosen.upper <= 0.0
    start, stop = (-chosen.upper, -chosen.lower) if negative else (chosen.lower, chosen.upper)
    if start <= 0.0 or stop > 4.0 * start or chosen.beyond_widest:
        return chosen
    there = (lower >= chosen.lower) & (upper <= chosen.upper)
    total, octave_count = float(np.sum(counts[there])), float(np.count_nonzero(there))
    cells, edges = _unrolled(digits.counts, start, stop)
    bounds, narrowest = chosen, stop - start
    for first, last in _windows(cells, digits):
        low, high = float(edges[first]), float(edges[last])
        deviation = digits.noise.deviation * sqrt(octave_count + last - first)
        beyond = total - float(np.sum(cells[first:last]))
        slack = accepted * max(total, 0.0)
        tells = beyond <= digits.band * deviation + slack
        if tells and beyond + deviation <= _MOST_OUTSIDE * total + slack and high - low < narrowest:
            narrowest = high - low
            ends = (-high, -low) if negative else (low, high)
            outside = _outside(chosen.outside, beyond, digits.band * deviation, counts, digits)
            bounds = replace(chosen, lower=ends[0], upper=ends[1], outside=outside)
    return bounds


def _unrolled(counts: Array, start: float, stop: float) -> tuple[Array, Array]:
    """Counts by magnitude from one power of two to another, and the borders of their cells."""
    half = counts.size // 2
    lower = 1.0 + np.arange(half) / half
    # Magnitudes of an even power of two have their digits in (1, 2], those of an odd one in (2, 4].
    odd = int(log2(start)) % 2 == 1
    parts = (counts[half:], counts[:half]) if odd else (counts[:half], counts[half:])
    octaves = 1 if stop <= 2.0 * start else 2
    edges = [start * 2.0**octave * lower for octave in range(octaves)]
    return np.concatenate(parts[:octaves]), np.concatenate([*edges, [stop]])


def _windows(cells: Array, digits: DigitCounts) -> Iterator[tuple[int, int]]:
    """First cell and the one after the last of each candidate."""
    wide = cells.size
    width = wide // 2
    while width >= 1:
        together = cells.reshape(-1, width).sum(axis=1)
        sure = np.flatnonzero(together > digits.band * digits.noise.deviation * sqrt(width))
        if sure.size:
            first, last = int(sure[0]) * width, (int(sure[-1]) + 1) * width
            yield max(2 * first - last, 0), min(2 * last - first, wide)
        width //= 2


def _outside(octaves: OutsideShare, beyond: float, give: float, counts: Array, digits: DigitCounts) -> OutsideShare:
    values, least = max(beyond, 0.0) + octaves.values, max(beyond - give, 0.0)
    most = max(beyond + give, 0.0) + 2.0 * octaves.most
    total, of_total = float(np.sum(counts)), digits.noise.reach * sqrt(counts.size)
    if total <= of_total:
        return OutsideShare(values, least, most, float("nan"), 0.0, 1.0)
    shares = (values / total, least / (total + of_total), most / (total - of_total))
    return OutsideShare(values, least, most, *(min(max(share, 0.0), 1.0) for share in shares))
