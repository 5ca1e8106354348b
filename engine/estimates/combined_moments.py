"""Second moments of several nights as one, each entry by the nights' noise and by how far records may have drifted.

Each night's records are seen from the last night's origin. Per entry of the sums, the count among them, with S_k of
night k and its variance V_k of noise, and q for what a day may change of it,

    P <- P + q (days since the night before),   g = P / (P + V_k),   S <- S + g (S_k - S),   P <- (1 - g) P,

beginning with the first night's own: the estimate of least variance, of all linear ones, of the last night's entry
where entries move by independent steps of that variance (Kalman). Without drift it is the mean by inverse variances.
A variance of zero is known exactly and counts alone. What shortening takes, and what rounding at places by content does
to records that stay, is the same every night: its standard deviations are averaged by the same gains.

Another origin, off by x, adds ``x_i^2 V_0j + x_j^2 V_0i + (x_i x_j)^2 V_00`` to the variance of entry (i, j), and
relates entries by as much; where that is more than a tenth of V_ij, nights are not combined.

**Source**: Kalman, 1960; the rest derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from blockveil.engine.estimates.noisy_moments import Array, NoisyMoments

_RELATED = 0.1
"""Largest part of a variance that seeing records from another origin may add."""


class UnlikeNights(Exception):
    """Nights whose noise is related between entries once they are seen from one origin, or has no count."""


@dataclass(frozen=True, eq=False)
class NightMoments:
    """The moments of one night.

    Attributes
    ----------
    day
        Number of its day, from any first one.
    moments
        With a constant coordinate.
    taken
        Variances that shortening is expected to take, raw units, shape (d,).
    rounding
        Standard deviations by rounding that the moments' variances include, shape (p, p).
    """

    day: int
    moments: NoisyMoments
    taken: Array
    rounding: Array


@dataclass(frozen=True, eq=False)
class CombinedMoments:
    """Moments of the last night by all of them.

    Attributes
    ----------
    moments
        About the last night's origin; its variance is that of noise, drift and rounding.
    taken
        As of each night, averaged.
    gain
        Share that the last night has in each entry, shape (p, p).
    """

    moments: NoisyMoments
    taken: Array
    gain: Array


def combined(nights: Sequence[NightMoments], drift: float) -> CombinedMoments:
    """The moments of the last night.

    Parameters
    ----------
    nights
        In their order, at least one.
    drift
        Standard deviation by which an entry moves in a day, as a share of the root of the products of both entries of
        the diagonal: of the number of records, and of sizes about the origin; at least zero.

    Raises
    ------
    UnlikeNights
        Noise of entries would be related.
    """
    last = nights[-1].moments
    largest = np.maximum(np.diagonal(last.matrix), np.sqrt(np.diagonal(last.variance)))
    step = drift**2 * np.outer(largest, largest)
    first, *others = nights
    sums, spread = _seen_from(first, last)
    shortening, rounding, day, gain = first.taken, first.rounding, first.day, np.ones(sums.shape)
    for night in others:
        value, variance = _seen_from(night, last)
        spread = spread + step * (night.day - day)
        gain = np.divide(spread, spread + variance, out=np.ones(sums.shape), where=variance > 0.0)
        sums, spread = sums + gain * (value - sums), (1.0 - gain) * spread
        own = np.diagonal(gain)[1:]
        shortening = (np.sqrt(shortening) * (1.0 - own) + np.sqrt(night.taken) * own) ** 2
        rounding, day = rounding * (1.0 - gain) + night.rounding * gain, night.day
    moments = replace(last, matrix=sums, variance=spread + rounding**2, noise=None, shortened=None)
    return CombinedMoments(moments, shortening, gain)


def _seen_from(one: NightMoments, last: NoisyMoments) -> tuple[Array, Array]:
    """A night's sums and the variances of their noise without rounding, from the last night's origin."""
    night = one.moments
    if not (night.constant and night.common is None):
        raise UnlikeNights
    shift = np.concatenate([[0.0], night.origin - last.origin])
    back = np.eye(shift.size)
    back[:, 0] += shift
    own = np.maximum((night.variance if night.noise is None else night.noise) - one.rounding**2, 0.0)
    of_sums = np.outer(shift**2, own[0])
    added = of_sums + of_sums.T + np.outer(shift, shift) ** 2 * own[0, 0]
    np.fill_diagonal(added, 4.0 * shift**2 * own[0] + shift**4 * own[0, 0])
    if np.any(added[1:, 1:] > _RELATED * own[1:, 1:]):
        raise UnlikeNights
    return back @ night.matrix @ back.T, own + added
