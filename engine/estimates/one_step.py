"""Coefficients of a logistic regression with their errors, from weights near them and one released second moment.

At public weights w the second moment holds, of the records (:mod:`.answers.logistic_moments`), the score G, its second
moment B and the Fisher matrix A, each with noise. One step of Newton's method gives the coefficients

    b = w + d,    d = -A^-1 G.

They are those of the largest likelihood, without a ridge and without clipped gradients, however w was found: noise of
the training, weight decay, clipping and steps that are lacking are in ``w - b`` alone, which the step takes away. With
w* for what the exact records give, E for the noise of A and e for that of G,

    A (b - w*) = E (w - w*) - e - R.

* Noise: ``A^-1 (Cov(e) + Cov(E d)) A^-1``, given the released A, where d stands for ``w* - w``.
* R is of second order: in units of A no longer than half the root of ``sum p (1 - p) (z'd)^4`` (by Cauchy and Schwarz,
  with ``|1 - 2p| <= 1``). That sum is taken for ``3 (d'A d)^2 / A_00 + sum_k d_k^4 A_kk`` over the features: what a
  normal ``z'd`` has, and what rare values of one feature add, at most, as no feature exceeds one. R counts as a
  standard deviation of that size, with which intervals of 95 % hold for a shift of any part of it.
* Sample, where the records are independent draws from one law: the sandwich ``A^-1 B A^-1``. It takes no logistic law:
  of another law the coefficients are those of the nearest logistic one. A variance counts as its own noise at least.

Where the least eigenvalue of A is not beyond the usual spectral norm of its noise, A is not told apart from a singular
matrix: no errors are stated then.

**Source**: Le Cam, 1956 (one step); White, 1982 (the sandwich, and what is estimated under another law).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.matrices import Estimate

Array = NDArray[np.float64]

_KURTOSIS = 3.0


@dataclass(frozen=True, eq=False)
class ScoreMoments:
    """What was released at the weights, with the standard deviations of its noise.

    Attributes
    ----------
    score
        ``sum (p - y) z``, shape (k,).
    of_scores
        Its second moment, shape (k, k).
    fisher
        ``sum p (1 - p) z z'``, shape (k, k).
    """

    score: Estimate
    of_scores: Estimate
    fisher: Estimate


@dataclass(frozen=True, eq=False)
class OneStep:
    """Coefficients and their errors, in units of the model's coordinates.

    Attributes
    ----------
    values
        Coefficients, shape (k,); the weights themselves where no errors are stated.
    noise
        Covariance of what noise and the one step leave, shape (k, k); infinite where none is stated.
    sampling
        Covariance by the sample, shape (k, k); infinite where none is stated.
    """

    values: Array
    noise: Array
    sampling: Array

    @property
    def known(self) -> bool:
        """Whether errors are stated."""
        return bool(np.all(np.isfinite(self.noise)))

    def of(self, forms: Array) -> tuple[Array, Array, Array]:
        """Linear functions of the coefficients, and their standard deviations by noise and by the sample.

        Parameters
        ----------
        forms
            One row each, shape (m, k).

        Returns
        -------
        Shape (m,) each; both deviations infinite where none is stated.
        """
        value = forms @ self.values
        if not self.known:
            return value, np.full(len(forms), np.inf), np.full(len(forms), np.inf)
        noise, sampling = (np.einsum("mi,ij,mj->m", forms, each, forms) for each in (self.noise, self.sampling))
        return value, np.sqrt(np.maximum(noise, 0.0)), np.sqrt(np.maximum(sampling, 0.0))


def one_step(weights: Array, moments: ScoreMoments) -> OneStep:
    """Coefficients near some weights.

    Parameters
    ----------
    weights
        Where the moments are of, shape (k,).
    moments
        What was released there.
    """
    fisher, noise = moments.fisher.value, moments.fisher.standard_deviation
    unknown = np.full(fisher.shape, np.inf)
    if not (np.all(np.isfinite(fisher)) and float(np.linalg.eigvalsh(fisher)[0]) > hidden_below(noise)):
        return OneStep(weights.copy(), unknown, unknown)
    inverse = np.asarray(np.linalg.inv(fisher), np.float64)
    step = -inverse @ moments.score.value
    own = np.diag(moments.score.standard_deviation**2) + _along(noise**2, step)
    normal = _KURTOSIS * float(step @ fisher @ step) ** 2 / float(fisher[0, 0])
    # |R|^2 <= sum p (1 - p) (z'd)^4 / 4, and z^4 <= z^2 for each feature.
    second = (normal + float(step[1:] ** 4 @ np.diagonal(fisher)[1:])) / 4.0
    of_noise = inverse @ own @ inverse + second * inverse
    return OneStep(weights + step, of_noise, _sandwich(inverse, moments.of_scores))


def hidden_below(noise: Array) -> float:
    """Least eigenvalue up to which noise hides a matrix: the usual spectral norm of the noise.

    Parameters
    ----------
    noise
        Standard deviation of each entry, shape (k, k).
    """
    # A symmetric matrix of independent entries of standard deviation s has the spectral norm 2 s sqrt(k), nearly.
    return 2.0 * math.sqrt(len(noise) * float(np.mean(_off_diagonal(noise) ** 2)))


def _off_diagonal(matrix: Array) -> Array:
    """Entries beside the diagonal; of one entry alone, it in their place."""
    entries: Array = matrix[~np.eye(len(matrix), dtype=np.bool_)]
    return entries if entries.size else matrix.ravel()


def _along(variances: Array, vector: Array) -> Array:
    """Covariance of E v for a symmetric E of independent entries with these variances."""
    covariance = variances * np.outer(vector, vector)
    np.fill_diagonal(covariance, variances @ vector**2)
    return covariance


def _sandwich(inverse: Array, of_scores: Estimate) -> Array:
    """``A^-1 B A^-1``, whose diagonal counts as its own noise at least."""
    covariance = inverse @ of_scores.value @ inverse
    # v'Ev has the variance sum over i <= j of (2 - [i = j])^2 s_ij^2 v_i^2 v_j^2.
    twice = of_scores.standard_deviation**2 * (2.0 - np.eye(len(inverse)))
    least = np.sqrt(np.einsum("mi,ij,mj->m", inverse**2, twice, inverse**2))
    np.fill_diagonal(covariance, np.maximum(np.diagonal(covariance), least))
    return covariance
