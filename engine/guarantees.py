"""What a release promises: neighbouring relation, loss, and exact conversions between ways of stating a loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from engine.calibration import CalibrationError, gaussian_delta, gaussian_epsilon


class Neighbours(StrEnum):
    """Which data sets must be hard to tell apart."""

    ADD_REMOVE = "add-remove"
    """One row is present in one and absent in the other; the number of rows is private."""

    REPLACE_ONE = "replace-one"
    """One row differs in content; the number of rows is public."""


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise CalibrationError(f"{name} is {value}; it must be finite and positive; state it explicitly")


@dataclass(frozen=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy.

    Attributes
    ----------
    epsilon
        Positive, finite.
    delta
        In (0, 1).
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Refuse parameters that promise nothing or cannot be met."""
        _positive("epsilon", self.epsilon)
        if not 0.0 < self.delta < 1.0:
            raise CalibrationError(f"delta is {self.delta}; it must lie between 0 and 1; state it explicitly")


@dataclass(frozen=True)
class GaussianDP:
    """As hard to tell apart as two unit Gaussians whose means differ by mu.

    **Source**: Dong, Roth and Su, 2022; IMGM Theorem 4 is the composition rule for equal steps.

    Attributes
    ----------
    mu
        Positive, finite.
    """

    mu: float

    def __post_init__(self) -> None:
        """Refuse a mu that promises nothing."""
        _positive("mu", self.mu)

    def delta(self, epsilon: float) -> float:
        """Smallest delta at an epsilon, rounded up."""
        return gaussian_delta(self.mu, epsilon)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at a delta, rounded up."""
        return gaussian_epsilon(self.mu, delta)

    @property
    def rho(self) -> float:
        """Parameter of zero-concentrated differential privacy, ``mu^2 / 2``."""
        return 0.5 * self.mu * self.mu


def compose(losses: Iterable[GaussianDP]) -> GaussianDP:
    """Loss of all releases together, also when later ones are chosen in view of earlier ones: mu squared adds up.

    Raises
    ------
    CalibrationError
        There is nothing to compose.
    """
    squares = [loss.mu * loss.mu for loss in losses]
    # fsum and sqrt round to nearest; the margin makes the result an upper bound.
    return GaussianDP(math.sqrt(math.fsum(squares)) * (1.0 + 4.0 * 2.0**-52))
