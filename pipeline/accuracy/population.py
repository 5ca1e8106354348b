"""Who the records are supposed to be, for display alone: they follow from declared bounds, never from records.

How exact a mean or a correlation will be depends on the records. No plan may look at them, so it is stated for
supposed records, together with what is supposed: the mean of each feature in the middle of its declared bounds, a
standard deviation that is a stated share of their width, and a stated correlation. Where a config declares which share
of the values of sparse records is not zero, the others are supposed to be. Where the norm of a record is
bounded too, supposed records are drawn nearer to the origin, until their root mean square norm is two thirds of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from blockveil.engine.records.geometry import Body, CappedBox, Coordinates, Vector
from blockveil.pipeline.accuracy.expected import NOTHING
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.plan.planning import Plan

_OF_THE_NORM = 2.0 / 3.0
"""Root mean square norm of supposed records, as a share of a bound of the norm."""


@dataclass(frozen=True)
class Supposed:
    """What somebody supposes of the records. It decides nothing but what is displayed.

    Attributes
    ----------
    rows
        Number of records; None for the largest that the config allows.
    correlation
        Between neighbouring features, at least 0 and below 1.
    spread
        Standard deviation of a feature, as a share of the width of its bounds.
    """

    rows: int | None = None
    correlation: float = 0.5
    spread: float = 1.0 / 6.0

    def check(self, rows_at_most: int) -> None:
        """Refuse what no records in the declared bounds can be.

        Raises
        ------
        ConfigError
            A number is out of range.
        """
        if self.rows is not None and not 1 <= self.rows <= rows_at_most:
            raise ConfigError(
                f"--rows {self.rows:,} is not between 1 and {rows_at_most:,}",
                "It is a guess of the number of records, which query.rows_at_most bounds",
                "Give a smaller number, or raise query.rows_at_most",
            )
        if not 0.0 <= self.correlation < 1.0:
            raise ConfigError(
                f"--correlation {self.correlation:g} is not from 0 to below 1",
                "It is what neighbouring features are supposed to correlate by",
                "Give one such as 0.5",
            )
        if not 0.0 < self.spread <= 0.5:
            raise ConfigError(
                f"--spread {self.spread:g} is not above 0 and at most 0.5",
                "It is the supposed standard deviation of a feature as a share of the width of its bounds",
                "Give one such as 0.1",
            )


@dataclass(frozen=True, eq=False)
class Population:
    """Supposed records.

    Attributes
    ----------
    rows
        Number of records.
    is_bound
        Whether that is the largest number that the config allows; else it is a guess.
    correlation
        Between neighbouring features.
    spread
        As supposed, before records were drawn nearer to the origin.
    names
        Features, in the order of the columns.
    mean, size
        Mean and standard deviation of each feature, raw units, shape (d,).
    nearer
        How much nearer to the origin records were drawn, for a bound of their norm; 1 where they were not.
    density
        Share of values that are supposed not to be zero, as ``compute.density_at_most`` declares it; 1 where it does
        not.
    learned
        Whether the shape of the noise follows the records.
    earlier
        Release by which they have these means and standard deviations; empty where they are of the bounds.
    sized
        Whether bounds say how large they are; False where these are learned.
    """

    rows: int
    is_bound: bool
    correlation: float
    spread: float
    names: tuple[str, ...]
    mean: Vector
    size: Vector
    nearer: float = 1.0
    density: float = 1.0
    learned: bool = False
    earlier: str = ""
    sized: bool = True

    @classmethod
    def of(cls, plan: Plan, supposed: Supposed) -> Population:
        """Supposed records of a plan.

        Raises
        ------
        ConfigError
            What is supposed cannot be of records in the declared bounds.
        """
        at_most = plan.config.query.rows_at_most
        supposed.check(at_most)
        density = plan.config.compute.density_at_most or 1.0
        shapes = _bounds(plan, supposed.spread, density)
        middle, size = (np.concatenate([shape[side] for shape in shapes]) for side in (0, 1))
        population = cls(
            supposed.rows or at_most,
            supposed.rows in (None, at_most),
            supposed.correlation,
            supposed.spread,
            plan.columns[: middle.size],
            middle,
            size,
            min(shape[2] for shape in shapes),
            density,
            plan.learns_shape,
            sized=plan.designed.learning is None or plan.designed.learning.sized,
        )
        learning = plan.designed.learning
        if learning is None or learning.earlier is None:
            return population
        mean, variance, noise, clipped_variance = learning.earlier.arrays
        size = np.sqrt(np.maximum(variance + clipped_variance, noise))
        return replace(population, mean=mean, size=size, earlier=learning.earlier.release_id, sized=True)

    def with_rows(self, rows: int, is_bound: bool = False) -> Population:
        """The same kind of records, of another number, which may be the largest that the config allows."""
        return replace(self, rows=rows, is_bound=is_bound)

    def places(self, names: Sequence[str]) -> list[int]:
        """Positions of features."""
        return [self._place_of[name] for name in names]

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    @property
    def number(self) -> str:
        """How many records are supposed, for a person."""
        return f"{self.rows:,} records ({'as many as there may be' if self.is_bound else 'a guess'})"

    @property
    def words(self) -> str:
        """What is supposed of features, for a person."""
        zeros = f", but for zeros in all but a share of {self.density:.3g} (compute.density_at_most)"
        zeros = zeros if self.density < 1.0 else ""
        size = f"a standard deviation of {self.spread:.3g} of their width"
        if self.nearer < 1.0:
            size += f", and all of them {1.0 / self.nearer:.3g} times nearer to the origin, for the bound of the norm"
        of_each = f"each feature with its mean in the middle of its bounds and {size}{zeros}"
        if self.earlier:
            of_each = f"means, standard deviations and tails as published of {self.earlier}"
        elif not self.sized:
            of_each = "of normal features, whose sizes are learned: what has a unit is not known beforehand"
        elif self.learned:
            of_each += "; in the ellipsoid that is learned of normal ones"
        return f"{self.number}, {of_each}; nobody looked at them"

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "rows": self.rows,
            "rows_are": "the bound" if self.is_bound else "a guess",
            "correlation": self.correlation,
            "standard_deviation_over_width": self.spread,
        }


def _bounds(plan: Plan, spread: float, density: float) -> list[tuple[Vector, Vector, float]]:
    """Mean and standard deviation of the features of each shape of a record, and how much nearer they were drawn."""
    moments = []
    for shape in plan.config.kind.part("accuracy", NOTHING).features(plan.question):
        if isinstance(shape, Coordinates):
            moments.append(_within(shape, spread, density))
        else:
            low, high = shape
            moments.append(((low + high) / 2.0, (high - low) * spread, 1.0))
    return moments or [(np.empty(0), np.empty(0), 1.0)]  # nothing is known of its records


def _within(coordinates: Coordinates, spread: float, density: float) -> tuple[Vector, Vector, float]:
    """Mean and standard deviation within one shape, and how much nearer to the origin that is."""
    finite = np.isfinite(coordinates.lower) & np.isfinite(coordinates.upper)
    low = np.where(finite, coordinates.lower, coordinates.origin - coordinates.scale)
    high = np.where(finite, coordinates.upper, coordinates.origin + coordinates.scale)
    middle, size = (low + high) / 2.0, (high - low) * spread
    zeros = (low <= 0.0) & (high >= 0.0) & (density < 1.0)
    # A value that is zero but with a chance of the density has E[x^2] = density (size^2 + middle^2).
    mean = np.where(zeros, density * middle, middle)
    size = np.where(zeros, np.sqrt(density * (size**2 + (1.0 - density) * middle**2)), size)
    shift = mean - coordinates.origin
    norm = _norm(coordinates, shift, size)
    nearer = min(1.0, _OF_THE_NORM / norm) if norm > 0.0 else 1.0
    return coordinates.origin + nearer * shift, nearer * size, nearer


def _norm(coordinates: Coordinates, shift: Vector, size: Vector) -> float:
    """Root mean square norm of uncorrelated records over the bound of the norm; 0 where there is no such bound."""
    squares = (shift**2 + size**2) / coordinates.scale**2
    if isinstance(coordinates.body, CappedBox):
        return float(np.sqrt(np.sum(coordinates.body.shares**2 * squares)))
    if coordinates.body is not Body.BALL:
        return 0.0
    if coordinates.mixing is None:
        return float(np.sqrt(np.sum(squares)))
    return float(np.sqrt(np.sum(coordinates.mixing.matrix**2 @ squares)))
