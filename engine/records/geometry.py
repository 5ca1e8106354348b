"""The public shape of one record, and the linear coordinates in which that shape is a cube or a ball.

A geometry is declared, never learned: it states where a record may lie, and :mod:`.quantiser` clips
every record into it, so a sensitivity computed from the geometry holds for any data. Each geometry names an *origin*
(second moments are taken about it), and *coordinates* ``v`` in which the admissible records form a standard body:

========== ============================================ ==================================
geometry   admissible records                           body in coordinates
========== ============================================ ==================================
Box        lower <= x <= upper                          cube |v_i| <= 1, or 0 <= v_i <= 1
with norm  and ``|x - origin|_2 <= C``                  the same, with ``sum (h_i v_i)^2 <= C^2``
Ball       ``|x - origin|_2 <= radius``                 unit ball
Ellipsoid  ``(x-origin)' E^-1 (x-origin) <= 1``         unit ball
========== ============================================ ==================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

RAY_LIMIT = 16.0
"""Coordinates of a record beyond this many radii are cut to it before the record is pulled back along its ray."""

SUM_BITS = 33
"""Row sums of an integer whitening matrix stay below 2**33, so that products with 20-bit inputs stay below 2**53."""


class GeometryError(ValueError):
    """A declared bound is not usable: the message names the rule and the remedy."""


class Body(StrEnum):
    """The set of admissible records in coordinates."""

    CUBE = "cube"
    HALF_CUBE = "half-cube"
    BALL = "ball"


@dataclass(frozen=True, eq=False)
class CappedBox:
    """Coordinates of a cube or half cube whose record is bounded as a whole too: ``sum (share_i v_i)^2 <= 1``.

    Attributes
    ----------
    box
        ``CUBE`` or ``HALF_CUBE``.
    shares
        Half width of each feature over the largest norm, in (0, 1], shape (d,).
    """

    box: Body
    shares: Vector

    @property
    def value(self) -> str:
        """Public name."""
        return f"{self.box.value}-in-ball"


AnyBody = Body | CappedBox


@dataclass(frozen=True, eq=False)
class Mixing:
    """An integer linear map, so that whitening is exact whatever the number of rows or threads.

    Attributes
    ----------
    integers
        Shape (d, d), float64 holding integers; coordinate ``k`` is ``sum_j integers[k, j] * input_j / 2**bits``.
    bits
        Binary places of ``integers``.
    """

    integers: Matrix
    bits: int

    @property
    def matrix(self) -> Matrix:
        """The map as real numbers, shape (d, d)."""
        return np.ldexp(self.integers, -self.bits)

    @property
    def digest(self) -> str:
        """SHA-256 of the whole numbers, the places and the size; the same on every machine that has the same ones."""
        lead = f"{self.bits} {self.integers.shape[0]} ".encode()
        return sha256(lead + np.ascontiguousarray(self.integers, dtype="<i8").tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class Coordinates:
    """How a raw record becomes coordinates, and how coordinates become raw units again.

    Attributes
    ----------
    body
        Set that holds the admissible coordinates; they fill it unless a cube is mixed
        (:mod:`.rotation`).
    lower, upper
        Raw bounds applied first, shape (d,); infinite where the body does not need them.
    origin, scale
        ``(x - origin) / scale``, shape (d,) each, in raw units.
    mixing
        Further integer map of the scaled record, or None where the coordinates are the scaled record itself.
    """

    body: AnyBody
    lower: Vector
    upper: Vector
    origin: Vector
    scale: Vector
    mixing: Mixing | None = None

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return int(self.origin.size)

    def to_raw(self) -> Matrix | Vector:
        """Map from coordinates back to raw units: shape (d,) where it is diagonal, else (d, d)."""
        unmixed = self.to_scaled()
        return self.scale if unmixed is None else self.scale[:, None] * unmixed

    def to_scaled(self) -> Matrix | None:
        """Map from coordinates back to the scaled record, shape (d, d); None where they are the same."""
        return None if self.mixing is None else np.asarray(np.linalg.inv(self.mixing.matrix), dtype=np.float64)


def half_cube(coordinates: Coordinates) -> bool:
    """Whether no scaled record of a box is negative, before it is mixed."""
    return bool(np.all(coordinates.lower >= coordinates.origin))


def reaches_both_ends(coordinates: Coordinates, largest: int) -> bool:
    """Whether the records of a body are the same with their signs turned, in integers of at most ``largest``.

    A ball's are. Those of a box are where its bounds lie evenly about the origin, as they do about the midpoint.
    """
    if coordinates.body is Body.BALL:
        return True
    sides = (coordinates.origin - coordinates.lower, coordinates.upper - coordinates.origin)
    low, high = (np.rint(side / coordinates.scale * largest) for side in sides)
    return bool(np.all(low == high))


def _vector(values: ArrayLike, what: str) -> Vector:
    vector = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if vector.ndim != 1 or vector.size == 0 or not np.all(np.isfinite(vector)):
        raise GeometryError(f"{what} must be a non-empty list of finite numbers; give one number a feature")
    return vector


@dataclass(frozen=True, eq=False)
class Box:
    """Every feature lies between its own two public bounds.

    Parameters
    ----------
    lower, upper
        Raw bounds, d numbers each, ``lower < upper``.
    origin
        Point about which moments are taken, inside the bounds, d numbers.
    norm_at_most
        Largest Euclidean distance of a record from the origin, raw units, positive; None for no such bound.
    """

    lower: Vector
    upper: Vector
    origin: Vector
    norm_at_most: float | None

    def __init__(
        self, lower: ArrayLike, upper: ArrayLike, origin: ArrayLike, norm_at_most: float | None = None
    ) -> None:
        low, high, centre = _vector(lower, "lower"), _vector(upper, "upper"), _vector(origin, "origin")
        if not low.shape == high.shape == centre.shape:
            raise GeometryError("lower, upper and origin differ in length; give one number a feature in each")
        if np.any(low >= high):
            raise GeometryError("a lower bound is not below its upper bound; correct the bounds of that feature")
        # The half width must bound the distance to the origin: with the origin outside, clipping would not centre.
        if np.any(centre < low) or np.any(centre > high):
            raise GeometryError("the origin lies outside the bounds; choose an origin between lower and upper")
        if norm_at_most is not None:
            if not (np.isfinite(norm_at_most) and norm_at_most > 0):
                raise GeometryError("the norm must be a positive finite number; give the largest allowed distance")
            # No admissible record is further along one feature, so that no integers are kept for what is clipped.
            low, high = np.maximum(low, centre - norm_at_most), np.minimum(high, centre + norm_at_most)
        object.__setattr__(self, "norm_at_most", norm_at_most)
        for name, value in (("lower", low), ("upper", high), ("origin", centre)):
            object.__setattr__(self, name, value)

    @property
    def half_widths(self) -> Vector:
        """Largest distance of an admissible record from the origin, by feature, shape (d,), raw units."""
        return np.maximum(self.upper - self.origin, self.origin - self.lower)

    def coordinates(self) -> Coordinates:
        """Coordinates in which the box is the cube [-1, 1]^d, or lies in [0, 1]^d when no feature is below the
        origin.
        """
        cube = Coordinates(Body.CUBE, self.lower, self.upper, self.origin, self.half_widths)
        box = Body.HALF_CUBE if half_cube(cube) else Body.CUBE
        if self.norm_at_most is None:
            return replace(cube, body=box)
        shares = np.minimum(self.half_widths / self.norm_at_most, 1.0)
        # A norm that no corner reaches bounds nothing.
        within = float(np.sum(shares**2)) <= 1.0
        return replace(cube, body=box if within else CappedBox(box, shares))


@dataclass(frozen=True, eq=False)
class Ball:
    """Every record lies within a public Euclidean distance of the origin.

    Parameters
    ----------
    origin
        Centre, d numbers, raw units.
    radius
        Largest distance, raw units, positive.
    """

    origin: Vector
    radius: float

    def __init__(self, origin: ArrayLike, radius: float) -> None:
        if not (np.isfinite(radius) and radius > 0):
            raise GeometryError("radius must be a positive finite number; give the largest allowed distance")
        object.__setattr__(self, "origin", _vector(origin, "origin"))
        object.__setattr__(self, "radius", float(radius))

    def coordinates(self) -> Coordinates:
        """Coordinates in which the ball is the unit ball."""
        unbounded = np.full(self.origin.size, np.inf)
        return Coordinates(Body.BALL, -unbounded, unbounded, self.origin, np.full(self.origin.size, self.radius))


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """Every record lies in a public ellipsoid about the origin.

    Parameters
    ----------
    origin
        Centre, d numbers, raw units.
    shape
        Either d semi-axes (raw units, positive: ``E = diag(semi_axes**2)``) or the matrix E, shape (d, d), symmetric
        positive definite, raw units squared.

    Notes
    -----
    For a matrix, the map applied to records is ``E^-1/2`` rounded to integers. The guarantee does not rest on that
    rounding: the clip is done after the map, and the way back uses the inverse of the rounded map.
    """

    origin: Vector
    shape: Matrix | Vector

    def __init__(self, origin: ArrayLike, shape: ArrayLike) -> None:
        centre = _vector(origin, "origin")
        array = np.asarray(shape, dtype=np.float64)
        d = centre.size
        if array.shape not in ((d,), (d, d)) or not np.all(np.isfinite(array)):
            raise GeometryError(
                "the ellipsoid needs d finite semi-axes or a finite d x d matrix, d the origin's length"
            )
        if array.ndim == 1 and np.any(array <= 0):
            raise GeometryError("a semi-axis is not positive; give the largest allowed distance along that feature")
        if array.ndim == 2:
            _check_positive_definite(array)
        object.__setattr__(self, "origin", centre)
        object.__setattr__(self, "shape", array)

    def coordinates(self) -> Coordinates:
        """Coordinates in which the ellipsoid is the unit ball."""
        unbounded = np.full(self.origin.size, np.inf)
        if self.shape.ndim == 1:
            return Coordinates(Body.BALL, -unbounded, unbounded, self.origin, self.shape)
        scale = np.sqrt(np.diagonal(self.shape)).copy()
        # A record of the ellipsoid has |x_j - origin_j| <= sqrt(E_jj) (Cauchy-Schwarz): the scaled record is in the
        # cube.
        mixing = integer_map(_whitening(self.shape / np.outer(scale, scale)))
        return Coordinates(Body.BALL, -unbounded, unbounded, self.origin, scale, mixing)


Geometry = Box | Ball | Ellipsoid


def _check_positive_definite(matrix: Matrix) -> None:
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0.0):
        raise GeometryError("the ellipsoid's matrix is not symmetric; average it with its transpose")
    diagonal = np.diagonal(matrix)
    correlation = matrix / np.sqrt(np.outer(diagonal, diagonal)) if np.all(diagonal > 0) else -np.eye(diagonal.size)
    values = np.linalg.eigvalsh(correlation)
    if values[0] <= 1e-9 * values[-1]:
        raise GeometryError("the ellipsoid's matrix is not positive definite; add a small multiple of its diagonal")


def _whitening(correlation: Matrix) -> Matrix:
    values, vectors = np.linalg.eigh(correlation)
    whitening: Matrix = (vectors / np.sqrt(values)) @ vectors.T
    return whitening


def integer_map(matrix: Matrix) -> Mixing:
    """The nearest integer map of a matrix, shape (d, d), that products with 20-bit inputs leave exact.

    Raises
    ------
    GeometryError
        A row is so much longer than the others that this cannot be.
    """
    largest = float(np.max(np.sum(np.abs(matrix), axis=1)))
    bits = SUM_BITS - 1 - int(np.ceil(np.log2(largest)))
    integers = np.rint(np.ldexp(matrix, bits))
    # |integers| row sums <= 2**33 and inputs <= 2**20: every partial sum is an integer below 2**53, exact in float64.
    if float(np.max(np.sum(np.abs(integers), axis=1))) > 2.0**SUM_BITS:
        raise GeometryError("the ellipsoid's matrix is too ill conditioned; widen its shortest axis")
    return Mixing(integers, bits)
