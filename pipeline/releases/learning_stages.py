"""The first stages of a night that learns the shape of its noise, one after the other.

The charge of all stages is committed after the first exact sum, before anything is drawn, and never changes. The noise
of each stage is under a key of its own, bound to the committed key and to all that was released before it. What a stage
gives follows from released integers by arithmetic that is the same on every machine, so an attempt that was killed at
any stage is repeated from the first one with the same bits; were anything before a stage another, its noise would be
too, and no difference of two sums could show.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.cost import Cut
from blockveil.engine.answers.gram import RowSource
from blockveil.engine.answers.graph import exact_graph
from blockveil.engine.answers.kept_rows import KeptRows
from blockveil.engine.answers.sparse import EntrySource
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.ledger import Charge
from blockveil.pipeline.plan.effort import Effort
from blockveil.pipeline.plan.first_stages import Drawn, Stage, arrays
from blockveil.pipeline.plan.learning import Learning
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.releases import in_memory
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.workspace import Reservation, Workspace


@dataclass(frozen=True, eq=False, repr=False)
class FirstStages:
    """What the last stage of a night takes from those before it.

    Attributes
    ----------
    plan
        The plan of the last stage.
    charge, key
        The committed charge, and the key of the last stage.
    records
        The records, of which those stay in memory that fit there.
    arrays
        What the first stages released.
    """

    plan: Plan
    charge: Charge
    key: NoiseKey
    records: RowSource
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
    plan, rows = workspace.plan, reservation.dataset.rows
    learning = plan.designed.learning
    if learning is None:
        raise RuntimeError("a night that learns nothing has one stage")
    stages, drawn = _Stages(workspace, reservation, compute, commit), list[Drawn]()
    records = stages.keep_records(learning)
    while (stage := learning.due(drawn, rows)) is not None:
        tell("learning how far records spread" if stage.last else "learning where records lie", None)
        drawn.append(stages.draw(stage))
    learned = learning.learned(drawn, rows)
    shape = np.zeros(0) if learned.semi_axes is None else learned.semi_axes
    charge, key = stages.last(learned.centre, shape)
    return FirstStages(plan.of_last_stage(learned), charge, key, records, arrays(drawn, rows))


class _Stages:
    """Stages, computed and drawn like a whole release, each under a key that is bound to all before it."""

    def __init__(
        self,
        workspace: Workspace,
        reservation: Reservation,
        compute: Compute,
        commit: Callable[[], tuple[Charge, NoiseKey]],
    ) -> None:
        self._plan, self._dataset, self._compute = workspace.plan, reservation.dataset, compute
        self._name = f"blockveil-{reservation.charge.charge_id[:12]}-{secrets.token_hex(4)}"
        self._chunk_rows = workspace.plan.effort.chunk_rows(reservation.dataset.chunk_rows)
        self._commit = commit
        self._committed: tuple[Charge, NoiseKey] | None = None
        self._before: list[NDArray[np.int64 | np.float64]] = []
        self._records: RowSource = reservation.dataset.source

    def keep_records(self, learning: Learning) -> RowSource:
        """The records, which stay where they are read as far as all stages leave memory for them.

        Raises
        ------
        ConfigError
            A stage does not fit the memory of what runs it; nothing is spent.
        """
        stages: list[Answer] = [*learning.before, self._plan.answer]
        stages += [each.answer for each in self._plan.last_stages]
        peak = max(self._cut(each).cost.peak_bytes for each in stages)
        if not isinstance(self._records, EntrySource):
            self._records = KeptRows(self._records, self._plan.effort.room(peak))
        return self._records

    def draw(self, stage: Stage) -> Drawn:
        """A stage with its released integers; the charge is committed after the exact sum of the first one."""
        layout = self._cut(stage.answer).layout(self._dataset.rows, self._chunk_rows)
        name = f"{self._name}-{stage.name}"
        graph = exact_graph(self._records, stage.query, layout, self._chunk_rows, name)
        held = self._compute.hold(graph, in_memory.quiet)
        self._dataset.check_unchanged(committed=self._committed is not None)  # the sum is of what the charge is for
        _, key = self._bound(stage.name, *stage.shape)
        released = in_memory.drawn(stage.answer.design, held, layout, self._compute, key, name)
        self._before.append(released)
        return Drawn(stage, released)

    def last(self, *shape: Vector) -> tuple[Charge, NoiseKey]:
        """The committed charge and the key of the last stage."""
        return self._bound("answer", *shape)

    def _bound(self, name: str, *shape: Vector) -> tuple[Charge, NoiseKey]:
        if self._committed is None:
            self._committed = self._commit()
        charge, key = self._committed
        self._before += shape
        return charge, key.of_stage(_digest(name, self._before))

    def _cut(self, answer: Answer) -> Cut:
        effort = Effort(self._plan.config, answer, weighs=False)
        return effort.cut(effort.machine(self._compute.workers, self._compute.threads), self._dataset.rows)


def _digest(name: str, before: Sequence[NDArray[np.int64 | np.float64]]) -> bytes:
    """What a stage's key is bound to: its name, and all that was released before it and made of that."""
    found = hashlib.sha256(name.encode())
    for each in before:
        found.update(f"{each.dtype.str} {each.shape} ".encode() + np.ascontiguousarray(each).tobytes())
    return found.digest()
