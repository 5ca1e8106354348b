"""Principal directions from a noisy second moment, and how far they may be from the true ones. All post-processing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.error_bounds import subspace_error

Array = NDArray[np.float64]

_STEP_BITS = 40
"""Directions are rounded to 2**-40, far below any noise, so that the last bits of a library hardly show."""


@dataclass(frozen=True, eq=False)
class DirectionEstimate:
    """Leading eigenvectors of a released matrix.

    Attributes
    ----------
    directions
        Unit columns, shape (d, k), largest eigenvalue first; the largest entry of each is positive.
    eigenvalues
        All eigenvalues of the released matrix, descending, shape (d,).
    sine_distance
        Expected squared sine distance from the true leading subspace, first order in the noise, at released
        eigenvalues; at most k.
    """

    directions: Array
    eigenvalues: Array
    sine_distance: float


def leading_directions(matrix: Array, deviation: Array, count: int) -> DirectionEstimate:
    """Leading directions of a symmetric matrix with independent noise in its distinct entries.

    Parameters
    ----------
    matrix, deviation
        Released matrix and the standard deviation of its noise, shape (d, d).
    count
        k, between 1 and d - 1.
    """
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1], vectors[:, ::-1]
    directions = np.ldexp(np.rint(np.ldexp(positive(vectors[:, :count]), _STEP_BITS)), -_STEP_BITS)
    return DirectionEstimate(directions, values, subspace_error(_in_basis(vectors, deviation, count), values, count))


def positive(directions: Array) -> Array:
    """The same directions with the largest entry of each column positive: a sign means nothing."""
    largest = np.argmax(np.abs(directions), axis=0)
    signs = np.where(directions[largest, np.arange(directions.shape[1])] < 0, -1.0, 1.0)
    return directions * signs


def _in_basis(vectors: Array, deviation: Array, count: int) -> Array:
    """Standard deviations of the first rows of ``V'NV``, shape (d, d); other rows are zero and not used.

    ``Var v'Nw = sum_k v_k^2 w_k^2 D_k + sum_(k != l) (v_k^2 w_l^2 + v_k v_l w_k w_l) O_kl`` for variances D, O of N.
    """
    variance = deviation**2
    diagonal = np.diagonal(variance)
    squares = vectors**2
    rotated_variance = np.zeros_like(variance)
    for i in range(count):
        mixed = vectors[:, i, None] * vectors
        crossed = np.einsum("kj,kj->j", mixed, variance @ mixed)
        # Both sums count k = l, which has the variance D once in all.
        rotated_variance[i] = squares[:, i] @ (variance @ squares) + crossed - (squares[:, i] * diagonal) @ squares
    return np.asarray(np.sqrt(np.maximum(rotated_variance, 0.0)))
