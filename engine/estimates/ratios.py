"""How far noise can take means and covariances from the truth, all of them at once, though they are ratios.

Write n, s, V for the truth (count, sums, second moment), hats for what was released, ``N = n^`` for the divisor,
``m = s / n``, ``M = V / n``, ``C = M - m m'``. With D for noise, these are exact:

* ``m^ - m = (Ds - m Dn) / N`` and ``M^ - M = (DV - M Dn) / N``;
* ``C^ - C = [DV - m Ds' - Ds m' + (m m' - C) Dn] / N - (m^ - m)(m^ - m)'``.

The bracket is linear in the noise, so one band b holds all brackets, sums and the count at once. With mu the standard
deviation of Ds / N and r that of Dn / N, both known, and b r < 1, on that event:

* ``(m^ - m)(1 - Dn / N) = (Ds - m^ Dn) / N``, so ``|m^ - m| <= e = b (mu + |m^| r) / (1 - b r)``;
* the bracket's deviation is known at released values, not at the truth. Of its three independent parts, that of the
  sums is at most the stated one plus ``e_i mu_j + e_j mu_i`` (triangle inequality), that of the count at most the
  stated one plus ``r (|m^_i| e_j + |m^_j| e_i + e_i e_j + |C^ - C|)``;
* so for t, the largest of ``|C^ - C|``: ``t <= b (root of the parts' squares, without that in t) + b r t + e_i e_j``,
  and t is at most the rest over ``1 - b r``.

Where count and diagonal of DV have noise in common (``joined``), these parts of an entry of the diagonal are one, whose
deviation is at most the stated one of the whole entry plus the same.

Nothing is neglected, and where noise is small beside count and means the result is b standard deviations.

A mean alone has an exact interval: ``(s^ - m n^)^2 <= z^2 (var s + m^2 var n)`` holds at the true m with the
probability that one noise stays within z of its standard deviations, and is a quadratic inequality in m (Fieller).

**Source**: derived here, but for the interval of one mean, which is Fieller's, 1954.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RatioErrors:
    """What bounds the errors of means and covariances.

    Attributes
    ----------
    shift
        Released mean about the origin, or of sums of features, shape (d,).
    sums
        Standard deviation of the noise of the sums over the count, shape (d,).
    count
        Standard deviation of the noise of the count over the count; 0 where it is public.
    band
        Standard deviations that hold all linear noises at once.
    joined
        Whether the count has noise in common with entries of the diagonal.
    """

    shift: Array
    sums: Array
    count: float
    band: float
    joined: bool = False

    @classmethod
    def of(
        cls, shift: Array, deviation: Array, count: tuple[float, float], band: float, joined: bool = False
    ) -> RatioErrors:
        """Bounds from what is released.

        Parameters
        ----------
        shift, deviation
            Mean about the origin and its stated standard deviation, shape (d,).
        count
            Noisy count and its standard deviation, which divides at least by the larger of that and 1.
        band, joined
            As above.
        """
        relative = count[1] / max(count[0], count[1], 1.0)
        return cls(shift, np.sqrt(np.maximum(deviation**2 - (shift * relative) ** 2, 0.0)), relative, band, joined)

    @property
    def known(self) -> bool:
        """Whether the count is far enough from zero for a ratio to have an error at all."""
        return self.band * self.count < 1.0

    @property
    def of_mean(self) -> Array:
        """Error of each mean, in its unit, shape (d,); infinite where it is not known."""
        if not self.known:
            return np.full(self.shift.shape, np.inf)
        error: Array = self.band * (self.sums + np.abs(self.shift) * self.count) / (1.0 - self.band * self.count)
        return error

    def interval_of_mean(self, size: float) -> tuple[Array, Array]:
        """Least and largest mean about the origin by Fieller's theorem, shape (d,) each; infinite where not bounded.

        Parameters
        ----------
        size
            Standard deviations z that one linear noise stays within with the wanted probability.
        """
        coefficient = 1.0 - (size * self.count) ** 2
        if coefficient <= 0.0:
            return np.full(self.shift.shape, -np.inf), np.full(self.shift.shape, np.inf)
        # (m^ - m)^2 <= z^2 (mu^2 + m^2 r^2): the roots of m^2 (1 - z^2 r^2) - 2 m m^ + (m^)^2 - z^2 mu^2.
        half = size * np.sqrt((self.shift * self.count) ** 2 + coefficient * self.sums**2)
        return (self.shift - half) / coefficient, (self.shift + half) / coefficient

    @property
    def linear_deviation_of_mean(self) -> Array:
        """Bound of the standard deviation of the linear noise of each mean, at the truth, shape (d,)."""
        deviation: Array = np.hypot(self.sums, (np.abs(self.shift) + self.of_mean) * self.count)
        return deviation

    def parts(
        self, rows: NDArray[np.intp], columns: NDArray[np.intp], value: Array, deviation: Array
    ) -> tuple[Array, Array]:
        """Parts of the error of covariances: a given number of bands of the first, and the second once.

        Parameters
        ----------
        rows, columns
            Features of each, which broadcast to the shape of the others.
        value, deviation
            Released covariances and their stated standard deviations.

        Returns
        -------
        Bound of the standard deviation of the linear noise, at the truth, and bound of what is not linear.
        """
        if not self.known:
            return np.full(np.shape(value), np.inf), np.zeros(np.shape(value))
        error = self.of_mean
        m, n = np.abs(self.shift[rows]), np.abs(self.shift[columns])
        e, f, mu, nu = error[rows], error[columns], self.sums[rows], self.sums[columns]
        more_sums = e * nu + f * mu
        stated_count = np.abs(self.shift[rows] * self.shift[columns] - value) * self.count
        if self.joined:
            stated_count = np.where(rows == columns, np.maximum(deviation, stated_count), stated_count)
        more_count = self.count * (m * f + n * e + e * f)
        variance = deviation**2 + (2.0 * (m * nu + n * mu) + more_sums) * more_sums
        linear = np.sqrt(variance + (2.0 * stated_count + more_count) * more_count)
        whole: Array = (self.band * linear + e * f) / (1.0 - self.band * self.count)
        below: Array = linear + self.count * whole
        rest: Array = e * f
        return below, rest

    def grouped(self, starts: NDArray[np.int64], weights: Array, *, together: bool = False) -> RatioErrors:
        """Errors of weighted sums of neighbouring features.

        Parameters
        ----------
        starts
            First feature of each group, ascending from 0.
        weights
            Weight of each feature, shape (d,), not negative.
        together
            Whether the noise of the features' sums may be correlated; else it is independent.
        """
        shift = np.add.reduceat(weights * self.shift, starts)
        if together:
            sums = np.add.reduceat(weights * self.sums, starts)
            return RatioErrors(shift, sums, self.count, self.band, self.joined)
        variance = np.add.reduceat((weights * self.sums) ** 2, starts)
        return RatioErrors(shift, np.sqrt(variance), self.count, self.band, self.joined)

    def stated_shared(self, starts: NDArray[np.int64], weights: Array) -> Array:
        """Part of the sum of the stated variances of a block's covariances that comes from the sums' noise.

        Parameters as for :meth:`grouped`; of blocks on the diagonal, entries and their mirror images are one number.
        Returns shape (groups, groups).
        """
        means, sums = (np.add.reduceat((weights * part) ** 2, starts) for part in (self.shift, self.sums))
        variance: Array = np.outer(means, sums) + np.outer(sums, means)
        np.fill_diagonal(variance, 2.0 * np.diagonal(variance))
        return variance

    def shared(self, value: Array) -> Array:
        """Variance of covariances that comes from the noise of the sums and of the count, shape (d, d), at values."""
        own = np.diag(2.0 * (self.shift * self.sums) ** 2)
        crossed = np.outer(self.shift**2, self.sums**2)
        count = (np.outer(self.shift, self.shift) - value) ** 2 * self.count**2
        variance: Array = crossed + crossed.T + own + count
        return variance
