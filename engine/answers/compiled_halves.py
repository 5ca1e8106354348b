"""Halves of integers, and the sum of their products, in one pass each, compiled: the same integers as by NumPy.

The two kernels here are plain Python on arrays, far too slow to run as they are. Whoever has a compiler calls
:func:`compiled_by` with it, and :func:`use` with what that returns; until then NumPy does the work of
:mod:`.half_sums`. All sums are in whole numbers of 64 bits. :func:`compiled_by` compares both ways on every integer of
16 bits and at the ends of 32, and hands out nothing that differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.eight_bit import LARGEST_OF_HALVES, SHIFT, Sums

Kernel = Callable[..., None]

_COLUMNS = 37
"""Columns where both ways are compared; no processor's vectors fill them."""


class HalvesMismatch(ArithmeticError):
    """What a compiler made gives other integers than NumPy does, so that it may not be used."""


@dataclass(frozen=True)
class HalfKernels:
    """Compiled functions, which release the interpreter's lock and were compared with NumPy.

    Attributes
    ----------
    split
        See :func:`split`.
    fold
        See :func:`fold`.
    """

    split: Kernel
    fold: Kernel


_in_use: list[HalfKernels] = []


def use(kernels: HalfKernels | None) -> None:
    """Let every sum of products by halves of this process work with them; None leaves the work to NumPy."""
    _in_use[:] = [] if kernels is None else [kernels]


def compiled_by(compiler: Callable[[Callable[..., None]], Kernel]) -> HalfKernels:
    """Kernels, compared with NumPy.

    Parameters
    ----------
    compiler
        Compiles a function of arrays for the types of each call.

    Raises
    ------
    HalvesMismatch
        The comparison failed.
    """
    kernels = HalfKernels(compiler(_split), compiler(_fold))
    numbers = np.arange(-LARGEST_OF_HALVES - 1, LARGEST_OF_HALVES + 1)
    whole = np.resize(numbers, (numbers.size // _COLUMNS + 1, _COLUMNS)).astype(np.float32)
    for integers in (whole, whole[:, :-1]):  # in C order, and a part of wider records, are two types for a compiler
        exact = integers.astype(np.int64)
        high, low = np.divmod(exact, 256)
        halves = [np.zeros(exact.shape, np.int8) for _ in range(2)]
        outputs: list[NDArray[Any]] = [*halves, np.ones(exact.shape[1], np.int64)]
        kernels.split(integers, *outputs)
        expected: list[NDArray[Any]] = [high, low - SHIFT, 1 + (exact - SHIFT).sum(axis=0)]
        if not all(np.array_equal(a, b) for a, b in zip(outputs, expected, strict=True)):
            raise HalvesMismatch("compiled code cuts integers into other halves than NumPy")
    products = np.random.default_rng(7).integers(-(2**31), 2**31, (4, 5, _COLUMNS), np.int32)
    products[:, 0], products[:, 1] = 2**31 - 1, -(2**31)
    total = np.full(products.shape[1:], 11, np.int64)
    kernels.fold(products, total)
    first, second, third, fourth = products.astype(np.int64)
    if not np.array_equal(total, 11 + 2**16 * first + 2**8 * (second + third) + fourth):
        raise HalvesMismatch("compiled code adds up other sums than NumPy")
    return kernels


def split(
    integers: NDArray[np.float32], high: NDArray[np.int8], low: NDArray[np.int8], sums: NDArray[np.int64]
) -> bool:
    """Cut integers into halves, ``x = 256 h + l + 128``, and add ``x - 128`` of each column to sums.

    Parameters
    ----------
    integers
        Of at most 2**15 - 1, shape (n, w).
    high, low
        Receive h and l, shape (n, w), C order.
    sums
        Shape (w,).

    Returns
    -------
    Whether this process has a kernel, and did it.
    """
    if _in_use:
        _in_use[0].split(integers, high, low, sums)
    return bool(_in_use)


def fold(products: Sums, total: NDArray[np.int64]) -> bool:
    """Add ``65536 h h' + 256 (h l' + l h') + l l'`` to a total.

    Parameters
    ----------
    products
        ``h h'``, ``h l'``, ``l h'`` and ``l l'``, shape (4, m, n), C order.
    total
        Shape (m, n), C order.

    Returns
    -------
    Whether this process has a kernel, and did it.
    """
    if _in_use:
        _in_use[0].fold(products, total)
    return bool(_in_use)


def _split(integers: Any, high: Any, low: Any, sums: Any) -> None:
    """Kernel: see :func:`split`."""
    for i in range(integers.shape[0]):
        for j in range(integers.shape[1]):
            number = np.int32(integers[i, j])
            upper = number >> np.int32(8)
            high[i, j] = upper
            low[i, j] = number - upper * np.int32(256) - np.int32(SHIFT)
            sums[j] += number - SHIFT


def _fold(products: Any, total: Any) -> None:
    """Kernel: see :func:`fold`."""
    for i in range(total.shape[0]):
        for j in range(total.shape[1]):
            mixed = np.int64(products[1, i, j]) + np.int64(products[2, i, j])
            total[i, j] += np.int64(products[0, i, j]) * 65536 + mixed * 256 + np.int64(products[3, i, j])
