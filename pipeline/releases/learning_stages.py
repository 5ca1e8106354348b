"""The first stages of a night that learns the shape of its noise: a pilot, and rings about what the pilot gave.

The charge of all stages is committed after the first exact sum, before anything is drawn, and never changes. The noise
of each stage is under a key of its own, bound to the committed key and to all that was released before it. What a stage
gives follows from released integers by arithmetic that is the same on every machine, so an attempt that was killed at
any stage is repeated from the first one with the same bits; were anything before a stage another, its noise would be
too, and no difference of two sums could show.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.graph import Query, exact_graph
from blockveil.engine.answers.layout import Layout
from blockveil.engine.noise.design import Released
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.ledger import Charge
from blockveil.pipeline.plan.effort import Effort
from blockveil.pipeline.plan.learning import Learning
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.in_memory import drawn, quiet
from blockveil.pipeline.releases.workspace import Reservation, Workspace

Held = tuple[list[Any], Layout]
"""Exact tiles, where they were computed, and their layout."""


@dataclass(frozen=True, eq=False, repr=False)
class FirstStages:
    """What the last stage of a night takes from those before it.

    Attributes
    ----------
    plan
        The plan of the last stage.
    charge, key
        The committed charge, and the key of the last stage.
    arrays
        What the first stages released.
    """

    plan: Plan
    charge: Charge
    key: NoiseKey
    arrays: ReleaseArrays


def learn(
    workspace: Workspace,
    reservation: Reservation,
    compute: Compute,
    tell: Tell,
    commit: Callable[[], tuple[Charge, NoiseKey]],
) -> FirstStages:
    """Compute and draw the first stages, and plan the last one.

    Parameters
    ----------
    workspace, reservation
        The release and its charge.
    compute
        Runs the graphs.
    tell
        Receives progress in the user's words.
    commit
        Makes the charge irrevocable and returns it with its key; called once, after the first exact sum.

    Raises
    ------
    BlockveilError
        As :func:`.charged_steps.measure`.
    """
    plan, dataset = workspace.plan, reservation.dataset
    learning = plan.designed.learning
    if learning is None:
        raise RuntimeError("a night that learns nothing has one stage")
    stages = _Stages(workspace, reservation, compute)
    stages.require_room(learning)
    tell("learning where records lie", None)
    held = stages.held(learning.pilot, learning.questions.pilot.query, "pilot")
    dataset.check_unchanged()  # the sum must be of the data that the charge is for
    charge, key = commit()
    pilot = stages.drawn(held, learning.pilot, key.of_stage(b"1"), "pilot")
    centre, units = learning.raw(learning.axes(pilot, dataset.rows))
    tell("learning how far records spread", None)
    held = stages.held(learning.rings, learning.questions.ring_counts(centre, units), "rings")
    dataset.check_unchanged(committed=True)
    rings = stages.drawn(held, learning.rings, key.of_stage(_bound(b"2", pilot, centre, units)), "rings")
    last = plan.of_last_stage(learned := learning.learned(pilot, rings, dataset.rows))
    shape = np.zeros(0) if learned.semi_axes is None else learned.semi_axes
    arrays = learning.arrays(pilot, rings, dataset.rows)
    return FirstStages(last, charge, key.of_stage(_bound(b"3", pilot, rings, centre, shape)), arrays)


class _Stages:
    """Sums of first stages, computed and drawn like a whole release."""

    def __init__(self, workspace: Workspace, reservation: Reservation, compute: Compute) -> None:
        self._plan, self._dataset, self._compute = workspace.plan, reservation.dataset, compute
        self._name = f"blockveil-{reservation.charge.charge_id[:12]}-{secrets.token_hex(4)}"
        self._chunk_rows = workspace.plan.effort.chunk_rows(reservation.dataset.chunk_rows)

    def require_room(self, learning: Learning) -> None:
        """Refuse stages that do not fit the memory of what runs them, while nothing is spent; raises ConfigError."""
        stages: list[Answer] = [learning.pilot, learning.rings, self._plan.answer]
        stages += [self._plan.of_last_stage(each).answer for each in learning.extremes()]
        for each in stages:
            self._layout(each)

    def held(self, answer: Answer, query: Query, stage: str) -> Held:
        """The exact sum of a stage, held where it was computed."""
        layout = self._layout(answer)
        graph = exact_graph(self._dataset.source, query, layout, self._chunk_rows, f"{self._name}-{stage}")
        return self._compute.hold(graph, quiet), layout

    def drawn(self, held: Held, answer: Answer, key: NoiseKey, stage: str) -> Released:
        """The released integers of a stage."""
        return drawn(answer.design, *held, self._compute, key, f"{self._name}-{stage}")

    def _layout(self, answer: Answer) -> Layout:
        effort = Effort(self._plan.config, answer, weighs=False)
        return effort.layout(self._dataset.rows, self._chunk_rows, self._compute.workers, self._compute.threads)


def _bound(number: bytes, *before: NDArray[np.int64 | np.float64]) -> bytes:
    """What a stage's key is bound to: its number, and all that was released before it and made of that."""
    found = hashlib.sha256(number)
    for each in before:
        found.update(f"{each.dtype.str} {each.shape} ".encode() + np.ascontiguousarray(each).tobytes())
    return number + found.digest()
