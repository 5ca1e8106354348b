"""Steps of a box in which declared codes and whole numbers, and zeros, are integers: these are rounded by nothing.

A feature whose admissible values are whole multiples z of a public unit u becomes ``k = (u z - origin) S`` with S steps
for one raw unit. With an origin that is a multiple of ``u / 2``, as one of two such bounds and their midpoint are,
``S = q / u`` makes k whole where q is, and even where the origin lies between two multiples. The largest such q with
``q h / u <= K``, h the half width, is taken. The scale of the coordinate becomes ``K / S >= h``: records do not reach
coordinate one but ``h S / K``, which is at least :data:`LEAST_REACH`. Else the unit is too fine for K, and the feature
keeps ``S = K / h``, or the steps next to it that make a raw zero whole.

All of it follows from bounds, units and K, which are public. No record is larger than without it in any integer, so
that every bound of a sensitivity over ``|k| <= K`` holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from blockveil.engine.records.geometry import Body, Coordinates, Vector

LEAST_REACH = 0.98
"""A feature reaches at least this of coordinate one, so that its noise grows by a fiftieth at most."""

_LEAST_OF_ZERO = 0.999

_NEARLY = 1e-9
"""Part of a unit by which a declared bound, written in decimals, may differ from a multiple."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """A box with its steps.

    Attributes
    ----------
    coordinates
        With scales ``K / S``.
    exact
        Features all of whose declared values are integers, shape (d,).
    """

    coordinates: Coordinates
    exact: np.ndarray[tuple[int], np.dtype[np.bool_]]


def on_lattice(coordinates: Coordinates, units: Vector, largest: int) -> Lattice:
    """Coordinates whose integers hold what is declared.

    Parameters
    ----------
    coordinates
        Of a box along its own axes, whose scales are its half widths.
    units
        Raw unit whose multiples a feature's values are, shape (d,); 0 where none is declared. Whole bounds have a unit
        of one for their steps then, but are not called exact.
    largest
        K.
    """
    c = coordinates
    if c.body not in (Body.CUBE, Body.HALF_CUBE) or c.mixing is not None:
        return Lattice(coordinates, np.zeros(c.dimension, dtype=np.bool_))
    whole = (c.lower == np.rint(c.lower)) & (c.upper == np.rint(c.upper))
    unit = np.where(units > 0, units, np.where(whole, 1.0, np.inf))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        halves = np.rint(2.0 * c.origin / unit)  # the origin in halves of a unit
        between = halves % 2.0 != 0.0
        q = np.floor(largest * unit / c.scale * (1.0 + 2.0**-50))
        q = q - np.where(between & (q % 2.0 != 0.0), 1.0, 0.0)
        reach = q / unit * c.scale / largest
        aligned = np.isfinite(unit) & (np.abs(2.0 * c.origin / unit - halves) <= _NEARLY * (1.0 + np.abs(halves)))
        fits = aligned & (reach >= LEAST_REACH) & (reach <= 1.0 + 2.0**-40)
        # A zero on the lattice: |origin| S whole.
        to_zero = np.floor(np.abs(c.origin) * largest / c.scale * (1.0 + 2.0**-50))
        zero_reach = to_zero / np.abs(c.origin) * c.scale / largest
        zero = (c.lower <= 0.0) & (c.upper >= 0.0) & (c.origin != 0.0) & (to_zero > 0.0)
        zero &= (zero_reach >= _LEAST_OF_ZERO) & (zero_reach <= 1.0 + 2.0**-40)
        scale = np.where(zero, largest * np.abs(c.origin) / to_zero, c.scale)
        scale = np.where(fits, largest * unit / q, scale)
    # The bound of the proof: a scale below the half width would let a record exceed coordinate one before it is cut.
    scale = np.maximum(scale, c.scale)
    return Lattice(replace(c, scale=scale), fits & (units > 0))
