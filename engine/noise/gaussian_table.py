"""The discrete Gaussian of width S = 2048 as a 127-bit cumulative table, and its inversion for vectors of random words.

The table holds magnitudes; a word of 64 random bits gives 63 leading bits of a 127-bit uniform number and a sign. The
magnitude is the number of cumulative entries that do not exceed the uniform number. Where the leading 63 bits equal
those of an entry (chance below 2**-48 a word) 64 further bits decide, so inversion is exact at 127 bits, without
rejection.

The table is computed in integers: with ``q = exp(-1 / (2 S^2))`` the weights are ``rho(k) = q**(k*k)`` by the
recurrence ``rho(k+1) = rho(k) q**(2k+1)``, in fixed point with 320 binary places. There is no libm and no float in it.

**Source**: Micciancio and Walter, 2017, for combining small discrete Gaussians into a wide one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WIDTH = 2048
"""S: the parameter of the tabled discrete Gaussian ``exp(-x^2 / (2 S^2))``."""

PRECISION = 127
"""Bits of a cumulative entry."""

_PLACES = 320
_LAST = 30_000
"""Magnitudes above this have probability below 2**-150 in all."""

_GUIDE_BITS = 16
_SHIFT = np.uint64(64 - _GUIDE_BITS)
_ONE = np.uint64(1)

Words = NDArray[np.uint64]


class Table(NamedTuple):
    """Cumulative entries, split for vector arithmetic, with a guide to them; L is the leading 63 bits of an entry.

    A word is ``2 w + sign``, so that ``L < w`` is ``2 L + 1 < word`` and ``L <= w`` is ``2 L <= word``.

    Attributes
    ----------
    odd, even
        ``2 L + 1`` and ``2 L`` of each entry, ascending, with one more at the end that no word passes.
    trailing
        Trailing 64 bits of each entry.
    guide
        For each value of the top 16 bits of a word: how many entries lie below it.
    """

    odd: Words
    even: Words
    trailing: Words
    guide: NDArray[np.int64]


@cache
def cumulative() -> tuple[int, ...]:
    """Cumulative probabilities of magnitudes 0, 1, ... times 2**127, rounded to nearest; those below 2**127."""
    weights = _weights()
    total = weights[0] + 2 * sum(weights[1:])
    entries, running = [], 0
    for k, weight in enumerate(weights):
        running += weight if k == 0 else 2 * weight
        entry = ((running << (PRECISION + 1)) + total) // (2 * total)
        if entry >= 1 << PRECISION:
            break
        entries.append(entry)
    return tuple(entries)


def _weights() -> list[int]:
    """``rho(0..LAST)`` in fixed point; each truncation errs by 2**-320, all of them together by less than 2**-290."""
    one = 1 << _PLACES
    q = term = one
    for n in range(1, 40):
        # exp(-z) by its alternating series, z = 1 / (2 S^2); forty terms leave less than 2**-900.
        term //= 2 * WIDTH * WIDTH * n
        q += term if n % 2 == 0 else -term
    square = (q * q) >> _PLACES
    weights, factor, weight = [], q, one
    for _ in range(_LAST + 1):
        weights.append(weight)
        weight = (weight * factor) >> _PLACES
        factor = (factor * square) >> _PLACES
    return weights


@cache
def table() -> Table:
    """Build the table once a process (some 30 ms)."""
    entries = cumulative()
    leading = np.array([entry >> 64 for entry in entries], dtype=np.uint64)
    trailing = np.array([entry & (2**64 - 1) for entry in entries] + [0], dtype=np.uint64)
    starts = np.arange(2**_GUIDE_BITS, dtype=np.uint64) << (_SHIFT - _ONE)
    guide = np.searchsorted(leading, starts, side="left").astype(np.int64)
    even = np.append(leading << _ONE, np.uint64(2**64 - 1))
    return Table(even | _ONE, even, trailing, guide)


def invert(words: Words, more: Callable[[NDArray[np.int64]], Words], out: NDArray[np.int64]) -> None:
    """Discrete Gaussian values of random words.

    Parameters
    ----------
    words
        Shape (n,), uint64. The lowest bit is the sign, the others the leading bits of the uniform number.
    more
        Gives 64 further random bits for some positions; called only for ties.
    out
        Shape (n,), int64; receives the values.
    """
    odd, even, _, guide = table()
    np.take(guide, (words >> _SHIFT).view(np.int64), out=out)
    out += np.take(odd, out) < words
    # One comparison is enough but for where entries crowd, and for ties.
    unsure = np.flatnonzero(np.take(even, out) <= words)
    if unsure.size:
        magnitudes = words[unsure] & ~_ONE
        places = np.searchsorted(even, magnitudes, side="left")
        out[unsure] = places
        _settle_ties(unsure[even[places] == magnitudes], words, more, out)
    negative = words.view(np.int64) << 63 >> 63
    np.bitwise_xor(out, negative, out=out)
    np.subtract(out, negative, out=out)


def _settle_ties(
    ties: NDArray[np.int64], words: Words, more: Callable[[NDArray[np.int64]], Words], out: NDArray[np.int64]
) -> None:
    """Entries with the same leading bits are passed one by one while the further bits reach them."""
    if ties.size == 0:
        return
    _, even, trailing, _ = table()
    for position, magnitude, low in zip(ties, words[ties] & ~_ONE, more(ties), strict=True):
        while even[out[position]] == magnitude and trailing[out[position]] <= low:
            out[position] += 1
