"""The steps of a training: each reads the records at the weights that the noisy sums before it gave.

Nothing is drawn before the charge is committed, which is after the first exact sum. Steps over secret samples need the
key before a sum: there all records are read and checked first, by a sum over all of them that is thrown away, so that
bad records are found while nothing is committed. From then on all noise follows from
the committed key and the place of an entry in the answer, so an attempt that was killed at any step is repeated from
the first one with the same bits and no further charge. Nothing un-noised is kept from one step to the next.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial

import numpy as np

from blockveil.engine.answers.gradients import GradientsAtStep
from blockveil.engine.answers.graph import exact_graph, noisy_graph
from blockveil.engine.answers.layout import Layout, Tile
from blockveil.engine.noise.design import Design, Released
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.ledger import Charge
from blockveil.pipeline.questions.gradients import course_of
from blockveil.pipeline.releases import outputs
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.publishing import Staged
from blockveil.pipeline.releases.workspace import Reservation, Workspace


def train(
    workspace: Workspace,
    reservation: Reservation,
    compute: Compute,
    tell: Tell,
    commit: Callable[[], tuple[Charge, NoiseKey]],
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

    Raises
    ------
    BlockveilError
        As :func:`.charged_steps.measure`.
    """
    plan, dataset, charge = workspace.plan, reservation.dataset, reservation.charge
    course, handle = course_of(plan.question, plan.design), reservation.charge.charge_id
    if course is None:
        raise RuntimeError("a question without training is measured in one step")
    chunk_rows = plan.effort.chunk_rows(dataset.chunk_rows)
    layout = plan.effort.layout(dataset.rows, chunk_rows, compute.workers, compute.threads)
    released = np.empty(plan.design.shape, dtype=np.int64)
    rows, attempt = plan.design.shape[0] // plan.steps, secrets.token_hex(4)
    try:
        while not course.done:
            step, first = course.step, course.step * rows
            tell("training", step / plan.steps)
            below, name = _moved(layout, first), f"blockveil-{handle[:12]}-{attempt}-{step}"
            sums = partial(_sums, compute, dataset, below, chunk_rows)
            held = sums(course.of_all_records() if step == 0 and course.secret else course.query(handle), name)
            if step == 0:
                charge, key = _committed(dataset, compute, handle, commit)
                held = sums(course.query(handle), f"{name}-0") if course.secret else held
            _draw(held, below, plan.design, compute, handle, name, released)
            released[first : first + rows] -= course.taken(key)
            course.follow(released[first : first + rows])
        with workspace.draft(charge) as draft:
            arrays = plan.answer.arrays(released, dataset.rows)
            draft.write(arrays)
            # Of records that have changed meanwhile, steps would be of two states, and nothing of them is published.
            dataset.check_unchanged(committed=True)
            tell("closing the release", None)
            return draft.finish(outputs.attributes(plan, charge, arrays, dataset))
    finally:
        compute.forget(handle)


def _sums(
    compute: Compute, dataset: Dataset, layout: Layout, chunk_rows: int, query: GradientsAtStep, name: str
) -> list[object]:
    """The exact sum of a step, held where it was computed."""
    return compute.hold(exact_graph(dataset.source, query, layout, chunk_rows, name), _silent)


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
