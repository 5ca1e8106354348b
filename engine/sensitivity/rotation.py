"""Noise along dense directions: records seen along a public orthonormal basis, and what one of them can change there.

Write ``v = (x - origin) / scale`` for a scaled record and W for the basis, one direction a column. Coordinates become

* ball, ellipsoid: ``u = W' v`` (``W' E^-1/2`` for a matrix), rounded to an integer map; records are clipped to the unit
  ball *after* it, so the body is the ball again and nothing else changes;
* box: ``u_i = w_i' v / h_i`` with ``h_i = sum_j |w_ij|``, the half width of the cube along the direction. Records are
  clipped in their own box *before*, so u lies in the rotated box ``{A v}``, inside the cube and far smaller: along d
  random directions its squared length is about ``pi / 2`` beside the cube's d.

The map A is an integer matrix over 2**33, applied to integers, and what follows of the box rests on that matrix and not
on W being orthonormal or on any float: an integer record is ``K A v + e`` with ``|e_i| <= 1/2 + 2**-33``
(:mod:`.quantiser`). With precisions P, ``R = sup |P^1/2 A v|``
(:class:`.rotated_box.RotatedBox`, over the corners) and ``t = |P^1/2 1| (1/2 + 2**-33) / K``,

============== ================================== ==================================================
query          add-remove                         replace-one
============== ================================== ==================================================
second moment  ``(R + t)^2``                      ``sqrt(2)`` times that, for ``2 |y|^4 - 2 (y.z)^2``
rows                                              ``2 (R + t)``
============== ================================== ==================================================

In a half cube ``v = (1 + s) / 2``: the corners are those of ``[A 1 | A] / 2``, and two records differ by ``A s``.

**Source**: MVG (CCS 2018), section 5, for directions; what is exact about them is derived here.
"""

from __future__ import annotations

from dataclasses import replace
from math import fsum, inf, nextafter, sqrt

import numpy as np

from blockveil.engine.records.geometry import (
    SUM_BITS,
    Body,
    CappedBox,
    Coordinates,
    GeometryError,
    Matrix,
    Mixing,
    Vector,
    half_cube,
    integer_map,
)
from blockveil.engine.sensitivity.rotated_box import RotatedBox
from blockveil.engine.sensitivity.second_moment import Sensitivity

_UP = 1.0 + 1e-12

ORTHONORMAL = 1e-6
"""Largest entry of ``W'W - 1``; nothing private depends on it, but other directions would not be those declared."""


def along(coordinates: Coordinates, directions: Matrix) -> Coordinates:
    """Coordinates of the same records along directions.

    Parameters
    ----------
    coordinates
        Of a geometry.
    directions
        W, shape (d, d), one direction a column, orthonormal where each feature is divided by its scale (half width,
        radius or semi-axis). Public.

    Raises
    ------
    GeometryError
        W is not orthonormal to one part in a million, or of another shape.
    """
    d = coordinates.dimension
    if directions.shape != (d, d) or not np.all(np.isfinite(directions)):
        raise GeometryError(f"directions are a finite matrix of {d} rows and columns; give one column a direction")
    defect = float(np.max(np.abs(directions.T @ directions - np.eye(d))))
    if not defect <= ORTHONORMAL:
        raise GeometryError(
            f"the directions are {defect:.2g} from orthonormal; orthonormalise them, as numpy.linalg.qr does"
        )
    if isinstance(coordinates.body, CappedBox):
        raise GeometryError("directions are those of a box, a ball or an ellipsoid; leave out the box's norm_at_most")
    if coordinates.body is not Body.BALL:
        return replace(coordinates, body=Body.CUBE, mixing=_within_cube(directions))
    before = np.eye(d) if coordinates.mixing is None else coordinates.mixing.matrix
    return replace(coordinates, mixing=integer_map(directions.T @ before))


def _within_cube(directions: Matrix) -> Mixing:
    """Rows ``w_i / h_i`` towards zero, so that no sum of absolute values exceeds one: the cube stays in the cube."""
    widths = np.array([nextafter(fsum(np.abs(column)), inf) * (1.0 + 2.0**-50) for column in directions.T])
    integers = np.trunc(np.ldexp(directions.T / widths[:, None], SUM_BITS))
    # On the integers themselves, exact in int64.
    if np.any(np.sum(np.abs(integers).astype(np.int64), axis=1) > 2**SUM_BITS):
        raise ArithmeticError("a direction left its cube; the machine's rounding is not IEEE 754")
    return Mixing(integers, SUM_BITS)


def records_along(coordinates: Coordinates) -> RotatedBox:
    """Set of records along directions of a box, before they are rounded."""
    matrix = _matrix(coordinates)
    if half_cube(coordinates):
        matrix = np.column_stack([np.sum(matrix, axis=1), matrix]) / 2.0
    return RotatedBox(matrix)


def changes_along(coordinates: Coordinates) -> RotatedBox:
    """Set of the differences of two such records, before these are rounded."""
    return RotatedBox(_matrix(coordinates) * (1.0 if half_cube(coordinates) else 2.0))


def _matrix(coordinates: Coordinates) -> Matrix:
    if coordinates.mixing is None or coordinates.body is not Body.CUBE:
        raise GeometryError("the coordinates are not those of a box along directions; declare both")
    return coordinates.mixing.matrix


def longest(box: RotatedBox, spread: Vector, rounding: float) -> Sensitivity:
    """Largest ``|P^1/2 (d + e)|`` with ``|e_i|`` at most the rounding."""
    length = box.mu(spread**2)
    further = rounding * sqrt(float(np.sum(spread**-2.0))) * _UP
    return Sensitivity((length.bound + further) * _UP, max(length.attained - further, 0.0))
