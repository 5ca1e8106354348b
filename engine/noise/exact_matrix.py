"""Matrices of whole numbers of any size, exactly; and factors of float matrices that are the same on every machine.

Matrices of whole numbers are NumPy arrays of Python integers. Factors use elementwise IEEE arithmetic alone (no BLAS,
no sums whose order a machine may choose), so they are the same bits everywhere; their rounding error is whatever it is
and is to be certified by whoever uses them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.geometry import Matrix

Integers = NDArray[np.object_]
"""Python integers, any shape."""


def integers(values: Any) -> Integers:
    """Array of Python integers of the same values, which must be whole."""
    array = np.asarray(values)
    numbers = np.empty(array.shape, dtype=object)
    numbers[...] = array.astype(np.int64).tolist() if array.dtype != object else array
    return numbers


def integer_parts(values: Matrix) -> Integers:
    """Float values without their fractions, as Python integers."""
    parts = np.empty(values.shape, dtype=object)
    parts[...] = [[int(value) for value in row] for row in values]
    return parts


def identity(size: int, unit: int) -> Integers:
    """``unit`` times the identity."""
    matrix = np.empty((size, size), dtype=object)
    matrix[...] = 0
    matrix[np.diag_indices(size)] = unit
    return matrix


def inverse_root(matrix: Matrix) -> Matrix | None:
    """Lower triangular X with ``X P X' = I`` up to rounding, or None where P is not found to be positive definite.

    Parameters
    ----------
    matrix
        P, symmetric, shape (d, d); not modified.
    """
    rest, d = matrix.copy(), matrix.shape[0]
    factor = np.zeros_like(rest)
    for j in range(d):
        pivot = float(rest[j, j])
        if not pivot > 0.0:
            return None
        factor[j:, j] = rest[j:, j] / math.sqrt(pivot)
        rest[j + 1 :, j + 1 :] -= np.multiply.outer(factor[j + 1 :, j], factor[j + 1 :, j])
    inverse = np.eye(d)
    for j in range(d):
        inverse[j, : j + 1] /= factor[j, j]
        inverse[j + 1 :, : j + 1] -= np.multiply.outer(factor[j + 1 :, j], inverse[j, : j + 1])
    return inverse


def complement(direction: Integers, bits: int) -> Integers:
    """Nearly orthonormal columns that are nearly orthogonal to a direction, in units of ``2**-bits``.

    Parameters
    ----------
    direction
        Shape (d,), not zero, any length.
    bits
        Precision.

    Returns
    -------
    Shape (d, d - 1): columns of the reflection that maps the direction to the first axis.
    """
    length = math.isqrt(int(np.sum(direction * direction)) << (2 * bits))
    normal = direction * (1 << bits)
    normal[0] += length if direction[0] >= 0 else -length
    square = int(np.sum(normal * normal))
    reflected = (np.multiply.outer(normal, normal[1:]) << (bits + 1)) // square
    columns: Integers = identity(direction.size, 1 << bits)[:, 1:] - reflected
    return columns
