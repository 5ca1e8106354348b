"""The last stage of a night that learns: a covariance or totals, in an ellipsoid as in the declared box.

The noise of an ellipsoid is the same in its own coordinates, whichever it is, so that it is designed before any record
is read. What a radius is expected to cost follows from that noise and from what the answer is for.
"""

from __future__ import annotations

import math
from typing import Protocol

from blockveil.engine.estimates.learned_ellipsoid import Expected, RingsSeen
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.problems import Problem


class LastStage(Protocol):
    """What is asked last; made of what is asked before it, and of the same in the declared box."""

    @property
    def power(self) -> float:
        """See :func:`.learned_ellipsoid.learned_axes`."""

    def ball(self) -> Problem:
        """The same in the unit ball, whose noise is that of every ellipsoid in its coordinates."""

    def expected(self, design: NoiseDesign, sizes: Vector, rings: RingsSeen) -> Expected:
        """Squared error in an ellipsoid, by its radius.

        Parameters
        ----------
        design
            Noise in the coordinates of an ellipsoid.
        sizes
            Lengths of the axes for a radius of one in the unit of the wanted error, shape (d,).
        rings
            How far out records lie.
        """

    def in_box(self, design: NoiseDesign, unit: Vector, records: float) -> float:
        """Squared error in the box; ``unit`` is of its half widths in the wanted one, shape (d,)."""


def noise_of_products(design: NoiseDesign) -> float:
    """Standard deviation of the noise of a product's sum off the diagonal, in the coordinates of an ellipsoid."""
    few = design.extremes(1).entry_standard_deviation()
    return float(few[1, 2] if len(few) > 2 else few[1, 1] / math.sqrt(2.0))
