"""The integer matrix that is measured of the cells of a column, so that all its quantiles are known about equally well.

A column has n ordered cells; x holds their counts and F the counts up to each of them, ``F_i = x_0 + ... + x_i``. The
*balance* at the upper border of cell i is the number of values up to it less that beyond it, halved:

``s_i = F_i - N / 2``, so ``s = S x`` with ``S_ij = 1/2`` for j <= i and -1/2 elsewhere.

S is a skew-circulant matrix: its rows are shifts of the kernel (1/2, ..., 1/2), whose entries change their sign when
they leave at the end. So is its root B of positive eigenvalues, ``S = U B^2`` with U orthogonal. Measuring ``B x`` with
noise of standard deviation one in each entry and taking ``S B^-1`` of it gives every balance the variance g, and every
column of B the squared length g,

``g = mean over odd m below 2 n of 1 / (2 sin(pi m / 2 n)) = ln(n) / pi + 0.48...``

No factorisation of S has a smaller product of the largest of both: g is the nuclear norm of S over n. B is rounded to
multiples of ``2^-11``, which privacy does not notice: sensitivity and estimate are those of the rounded matrix.

**Source**: Henzinger, Upadhyay and Upadhyay, 2023 (prefix sums by square roots); the balance in place of the prefix
sum, whose root is exact and has columns of equal length, is derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.geometry import Vector

BITS = 11
"""Binary places of a coefficient: a thousand million million records times the largest one stay below 2**62."""

_HALF = 0.5


@dataclass(frozen=True)
class BalanceStrategy:
    """A skew-circulant matrix of integers over ``2**BITS``, from whose answers balances at all borders follow.

    Attributes
    ----------
    cells
        Number n of cells, at least two.
    """

    cells: int

    @cached_property
    def kernel(self) -> NDArray[np.int64]:
        """First column of the matrix, times ``2**BITS``, shape (n,)."""
        root = _kernel(np.sqrt(np.abs(self._balances)), self.cells)
        return np.rint(np.ldexp(root, BITS)).astype(np.int64)

    @cached_property
    def _balances(self) -> NDArray[np.complex128]:
        return _eigenvalues(np.full(self.cells, _HALF))

    @cached_property
    def _estimate(self) -> NDArray[np.complex128]:
        return self._balances / _eigenvalues(np.ldexp(self.kernel.astype(np.float64), -BITS))

    @property
    def squared_length(self) -> int:
        """Squared length of each column of the matrix, times ``4**BITS``: that of the kernel."""
        return int(np.sum(self.kernel**2))

    @property
    def squared_distance(self) -> int:
        """Largest squared distance of two columns, times ``4**BITS``.

        The product of columns i and j > i is entry j - i of the kernel of ``B' B``, for it is skew-circulant too.
        """
        # The transpose has the kernel (b_0, -b_(n-1), ..., -b_1).
        transposed = np.concatenate([self.kernel[:1], -self.kernel[:0:-1]])
        return 2 * (self.squared_length - int(np.min(_product(transposed, self.kernel)[1:])))

    @property
    def sum_of_sizes(self) -> int:
        """Sum of the absolute values of each column, times ``2**BITS``."""
        return int(np.sum(np.abs(self.kernel)))

    def answers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact ``2**BITS B x`` of counts, shape (n,), int64."""
        return _product(self.kernel, counts)

    def balances(self, answers: Vector) -> Vector:
        """Balances at the upper borders of the cells, shape (n,), from noisy ``B x``: without bias."""
        return _kernel(self._estimate * _eigenvalues(answers), self.cells)

    @property
    def deviation(self) -> float:
        """Standard deviation of each balance for noise of standard deviation one: the same at all borders."""
        return float(np.linalg.norm(_kernel(self._estimate, self.cells)))

    @property
    def widest(self) -> float:
        """Largest standard deviation of a combination of balances of norm one, for noise of deviation one."""
        return float(np.max(np.abs(self._estimate)))


def _eigenvalues(kernel: Vector) -> NDArray[np.complex128]:
    """Of the skew-circulant matrix with this kernel, at odd frequencies up to n: a period of 2 n has both signs."""
    return np.fft.rfft(np.concatenate([kernel, -kernel]))[1::2] / 2.0


def _kernel(eigenvalues: NDArray[np.complexfloating], cells: int) -> Vector:
    """The kernel, or the product of a matrix and a vector, of such eigenvalues, shape (n,)."""
    frequencies = np.zeros(cells + 1, dtype=np.complex128)
    frequencies[1::2] = 2.0 * eigenvalues
    return np.fft.irfft(frequencies, 2 * cells)[:cells]


def _product(kernel: NDArray[np.int64], vector: NDArray[np.int64]) -> NDArray[np.int64]:
    """Product of a skew-circulant matrix and a vector, in integers."""
    whole = np.convolve(kernel, vector)
    first = whole[: vector.size].copy()
    first[:-1] -= whole[vector.size :]  # what leaves at the end comes back with the other sign
    return first
