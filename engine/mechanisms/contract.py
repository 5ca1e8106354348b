"""What every mechanism is to the rest of the product: a status, a calibration, and parameters to write down."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.abilities import constants
from blockveil.engine.noise.design import Design, NoiseDesign
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.problems import Problem


class Status(StrEnum):
    """How far a guarantee can be trusted."""

    PROVEN_EXACT = "proven-exact"
    """The loss that is charged is the smallest that holds for the sensitivity, which says itself if it is a bound."""

    PROVEN_LOOSE = "proven-loose"
    """The published calibration is valid but wasteful; the exact, smaller loss is charged."""

    NOT_PRIVATE = "not-private"
    """The published claim is false; never released as private."""


class NotApplicable(ValueError):
    """The mechanism does not answer this query, relation or shape: the message says what it needs."""


class Designer(Protocol):
    """A way to answer a problem privately: by additive noise, or by drawing the answer in another way."""

    name: ClassVar[str]

    def design(self, problem: Problem, guarantee: ApproxDP) -> Design:
        """Numbers of the draw for a problem at a guarantee; raises as :meth:`Mechanism.design`."""

    def parameters(self) -> dict[str, Any]:
        """Choices that were made, as plain JSON values."""


class Mechanism(Protocol):
    """A way to answer a problem privately by additive noise."""

    name: ClassVar[str]

    def design(self, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Noise for a problem at a guarantee.

        Raises
        ------
        NotApplicable
            The mechanism has no theorem for this problem.
        CannotCalibrate
            The guarantee cannot be met.
        """

    def parameters(self) -> dict[str, Any]:
        """Choices that were made, as plain JSON values."""


@dataclass(frozen=True)
class Importance:
    """What error is to be made small: raw units, relative to each feature's declared range, or by given weights.

    Attributes
    ----------
    aim
        "absolute-error", "relative-error" or "weights".
    rows, columns
        With "weights": a positive importance for each row and column of the answer, without the constant coordinate.
    """

    aim: str
    rows: tuple[float, ...] = ()
    columns: tuple[float, ...] = ()

    def weights(self, problem: Problem) -> tuple[Vector, Vector]:
        """Importance of each row and column of the answer for squared error in raw units."""
        units = free_units(problem)
        if self.aim == "relative-error":
            return units[0] ** -2.0, units[1] ** -2.0
        if self.aim == "absolute-error":
            return np.ones(units[0].size), np.ones(units[1].size)
        weights = np.asarray(self.rows or np.ones(units[0].size)), np.asarray(self.columns or np.ones(units[1].size))
        for side, unit in zip(weights, units, strict=True):
            if side.size != unit.size or not np.all(np.isfinite(side)) or np.any(side <= 0):
                raise ValueError("importances are positive and finite, one for each feature; correct them")
        return weights

    def parameters(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items() if value}


def free_units(problem: Problem) -> tuple[Vector, Vector]:
    """Raw units by row and by column of the answer, without the constant coordinate."""
    (rows, columns), (down, across) = problem.units, constants(problem)
    return rows[down:], columns[across:]
