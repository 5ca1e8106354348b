"""Post-processing of released matrices; costs no privacy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def symmetrise(matrix: Matrix) -> Matrix:
    """Average of a square matrix and its transpose: exactly symmetric."""
    return (matrix + matrix.T) / 2.0


def nearest_psd(matrix: Matrix) -> tuple[Matrix, float]:
    """Nearest positive semi-definite matrix in Frobenius norm.

    Parameters
    ----------
    matrix
        Shape (d, d), finite; its symmetric part is used.

    Returns
    -------
    The exactly symmetric projection, shape (d, d), and the sum of the absolute values of the eigenvalues cut off.

    **Source**: Higham, 1988, Theorem 2.1.
    """
    symmetric = symmetrise(matrix)
    values, vectors = np.linalg.eigh(symmetric)
    negative = values < 0.0
    if not negative.any():
        return symmetric, 0.0
    basis = vectors[:, ~negative]
    return symmetrise((basis * values[~negative]) @ basis.T), float(-values[negative].sum())
