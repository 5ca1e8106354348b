"""An ellipsoid by axes about a centre, from noisy sums of records and noisy counts of how far out they lie.

Everything is post-processing of released numbers. It is made of IEEE operations on single numbers and exactly rounded
sums alone, so that every machine finds the same ellipsoid from the same numbers.

With m the means and v the variances of the features in half widths of their box, the axes S are proportional to
``sqrt(v)`` where correlations are wanted (the covariance in those coordinates is then the correlation), and to
``v^(1/4)`` in the unit of the wanted error where covariances are (of all S with the same trace of noise these lose
least: the squared noise of an entry is proportional to ``(S_i S_j)^2 (sum v_k / S_k^2)^2``). They are scaled to
``sum v_k / S_k^2 = d``, so that a usual record has the length ``sqrt(d)``.

The radius weighs the noise of the main stage, whose standard deviation grows with its square, against what shortening
takes away. Of records in rings beyond a radius R the squared length beyond it is lost: ``L = sum (r^2 - R^2) / n``.
Rings up to the outermost that stands out of its noise are taken by their raw counts. From there on, up to twice the
radius and to four usual lengths, counts are taken to fall by a third from ring to ring, as those of records whose tails
are of t(3) do: what is found of them together is at least one standard deviation of its noise. Further rings count
where they stand out alone, since a few records there would outweigh all others.

At worst an entry of the second moment is off by L. The root mean square over entries was found to be a part of L / d
that depends on how records are related: ``d^-1/2`` where all features are independent, one where all are the same, and
0.2 to 0.5 of most others. With V the variance of squared lengths, which is twice the sum of all squared correlations of
normal records and more for heavier tails, ``(1.5 / d) (V / 2)^1/2`` is that part or above it, and 0.45 is taken at
most. That over correlations, which are ratios, is 0.05 to 0.24 L / d: a radius for correlations is smaller. What is
stated of each entry is in :mod:`.shortening`.

A pilot in wide bounds sees little of narrow features: noise is as wide as the bounds. So a second one is asked in
bounds of four standard deviations about the means of the first, which are a few times its noise where it saw none. It
is taken for features of which the first saw little. Where bounds are too wide for that, histograms take the place of
the first (:mod:`.chosen_bounds`), and the second is asked in the bounds that they give.

**Source**: Biswas, Dong, Kamath and Ullman, 2020 (CoinPress), and Andrew, Thakkar, McMahan and Ramaswamy, 2021
(adaptive clipping), for the idea; derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.learned_spread import ring_edges
from blockveil.engine.estimates.shortening import OF_MEANS
from blockveil.engine.records.geometry import Vector

_STANDS_OUT = 4.0
"""Standard deviations by which a ring's count stands out of its noise."""

_NEAR = 2.0
"""Multiple of a radius, or of two usual lengths, up to which counts that do not stand out are taken together."""

_FALLS = 0.66
"""Of a count, that of the next ring further out, from where no ring stands out of its noise on."""

_REACH = 4.0
"""Standard deviations about the mean that nearer bounds hold."""

OF_CORRELATIONS, MOST_OF_COVARIANCES = 0.12, 0.45
"""Root mean square over entries of what shortening moves, as a part of what is lost; of covariances at most."""

_KNOWN = 4.0
"""Multiple of its noise from which on a variance in the declared bounds is taken, which shorten nothing."""


