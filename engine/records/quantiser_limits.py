"""What the proof of a quantiser's bound covers; every other quantiser is refused when it is made.

The bound of :mod:`.quantiser` holds for all records, so all that it rests on is the declaration:

* ``127 <= K < 2**20``, a whole number: products of two integers are below 2**40. With a fine dither ``K < 2**31``, for
  sums alone: what multiplies such integers refuses them (:mod:`.gram`);
* fewer than 2**15 features where a norm is bounded, so that sums of squares of fine coordinates of at most 2**24 are
  below 2**63, or where a map mixes them. In a cube along its own axes each integer is bounded by itself and no such sum
  is formed; fewer than 2**17 are what sensitivities are added up for (:mod:`.second_moment`);
* scales positive and finite, and steps ``K / scale`` of a cube too: a step of zero, or without end, times what it is
  beside would be no number, which no bound cuts;
* an origin between the bounds of a cube: what is shrunk towards the origin, or rounded and then cut, stays inside;
* a stand-in of finite numbers: it takes the place of what is no number;
* a map of whole numbers whose rows sum to at most 2**33, in a ball or a whole cube alone: sums of products with inputs
  of 20 bits are exact, and along directions of a cube at most one. In a half cube they could be negative;
* shares in (0, 1] and ``sqrt(d) < K`` where a norm is bounded: the radius that rounding leaves is then positive;
* ``K < 2**8`` with a coarse dither, and a place for each feature: places are odd multiples of 2**-13 below 1/2, so that
  beside integers below 2**11 single precision holds ``K + 1/2 - 2**-13`` and rounds nothing above it. From 2**12 on it
  does, and K becomes K + 1. Below 2**8 its hash tells records apart too, and its rounding is as even as is stated
  (:mod:`.dither`). Fine places are odd multiples of 2**-21 below 1/2: beside integers below 2**31 double precision
  holds ``K + 1/2 - 2**-21`` and rounds nothing above it (:mod:`.fine_dither`).
"""

from __future__ import annotations

import numpy as np

from blockveil.engine.records.dither import Dither
from blockveil.engine.records.fine_dither import FineDither
from blockveil.engine.records.geometry import SUM_BITS, Body, CappedBox, Coordinates, GeometryError, Mixing, Vector
from blockveil.engine.records.rounding import CubeGrid

LARGEST_DIMENSION = 2**15 - 1
"""Most features where an integer of a record depends on its other values."""

LARGEST_IN_CUBE = 2**17 - 1
"""Most features in a cube along its own axes."""

LARGEST_DITHERED = 2**8 - 1

LARGEST_MULTIPLIED = 2**20 - 1

LARGEST_ADDED = 2**31 - 1

AnyDither = Dither | FineDither


def check(coordinates: Coordinates, largest: int, stand_in: Vector | None, dither: AnyDither | None) -> None:
    """Refuse what the proof does not cover.

    Parameters
    ----------
    coordinates, largest, stand_in, dither
        Of :class:`.quantiser.Quantiser`.

    Raises
    ------
    ValueError
        A size is out of range; :class:`.geometry.GeometryError` where the declared shape is.
    """
    # A fraction would let a coordinate be rounded above it.
    most = LARGEST_ADDED if isinstance(dither, FineDither) else LARGEST_MULTIPLIED
    if isinstance(largest, bool) or not isinstance(largest, int | np.integer) or not 2**7 - 1 <= largest <= most:
        raise ValueError(f"largest must be whole, from 127 to {most}; choose 8 to {_bits(most)} quantisation bits")
    _check_vectors(coordinates, stand_in)
    if coordinates.body is not Body.BALL:
        _check_cube(coordinates, largest)
    if isinstance(coordinates.body, CappedBox):
        _check_shares(coordinates.body.shares, coordinates.dimension)
    normed = coordinates.body is Body.BALL or isinstance(coordinates.body, CappedBox)
    # Rounding moves a record by at most sqrt(d) / 2 steps, of the K that its norm may have.
    if normed and np.sqrt(coordinates.dimension) >= largest:
        raise ValueError("too few quantisation bits for this many features; raise quantisation_bits")
    if coordinates.mixing is not None:
        _check_map(coordinates.mixing, coordinates.body, coordinates.dimension)
    if dither is not None:
        _check_dither(dither, coordinates, largest)


def _bits(largest: int) -> int:
    """Bits that are said of integers of at most this size: a sign is one of them, but for products of up to 2**20."""
    return largest.bit_length() + int(largest == LARGEST_ADDED)


