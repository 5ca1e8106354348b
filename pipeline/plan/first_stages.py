"""Stages before the answer of a night that learns: what each asks, what it released, and how releases state it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blockveil.engine.answers.graph import Query
from blockveil.engine.estimates.shortening import Shortening
from blockveil.engine.guarantees.guarantee import GaussianDP, Loss, compose
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.noise.design import NoiseDesign, Released
from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.kinds.counts.question import CellsAnswer
from blockveil.pipeline.kinds.histograms.question import HistogramsAnswer
from blockveil.pipeline.kinds.moments.question import MomentAnswer
from blockveil.pipeline.kinds.totals.question import TotalsAnswer
from blockveil.pipeline.questions.arrays import ReleaseArrays

BOUNDS, PILOT, NEARER_PILOT, RINGS = "bounds", "pilot", "nearer_pilot", "rings"
"""Names of the stages, in their order; the first is one of the two."""

StageAnswer = TotalsAnswer | CellsAnswer | HistogramsAnswer
"""What a stage before the answer asks."""

EVEN = ShapedGaussian(Importance("relative-error"))
"""Noise of the same size in each coordinate, of a box as of an ellipsoid."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage before the answer.

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
    """

    name: str
    answer: StageAnswer
    query: Query
    shape: tuple[Vector, ...] = ()

    @property
    def last(self) -> bool:
        """Whether the answer follows it."""
        return self.name == RINGS


@dataclass(frozen=True, eq=False)
class Drawn:
    """A stage and its released integers."""

    stage: Stage
    released: Released


def arrays(drawn: Sequence[Drawn], rows: int) -> ReleaseArrays:
    """What first stages release, under names of their own; parameters as for :meth:`Learning.due`."""
    return {
        f"{each.stage.name}_{name}": (values, tuple(f"{each.stage.name}_{axis}" for axis in axes))
        for each in drawn
        for name, (values, axes) in each.stage.answer.arrays(each.released, rows).items()
    }


def stated(answer: StageAnswer | MomentAnswer) -> dict[str, Any]:
    """Mechanism of a stage as a release states mechanisms."""
    return {
        "mechanism": EVEN.name,
        "parameters": EVEN.parameters(),
        **answer.facts(),
        **answer.design.facts(),
        "loss": answer.design.loss.plain,
    }


@dataclass(frozen=True, eq=False)
class Learned:
    """What the first stages gave: public, and all that the last one needs of them.

    Attributes
    ----------
    centre, semi_axes
        Of the ellipsoid, raw units, shape (d,) each; None where records stay in the declared box.
    shortening
        What shortening records to the ellipsoid takes from them.
    facts
        The same and what was expected of it, as plain JSON values.
    """

    centre: Vector
    semi_axes: Vector | None
    shortening: Shortening
    facts: dict[str, Any]


def together(first: Sequence[Loss], last: Sequence[NoiseDesign]) -> Loss:
    """Loss of stages, of which the last is one of several."""
    mu = compose([*(GaussianDP(each.mu) for each in first), GaussianDP(max(each.mu for each in last))]).mu
    distance = math.fsum([*(each.total_variation for each in first), max(each.loss.total_variation for each in last)])
    return Loss(mu, 0.0, distance * (1.0 + 2.0**-50))
