"""The relative size of noise by row and column, the size of the exact integers, and what both make of a sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.records.geometry import Vector

LEAST_STEP = 2**14
"""Units of a step, at least, where entries of a diagonal with steps of different sizes share noise."""


@dataclass(frozen=True)
class Diagonal:
    """Gaussian noise on the diagonal of a symmetric answer, where it is not isometric.

    Attributes
    ----------
    gain
        How many times less variance an entry has by itself than isometric noise, where its spread is one; at least 2.
    shared
        How many further numbers of that law are added, each to all entries of the diagonal.
    power
        Of the spread, in the standard deviation of an entry: 2 as isometric noise has it, or less.
    lead
        First entries that are no features': 1 for the count of a covariance.
    first
        How many times less variance the count has by itself than isometric noise; at least 1.
    times
        How often the count takes what the others share; 0 where it shares nothing.
    """

    gain: float
    shared: int
    power: float = 2.0
    lead: int = 0
    first: float = 1.0
    times: int = 0

    def __post_init__(self) -> None:
        """Refuse noise for which nothing is proven."""
        if not (2.0 <= self.gain <= 2.0**20 and 0 <= self.shared <= 64):
            raise CannotCalibrate(
                f"noise with gain {self.gain:g} and {self.shared} shared numbers on the diagonal has no proof; "
                "give a gain from 2 on and at most 64 numbers"
            )
        if not (0.0 <= self.power <= 2.0 and self.lead in (0, 1)):
            raise CannotCalibrate(
                f"noise of power {self.power:g} behind {self.lead} entries of a diagonal has no proof; "
                "give a power from 0 to 2, and one entry at most"
            )
        isometric = self.first == 1.0 and self.times == 0
        joined = self.lead == 1 and self.shared > 0 and 1.0 <= self.first <= 2.0**20 and 1 <= self.times <= 8
        if not (isometric or joined):
            raise CannotCalibrate(
                f"a count with gain {self.first:g} that takes {self.times} times what a diagonal shares has no proof; "
                "give a gain from 1 on and at most 8 times, of a covariance whose diagonal shares noise"
            )

    @property
    def even(self) -> bool:
        """Whether all entries have less noise than isometric noise by the same factor."""
        return self.power == 2.0 and not self.lead

    def sizes(self, spread: Vector) -> Vector:
        """Standard deviation of each entry by itself where that of isometric noise of a spread of one is one."""
        sizes: Vector = spread**self.power / sqrt(self.gain)
        sizes[: self.lead] = spread[: self.lead] ** 2 / sqrt(self.first)
        return sizes

    def taken(self, entries: int) -> NDArray[np.int64]:
        """How often each of so many entries takes the numbers that are shared, shape (entries,)."""
        counts = np.ones(entries, dtype=np.int64)
        counts[: self.lead] = self.times
        return counts

    def grown(self, entries: int) -> Vector:
        """By how much each of so many entries deviates more than by itself, shape (entries,)."""
        factors: Vector = np.sqrt(1.0 + self.shared * self.taken(entries) ** 2.0)
        return factors

    def squares(self, entries: int) -> int:
        """Sum of the squares of how often so many entries take them."""
        return entries - self.lead + self.lead * self.times**2

    def described(self) -> str:
        """In words."""
        where = "" if self.power == 2.0 else f" at a spread of one, and grows with its spread^{self.power:g}"
        own = f"each entry has 1/{self.gain:g} of isometric variance by itself{where}"
        if not self.shared:
            return own
        count = f"; the count takes that {self.times} times" if self.times else ""
        return f"{own}, and {self.shared} times as much in common with all others{count}"

    def facts(self) -> dict[str, float]:
        """Public numbers; of an even diagonal gain and number alone."""
        facts = {"gain": self.gain, "shared": self.shared}
        facts = facts if self.even else {**facts, "power": self.power, "lead": self.lead}
        return {**facts, "first": self.first, "times": self.times} if self.times else facts


@dataclass(frozen=True, eq=False)
class Spread:
    """Relative size of the noise, and what that makes of the sensitivity.

    Attributes
    ----------
    rows, columns
        Positive, shapes (m,) and (n,), in units of the answer up to a common factor.
    symmetric
        Whether entry (j, i) repeats entry (i, j); rows equal columns then.
    changing
        Largest number of distinct entries that differ between neighbours.
    unscaled
        Whether Gaussian noise of a symmetric answer is as large off the diagonal as on it, as some papers print it.
    diagonal
        Noise of the diagonal of a symmetric answer, where it is not isometric.
    """

    rows: Vector
    columns: Vector
    symmetric: bool
    changing: int
    unscaled: bool = False
    diagonal: Diagonal | None = None

    def __post_init__(self) -> None:
        """Refuse sizes for which no noise exists."""
        for values in (self.rows, self.columns):
            if values.size == 0 or not np.all(np.isfinite(values)) or np.any(values <= 0):
                raise CannotCalibrate(
                    "a noise size is not positive and finite, so an entry would be exact or never released; "
                    "give each feature a positive share of the budget, or leave it out"
                )
        if self.diagonal is not None and not (self.symmetric and not self.unscaled):
            raise CannotCalibrate("noise with a diagonal of its own is for a symmetric answer; choose shaped-gaussian")
        # Else an entry could have more noise than isometric noise, below which errors are bounded.
        if self.diagonal is not None and not self.diagonal.even and np.any(self.rows[self.diagonal.lead :] < 1.0):
            raise CannotCalibrate("noise with a diagonal of its own needs spreads of one or more; scale them")

    @property
    def entries(self) -> int:
        """Number of distinct entries that are drawn."""
        m, n = self.rows.size, self.columns.size
        return m * (m + 1) // 2 if self.symmetric else m * n

    @property
    def draws(self) -> int:
        """Number of integers that are drawn: the distinct entries, and what the diagonal shares."""
        return self.entries + (0 if self.diagonal is None else self.diagonal.shared)

    @property
    def least(self) -> float:
        """Smallest product of a row's and a column's spread; of a diagonal that is not isometric, its own size."""
        least = float(np.min(self.rows) * np.min(self.columns))
        if self.diagonal is None:
            return least
        if self.diagonal.even:
            return least / sqrt(self.diagonal.gain)
        return min(least, float(np.min(self.diagonal.sizes(self.rows))))

    @property
    def largest(self) -> float:
        """Largest product of a row's and a column's spread."""
        return float(np.max(self.rows) * np.max(self.columns))


@dataclass(frozen=True)
class Scaling:
    """How the exact integers relate to the answer.

    Attributes
    ----------
    unit
        Integers that stand for one unit of the answer.
    largest
        Largest absolute integer that the answer can take.
    """

    unit: int
    largest: int

    def __post_init__(self) -> None:
        """Refuse sums that could leave int64; one bit stays free for adding noise."""
        if self.largest > 2**62:
            raise OverflowError("the sums can exceed the exact range of 2**62; lower rows_at_most or quantisation_bits")
