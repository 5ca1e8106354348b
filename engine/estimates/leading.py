"""Leading eigenvalues of a matrix that is too large to hold: few passes over it, each error bounded.

Reading the matrix costs more than multiplying it, so a whole block of vectors is multiplied in each pass.

**Source**: Golub and Underwood, 1977 (block Lanczos with full reorthogonalisation); Parlett, 1998, Theorem 4.5.1
(residual bound).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.product_threads import one_thread

Array = NDArray[np.float64]

_SPARE = 8
_DEPENDENT = 1e-10


@dataclass(frozen=True, eq=False)
class Leading:
    """Largest eigenvalues found.

    Attributes
    ----------
    values
        Descending, shape (k,), in the unit of the matrix.
    errors
        An eigenvalue of the matrix lies within this distance of each value, shape (k,). Rounding aside, no value
        exceeds the eigenvalue of its rank.
    vectors
        Orthonormal, shape (n, k).
    passes
        How often the matrix was multiplied.
    """

    values: Array
    errors: Array
    vectors: Array
    passes: int


def leading_eigenvalues(
    multiply: Callable[[Array], Array],
    size: int,
    wanted: int,
    *,
    passes: int = 12,
    tolerance: float = 1e-4,
    floor: float = -np.inf,
) -> Leading:
    """Largest eigenvalues of a symmetric matrix.

    Parameters
    ----------
    multiply
        Product of the matrix with a block of vectors, shape (n, b) to (n, b).
    size
        Order n of the matrix.
    wanted
        Number k of eigenvalues, at most n.
    passes
        Largest number of products. Memory is 16 n (k + 8) bytes for each.
    tolerance
        Stop when all errors are below this share of the largest value.
    floor
        Values that are below this by more than their error need not settle.

    Returns
    -------
    Leading
        The same for the same matrix: the first block of vectors is fixed.
    """
    wanted = min(wanted, size)
    block = _orthonormal(np.random.default_rng(0).standard_normal((size, min(wanted + _SPARE, size))), np.empty(0))
    basis, image = np.empty((size, 0)), np.empty((size, 0))
    for number in range(1, passes + 1):
        product = multiply(block)
        basis, image = np.hstack([basis, block]), np.hstack([image, product])
        leading = _ritz(basis, image, wanted, number)
        block = _orthonormal(product, basis)
        sharp = leading.errors <= tolerance * max(abs(float(leading.values[0])), 1e-300)
        if bool((sharp | (leading.values + leading.errors < floor)).all()) or block.shape[1] == 0:
            break
    return leading


def _ritz(basis: Array, image: Array, wanted: int, passes: int) -> Leading:
    """Eigenvalues of the matrix within the span of a basis; the residual of each bounds its error."""
    inner = basis.T @ image
    with one_thread():  # a few hundred vectors: threads would wait for each other longer than they work
        values, inside = np.linalg.eigh((inner + inner.T) / 2.0)
    chosen = np.argsort(values)[::-1][:wanted]
    values, inside = values[chosen], inside[:, chosen]
    vectors = basis @ inside
    return Leading(values, np.linalg.norm(image @ inside - vectors * values, axis=0), vectors, passes)


def _orthonormal(block: Array, basis: Array) -> Array:
    """Orthonormal vectors that span what a block adds to a basis; none where it adds nothing."""
    scale = float(np.linalg.norm(block))
    if scale == 0.0:
        return np.empty((block.shape[0], 0))
    if basis.size:
        for _ in range(2):  # once is not enough in floating point; twice is (Kahan and Parlett)
            block = block - basis @ (basis.T @ block)
        if basis.shape[1] >= basis.shape[0]:
            return np.empty((block.shape[0], 0))
    with one_thread():
        left, sizes, _ = np.linalg.svd(block, full_matrices=False)
    return left[:, sizes > _DEPENDENT * scale]
