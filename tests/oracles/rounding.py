"""Bounds on the error of sums by rounding, against which the rounding of records is tested."""

from __future__ import annotations

from math import sqrt

from blockveil.engine.records.dither import PLACES


def dithered(rows: int, largest: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Error of a sum, in coordinates, of records in a cube that are rounded at places of their own.

    Parameters
    ----------
    rows
        Number of records, at most, each two of which differ by a 256th of a step in some feature.
    largest
        K, the integer that stands for coordinate one.

    Returns
    -------
    Largest mean and largest standard deviation over starts, of a sum of products of two coordinates and of a sum of
    one. Equal records are rounded equally: of r such records the deviation is the root of r larger.
    """
    step, tilt = 1.0 / largest, 1.0 / PLACES
    # A value a share a of a step above an integer is rounded up at a share p of N even places: |p - a| <= 1 / (2 N),
    # and 1 / (4 N) of a step is more than what single precision adds to it (Quantiser): |p - a| <= tilt together.
    of_value = rows * step * tilt, sqrt(rows) * step * sqrt(0.25 + tilt)
    # In steps, errors e and f have squares of mean a (1 - a) + |p - a| <= 1/4 + tilt, which bounds the mean of e f, and
    # |e f| <= 1; v and w are at most one: v f + w e + e f.
    mean = rows * (2.0 * step * tilt + step**2 * (0.25 + tilt))
    return (mean, sqrt(rows) * (step * sqrt(1.0 + 4.0 * tilt) + step**2)), of_value


def nearest(rows: int, largest: int) -> tuple[float, float]:
    """Largest error of a sum, in coordinates, where records in a cube are rounded to nearest.

    Parameters
    ----------
    rows
        Number of records, at most.
    largest
        K, the integer that stands for coordinate one.

    Returns
    -------
    Of a sum of products of two coordinates, and of a sum of one.
    """
    # v and w in [-1, 1] are off by e and f of at most 1/(2 K): |(v + e)(w + f) - v w| <= 1/K + 1/(4 K^2).
    return rows * (1.0 / largest + 0.25 / largest**2), rows * 0.5 / largest


def worst_of_sum(records: int, largest: int) -> float:
    """No sum of so many coordinates is off by more, whatever the contents are."""
    return records / largest


def worst_of_products(records: int, largest: int) -> float:
    """No sum of so many products of two coordinates is off by more."""
    return records * (2.0 / largest + 1.0 / largest**2)
