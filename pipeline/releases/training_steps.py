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
from blockveil.pipeline.ledger import Charge
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions.stepwise import StepSum, Stepwise, course_of
from blockveil.pipeline.releases import fisher_step, outputs
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.publishing import Staged
from blockveil.pipeline.releases.workspace import Reservation, Workspace

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


def train(
    workspace: Workspace,
    reservation: Reservation,
    compute: Compute,
    tell: Tell,
    commit: Callable[[], tuple[Charge, NoiseKey]],
    hear: Hear = unheard,
) -> Staged:
    """Compute and draw the sums of all steps, and stage the release.

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
    hear
        Receives what is public of the steps so far, now and then.

    Raises
    ------
    BlockveilError
        As :func:`.charged_steps.measure`.
    """
    plan, dataset, charge = workspace.plan, reservation.dataset, reservation.charge
    course, handle = course_of(plan.question, plan.design), reservation.charge.charge_id
    if course is None:
        raise RuntimeError("a question without training is measured in one step")
    sums = _Sums(plan, dataset, compute, handle)
    released, heard = np.empty(plan.design.shape, dtype=np.int64), _Heard(dataset, plan.steps, hear)
    with ExitStack() as installed:  # key and records go before what is published is made, which needs neither
        installed.callback(compute.forget, handle)
        while not course.done:
            tell("training", course.step / plan.steps)
            held = sums.hold(course, of_all=course.step == 0 and course.secret)
            if course.step == 0:
                charge, key = _committed(dataset, compute, handle, commit)
                tell("training", 0.0)
                sums.keep_records()
                held = sums.hold(course) if course.secret else held
            own = released[slice(*sums.rows_of(course))]
            _draw(held, sums.layout_of(course), plan.design, compute, handle, sums.name_of(course), released)
            own -= course.taken(key)
            heard.follow(course, own)
            course.follow(own)
    further = fisher_step.draw(workspace, reservation, compute, key, course.weights, released)
    with workspace.draft(charge) as draft:
        arrays = plan.answer.arrays(released, dataset.rows)
        draft.write({**arrays, **further})
        # Of records that have changed meanwhile, steps would be of two states, and nothing of them is published.
        dataset.check_unchanged(committed=True)
        tell("closing the release", None)
        return draft.finish(outputs.attributes(plan, charge, arrays, dataset))


class _Sums:
    """The exact sums of the steps, each held where it was computed."""

    def __init__(self, plan: Plan, dataset: Dataset, compute: Compute, handle: str) -> None:
        cut = plan.effort.cut(plan.effort.machine(compute.workers, compute.threads), dataset.rows)
        self._dataset, self._compute, self._chunk_rows = dataset, compute, plan.effort.chunk_rows(dataset.chunk_rows)
        self._layout, self._rows = cut.layout(dataset.rows, self._chunk_rows), plan.design.shape[0] // plan.steps
        self._handle, self._attempt = handle, secrets.token_hex(4)
        self._room = max(0, plan.effort.memory - cut.cost.peak_bytes) // 2
        self._holding: Holding | None = None

    def keep_records(self) -> None:
        """From the next sum on, integers of records stay where they were read.

        That is once the key is there: records are forgotten with it, wherever tasks run.
        """
        self._holding = Holding(self._handle, self._attempt, self._room, self._dataset.rows)

    def hold(self, course: Stepwise, *, of_all: bool = False) -> list[object]:
        """The sum of the next step, or of all records in its place, which is thrown away."""
        query = course.of_all_records() if of_all else course.query(self._handle, self._holding)
        name = f"{self.name_of(course)}{'-all' if of_all else ''}"
        return _hold(self._compute, self._dataset, self.layout_of(course), self._chunk_rows, query, name)

    def name_of(self, course: Stepwise) -> str:
        """Public beginning of the task names of the next step."""
        return f"blockveil-{self._handle[:12]}-{self._attempt}-{course.step}"

    def rows_of(self, course: Stepwise) -> tuple[int, int]:
        """Rows of the next step in the whole answer."""
        return course.step * self._rows, (course.step + 1) * self._rows

    def layout_of(self, course: Stepwise) -> Layout:
        """Tiles of the next step in the whole answer."""
        return _moved(self._layout, self.rows_of(course)[0])


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
        begun = time.monotonic()
        if begun < self._next:
            return
        self._dataset.check_unchanged(committed=True)
        sums, noise = zip(*self._found, strict=True)
        self._hear(StepsSoFar(self._steps, sums, noise))
        now = time.monotonic()
        self._next = now + max(SHOWN_SECONDS, _SHARE * (now - begun))


def _hold(
    compute: Compute, dataset: Dataset, layout: Layout, chunk_rows: int, query: StepSum, name: str
) -> list[object]:
    """The exact sum of a step, held where it was computed, or computed with its noise once the charge is committed."""
    graph = exact_graph(dataset.source, query, layout, chunk_rows, name)
    return compute.hold(graph, _silent) if query.holding is None else compute.defer(graph)


def _committed(
    dataset: Dataset, compute: Compute, handle: str, commit: Callable[[], tuple[Charge, NoiseKey]]
) -> tuple[Charge, NoiseKey]:
    """Commit the charge, and make its key known where tasks run."""
    dataset.check_unchanged()  # the sums must be of the data that the charge is for
    charge, key = commit()
    compute.install(handle, key)
    return charge, key


def _draw(
    held: list[object], layout: Layout, design: Design, compute: Compute, handle: str, name: str, released: Released
) -> None:
    """Put the noisy tiles of one step to their place."""

    def put(position: int, tile: Released) -> None:
        place = layout.tiles[position]
        released[slice(*place.rows), slice(*place.columns)] = tile

    compute.stream(noisy_graph(held, layout, design, handle, name), put, _silent)


def _moved(layout: Layout, rows: int) -> Layout:
    """The same tiles further down."""
    tiles = (Tile((tile.rows[0] + rows, tile.rows[1] + rows), tile.columns) for tile in layout.tiles)
    return Layout(tuple(tiles), layout.parts)


def _silent(share: float) -> None:
    """Within a step no progress is reported."""
