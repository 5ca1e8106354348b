"""How far products of two coordinates can differ between two records in boxes: a bound of each entry, and of all.

A coordinate lies between ``-g`` and ``h``, or between ``-h`` and ``g``, with ``h >= g >= 0``: turning its sign in all
records changes no distance, so let all be the first. The product of coordinates i of one box and j of another is at
most ``h_i h_j`` and at least ``-max(h_i g_j, g_i h_j)``, so that it differs between two records by at most

    ``h_i h_j (1 + max(g_i / h_i, g_j / h_j))``.

The square of one coordinate differs by at most ``h_i^2``. All entries of an outer product reach their ends at once
where one side is nowhere less even than the other is anywhere: ``h h'`` against ``h (-g)'``. Elsewhere the sum over
entries is an upper bound.

**Source**: derived here.
"""

from __future__ import annotations

import numpy as np

from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity

Ends = tuple[Vector, Vector]
"""Least and largest value of each coordinate, which 0 lies between, shape (d,) each."""


def tighter(known: Sensitivity, within: Sensitivity) -> Sensitivity:
    """The tighter of two bounds of one sensitivity; the first where they are the same but for rounding."""
    attained = max(known.attained, within.attained)
    if within.bound < known.bound * (1.0 - 5e-13):
        return Sensitivity(within.bound, min(within.bound, attained))
    return Sensitivity(known.bound, min(known.bound, attained))


def over(ends: Ends, spread: Vector) -> Ends:
    """Ends of coordinates that are divided by their spread, shape (d,)."""
    return ends[0] / spread, ends[1] / spread


def sizes(ends: Ends) -> tuple[Vector, Vector]:
    """Sizes h and g of the far and of the near end of each coordinate, shape (d,) each."""
    lower, upper = -ends[0], ends[1]
    return np.maximum(lower, upper), np.minimum(lower, upper)


def replaced_products(left: Ends, right: Ends, norm: int) -> Sensitivity:
    """Sensitivity of ``sum a b'`` where one record (a, b) is replaced by another in the same boxes.

    Parameters
    ----------
    left, right
        Ends of the coordinates of a and of b, divided by their spread.
    norm
        1 for the sum of absolute values, 2 for the Frobenius norm.
    """
    (far, near), (others_far, others_near) = sizes(left), sizes(right)
    total = _sum_of_ranges(left, right, norm)
    bound = float(total if norm == 1 else np.sqrt(total)) * (1.0 + 2.0**-50 * (far.size + others_far.size))
    across = (
        (_length(far, norm) * _length(others_far + others_near, norm)),
        (_length(far + near, norm) * _length(others_far, norm)),
    )
    return Sensitivity(bound, min(bound, max(across)))


def replaced_triangle(ends: Ends, constant: float) -> float:
    """A bound of how far the sum of ``|y_i y_j|`` over i <= j can differ between two records y in a box.

    Parameters
    ----------
    ends
        Ends of the coordinates of y.
    constant
        A coordinate that all records have in common; 0 where there is none.
    """
    far, near = sizes(ends)
    pairs = _sum_of_ranges(ends, ends, 1) - float(np.sum(far * (far + near)))
    total = pairs / 2.0 + float(np.sum(far**2)) + constant * float(np.sum(far + near))
    return total * (1.0 + 2.0**-49 * (far.size + 4.0))


def _length(values: Vector, norm: int) -> float:
    return float(np.linalg.norm(values, norm))


def _sum_of_ranges(left: Ends, right: Ends, power: int) -> float:
    """Sum over entries of ``(h_i h_j (1 + max(e_i, e_j)))^power`` with ``e = g / h``, without making the entries."""
    (far, near), (others, beside) = sizes(left), sizes(right)
    order = np.argsort(beside / others, kind="stable")
    others, evenness = others[order] ** power, (beside / others)[order]
    below = np.concatenate([[0.0], np.cumsum(others)])
    above = np.concatenate([np.cumsum((others * (1.0 + evenness) ** power)[::-1])[::-1], [0.0]])
    # Those of the right that are no more even than coordinate i of the left come first.
    first = np.searchsorted(evenness, near / far, side="right")
    return float(np.sum(far**power * ((1.0 + near / far) ** power * below[first] + above[first])))
