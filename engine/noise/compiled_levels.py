"""Levels of Gaussian noise in one pass over their random words, compiled: the same integers as by NumPy.

The kernel here is plain Python on arrays, far too slow to run as it is. Whoever has a compiler calls
:func:`compiled_by` with it, and :func:`use` with what that returns; until then, and wherever a word ties with an entry
of the table, NumPy does the work of :func:`.gaussian_table.invert`. All arithmetic is in whole numbers of 64 bits.
:func:`compiled_by` compares both ways at the borders between two values, and hands out nothing that differs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.noise.gaussian_table import Words, invert, table

Kernel = Callable[..., bool]

_WEIGHTS = (1087, -3)
"""Weights of the second and the third level in the comparison of the compiled kernel with NumPy."""

_COLUMNS = 256
"""Entries of a row where both ways are compared."""


class NoiseMismatch(ArithmeticError):
    """What a compiler made gives other noise than NumPy does, so that it may not be used."""


class _Lookup(NamedTuple):
    """The table as the kernel reads it: half as large as NumPy's, so that it stays in a core's cache."""

    even: Words
    guide: NDArray[np.uint16]


_in_use: list[Kernel] = []


def use(kernel: Kernel | None) -> None:
    """Let every draw of this process work with this kernel; None leaves the work to NumPy."""
    _in_use[:] = [] if kernel is None else [kernel]


def compiled_by(compiler: Callable[[Callable[..., bool]], Kernel]) -> Kernel:
    """Kernel for two and for three levels, compared with NumPy.

    Parameters
    ----------
    compiler
        Compiles a function of arrays and numbers for the types of each call.

    Raises
    ------
    NoiseMismatch
        The comparison failed.
    """
    kernel = compiler(_added_up)
    words = _telling()
    first, third = words[: 2 * (words.size // 3)], words[2 * (words.size // 3) :]
    for more in (third, third[:0]):
        noise = np.zeros(third.size, np.int64)
        expected = _by_numpy(first, more)
        if _call(kernel, first, more, _WEIGHTS, noise) or not np.array_equal(noise, expected):
            raise NoiseMismatch("compiled code gives other noise than NumPy")
    for place in range(3):
        _check_tie(kernel, place)
    return kernel


def summed(first: Words, third: Words, weights: tuple[int, int], out: NDArray[np.int64]) -> bool:
    """Sum of the levels of each entry, if this process has a kernel and no word ties with an entry of the table.

    Parameters
    ----------
    first
        Shape (2 n,): the words of first and second level of each entry, one after the other.
    third
        Shape (n,): the words of the third level, or (0,) where there is none.
    weights
        Of the second and the third level.
    out
        Shape (n,), int64; receives the sums.

    Returns
    -------
    Whether it was done; where it was not, what is in ``out`` means nothing.
    """
    return bool(_in_use) and not _call(_in_use[0], first, third, weights, out)


def _call(kernel: Kernel, first: Words, third: Words, weights: tuple[int, int], out: NDArray[np.int64]) -> bool:
    """Whether a word ties; a compiler takes arrays that nobody may write to for one type, whatever their owner may."""
    words = [array.view() for array in (first, third)]
    for view in words:
        view.flags.writeable = False
    return kernel(*words, *_lookup(), np.int64(weights[0]), np.int64(weights[1]), out)


@cache
def _lookup() -> _Lookup:
    whole = table()
    # The kernel reads at places that a guide names and at later ones, up to the last, which no word passes.
    if int(whole.guide.max()) >= min(2**16, whole.even.size) or int(whole.even[-1]) != 2**64 - 1:
        raise NoiseMismatch("the table is not one that a compiled search stays within")
    lookup = _Lookup(whole.even.view(), whole.guide.astype(np.uint16))
    for part in lookup:
        part.flags.writeable = False
    return lookup


def _added_up(first: Any, third: Any, even: Any, guide: Any, second_weight: Any, third_weight: Any, out: Any) -> bool:
    """Kernel: see :func:`summed`; whether a word ties with an entry of the table.

    The magnitude of a word is the number of entries below it, as in :func:`.gaussian_table.invert`; the last entry is
    above every word without its sign, so the search ends within the table.
    """
    tied, sign, shift = False, np.uint64(1), np.uint64(48)
    for i in range(out.shape[0]):
        word = first[2 * i]
        magnitude = word & ~sign
        at = np.int64(guide[word >> shift])
        while even[at] < magnitude:
            at += 1
        tied |= even[at] == magnitude
        negative = -np.int64(word & sign)
        total = (at ^ negative) - negative
        word = first[2 * i + 1]
        magnitude = word & ~sign
        at = np.int64(guide[word >> shift])
        while even[at] < magnitude:
            at += 1
        tied |= even[at] == magnitude
        negative = -np.int64(word & sign)
        total += second_weight * ((at ^ negative) - negative)
        if third.shape[0] > 0:
            word = third[i]
            magnitude = word & ~sign
            at = np.int64(guide[word >> shift])
            while even[at] < magnitude:
                at += 1
            tied |= even[at] == magnitude
            negative = -np.int64(word & sign)
            total += third_weight * ((at ^ negative) - negative)
        out[i] = total
    return tied


def _by_numpy(first: Words, third: Words) -> NDArray[np.int64]:
    """Sums of the levels of words that tie with nothing."""
    levels = np.empty(first.size, np.int64)
    invert(first, _none, levels)
    noise = levels[0::2] + levels[1::2] * _WEIGHTS[0]
    if third.size:
        levels = np.empty(third.size, np.int64)
        invert(third, _none, levels)
        noise += levels * _WEIGHTS[1]
    return noise


def _none(where: NDArray[np.int64]) -> Words:
    raise NoiseMismatch(f"{where.size} words tie, which were made up so that none does")


def _telling() -> Words:
    """Words of both signs beside every entry of the table and at the ends of every range of the guide."""
    entries = table().even[:-1]
    starts = np.arange(2**16, dtype=np.uint64) << np.uint64(48)
    beside = np.concatenate([entries - np.uint64(2), entries + np.uint64(2), starts, starts - np.uint64(2)])
    free = beside[~np.isin(beside, entries)]
    words = np.concatenate([free, free | np.uint64(1)])
    np.random.default_rng(7).shuffle(words)
    return words[: words.size // (3 * _COLUMNS) * (3 * _COLUMNS)]


def _check_tie(kernel: Kernel, place: int) -> None:
    """A word that ties must be found, of either sign and in whichever level."""
    entries = table().even
    for tie in (entries[0], entries[entries.size // 2] | np.uint64(1), entries[-2]):
        words = [np.zeros(2 * _COLUMNS, np.uint64), np.zeros(_COLUMNS, np.uint64)]
        for part in words:
            part[:] = np.uint64(2**60 + 2)
        words[place // 2][10 + place % 2] = tie
        if not _call(kernel, words[0], words[1], _WEIGHTS, np.empty(_COLUMNS, np.int64)):
            raise NoiseMismatch("compiled code overlooks a tie")
