"""What shortening records to a learned ellipsoid takes from their means and covariances, as far as anything tells it.

Let l_i be what it takes from the variance of feature i. Shortened records keep their directions, so that by the
inequality of Cauchy and Schwarz a second moment about the centre is off by ``sqrt(l_i l_j)`` at most, and a mean by
``sqrt(l_i p)``, p being the share of records that are shortened; l itself is estimated, so none of it is a bound. Of
normal, skewed and heavy-tailed records, also of such with tails of their own by feature, covariances were found to be
off by ``sqrt(l_i l_j)`` times 1.0 to 1.3 of the correlation, give or take 0.2, and means by a third of theirs at most.
That is what is stated, as a standard deviation:

    variances       ``l_i``
    covariances     ``sqrt(l_i l_j) min(1, (0.2^2 + (1.1 r_ij)^2)^0.5)``, r the released correlation
    means           ``0.33 sqrt(l_i p)``

Nobody knows l_i. With v_i the released variance, at least twice its noise, L the share of all squared length that is
lost by the rings, and a pilot in the declared box, which shortens nothing:

* ``L v_i`` is taken by usual records;
* a few records far out can have much of the length and hide in the noise of all rings: of values that are skewed or
  have heavy tails a quarter of it, not spread evenly over features. So t = ``(L + 1/4) v_i`` may be taken. Where an
  earlier release is in the place of pilots, t is what it stated of itself, up to twice that;
* the answer falls behind the pilot by b_i, with noise of s_i. If l_i is normal about zero with the deviation t, its
  root mean square is then that of ``w b`` and ``(1 - w)^0.5 t``, with ``w = t^2 / (t^2 + s^2)``;
* and no less is stated than what usual records lose, nor than ``b_i - 2 s_i``.

Totals have no variances of their own. Of each t is taken, of the variances that its axes are of.

**Source**: derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.matrices import CovarianceEstimates, Estimate, divisor_of
from blockveil.engine.records.geometry import Vector

Places = NDArray[np.intp]

UNSEEN = 0.25
"""Share of a variance that may hide in the noise of all rings."""

_ANY, _OF_CORRELATION, OF_MEANS = 0.2, 1.1, 0.33
"""See the module."""

_SEEN = 2.0
"""Multiple of its noise by which less may be taken than the answer falls behind."""


@dataclass(frozen=True, eq=False)
class Shortening:
    """What the first stages of a night tell about it.

    Attributes
    ----------
    units
        Axes of the ellipsoid for a radius of one, raw units, shape (d,).
    lost
        L / d, the share of squared length in these units that shortening takes, by the rings.
    share
        Share of records that are shortened, by the rings and once its noise.
    unshortened
        Variances by the pilot in the declared box and the standard deviations of their noise, raw units, shape (d,)
        each; None where an earlier release was in its place.
    known
        Shares of variances that this release stated, shape (d,); None where there was none.
    """

    units: Vector
    lost: float
    share: float
    unshortened: tuple[Vector, Vector] | None = None
    known: Vector | None = None

    def taken(self, variances: Vector, noise: Vector) -> Vector:
        """What is taken from each variance, raw units, shape (d,).

        Parameters
        ----------
        variances, noise
            Of each feature by the answer, and the standard deviation of its noise; raw units, shape (d,).
        """
        size, behind, doubt = np.maximum(variances, 2.0 * noise), np.zeros(noise.size), np.full(noise.size, np.inf)
        if self.unshortened is not None:
            behind, doubt = np.maximum(self.unshortened[0] - variances, 0.0), np.hypot(self.unshortened[1], noise)
        usual = self.lost * noise.size / math.fsum((size / self.units**2).tolist()) * size
        likely = usual + UNSEEN * size
        if self.known is not None:
            likely = np.minimum(2.0 * likely, self.known * size)
        weight = np.hypot(1.0, doubt / likely) ** -2.0
        likely = np.hypot(weight * behind, np.sqrt(1.0 - weight) * likely)
        shortfall: Vector = np.maximum(np.maximum(usual, likely), behind - _SEEN * doubt)
        return shortfall

    def of_means(self) -> tuple[Vector, Vector]:
        """What is taken from variances where the answer has none, and standard deviations of means; shape (d,) each.

        Axes for means are the standard deviations that pilots saw, raw units.
        """
        variances = (self.lost + UNSEEN) * self.units**2
        return variances, OF_MEANS * np.sqrt(variances) * np.sqrt(self.share)


@dataclass(frozen=True, eq=False)
class TakenByFeature:
    """Errors that shortening adds to any entries of a covariance, from numbers by feature.

    Attributes
    ----------
    variances
        What is taken of variances, raw units squared, shape (d,).
    sizes
        Standard deviations in which covariances are correlations, raw units, shape (d,).
    share
        Share of records that are shortened, as of :class:`Shortening`.
    """

    variances: Vector
    sizes: Vector
    share: float

    @classmethod
    def of(cls, variances: Vector, share: float, released: Vector) -> TakenByFeature:
        """From what is taken of variances.

        Parameters
        ----------
        variances
            As of :meth:`Shortening.taken`.
        share
            As of :class:`Shortening`.
        released
            Variances as released, shape (d,).
        """
        sizes = np.sqrt(np.maximum(np.maximum(released, variances), np.finfo(np.float64).tiny))
        return cls(variances, sizes, share)

    @property
    def means(self) -> Vector:
        """Standard deviations of means, raw units, shape (d,)."""
        deviations: Vector = OF_MEANS * np.sqrt(self.variances) * np.sqrt(self.share)
        return deviations

    def at(self, rows: Places, columns: Places, covariance: Vector) -> tuple[Vector, Vector]:
        """Standard deviations of covariances, and of the same if these were zero; of a zero variance nothing is taken.

        Parameters
        ----------
        rows, columns
            Features of each entry, in shapes that give the one of the entries.
        covariance
            Entries as released.
        """
        root, same = np.sqrt(self.variances), rows == columns
        correlation = covariance / self.sizes[columns] / self.sizes[rows]
        part = np.minimum(1.0, np.hypot(_ANY, _OF_CORRELATION * correlation))
        largest = root[rows] * root[columns]
        deviations: Vector = largest * np.where(same, 1.0, part)
        return deviations, np.where(same, 0.0, largest * _ANY)


@dataclass(frozen=True, eq=False)
class TakenByShortening:
    """Errors that shortening adds to a covariance, raw units.

    Attributes
    ----------
    means, covariances
        Standard deviations, shapes (d,) and (d, d).
    second_moments
        Of the second moment about a point, over the number of records, shape (d, d).
    unrelated
        Standard deviations of covariances if they were zero, shape (d, d); of a variance of zero nothing can be taken.
    """

    means: Vector
    covariances: Vector
    second_moments: Vector
    unrelated: Vector

    @classmethod
    def of(cls, variances: Vector, share: float, covariance: Vector, shift: Vector) -> TakenByShortening:
        """From what is taken of variances.

        Parameters
        ----------
        variances
            As of :meth:`Shortening.taken`.
        share
            Share of records that are shortened, as of :class:`Shortening`.
        covariance
            As released, shape (d, d).
        shift
            Means about the point of the second moment, shape (d,).
        """
        by_feature = TakenByFeature.of(variances, share, np.diagonal(covariance))
        along, means = np.arange(variances.size), by_feature.means
        covariances, unrelated = by_feature.at(along[:, None], along, covariance)
        from_means = np.outer(np.abs(shift), means)
        return cls(means, covariances, covariances + from_means + from_means.T, unrelated)

    def beside(self, found: CovarianceEstimates) -> CovarianceEstimates:
        """Estimates with these errors beside those of noise."""
        divisor = float(divisor_of(found.count.value, float(found.count.standard_deviation)))
        return CovarianceEstimates(
            found.count,
            _beside(found.mean, self.means),
            _beside(found.covariance, self.covariances),
            found.covariance_psd,
            _beside(found.second_moment, self.second_moments * divisor),
        )


def _beside(found: Estimate, error: Vector) -> Estimate:
    return Estimate(found.value, np.hypot(found.standard_deviation, error))