@dataclass(frozen=True, eq=False)
class NoisySpread:
    """Noisy means and variances of the features, in half widths of their box about its middle, shape (d,) each.

    Attributes
    ----------
    mean
        Where records lie.
    variance
        How far they spread; may be below zero by its noise.
    noise
        Standard deviation of the noise of the variances.
    least
        Least standard deviations that are learned, positive.
    """

    mean: Vector
    variance: Vector
    noise: Vector
    least: Vector

    @property
    def centre(self) -> Vector:
        """The means, in the box."""
        return np.clip(self.mean, -1.0, 1.0)

    @property
    def taken(self) -> Vector:
        """The variances, of which each is at least twice its noise."""
        return np.clip(np.clip(self.variance, 2.0 * self.noise, 1.0), self.least**2, 1.0)

    def or_nearer(self, nearer: NoisySpread) -> NoisySpread:
        """The same, and where it does not stand out of its noise what was seen in nearer bounds."""
        significant = self.variance > _KNOWN * self.noise
        mine, other = (self.mean, self.variance, self.noise), (nearer.mean, nearer.variance, nearer.noise)
        mean, variance, noise = (np.where(significant, one, two) for one, two in zip(mine, other, strict=True))
        return NoisySpread(mean, variance, noise, self.least)

    def bounds(self) -> tuple[Vector, Vector]:
        """Nearer bounds for a second pilot, within the box."""
        reach = _REACH * np.sqrt(self.taken)
        return np.maximum(self.centre - reach, -1.0), np.minimum(self.centre + reach, 1.0)


@dataclass(frozen=True, eq=False)
class LearnedAxes:
    """Where records lie and how far they spread, in half widths of their box about its middle, shape (d,) each.

    Attributes
    ----------
    centre
        Means, in [-1, 1].
    axes
        Lengths in which coordinates are of size one.
    """

    centre: Vector
    axes: Vector


def learned_axes(spread: NoisySpread, power: float, weights: Vector) -> LearnedAxes:
    """Centre and axes.

    Parameters
    ----------
    spread
        Of the features.
    power
        Of standard deviations: 1 for correlations, 1/2 for covariances.
    weights
        Of half widths in the unit of the wanted error, positive, shape (d,); they count with a power of 1/2 alone.
    """
    variance = spread.taken
    axes = np.sqrt(variance) if power == 1.0 else np.sqrt(np.sqrt(variance) / weights)
    size = math.fsum((variance / (axes * axes)).tolist()) / variance.size
    return LearnedAxes(spread.centre, axes * math.sqrt(size))


@dataclass(frozen=True)
class Radius:
    """How far out records are taken as they are, and what that is expected to cost.

    Attributes
    ----------
    radius
        In the units of the axes.
    error
        Expected squared error in the unit of the wanted one: noise, and the square of what shortening takes away.
    shortened
        Share of records beyond the radius, by the raw noisy counts; at least 0.
    uncertain
        Standard deviation of that share by noise.
    lost
        L / d, the share of squared length that shortening takes, by the rings.
    """

    radius: float
    error: float
    shortened: float
    uncertain: float
    lost: float


@dataclass(frozen=True, eq=False)
class RingsSeen:
    """Noisy counts of records by their distance.

    Attributes
    ----------
    counts
        Of the rings of :func:`.learned_spread.ring_edges`, shape (rings,).
    deviation
        Standard deviation of their noise.
    records
        Number of records, noisy; at least one is taken.
    dimension
        Number of features.
    """

    counts: Vector
    deviation: float
    records: float
    dimension: int

    @property
    def many(self) -> float:
        """Number of records, at least one."""
        return max(self.records, 1.0)

    @cached_property
    def edges(self) -> Vector:
        """Lengths between which records are counted."""
        return ring_edges(self.dimension)

    @cached_property
    def squares(self) -> Vector:
        """Squared length of a record in each ring."""
        squared_lengths: Vector = self.edges[:-1] * self.edges[1:]
        squared_lengths[0] = self.edges[1] ** 2 / 2.0
        return squared_lengths

    @cached_property
    def standing_out(self) -> Vector:
        """Counts that stand out of their noise, and zeros for the others."""
        return np.where(self.counts > _STANDS_OUT * self.deviation, self.counts, 0.0)

    def lost(self, place: int) -> float:
        """L / d where the radius is the inner end of a ring."""
        radius = float(self.edges[place])
        weights = np.maximum(self.squares - radius * radius, 0.0)
        weights[:place] = 0.0
        near = self.edges[:-1] < _NEAR * max(radius, 2.0 * math.sqrt(self.dimension))
        outermost = int(np.max(np.nonzero(near * self.standing_out)[0], initial=0))
        rings = np.arange(near.size)
        excess = _noisy_sum(weights, self.counts, np.where(near & (rings <= outermost), self.deviation, 0.0))
        excess += math.fsum((weights * self.standing_out * ~near).tolist())
        first = max(outermost + 1, place)
        falling = np.where(near & (rings >= first), _falls(rings - first), 0.0)
        power = math.fsum((falling * falling).tolist())
        if power > 0.0:
            begins = _noisy_sum(falling, self.counts, np.where(falling > 0.0, self.deviation, 0.0)) / power
            excess += begins * math.fsum((weights * falling).tolist())
        return excess / self.many / self.dimension

    @cached_property
    def moved(self) -> float:
        """What shortening moves of covariances, as a part of what is lost."""
        count = max(math.fsum(self.standing_out.tolist()), 1.0)
        mean = math.fsum((self.squares * self.standing_out).tolist()) / count
        variance = math.fsum(((self.squares - mean) ** 2 * self.standing_out).tolist()) / count
        least = 1.0 / math.sqrt(self.dimension)
        return min(max(1.5 * math.sqrt(variance / 2.0) / self.dimension, least), MOST_OF_COVARIANCES)


