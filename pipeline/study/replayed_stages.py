"""Stages beside the answer under replay: a unit is in all of them.

Each stage is about what those before it released, which is the same in both neighbours: what an attacker knows of the
past. So each neighbour goes through it with what they released of the first data set.
The last stage of a night that learns its shape is replayed in the ellipsoid, or the box, that these gave, and in the
declared box. The stage after the steps of a training is replayed at the weights that these begin with, which are public
as any others.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.graph import Query
from blockveil.engine.answers.layout import Tile
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.accuracy.extreme_rows import Row
from blockveil.pipeline.plan.stages import Drawn, StageAfter, StagesBefore
from blockveil.pipeline.questions.question import additive
from blockveil.pipeline.study.replay_path import ReplayPath

Released = NDArray[np.int64]
Loss = Callable[[NoiseDesign, Released], float]
UnitLoss = Callable[[Row | None, Row | None], float]

_CHUNK_ROWS = 16


def loss_after(path: ReplayPath[Any], after: StageAfter, key: NoiseKey, loss: Loss) -> UnitLoss:
    """Loss of two contributions of a unit in the stage after the last step of a training.

    Parameters
    ----------
    path
        Makes the data sets; the stage is replayed at the weights that its training begins with.
    after
        The stage.
    key, loss
        As for :func:`stage_losses`.
    """
    if path.course is None:
        raise RuntimeError("only a training has a stage after its last step")
    design, query = additive(after.answer.design), after.at(path.course.weights).query
    whole, draws = [Tile((0, design.shape[0]), (0, design.shape[1]))], dict[int, Released]()

    def released(unit: Row | None) -> Released:
        if id(unit) not in draws:
            records = path.records(unit)
            draws[id(unit)] = design.release(key, query.partial(records, 0, len(records), _CHUNK_ROWS, whole)[0])
        return draws[id(unit)]

    return lambda one, other: loss(design, released(one) - released(other))


def stage_losses(
    path: ReplayPath[Any], learning: StagesBefore, key: NoiseKey, loss: Loss
) -> Callable[[int, int], float]:
    """Loss of two data sets in all stages together, by their places among those of a path.

    Parameters
    ----------
    path
        Makes the data sets, one for each contribution of a unit.
    learning
        The stages.
    key
        Of the noise, which is the same in both and cancels.
    loss
        Of a shift of the released integers of one stage.
    """
    every, stages = [path.records(unit) for unit in path.units], list[tuple[NoiseDesign, list[Released]]]()

    def released(design: NoiseDesign, query: Query) -> Released:
        whole = [Tile((0, design.shape[0]), (0, design.shape[1]))]
        exact = (query.partial(records, 0, len(records), _CHUNK_ROWS, whole)[0] for records in every)
        draws = [design.release(key, one) for one in exact]
        stages.append((design, draws))
        return draws[0]

    rows, measurements = len(every[0]), list[Drawn]()
    while (stage := learning.due(measurements, rows)) is not None:
        measurements.append(Drawn(stage, released(additive(stage.answer.design), stage.query)))
    for plan in (path.plan, path.plan.of_last_stage(learning.learned(measurements, rows))):
        released(additive(plan.design), plan.question.query)

    def together(one: int, other: int) -> float:
        sizes = [loss(design, releases[one] - releases[other]) for design, releases in stages]
        return sqrt(sum(size**2 for size in sizes[:-2]) + max(sizes[-2:]) ** 2)

    return together
