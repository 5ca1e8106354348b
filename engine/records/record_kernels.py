"""Kernels of :mod:`.one_pass`: plain Python on arrays, which a compiler takes one by one.

They write out the steps that they share, since a compiler takes a kernel without functions that it calls. Each step is
one operation of IEEE arithmetic in the precision of the grid, in NumPy's order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockveil.engine.records.dither import BESIDE, PLACES
from blockveil.engine.records.fine_dither import FACTORS, LEAST_PLACE, LOW_WORD, PLACE_BITS, SHIFT

_SHIFT = 32 - PLACES.bit_length() + 1


def moved(  # noqa: PLR0913 - compilers take arrays, not objects
    records: Any,
    origin: Any,
    steps: Any,
    lowest: Any,
    highest: Any,
    stand_in: Any,
    factors: Any,
    places: Any,
    starts: Any,
    hashed: bool,
    row: Any,
    lead: int,
    integers: Any,
) -> bool:
    """Kernel: see :meth:`OnePass.integers`; whether all values are finite. Without columns to fill, starts alone.

    A record in steps waits in ``row`` until its hash is known, and is read and clipped once.
    """
    imputed, whole, finite = stand_in.size > 0, True, True
    for i in range(records.shape[0]):
        total = np.uint32(0)
        for j in range(records.shape[1]):
            x = records[i, j]
            finite = x - x == 0
            whole &= finite
            if imputed:
                x = x if finite else stand_in[j]
            x = (x - origin[j]) * steps[j]
            # The bound of the proof: steps of at most K, moved by less than a half, are rounded to at most K.
            x = highest[j] if x > highest[j] else x  # noqa: FURB136 - NumPy cuts so
            x = lowest[j] if x < lowest[j] else x  # noqa: FURB136 - NumPy cuts so
            row[j] = x
            word = np.float32(np.float32(x) + BESIDE).view(np.uint32)
            total = np.uint32(total + np.uint32(word * factors[j]))
        if hashed:
            starts[i] = total >> np.uint32(_SHIFT)
        if integers.shape[1] > 0:
            # Views, whose indices a compiler knows to be none from the end: it works on several values at once.
            own, moves = integers[i, lead:], places[starts[i] :]
            for j in range(records.shape[1]):
                own[j] = np.rint(row[j] + moves[j])
    return whole


def finely_moved(  # noqa: PLR0913 - as above
    records: Any,
    origin: Any,
    steps: Any,
    lowest: Any,
    highest: Any,
    stand_in: Any,
    factors: Any,
    turns: Any,
    beside: float,
    starts: Any,
    hashed: bool,
    row: Any,
    lead: int,
    integers: Any,
) -> bool:
    """Kernel: as the one before, at fine places, of records in single or in double precision."""
    imputed, whole, finite = stand_in.size > 0, True, True
    for i in range(records.shape[0]):
        total = np.uint64(0)
        for j in range(records.shape[1]):
            x = np.float64(records[i, j])
            finite = x - x == 0
            whole &= finite
            if imputed:
                x = x if finite else stand_in[j]
            x = (x - origin[j]) * steps[j]
            # The bound of the proof: steps of at most K, moved by less than a half, are rounded to at most K.
            x = highest[j] if x > highest[j] else x  # noqa: FURB136 - NumPy cuts so
            x = lowest[j] if x < lowest[j] else x  # noqa: FURB136 - NumPy cuts so
            row[j] = x
            total += (np.float64(x + beside).view(np.uint64) & np.uint64(LOW_WORD)) * factors[j]
        if hashed:
            total = (total ^ (total >> np.uint64(30))) * np.uint64(FACTORS[0])
            total = (total ^ (total >> np.uint64(27))) * np.uint64(FACTORS[1])
            starts[i] = np.int64(total >> np.uint64(32))
        if integers.shape[1] > 0:
            own, start = integers[i, lead:], np.uint32(starts[i])
            for j in range(records.shape[1]):
                turned = np.uint32(start + turns[j]) >> np.uint32(SHIFT)
                own[j] = np.rint(row[j] + (np.float64(turned) * 2.0**-PLACE_BITS + LEAST_PLACE))
    return whole


def nearest(  # noqa: PLR0913 - as above
    records: Any,
    origin: Any,
    steps: Any,
    lowest: Any,
    highest: Any,
    stand_in: Any,
    lead: int,
    integers: Any,
) -> bool:
    """Kernel: see :meth:`OnePass.integers`; whether all values are finite."""
    imputed, whole, finite = stand_in.size > 0, True, True
    for i in range(records.shape[0]):
        own = integers[i, lead:]
        for j in range(records.shape[1]):
            x = records[i, j]
            finite = x - x == 0
            whole &= finite
            if imputed:
                x = x if finite else stand_in[j]
            x = np.rint((x - origin[j]) * steps[j])
            # The bound of the proof: these are the integers themselves, |k| <= K, and 0 <= k in a half cube.
            x = highest[j] if x > highest[j] else x  # noqa: FURB136 - NumPy cuts so
            x = lowest[j] if x < lowest[j] else x  # noqa: FURB136 - NumPy cuts so
            own[j] = x
    return whole
