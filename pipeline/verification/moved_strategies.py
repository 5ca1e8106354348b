"""How far one record moves what a searched strategy measures, whose whole numbers are an array of the release.

The release states the digest of these numbers, and publishes them over a power of two. They are read, held against the
digest, and one record is one of their columns: adding it moves the answers by its length, and replacing it by the
distance of two. Columns of a product of two strategies are products of columns, so that their scalar products are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.verification.stated_numbers import Moved, stated_count

_MOST_PAIRS = 2**22
"""Pairs of cells of which the distance of all is looked at."""

_EXACT = 2**53
"""What sums of whole numbers stay below in floats, so that they are exact in any order."""

_MOST_BITS = 62

Gram = NDArray[np.float64]
"""Scalar products of columns, whole numbers."""

Arrays = Mapping[str, Any]
"""Arrays of a release by name, which are read by slices."""


def columns_of(arrays: Arrays, name: str, unit: int, digest: str) -> Gram:
    """Scalar products of the columns of a published strategy, in whole numbers.

    Parameters
    ----------
    arrays
        Of the release.
    name
        Of the strategy.
    unit
        What the whole numbers are divided by.
    digest
        SHA-256 of the whole numbers, row by row, as 64-bit integers, the least byte first.

    Raises
    ------
    KeyError
        The release has no such array.
    ValueError
        Its numbers are others than those of the digest, or too large.
    """
    values = np.asarray(arrays[name][...], dtype=np.float64) * unit
    if values.ndim != 2 or not np.all(np.abs(values) < _EXACT) or np.any(values != np.rint(values)):
        raise ValueError(name)
    whole = np.ascontiguousarray(values.astype("<i8"))
    if hashlib.sha256(whole.tobytes()).hexdigest() != digest:
        raise ValueError("sha256")
    if float(np.max(np.abs(values), initial=0.0)) ** 2 * values.shape[0] > _EXACT:
        raise ValueError(name)
    gram: Gram = values.T @ values
    return gram


def product(grid: Sequence[int], mechanism: Mapping[str, Any], arrays: Arrays, *, replaced: bool) -> Moved:
    """Of a strategy along the rows of a table and one along its columns, in squares, where its noise has one size.

    Parameters
    ----------
    grid
        Cells of the table along each axis.
    mechanism
        As the release states it.
    arrays
        Of the release.
    replaced
        Whether a record is replaced; else it is added or removed.

    Raises
    ------
    KeyError, TypeError, ValueError
        Something is not stated, or cannot be.
    """
    strategy, grams, unit = mechanism["strategy"], list[Gram](), 1
    for key, name, cells in zip(("rows", "columns"), ("row_strategy", "column_strategy"), [1, *grid][-2:], strict=True):
        bits = stated_count({"bits": strategy[key]["bits"] + 1}, "bits") - 1
        gram = columns_of(arrays, name, 1 << min(bits, _MOST_BITS), strategy[key]["sha256"])
        if gram.shape != (cells, cells) or bits > _MOST_BITS:
            raise ValueError(name)
        unit <<= bits
        grams.append(gram)
    if stated_count(mechanism, "unit") != unit:
        raise ValueError("unit")
    lengths = [int(np.max(np.diagonal(gram))) for gram in grams]
    added = Fraction(lengths[0] * lengths[1], unit**2)
    if not replaced:
        return Moved(added, added)
    ends = [(int(np.min(gram)), int(np.max(gram))) for gram in grams]
    least = min(first * second for first in ends[0] for second in ends[1])
    # A record that leaves the table moves the answers by a whole column.
    most = max(added, Fraction(2 * lengths[0] * lengths[1] - 2 * least, unit**2))
    if (grams[0].size * grams[1].size) > _MOST_PAIRS:
        return Moved(added, most)
    apart = max(added, Fraction(_farthest(*grams), unit**2))
    return Moved(apart, apart)


def _farthest(first: Gram, second: Gram) -> int:
    """Largest squared distance of two columns of a product."""
    lengths = np.multiply.outer(np.diagonal(first), np.diagonal(second)).ravel()
    products = np.kron(first, second)
    if 4.0 * float(np.max(lengths)) > _EXACT:
        # Scalar products are no larger than the lengths (Cauchy and Schwarz): exact in Python's own whole numbers.
        lengths, products = (values.astype(object) for values in (lengths, products))
    return int(np.max(lengths[:, None] + lengths[None, :] - 2 * products))
