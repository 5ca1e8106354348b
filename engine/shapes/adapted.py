"""The ellipsoid of least noise for records whose covariance is public.

Noise ``E / mu^2`` is the least covariance, for every importance of errors at once, that hides changes with
``d' E^-1 d <= 1``. Which E to clip records to depends on what typical records are like.

**Source**: Joseph and Yu, 2023 (elliptic noise); the choice of E is derived here.
"""

from __future__ import annotations

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.records.geometry import Matrix, Vector

FLOOR = 1e-3
"""Least eigenvalue that a shape follows, relative to the largest, unless another is asked for."""

LEAST_FLOOR = 1e-12
"""A shape at this floor is a millionth as wide as long, in weighted units; clipping cannot follow a flatter one."""


def adapted_shape(covariance: Matrix, importance: Vector, floor: float = FLOOR) -> Matrix:
    """Shape E of least noise for records of this covariance, scaled so that ``tr(E^-1 S) = 1``.

    E is proportional to ``W^-1/2 (W^1/2 S W^1/2)^1/2 W^-1/2``, which is ``S^1/2`` for equal importances. Clipping to it
    cuts records beyond ``E^-1`` norm one, so scale it by the number of typical lengths to keep. The covariance must be
    public: from another source, or from a release that was paid for. Small and negative eigenvalues of
    ``W^1/2 S W^1/2``, which noise makes, are raised to a share of the largest: any share is private, and the best lies
    where the noise of the covariance does.

    Parameters
    ----------
    covariance
        Public covariance S of the records, shape (d, d), raw units squared.
    importance
        Weights w of squared errors, positive, shape (d,).
    floor
        That share, between 1e-12 and 1; a shape with floor 1 is as wide as long.

    Returns
    -------
    Symmetric positive definite, shape (d, d).

    Raises
    ------
    CalibrationError
        The covariance has no positive eigenvalue, or the floor or an importance is out of range.
    """
    if importance.ndim != 1 or not np.all(np.isfinite(importance)) or np.any(importance <= 0):
        raise CalibrationError("an importance is not positive and finite; give one for each feature")
    root = np.sqrt(importance)
    size, vectors = _roots(covariance, root, floor)
    shape = (vectors * size) @ vectors.T / np.outer(root, root)
    # tr(E^-1 S) = sum of lambda / sqrt(lambda) over the raised eigenvalues.
    ellipsoid: Matrix = shape * float(np.sum(size))
    return (ellipsoid + ellipsoid.T) / 2.0


def _roots(covariance: Matrix, root: Vector, floor: float) -> tuple[Vector, Matrix]:
    """Square roots of the raised eigenvalues of ``W^1/2 S W^1/2``, and its eigenvectors."""
    if not LEAST_FLOOR <= floor <= 1.0:
        raise CalibrationError(f"the floor is {floor:g}; it is a share of the largest eigenvalue; give 1e-12 to 1")
    values, vectors = np.linalg.eigh(np.outer(root, root) * (covariance + covariance.T) / 2.0)
    if not values[-1] > 0:
        raise CalibrationError("the covariance has no positive eigenvalue; its noise exceeds it; use a declared shape")
    return np.sqrt(np.maximum(values, floor * values[-1])), vectors
