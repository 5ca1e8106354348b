"""How far statistics of the records may be from those of the population that these are a sample of.

The records are taken for n independent draws from one law. What their moments then say of it has, beside the noise of
the release, the error of the sample. Its variance, with C for the covariance, r for a correlation, and lambda, v for
eigenvalues and directions of C:

* mean: ``C_ii / n``, for any law with a variance;
* covariance: ``(C_ii C_jj + C_ij^2) / n``; correlation: ``(1 - r^2)^2 / n``; variance along a component:
  ``2 lambda^2 / n``, of correlations as in :func:`of_components`. These take a normal law: of one with heavier tails
  (kurtosis) they are too small, of a bounded one too large;
* regression: ``s^2 (T_xx + r I)^-1 T_xx (T_xx + r I)^-1`` for the variance s^2 of what is left over, the same for all
  values of the features.

A second moment does not hold what other laws would need. All are evaluated at the estimates, of which variances count
as zero at least. The records are as the release has them: clipped and rounded. Noise and sample are independent, so
variances add up.

**Source**: Anderson, 2003, sections 3.2, 4.2 and 13.5 (normal laws); White, 1980 (what other laws need).
"""

from __future__ import annotations

import numpy as np

from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.estimates.noisy_moments import Array


def with_sample(found: Estimate, sampling: Array) -> Estimate:
    """The same values with the error of noise and sample together.

    Parameters
    ----------
    found
        Values and standard deviations of their noise.
    sampling
        Standard deviations by the sample, of the same shape.
    """
    return Estimate(found.value, np.hypot(found.standard_deviation, sampling))


def of_mean(covariance: Array, count: float) -> Array:
    """Standard deviation of each mean by the sample, shape (d,), from a covariance, shape (d, d)."""
    return np.sqrt(np.maximum(np.diagonal(covariance), 0.0) / count)


def of_covariance(covariance: Array, count: float) -> Array:
    """Standard deviation of each covariance by a sample from a normal law, shape (d, d)."""
    own = np.maximum(np.diagonal(covariance), 0.0)
    return np.asarray(np.sqrt((np.outer(own, own) + covariance**2) / count))


def of_correlation(correlation: Array, count: float) -> Array:
    """Standard deviation of each correlation by a sample from a normal law, shape (d, d)."""
    return np.asarray((1.0 - np.minimum(correlation**2, 1.0)) / np.sqrt(count))


def of_components(matrix: Array, variances: Array, loadings: Array, scaled: bool, count: float) -> Array:
    """Standard deviation of the variance along each component by a sample from a normal law, shape (k,).

    With G for the gradient ``v v'``, of correlations ``v v' - lambda diag(v^2)``, it is the root of
    ``2 tr(G C G C) / n``.

    Parameters
    ----------
    matrix
        Covariance or correlation, shape (d, d).
    variances, loadings
        Its eigenvalues, shape (k,), and unit rows, shape (k, d).
    scaled
        Whether the matrix is a correlation.
    count
        Number n of records.
    """
    deviations = np.maximum(variances, 0.0) * np.sqrt(2.0 / count)
    if not scaled:
        return np.asarray(deviations)
    for i, (size, vector) in enumerate(zip(variances, loadings, strict=True)):
        product = (np.outer(vector, vector) - size * np.diag(vector**2)) @ matrix
        deviations[i] = np.sqrt(max(2.0 * float(np.sum(product * product.T)), 0.0) / count)
    return np.asarray(deviations)
