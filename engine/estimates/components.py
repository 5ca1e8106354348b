"""Principal components from a released second moment, and how noise moves them. All post-processing.

Components are eigenvectors v of ``C = T / n`` (of the cross products about the mean, over the count), of the second
moment itself where there is no count, or of the correlation R. To first order in the noise, for different eigenvalues,

* ``d lambda_i = v_i' dC v_i`` and ``d v_i = sum_(j != i) v_j (v_j' dC v_i) / (lambda_i - lambda_j)``;
* ``dC = (B N B' - C dn) / n``, of which the last part moves no direction;
* ``dR = Q dT Q - (E R + R E) / 2`` for ``Q = diag(T)^-1/2`` and ``E = diag(dT_ii / T_ii)``.

A direction whose eigenvalue is close to another one turns by more than first order says; its errors are infinite then.

**Source**: Anderson, 1963; Kato, 1980, section II.2 (perturbation of eigenvalues and eigenvectors).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from blockveil.engine.estimates.correlations import correlation
from blockveil.engine.estimates.directions import positive
from blockveil.engine.estimates.likely_moments import LikelyMoments
from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.estimates.noisy_moments import Array, NoisyMoments, cross_products
from blockveil.engine.estimates.sampling_error import of_components

_SMALL = 0.25
_FEW_OF = 100
"""Features from which on few vectors are computed by themselves, which takes a third of the time of all of them."""


@dataclass(frozen=True, eq=False)
class ComponentEstimates:
    """Leading principal components and their noise.

    Attributes
    ----------
    variances
        Eigenvalues, descending, shape (k,).
    shares
        Of the total variance, shape (k,).
    loadings
        Unit rows, shape (k, d); the largest entry of each is positive.
    sine_distance
        Expected squared sine of the angle between each released direction and its true one, shape (k,), to first
        order; 1 where that is above :data:`_SMALL`, so that first order says too little.
    sampling_error
        Standard deviation of each variance by the sample (:mod:`.sampling_error`), shape (k,); infinite without count.
    shrunk
        Whether they are those of shrunk moments, because no error of any variance is stated for those of the release.
    """

    variances: Estimate
    shares: Estimate
    loadings: Estimate
    sine_distance: Array
    sampling_error: Array
    shrunk: bool


@dataclass(frozen=True, eq=False)
class _Wanted:
    """Which components."""

    moments: NoisyMoments
    count: int
    scaled: bool
    reference: Array

    def matrices(self, stack: Array) -> Array:
        """What the components are eigenvectors of, shape (draws, d, d)."""
        products = cross_products(stack, self.moments.constant)
        if self.scaled:
            root = np.sqrt(np.diagonal(products, axis1=1, axis2=2))
            return np.asarray(products / (root[:, :, None] * root[:, None, :]))
        return products / stack[:, :1, :1] if self.moments.constant else products

    def __call__(self, stack: Array) -> Array:
        """Eigenvalues, shares, and the rows of loadings, shape (draws, 2 + d, k)."""
        matrices = self.matrices(stack)
        there = np.asarray(np.isfinite(matrices).all(axis=(1, 2)))
        values, vectors = _largest(np.where(there[:, None, None], matrices, 0.0), self.count)
        if self.reference.size:
            vectors = vectors * np.where(np.einsum("dfk,fk->dk", vectors, self.reference) < 0, -1.0, 1.0)[:, None, :]
        total = np.trace(matrices, axis1=1, axis2=2)
        statistics = np.concatenate([values[:, None], (values / total[:, None])[:, None], vectors], axis=1)
        return np.where(there[:, None, None], statistics, np.nan)


def components(moments: NoisyMoments, count: int, scaled: bool) -> ComponentEstimates:
    """Leading principal components.

    Parameters
    ----------
    moments
        Released moments; with ``scaled`` they have a constant coordinate.
    count
        Number k of components, between 1 and d.
    scaled
        Whether each feature counts in units of its own standard deviation: components of the correlation.
    """
    statistic = _Wanted(moments, count, scaled, np.empty(0))
    with np.errstate(all="ignore"):
        matrix = statistic.matrices(moments.matrix[None])[0]
    if not np.all(np.isfinite(matrix)):
        return _shrunk(moments, count, scaled)
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1], positive(vectors[:, ::-1])
    statistic = _Wanted(moments, count, scaled, vectors[:, :count])
    deviations, distance = _first_order(moments, values, vectors, count, scaled)
    estimates = statistic(moments.matrix[None])[0]
    variances, shares, *loadings = moments.stated_with_vectors(statistic, deviations, 2)
    if scaled and not np.any(np.isfinite(variances)):
        return _shrunk(moments, count, scaled)
    return ComponentEstimates(
        Estimate(estimates[0], variances),
        Estimate(estimates[1], shares),
        Estimate(estimates[2:].T, np.array(loadings).T),
        np.where(distance <= _SMALL, distance, 1.0),
        of_components(matrix, estimates[0], estimates[2:].T, scaled, float(moments.matrix[0, 0]))
        if moments.constant
        else np.full(count, np.inf),
        False,
    )


def _shrunk(moments: NoisyMoments, count: int, scaled: bool) -> ComponentEstimates:
    """Components of shrunk moments (:mod:`.likely_moments`), where no error of any variance is stated."""
    if not np.all(np.isfinite(moments.matrix)):
        return _nothing(moments.features, count)
    statistic = _Wanted(moments, count, scaled, np.empty(0))
    matrix = (
        correlation(moments).value
        if scaled
        else statistic.matrices(LikelyMoments(moments).possible(moments.matrix[None])[0])[0]
    )
    values, vectors = _largest(matrix[None], count)
    unknown = np.full(count, np.inf)
    loadings = Estimate(positive(vectors[0]).T, np.full((count, moments.features), np.inf))
    shares = values[0] / max(float(np.trace(matrix)), 1e-300)
    return ComponentEstimates(
        Estimate(values[0], unknown), Estimate(shares, unknown), loadings, np.ones(count), unknown, True
    )


def _largest(matrices: Array, count: int) -> tuple[Array, Array]:
    """Largest eigenvalues of each symmetric matrix and their vectors, shapes (draws, k) and (draws, d, k)."""
    size = matrices.shape[1]
    if size < _FEW_OF or 4 * count > size:
        values, vectors = np.linalg.eigh(matrices)
        return values[:, ::-1][:, :count], vectors[:, :, ::-1][:, :, :count]
    indices = [size - count, size - 1]
    eigenpairs = [eigh(matrix, subset_by_index=indices, check_finite=False) for matrix in matrices]
    return np.array([each[::-1] for each, _ in eigenpairs]), np.array([each[:, ::-1] for _, each in eigenpairs])


def _nothing(features: int, count: int) -> ComponentEstimates:
    """Where the released matrix has no components at all."""
    one, all_ = (count,), (count, features)
    line = Estimate(np.full(one, np.nan), np.full(one, np.inf))
    entries = Estimate(np.full(all_, np.nan), np.full(all_, np.inf))
    return ComponentEstimates(line, line, entries, np.ones(one), np.full(one, np.inf), False)


def _first_order(moments: NoisyMoments, values: Array, vectors: Array, count: int, scaled: bool) -> tuple[Array, Array]:
    """Standard deviations as rows of :class:`_Wanted`, and expected squared sines."""
    turn = _Turn(moments, values, vectors, scaled)
    deviations, distance = np.empty((2 + moments.features, count)), np.empty(count)
    total = float(np.sum(values))
    whole = turn.trace()
    for i in range(count):
        of_value = turn.gradient(i)
        of_share = of_value / total - values[i] / total**2 * whole
        deviations[:2, i] = moments.deviations(np.stack([of_value, of_share]))
        with np.errstate(all="ignore"):
            gaps = 1.0 / (values[i] - values)
        gaps[i] = 0.0
        deviations[2:, i], distance[i] = turn.loadings(i, gaps)
    return deviations, distance


@dataclass(frozen=True, eq=False)
class _Turn:
    """Gradients of ``v_j' dC v_i`` in the noise."""

    moments: NoisyMoments
    values: Array
    vectors: Array
    scaled: bool

    def gradient(self, i: int) -> Array:
        """Gradient of the eigenvalue, symmetric, shape (p, p)."""
        moments = self.moments
        if self.scaled:
            return np.asarray(self._of_correlation(i)[i])
        form = self.vectors[:, i] @ moments.centring
        derivative = np.outer(form, form)
        if moments.constant:
            derivative[0, 0] -= self.values[i]
            derivative /= moments.matrix[0, 0]
        return np.asarray(derivative)

    def loadings(self, i: int, gaps: Array) -> tuple[Array, float]:
        """Standard deviation of each entry of a direction, shape (d,), and its expected squared sine."""
        moments = self.moments
        if self.scaled:
            along = gaps[:, None, None] * self._of_correlation(i)
            of_entries = np.tensordot(self.vectors, along, axes=(1, 0))
            return moments.deviations(of_entries), float(np.sum(moments.deviations(along) ** 2))
        # Entries are bilinear forms with the same right vector, and the noise of the count turns no direction.
        left, count = self.vectors.T @ moments.centring, moments.matrix[0, 0] if moments.constant else 1.0
        noise = moments.covariance_along(left[i]) / count**2
        turned = gaps[:, None] * left
        entries = self.vectors @ turned
        variance = np.einsum("fk,kl,fl->f", entries, noise, entries, optimize=True)
        sines = np.einsum("jk,kl,jl->", turned, noise, turned, optimize=True)
        return np.sqrt(np.maximum(variance, 0.0)), float(sines)

    def _of_correlation(self, i: int) -> Array:
        """Gradients of the correlations of one i with every j, symmetric, shape (d, p, p)."""
        own, centring = np.diagonal(self.moments.products), self.moments.centring
        forms = (self.vectors.T / np.sqrt(own)) @ centring
        gradients = (forms[:, :, None] * forms[i][None, None, :] + forms[i][None, :, None] * forms[:, None, :]) / 2.0
        # - (lambda_i + lambda_j) / 2 sum_f v_jf v_if dT_ff / T_ff
        weights = self.vectors.T * self.vectors[:, i] / own * ((self.values[i] + self.values) / 2.0)[:, None]
        return np.asarray(gradients - (centring.T * weights[:, None, :]) @ centring)

    def trace(self) -> Array:
        """Gradient of the total variance, shape (p, p); zero for correlations."""
        moments, centring = self.moments, self.moments.centring
        if self.scaled:
            return np.zeros(moments.matrix.shape)
        gradient = centring.T @ centring
        if moments.constant:
            gradient[0, 0] -= float(np.sum(self.values))
            gradient /= moments.matrix[0, 0]
        return gradient