def _falls(steps: NDArray[np.intp]) -> Vector:
    """Powers by products alone, which are the same on every machine."""
    powers = np.cumprod(np.full(steps.size + 1, _FALLS)) / _FALLS
    decay: Vector = powers[np.clip(steps, 0, steps.size)]
    return decay


Expected = Callable[[float, float, float], float]
"""Squared error that a radius is expected to have, by it, by L / d and by the share of records beyond it."""


def error_of_products(sizes: Vector, noise: float, moved: float) -> Expected:
    """Of a second moment: noise grows with the square of the radius.

    Parameters
    ----------
    sizes
        Lengths of the axes in the unit of the wanted error, shape (d,).
    noise
        Standard deviation of an entry off its diagonal over the number of records, for a radius of one.
    moved
        Root mean square over entries of what shortening moves, as a part of what is lost.
    """
    # All entries of the matrix, of which those of its diagonal have twice the variance of the others.
    squares = (sizes * sizes).tolist()
    size = math.fsum(squares)
    per_radius = (size * size + math.fsum([each * each for each in squares])) * noise**2
    return lambda radius, lost, _: per_radius * radius**4 + (moved * lost * size) ** 2


def error_of_means(sizes: Vector, noise: float) -> Expected:
    """Of means: noise grows with the radius, and they move as :mod:`.shortening` says; parameters as for products."""
    size = math.fsum((sizes * sizes).tolist())
    return lambda radius, lost, share: size * ((noise * radius) ** 2 + OF_MEANS**2 * lost * share)


def chosen_radius(rings: RingsSeen, expected: Expected) -> Radius:
    """Radius of least predicted error, which is the end of a ring."""
    candidates: list[Radius] = []
    for place in range(1, rings.edges.size):
        share = max(math.fsum(rings.counts[place:].tolist()) / rings.many, 0.0)
        uncertain = math.sqrt(rings.counts.size - place) * rings.deviation / rings.many
        radius, lost = float(rings.edges[place]), rings.lost(place)
        candidates.append(Radius(radius, expected(radius, lost, share + uncertain), share, uncertain, lost))
    return min(candidates, key=lambda each: each.error)


def _noisy_sum(weights: Vector, counts: Vector, deviations: Vector) -> float:
    """Sum of weighted counts that have noise, and at least one standard deviation of it."""
    noise = math.sqrt(math.fsum(((weights * deviations) ** 2).tolist()))
    return max(math.fsum((weights * counts * (deviations > 0.0)).tolist()), noise)


def box_error(deviations: Vector, records: float) -> float:
    """Expected squared error of a second moment in the box.

    Parameters
    ----------
    deviations
        Root of the standard deviation of the noise of a sum of squares by feature, off the diagonal, such that an entry
        has the product of two of them; in the unit of the wanted error, shape (d,).
    records
        Number of records, noisy.
    """
    own = deviations**2
    total = math.fsum(own.tolist())
    # Entries of the diagonal have twice the variance of the others.
    return (total * total + math.fsum((own * own).tolist())) / max(records, 1.0) ** 2
