"""Least Gaussian noise for any finite set of answer changes, with a certificate of how far from least it is.

    min { tr(W K) : d' K^-1 d <= mu^2 on D } = mu^-2 max over weights pi on D of (tr (W^1/2 C_pi W^1/2)^1/2)^2,

``C_pi = sum pi_i d_i d_i'``, and the best K is ``W^-1/2 (W^1/2 C W^1/2)^1/2 W^-1/2`` up to scale. The weights are found
by ``pi_i <- pi_i (d_i' K^-1 d_i)^1/2``. Any weights give a lower bound, and scaling their K by the largest
``d_i' K^-1 d_i`` makes it private, so the gap between the two is a proof.

**Source**: Edmonds, Nikolov and Ullman, 2020 (factorisation norms); the iteration is that of optimal design.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.calibration import CalibrationError
from engine.geometry import Matrix, Vector

_UP = 1.0 + 1e-12
_RANK = 1e-10


@dataclass(frozen=True, eq=False)
class Solution:
    """Noise for a finite set.

    Attributes
    ----------
    covariance
        K, shape (n, n); zero outside the span of the changes, where nothing depends on the data.
    total
        ``tr(W K)``.
    lower_bound
        No private Gaussian noise has a smaller total.
    """

    covariance: Matrix
    total: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """How much more than the least total, at most, relative."""
        return self.total / self.lower_bound - 1.0


def least_covariance(changes: Matrix, importance: Vector, mu: float, tolerance: float = 1e-6) -> Solution:
    """Covariance of least weighted total that is private for every listed change.

    Parameters
    ----------
    changes
        The set D, one row each, shape (points, n); with d also -d is covered.
    importance
        Weights w, positive, shape (n,).
    mu
        Loss to spend, positive.
    tolerance
        Relative gap at which the search ends; it ends after 20,000 rounds in any case.

    Raises
    ------
    CalibrationError
        No change differs from zero, or a parameter is not positive and finite.
    """
    if not (math.isfinite(mu) and mu > 0) or np.any(importance <= 0) or not np.all(np.isfinite(importance)):
        raise CalibrationError("mu and importances must be positive and finite; state them")
    if changes.ndim != 2 or changes.shape[1] != importance.size or not np.all(np.isfinite(changes)):
        raise CalibrationError("changes are rows of finite numbers, one for each importance; correct them")
    weighted = changes * np.sqrt(importance)
    basis = _span(weighted)
    points = weighted @ basis
    pi = np.full(points.shape[0], 1.0 / points.shape[0])
    for _ in range(20_000):
        root = _root(points.T @ (pi[:, None] * points))
        lengths = np.einsum("ij,ij->i", np.linalg.solve(root, points.T).T, points)
        trace = float(np.trace(root))
        # Any pi proves trace^2 as a lower bound; root times the largest length is private.
        if float(np.max(lengths)) <= trace * (1.0 + tolerance):
            break
        pi = pi * np.sqrt(np.maximum(lengths, 0.0))
        pi = pi / np.sum(pi)
    largest = float(np.max(lengths))
    shrink = np.sqrt(importance)
    covariance = basis @ (root * (largest * _UP / mu**2)) @ basis.T / np.outer(shrink, shrink)
    total = float(np.sum(np.diagonal(covariance) * importance))
    return Solution((covariance + covariance.T) / 2.0, total, trace**2 / mu**2)


def _span(points: Matrix) -> Matrix:
    _, values, rows = np.linalg.svd(points, full_matrices=False)
    if values.size == 0 or not values[0] > 0:
        raise CalibrationError("no change differs from zero; then nothing needs noise; correct the set")
    basis: Matrix = rows[values > _RANK * values[0]].T
    return basis


def _root(matrix: Matrix) -> Matrix:
    values, vectors = np.linalg.eigh(matrix)
    found: Matrix = (vectors * np.sqrt(np.maximum(values, _RANK**2 * values[-1]))) @ vectors.T
    return found
