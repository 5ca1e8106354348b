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
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.cost import Cut
from blockveil.engine.answers.gram import RowSource
from blockveil.engine.answers.graph import exact_graph
from blockveil.engine.answers.kept_rows import KeptRows
from blockveil.engine.answers.layout import Layout
from blockveil.engine.answers.sparse import EntrySource
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.plan.effort import Effort
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.stages import Drawn, Stage, StagesBefore, arrays
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.releases import in_memory
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.measurement import PlainMeasurement
from blockveil.pipeline.releases.publishing import Draft


class StagedMeasurement:
    """Stages, computed and drawn like a whole release, each under a key that is bound to all before it; then the last.

    Parameters
    ----------
    learning
        The first stages.
    plan, dataset, handle, compute, tell
        As of :class:`.PlainMeasurement`.

    Raises
    ------
    ConfigError
        A stage does not fit the memory of what runs it; nothing is spent.
    """

    def __init__(
        self, learning: StagesBefore, plan: Plan, dataset: Dataset, handle: str, compute: Compute, tell: Tell
    ) -> None:
        self.plan, self._learning, self._dataset = plan, learning, dataset
        self._handle, self._compute, self._tell = handle, compute, tell
        self._name = f"blockveil-{handle[:12]}-{secrets.token_hex(4)}"
        self._chunk_rows = plan.effort.chunk_rows(dataset.chunk_rows)
        self._drawn, self._before = list[Drawn](), list[NDArray[np.int64 | np.float64]]()
        self._held: list[Any] = []
        self._last: PlainMeasurement | None = None
        self._records: RowSource = dataset.source
        if not isinstance(self._records, EntrySource):
            # They stay where they are read as far as all stages leave memory for them.
            stages: list[Answer] = [*learning.before, plan.answer, *(each.answer for each in plan.last_stages)]
            peak = max(self._cut(each).peak_bytes for each in stages)
            self._records = KeptRows(self._records, plan.effort.room(peak))

    def exact(self) -> None:
        """Compute the sum of the first stage."""
        stage = self._due()
        if stage is None:
            raise RuntimeError("a night that learns has a first stage")
        self._held = self._sum(stage)

    def draw(self, key: NoiseKey) -> None:
        """Compute and draw the first stages, and plan and compute the last one."""
        dataset, rows = self._dataset, self._dataset.rows
        while (stage := self._due()) is not None:
            if self._drawn:
                self._held = self._sum(stage)
                dataset.check_unchanged(committed=True)
            layout, bound = self._layout(stage), self._bound(key, stage.name, *stage.shape)
            name = f"{self._name}-{stage.name}"
            released = in_memory.drawn(stage.answer.design, self._held, layout, self._compute, bound, name)
            self._before.append(released)
            self._drawn.append(Drawn(stage, released))
        learned = self._learning.learned(self._drawn, rows)
        shape = np.zeros(0) if learned.semi_axes is None else learned.semi_axes
        self.plan = self.plan.of_last_stage(learned)
        self._last = PlainMeasurement(self.plan, dataset, self._handle, self._compute, self._tell, self._records)
        self._last.exact()
        dataset.check_unchanged(committed=True)
        self._last.draw(self._bound(key, "answer", learned.centre, shape))

    def close(self, draft: Draft) -> ReleaseArrays:
        """Write the answer and what the first stages released; as :meth:`.Measurement.close`."""
        if self._last is None:
            raise RuntimeError("a release is closed after its last stage")
        small = self._last.close(draft)
        draft.write(arrays(self._drawn, self._dataset.rows))
        return small

    def _due(self) -> Stage | None:
        return self._learning.due(self._drawn, self._dataset.rows)

    def _sum(self, stage: Stage) -> list[Any]:
        self._tell("learning how far records spread" if stage.last else "learning where records lie", None)
        name = f"{self._name}-{stage.name}"
        graph = exact_graph(self._records, stage.query, self._layout(stage), self._chunk_rows, name)
        return self._compute.hold(graph, in_memory.quiet)

    def _layout(self, stage: Stage) -> Layout:
        return self._cut(stage.answer).layout(self._dataset.rows, self._chunk_rows)

    def _cut(self, answer: Answer) -> Cut:
        effort = Effort(self.plan.config, answer, weighs=False)
        return effort.cut(effort.machine(self._compute.workers, self._compute.threads), self._dataset.rows)

    def _bound(self, key: NoiseKey, name: str, *shape: Vector) -> NoiseKey:
        """Key of a stage, of its name and all before it."""
        self._before += shape
        return key.of_stage(_digest(name, self._before))


def _digest(name: str, before: Sequence[NDArray[np.int64 | np.float64]]) -> bytes:
    """What a stage's key is bound to: its name, and all that was released before it and made of that."""
    found = hashlib.sha256(name.encode())
    for each in before:
        found.update(f"{each.dtype.str} {each.shape} ".encode() + np.ascontiguousarray(each).tobytes())
    return found.digest()
