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

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.records.geometry import Matrix, Vector

_UP = 1.0 + 1e-12
_FLAT = 2.0**-46
"""Directions shorter than this beside the longest are rounding, for a set of a few points; grows with its size."""


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
    projection, core, expansion
        Shapes (r, n), (r, r), (n, r), with r the dimension of the span; ``K = expansion core expansion'``. Where r is
        below n, release ``projection f + N(0, core)`` and expand it: what is left of f is not private by noise, it is
        known beforehand, and must come from a public point and not from the records.
    """

    covariance: Matrix
    total: float
    lower_bound: float
    projection: Matrix
    core: Matrix
    expansion: Matrix

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
        Relative gap at which the search ends; it ends after 20,000 rounds in any case, private as it is.

    Raises
    ------
    CalibrationError
        No change differs from zero, the set is nearly but not exactly flat, or a parameter is not positive and finite.
    """
    if not (math.isfinite(mu) and mu > 0) or np.any(importance <= 0) or not np.all(np.isfinite(importance)):
        raise CalibrationError("mu and importances must be positive and finite; state them")
    if changes.ndim != 2 or changes.shape[1] != importance.size or not np.all(np.isfinite(changes)):
        raise CalibrationError("changes are rows of finite numbers, one for each importance; correct them")
    size = float(np.max(np.abs(changes), initial=0.0))
    root = np.sqrt(importance)
    if not size > 0:
        raise CalibrationError("no change differs from zero; then nothing needs noise; correct the set")
    basis = _span(changes / size * root)
    points = (changes / size * root) @ basis
    weights = _weights(points, tolerance)
    _, values, rows = np.linalg.svd(np.sqrt(weights)[:, None] * points, full_matrices=False)
    core = _private(points, values, rows) * (size / mu) ** 2
    expansion = basis / root[:, None]
    covariance = expansion @ core @ expansion.T
    # Any weights prove this bound; the sum of singular values is the trace of the root of C.
    lower = (float(np.sum(values)) * size / mu) ** 2 * (1.0 - 1e-12)
    total = float(np.trace(core))
    return Solution((covariance + covariance.T) / 2.0, total, lower, basis.T * root, core, expansion)


def _weights(points: Matrix, tolerance: float) -> Vector:
    """Weights that nearly reach the maximum of the dual."""
    pi = np.full(points.shape[0], 1.0 / points.shape[0])
    for _ in range(20_000):
        values, vectors = np.linalg.eigh(points.T @ (pi[:, None] * points))
        root = np.sqrt(np.maximum(values, 1e-24 * values[-1]))
        lengths = (points @ vectors) ** 2 @ (1.0 / root)
        # The mean of lengths under pi is the trace of the root: at the maximum no length exceeds it.
        if float(np.max(lengths)) <= float(np.sum(root)) * (1.0 + tolerance):
            break
        pi = pi * np.sqrt(lengths)
        pi = pi / np.sum(pi)
    return pi


def _private(points: Matrix, values: Vector, rows: Matrix) -> Matrix:
    """``rows' diag(values) rows``, scaled so that no point has a length above one, rounding included."""
    condition = float(values[0] / values[-1]) if values[-1] > 0 else math.inf
    if not condition <= 1e9:
        raise CalibrationError(
            f"the longest direction of the set is {condition:.1e} times the shortest; at most 1e9 can be made private; "
            "rescale the entries, or leave out those that hardly change"
        )
    largest = float(np.max((points @ rows.T) ** 2 @ (1.0 / values)))
    # Values and rows err by a few n 2**-53 of the largest value, which the shortest direction magnifies.
    margin = _UP + 2.0**-46 * values.size * condition
    matrix: Matrix = (rows.T * (values * largest * margin)) @ rows
    return (matrix + matrix.T) / 2.0


def _span(points: Matrix) -> Matrix:
    _, values, rows = np.linalg.svd(points, full_matrices=False)
    basis: Matrix = rows[values > _FLAT * max(points.shape) ** 0.5 * values[0]].T
    return basis
