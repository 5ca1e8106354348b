"""The steps of a training: each reads the records at the weights that the noisy sums before it gave.

Nothing is drawn before the charge is committed, which is after the first exact sum. Steps over secret samples need the
key before a sum: there all records are read and checked first, by a sum over all of them that is thrown away, so that
bad records are found while nothing is committed. From then on all noise follows from
the committed key and the place of an entry in the answer, so an attempt that was killed at any step is repeated from
the first one with the same bits and no further charge. No sum without noise is kept from one step to the next;
integers of records may stay in the memory of the processes that read them, until the last step
(:mod:`engine.answers.held_records`).
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from blockveil.engine.answers.graph import exact_graph, noisy_graph
from blockveil.engine.answers.held_records import Holding
from blockveil.engine.answers.layout import Layout, Tile
from blockveil.engine.noise.design import Design, Released
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.plan.effort import Effort
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.stages import Drawn, arrays
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.stepwise import StepSum, Stepwise
from blockveil.pipeline.releases import in_memory
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.publishing import Draft

SHOWN_SECONDS = 3.0
"""Least time between two looks at a training under way."""

_SHARE = 20.0
"""At most one part in this many of the time is spent on looks."""


@dataclass(frozen=True)
class StepsSoFar:
    """What a training under way shows: public numbers of released sums alone.

    Attributes
    ----------
    steps
        How many there will be.
    lengths, noise
        Length of the released sum of each step so far, and of its noise, in the gradient's units.
    """

    steps: int
    lengths: tuple[float, ...]
    noise: tuple[float, ...]


Hear = Callable[[StepsSoFar], None]


def unheard(so_far: StepsSoFar) -> None:
    """Tell nobody."""


class StepwiseMeasurement:
    """The sums of all steps, and of the stage after them where the training declares errors.

    Parameters
    ----------
    course
        The training, before its first step.
    plan
        What is released.
    dataset
        Its records.
    handle
        Public name of the charge, under which the key is installed.
    compute
        Runs the graphs.
    tell
        Receives progress in the user's words.
    hear
        Receives what is public of the steps so far, now and then.
    """

    def __init__(
        self,
        course: Stepwise,
        plan: Plan,
        dataset: Dataset,
        handle: str,
        compute: Compute,
        tell: Tell,
        hear: Hear = unheard,
    ) -> None:
        self.plan, self._course = plan, course
        self._dataset, self._handle, self._compute, self._tell = dataset, handle, compute, tell
        self._heard = _Heard(dataset, plan.steps, hear)
        self._chunk_rows, self._attempt = plan.effort.chunk_rows(dataset.chunk_rows), secrets.token_hex(4)
        cut, self._layout = plan.effort.cut_for(dataset.rows, self._chunk_rows, compute.workers, compute.threads)
        self._rows = plan.design.shape[0] // plan.steps
        self._room = max(0, plan.effort.memory - cut.peak_bytes) // 2
        self._holding: Holding | None = None
        self._held: list[object] = []
        self._released = np.empty(plan.design.shape, dtype=np.int64)
        self._further: ReleaseArrays = {}

    def exact(self) -> None:
        """Compute the sum of the first step, or of all records in its place, which is thrown away."""
        self._tell("training", 0.0)
        sum_of_step = self._sum(of_all=self._course.secret)
        self._held = [] if self._course.secret else sum_of_step

    def draw(self, key: NoiseKey) -> None:
        """Compute and draw all steps; as :meth:`.Measurement.draw`."""
        course, plan, handle = self._course, self.plan, self._handle
        with ExitStack() as installed:  # key and records go before what is published is made, which needs neither
            installed.callback(self._compute.forget, handle)
            self._compute.install(handle, key)
            # From the next sum on, integers of records stay where they were read: they are forgotten with the key.
            self._holding = Holding(handle, self._attempt, self._room, self._dataset.rows)
            while not course.done:
                self._tell("training", course.step / plan.steps)
                sum_of_step, self._held = self._held or self._sum(), []
                name, first = self._name, course.step * self._rows
                own = self._released[first : first + self._rows]
                _draw(
                    sum_of_step, _moved(self._layout, first), plan.design, self._compute, handle, name, self._released
                )
                own -= course.taken(key)
                self._heard.follow(course, own)
                course.follow(own)
        self._further = self._after(key)

    def close(self, draft: Draft) -> ReleaseArrays:
        """Write all arrays; as :meth:`.Measurement.close`."""
        own = self.plan.answer.arrays(self._released, self._dataset.rows)
        draft.write({**own, **self._further})
        return own

    @property
    def _name(self) -> str:
        """Public beginning of the task names of the next step."""
        return f"blockveil-{self._handle[:12]}-{self._attempt}-{self._course.step}"

    def _sum(self, *, of_all: bool = False) -> list[object]:
        """The sum of the next step, or of all records in its place."""
        course = self._course
        query = course.of_all_records() if of_all else course.query(self._handle, self._holding)
        layout = _moved(self._layout, course.step * self._rows)
        name = f"{self._name}{'-all' if of_all else ''}"
        return _hold(self._compute, self._dataset, layout, self._chunk_rows, query, name)

    def _after(self, key: NoiseKey) -> ReleaseArrays:
        """Arrays of the stage after the last step, where there is one.

        Its noise is under a key of its own, bound to the committed key and to the released sums of all steps. The
        weights that it reads records at follow from these by arithmetic that is the same on every machine.
        """
        plan, dataset, compute = self.plan, self._dataset, self._compute
        if plan.designed.stage_after is None:
            return {}
        stage = plan.designed.stage_after.at(self._course.weights)
        effort = Effort(plan.config, stage.answer, weighs=False)
        _, layout = effort.cut_for(dataset.rows, self._chunk_rows, compute.workers, compute.threads)
        name = f"blockveil-{self._handle[:12]}-{secrets.token_hex(4)}-{stage.name}"
        sum_of_stage = compute.hold(
            exact_graph(dataset.source, stage.query, layout, self._chunk_rows, name), in_memory.quiet
        )
        # Of other records, nothing may be drawn: a later attempt gives the same noise to the right ones.
        dataset.check_unchanged(committed=True)
        bound = hashlib.sha256(stage.name.encode() + self._released.astype("<i8").tobytes()).digest()
        released = in_memory.drawn(stage.answer.design, sum_of_stage, layout, compute, key.of_stage(bound), name)
        return arrays([Drawn(stage, released)], dataset.rows)


class _Heard:
    """Shows what is public of the steps so far, now and then, once the records are known to be those of the charge.

    Sums of other records would have the noise that a later attempt gives to the right ones, and must not be seen.
    """

    def __init__(self, dataset: Dataset, steps: int, hear: Hear) -> None:
        self._dataset, self._steps, self._hear = dataset, steps, hear
        self._found: list[tuple[float, float]] = []
        self._next = time.monotonic()

    def follow(self, course: Stepwise, released: Released) -> None:
        """Take in the released sum of the next step."""
        if self._hear is unheard:
            return
        self._found.append(course.lengths(released))
        start = time.monotonic()
        if start < self._next:
            return
        self._dataset.check_unchanged(committed=True)
        sums, noise = zip(*self._found, strict=True)
        self._hear(StepsSoFar(self._steps, sums, noise))
        now = time.monotonic()
        self._next = now + max(SHOWN_SECONDS, _SHARE * (now - start))


def _hold(
    compute: Compute, dataset: Dataset, layout: Layout, chunk_rows: int, query: StepSum, name: str
) -> list[object]:
    """The exact sum of a step, held where it was computed, or computed with its noise once the charge is committed."""
    graph = exact_graph(dataset.source, query, layout, chunk_rows, name)
    return compute.hold(graph, in_memory.quiet) if query.holding is None else compute.defer(graph)


def _draw(
    held: list[object], layout: Layout, design: Design, compute: Compute, handle: str, name: str, released: Released
) -> None:
    """Put the noisy tiles of one step to their place."""

    def put(position: int, tile: Released) -> None:
        place = layout.tiles[position]
        released[slice(*place.rows), slice(*place.columns)] = tile

    compute.stream(noisy_graph(held, layout, design, handle, name), put, in_memory.quiet)


def _moved(layout: Layout, rows: int) -> Layout:
    """The same tiles further down."""
    tiles = (Tile((tile.rows[0] + rows, tile.rows[1] + rows), tile.columns) for tile in layout.tiles)
    return Layout(tuple(tiles), layout.parts)
