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
Rings up to twice the radius, and to four usual lengths, are taken by their raw counts, for as much as one standard
deviation of their noise at the least; further ones count as empty where they do not stand out of theirs, since a
few records there would outweigh all others. At worst an entry of the second moment is off by L; of skewed,
heavy-tailed and normal records the root mean square over entries was found to be 0.45 L / d, and that over
correlations, which are ratios, 0.05 to 0.24 L / d: a radius for correlations is smaller. What is stated of each entry
is in :mod:`.shortening`.

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

import numpy as np

from blockveil.engine.answers.learned_spread import ring_edges
from blockveil.engine.estimates.shortening import OF_MEANS
from blockveil.engine.records.geometry import Vector

_STANDS_OUT = 4.0
"""Standard deviations by which a ring's count stands out of its noise."""

_NEAR = 2.0
"""Multiple of a radius, or of two usual lengths, up to which raw counts are taken."""

_REACH = 4.0
"""Standard deviations about the mean that nearer bounds hold."""

MOVED = {"covariance": 0.45, "correlation": 0.12}
"""Root mean square over entries of what shortening moves, as a share of what is lost."""

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
        known = self.variance > _KNOWN * self.noise
        mine, other = (self.mean, self.variance, self.noise), (nearer.mean, nearer.variance, nearer.noise)
        mean, variance, noise = (np.where(known, one, two) for one, two in zip(mine, other, strict=True))
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
        Of :data:`MOVED`.
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


def chosen_radius(counts: Vector, deviation: float, records: float, dimension: int, expected: Expected) -> Radius:
    """Radius of least predicted error.

    Parameters
    ----------
    counts
        Noisy counts of the rings of :func:`.learned_spread.ring_edges`, shape (rings,).
    deviation
        Standard deviation of their noise.
    records
        Number of records, noisy; at least one is taken.
    dimension
        Number of features.
    expected
        What is to be least.
    """
    edges, many = ring_edges(dimension), max(records, 1.0)
    seen = np.where(counts > _STANDS_OUT * deviation, counts, 0.0)
    middle = edges[:-1] * edges[1:]
    middle[0] = edges[1] ** 2 / 2.0
    candidates: list[Radius] = []
    usual = 2.0 * math.sqrt(dimension)
    for place, radius in enumerate(edges[1:].tolist(), start=1):
        near = edges[place:-1] < _NEAR * max(radius, usual)
        taken = np.where(near, counts[place:], seen[place:])
        lost = _lost(np.maximum(middle[place:] - radius * radius, 0.0), taken, deviation * near) / many / dimension
        share = max(math.fsum(counts[place:].tolist()) / many, 0.0)
        uncertain = math.sqrt(len(counts) - place) * deviation / many
        error = expected(radius, lost, share + uncertain)
        candidates.append(Radius(radius, error, share, uncertain, lost))
    return min(candidates, key=lambda each: each.error)


def _lost(weights: Vector, counts: Vector, deviations: Vector) -> float:
    """Sum of weighted counts, and at least one standard deviation of its noise."""
    noise = math.sqrt(math.fsum(((weights * deviations) ** 2).tolist()))
    return max(math.fsum((weights * counts).tolist()), noise)


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
