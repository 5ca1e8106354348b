"""Stages beside the answer of a night, under one charge with it: what each asks and released, and what states it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.graph import Query
from blockveil.engine.guarantees.guarantee import GaussianDP, Loss, compose
from blockveil.engine.mechanisms.contract import Designer, Importance
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.config import ReleaseConfig
from blockveil.pipeline.plan.earlier_shape import EarlierShape
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.arrays import ReleaseArrays

EVEN = ShapedGaussian(Importance("relative-error"))
"""Noise of the same size in each coordinate, of a box as of an ellipsoid."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage before the answer or after it.

    Attributes
    ----------
    name
        Its arrays begin with it.
    answer
        What is asked, with its noise.
    query
        How the records are read.
    shape
        What the query follows from that is no plan: public numbers, to which the key of its noise is bound.
    purpose
        What is told of it while it runs.
    """

    name: str
    answer: Answer
    query: Query
    shape: tuple[Vector, ...] = ()
    purpose: str = "learning where records lie"


@dataclass(frozen=True, eq=False)
class Drawn:
    """A stage and its released integers."""

    stage: Stage
    released: Released


def arrays(drawn: Sequence[Drawn], rows: int) -> ReleaseArrays:
    """What stages release, under names of their own; parameters as for :meth:`StagesBefore.due`."""
    return {
        f"{each.stage.name}_{name}": (values, tuple(f"{each.stage.name}_{axis}" for axis in axes))
        for each in drawn
        for name, (values, axes) in each.stage.answer.arrays(each.released, rows).items()
    }


def stated(answer: Answer, mechanism: Designer = EVEN) -> dict[str, Any]:
    """Mechanism of a stage as a release states mechanisms."""
    return {
        "mechanism": mechanism.name,
        "parameters": mechanism.parameters(),
        **answer.facts(),
        **answer.design.facts(),
        "loss": answer.design.loss.plain,
    }


@dataclass(frozen=True, eq=False)
class Learned:
    """What the first stages gave: public, and all that the last one needs of them.

    Attributes
    ----------
    shape
        Public numbers that the last stage follows from, to which the key of its noise is bound.
    last
        Its config and its answer; None where they are those of the plan.
    facts
        What a release states of all stages, as plain JSON values.
    """

    shape: tuple[NDArray[np.int64 | np.float64], ...]
    last: tuple[ReleaseConfig, Answer] | None
    facts: dict[str, Any]


def together(first: Sequence[Loss], last: Sequence[NoiseDesign]) -> Loss:
    """Loss of stages, of which the last is one of several."""
    mu = compose([*(GaussianDP(each.mu) for each in first), GaussianDP(max(each.mu for each in last))]).mu
    distance = math.fsum([*(each.total_variation for each in first), max(each.loss.total_variation for each in last)])
    return Loss(mu, 0.0, distance * (1.0 + 2.0**-50))


class StagesBeside(Protocol):
    """Stages beside an answer, whose noise is designed with its own before any record is read."""

    @property
    def loss(self) -> Loss:
        """Loss of a row by the answer and all stages."""

    def facts(self) -> dict[str, Any]:
        """What a plan states of the stages, as plain JSON values."""

    def lines(self) -> list[tuple[str, str]]:
        """Lines (what, value) of a plan: what the stages are for, and for which share."""


class StagesBefore(StagesBeside, Protocol):
    """Stages from which it is learned what the answer is best about."""

    @property
    def plain_answer(self) -> Answer:
        """The answer with what the stages leave it, where they have said nothing yet: that of the plan."""

    @property
    def before(self) -> tuple[Answer, ...]:
        """Answers of the stages, which all read the records."""

    @property
    def earlier(self) -> EarlierShape | None:
        """Where records lay on an earlier night, in the place of a stage; None where there is no such night."""

    @property
    def shapes(self) -> bool:
        """Whether the shape of the noise is learned, which then follows where records lie."""

    @property
    def sized(self) -> bool:
        """Whether the sizes of features are about known beforehand, by their declared bounds."""

    def due(self, drawn: Sequence[Drawn], rows: int) -> Stage | None:
        """The stage after those drawn; None where the answer follows. The number of rows is used where it is public."""

    def blank(self, rows: int) -> list[Drawn]:
        """All stages as if each had released zeros; rows as for :meth:`due`."""

    def learned(self, drawn: Sequence[Drawn], rows: int) -> Learned:
        """What follows from all stages, for the last one; rows as for :meth:`due`."""

    def supposed(self, mean: Vector, size: Vector, rows: int) -> Learned:
        """What would be learned of supposed records.

        Parameters
        ----------
        mean, size
            Means and standard deviations of the features, raw units, shape (d,) each.
        rows
            Number of records.
        """

    def extremes(self) -> list[Learned]:
        """The furthest that the last stage may come to, between which all numbers are monotone."""


class StageAfter(StagesBeside, Protocol):
    """A stage after the last step of an answer, which reads records at what the steps gave."""

    @property
    def noise(self) -> Design:
        """Noise of the answer, with what the stage leaves it."""

    @property
    def answer(self) -> Answer:
        """What the stage asks, with its noise."""

    def at(self, weights: Mapping[str, NDArray[Any]]) -> Stage:
        """The stage at what follows from the steps, by name."""
