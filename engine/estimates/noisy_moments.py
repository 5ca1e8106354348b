"""A released second moment as the source of further statistics, and how its noise moves them. All post-processing.

Write S for the released second moment about the origin, with the constant coordinate in front where there is one, and N
for its noise: symmetric, with independent distinct entries of known variances V. Every statistic here is a function f
of S, and its noise is stated to first order (the delta method):

* ``f(S) - f(S - N) = <G, N>`` for the gradient G of f at the released S, a symmetric matrix;
* ``Var <G, N> = sum_k V_kk G_kk^2 + sum_(k != l) 2 V_kl G_kl^2``, as entry (k, l) counts with its mirror image;
* ``Cov(a'Nb, c'Nd) = sum_kl V_kl (a_k b_l c_k d_l + a_k b_l c_l d_k) - sum_k V_kk a_k b_k c_k d_k``.

First order is true only where noise is small beside what it is added to, which is looked at for each statistic: noise
of the same variances, drawn with a public seed, is added to S and taken from it. What changes by the same amount both
times, ``(f(S + N) + f(S - N)) / 2 - f(S)``, is what first order leaves out; what changes the other way must have the
stated size. Where either fails, no standard error is stated: it is infinite.

**Source**: Oehlert, 1992 (delta method); Hammersley and Morton, 1956 (antithetic draws).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
"""A statistic maps second moments, shape (draws, p, p), to numbers, shape (draws, ...)."""

CURVED = 0.25
"""Largest part that first order may leave out, in standard errors: its root mean square over draws."""

_ODD = (0.6, 1.6)
"""What first order states must be the size of what draws show, up to their own chance."""

_ROUNDING = 1e-9
"""Part of a number that rounding may change, where there is no noise."""

_MOST_PAIRS, _LEAST_PAIRS, _ENTRIES = 64, 8, 2_000_000
_PUBLIC_SEED = 20_261_122


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """A released second moment about the origin.

    Attributes
    ----------
    matrix
        S, symmetric, shape (p, p), in products of the features' units, a sum over records.
    variance
        V, variance of each entry's own noise, symmetric, shape (p, p); distinct entries have independent noise.
    constant
        Whether the first coordinate is the constant one: ``S[0, 0]`` is the count then, and ``S[0, 1:]`` the sums.
    origin
        Point that records are seen from, raw units, shape (d,), without the constant.
    common
        Standard deviation h of what all entries of the diagonal have in common beside that: one number y of variance
        one adds ``y h_k`` to entry (k, k); shape (p,). None where there is nothing.
    seed
        Of the noise that is drawn to judge errors. Anyone may know it: it protects nothing.
    noise
        Variance of the noise alone, shape (p, p), where V includes what shortening records to an ellipsoid is expected
        to take; None where V is that of noise.
    shortened
        Share that shortening takes from each variance, shape (d,); None where V is that of noise.
    """

    matrix: Array
    variance: Array
    constant: bool
    origin: Array
    common: Array | None = None
    seed: int = _PUBLIC_SEED
    noise: Array | None = None
    shortened: Array | None = None

    @property
    def noise_alone(self) -> NoisyMoments:
        """The same with errors by noise alone: what shortening takes is no chance, and is not shrunk like noise."""
        return self if self.noise is None else replace(self, variance=self.noise, noise=None)

    @property
    def features(self) -> int:
        """Number d of features."""
        return int(self.origin.size)

    @property
    def centring(self) -> Array:
        """B with ``dT = B N B'`` for the cross products T about the mean, shape (d, p).

        With ``T = M - s s' / n`` and ``m = s / n``, first order is ``dM - m ds' - ds m' + m m' dn``.
        """
        one = np.eye(self.features)
        return np.hstack([-self.mean[:, None], one]) if self.constant else one

    @property
    def mean(self) -> Array:
        """Mean about the origin, shape (d,); zero where there is no constant: products are about the origin then."""
        return self.matrix[0, 1:] / self.matrix[0, 0] if self.constant else np.zeros(self.features)

    @property
    def products(self) -> Array:
        """Cross products T about the mean, or about the origin without a constant, shape (d, d)."""
        matrix: Array = cross_products(self.matrix[None], self.constant)[0]
        return matrix

    def deviations(self, gradients: Array) -> Array:
        """Standard deviation of ``<G, N>`` for symmetric gradients, shape (..., p, p) to (...)."""
        weights = 2.0 * self.variance
        np.fill_diagonal(weights, np.diagonal(self.variance))
        variance: Array = np.einsum("...kl,kl->...", gradients**2, weights)
        if self.common is not None:
            variance = variance + np.einsum("...kk,k->...", gradients, self.common) ** 2
        return np.asarray(np.sqrt(variance))

    def covariance_along(self, vector: Array) -> Array:
        """Covariance of ``N w`` for one vector w, shape (p,) to (p, p)."""
        covariance: Array = np.diag(self.variance @ vector**2 - np.diagonal(self.variance) * vector**2)
        covariance = covariance + np.outer(vector, vector) * self.variance
        return covariance if self.common is None else covariance + np.outer(self.common * vector, self.common * vector)

    def stated(self, statistic: Statistic, deviation: Array) -> Array:
        """Standard errors of a statistic where first order holds, and infinity elsewhere.

        Parameters
        ----------
        statistic
            The statistic, of a stack of second moments.
        deviation
            Its standard deviation to first order, shape (...).
        """
        here, even, odd = self._moves(statistic)
        return np.where(_is_linear(here, even, odd, deviation), deviation, np.inf)

    def stated_with_vectors(self, statistic: Statistic, deviation: Array, single: int) -> Array:
        """The same where the first rows hold single numbers, and the others vectors, one a column, judged by length.

        An entry that first order hardly moves, as one of a unit vector that is nearly one, may move more by what first
        order leaves out. So the root of both squares is stated.

        Parameters
        ----------
        statistic, deviation
            As above, shape (rows, columns).
        single
            Number of first rows.
        """
        here, even, odd = self._moves(statistic)
        numbers = (part[:single] for part in (here, even, odd, deviation))
        lengths = (np.sqrt(np.sum(part[single:] ** 2, axis=0)) for part in (here, even, odd, deviation))
        linear, turned = _is_linear(*numbers), _is_linear(*lengths)
        alone = np.where(linear, deviation[:single], np.inf)
        return np.vstack([alone, np.where(turned, np.hypot(deviation, even)[single:], np.inf)])

    def _moves(self, statistic: Statistic) -> tuple[Array, Array, Array]:
        """A statistic, and the even and odd parts of its change under draws: root mean squares."""
        pairs = int(np.clip(_ENTRIES // self.matrix.size, _LEAST_PAIRS, _MOST_PAIRS))
        with np.errstate(all="ignore"):
            here = statistic(self.matrix[None])[0]
            even, odd = np.zeros(np.shape(here)), np.zeros(np.shape(here))
            for noise in self.drawn(pairs):
                above, below = statistic(self.matrix + noise), statistic(self.matrix - noise)
                even += np.sum(((above + below) / 2.0 - here) ** 2, axis=0) / pairs
                odd += np.sum(((above - below) / 2.0) ** 2, axis=0) / pairs
        return here, np.sqrt(even), np.sqrt(odd)

    def of(self, columns: list[int]) -> NoisyMoments:
        """Moments of some of the features, by their positions, in this order."""
        coordinates = [0, *(column + 1 for column in columns)] if self.constant else columns
        there = np.ix_(coordinates, coordinates)
        common = None if self.common is None else self.common[coordinates]
        matrix, variance, origin = self.matrix[there], self.variance[there], self.origin[columns]
        noise = None if self.noise is None else self.noise[there]
        shortened = None if self.shortened is None else self.shortened[columns]
        moments = replace(self, matrix=matrix, variance=variance, origin=origin, common=common)
        return replace(moments, noise=noise, shortened=shortened)

    def noise_units(self) -> tuple[Array, float]:
        """Units of the features, shape (d,), in which entries of cross products have noise of one size, and that size.

        Noise of independent entries is that of products: entry (j, k) has the standard deviation ``a_j a_k``.
        """
        lead = int(self.constant)
        variance = self.variance[lead:, lead:]
        sums = variance.sum(axis=1)
        # With V_jk = (a_j a_k)^2 a row sums to a_j^2 |a|^2, and all rows to |a|^4.
        units = np.sqrt(sums / max(np.sqrt(sums.sum()), 1e-300))
        units = np.where(units > 0.0, units, 1.0)
        apart = np.triu_indices(len(units), 1)
        even = variance[apart] / np.outer(units, units)[apart] ** 2
        return units, float(np.sqrt(np.mean(even))) if even.size else 0.0

    def drawn(self, pairs: int) -> Iterator[Array]:
        """Noise of these variances in batches of a bounded number of entries, each of shape (draws, p, p)."""
        random, size = np.random.default_rng(self.seed), self.matrix.shape[0]
        deviation, batch = np.sqrt(self.variance), max(1, _ENTRIES // (2 * size * size))
        for start in range(0, pairs, batch):
            noise = np.triu(random.standard_normal((min(batch, pairs - start), size, size)))
            noise = (noise + np.swapaxes(np.triu(noise, 1), 1, 2)) * deviation
            if self.common is not None:
                noise = noise + random.standard_normal((len(noise), 1, 1)) * np.diag(self.common)
            yield noise


def _is_linear(here: Array, even: Array, odd: Array, deviation: Array) -> NDArray[np.bool_]:
    """Whether first order holds; a comparison with NaN is false."""
    rounding = _ROUNDING * np.abs(here)
    linear = even <= CURVED * deviation + rounding
    sized = (odd >= _ODD[0] * deviation) & (odd <= _ODD[1] * deviation + rounding)
    return np.asarray(linear & sized & np.isfinite(here))


def cross_products(stack: Array, constant: bool) -> Array:
    """Cross products about the mean of second moments, shape (draws, p, p) to (draws, d, d).

    Without a constant coordinate they are the second moments themselves, about the origin.
    """
    if not constant:
        return stack
    sums = stack[:, 0, 1:]
    products: Array = stack[:, 1:, 1:] - sums[:, :, None] * sums[:, None, :] / stack[:, :1, :1]
    return products