def _check_vectors(c: Coordinates, stand_in: Vector | None) -> None:
    d = c.dimension
    alone = c.body in (Body.CUBE, Body.HALF_CUBE) and c.mixing is None
    # The bound of the proof: fewer than 2**15 squares of at most 2**48 are below 2**63. A cube forms no squares.
    if d > (LARGEST_IN_CUBE if alone else LARGEST_DIMENSION):  # none at all is the part of a constant coordinate alone
        raise ValueError(
            f"{d} features, where the proof covers {LARGEST_IN_CUBE} in a box without norm_at_most or directions and "
            f"{LARGEST_DIMENSION} in any other shape; declare such a box, or split the features into several releases"
        )
    if any(vector.shape != (d,) for vector in (c.lower, c.upper, c.origin, c.scale)):
        raise GeometryError("bounds, origin and scale differ in length; give one number a feature in each")
    if not (np.all(np.isfinite(c.origin)) and np.all(np.isfinite(c.scale)) and np.all(c.scale > 0)):
        raise GeometryError("a feature's bounds are too close or too far for floating point; change its unit")
    if stand_in is not None and not (stand_in.shape == (d,) and np.all(np.isfinite(stand_in))):
        raise GeometryError("a constant for missing values is not finite, or one is missing; give one a feature")


def _check_cube(c: Coordinates, largest: int) -> None:
    # All, not any: what is no number lies between no bounds.
    if not np.all((c.lower <= c.origin) & (c.origin <= c.upper)):
        raise GeometryError("the origin lies outside the bounds; choose an origin between lower and upper")
    with np.errstate(over="ignore"):
        steps = float(largest) / c.scale
    if not np.all(np.isfinite(steps) & (steps > 0)):
        raise GeometryError("a feature's bounds are too close or too far for floating point; change its unit")


def _check_shares(shares: Vector, dimension: int) -> None:
    if shares.shape != (dimension,) or not np.all((shares > 0) & (shares <= 1)):
        raise GeometryError("a half width is no share of the norm from 0 to 1; correct the bounds or the norm")


def _check_map(mixing: Mixing, body: Body | CappedBox, dimension: int) -> None:
    if body not in (Body.BALL, Body.CUBE):
        raise GeometryError("directions are those of a box, a ball or an ellipsoid; leave out the box's norm_at_most")
    integers = mixing.integers
    if integers.shape != (dimension, dimension) or not np.array_equal(integers, np.rint(integers)):
        raise GeometryError("a map of records is no square of whole numbers; make it with integer_map")
    # A float sum of numbers that are not negative, rounded or not, is at most 2**33 where the true one is.
    longest = float(np.max(np.sum(np.abs(integers), axis=1)))
    if not longest <= 2.0 ** (SUM_BITS if body is Body.BALL else min(mixing.bits, SUM_BITS)):
        raise GeometryError("a map of records is too long for exact sums; make it with integer_map")


def _check_dither(dither: AnyDither, c: Coordinates, largest: int) -> None:
    if c.body not in (Body.CUBE, Body.HALF_CUBE) or c.mixing is not None:
        raise ValueError("only records in a cube along its own axes are rounded at places of their own")
    if isinstance(dither, FineDither) and dither.largest != largest:
        raise ValueError("the dither is for other integers; make it for those of the records")
    if isinstance(dither, Dither) and largest > LARGEST_DITHERED:
        raise ValueError(
            f"records of integers up to {largest} cannot be rounded at places of their own, which are exact up to "
            f"{LARGEST_DITHERED}; choose 8 or 9 quantisation bits"
        )
    if not 0 <= dither.first <= dither.features - c.dimension:
        raise ValueError("the dither has no place for each feature; make it for the features of the records")


def is_precise(c: Coordinates, grid: CubeGrid, narrow: CubeGrid, *, dithered: bool) -> bool:
    """Whether single precision is precise enough for integers below 2**15.

    Parameters
    ----------
    c, grid
        Records, and the constants of their cube in double precision.
    narrow
        The constants in single precision.
    dithered
        Whether values are rounded at places of their own, with K below 2**8.
    """
    far = np.maximum(np.abs(c.lower), np.abs(c.upper))
    # An origin off by 2**-8 steps, and three roundings of 2**-24 of at most 2**15 steps: below 0.01 steps together.
    # With a dither, whose errors are to have no mean, 2**-16 and three of 2**8 steps: 2**-14 together.
    precise = np.abs(narrow.origin - c.origin) * grid.steps <= (2.0**-16 if dithered else 2.0**-8)
    usual = (grid.steps > 2.0**-96) & (grid.steps < 2.0**96) & (far < 2.0**96)
    return bool(np.all(precise & usual))
