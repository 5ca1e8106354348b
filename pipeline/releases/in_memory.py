"""A small answer summed and drawn in memory, by the graphs that a release runs: previews, audits, and first stages.

Nothing is staged, charged or published here. The key is the caller's: made up for previews and audits, and committed
for the first stages of a night that learns its shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.graph import Query, assembled, exact_graph, noisy_graph, released_layout
from blockveil.engine.answers.layout import Layout
from blockveil.engine.noise.design import Design
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases.compute import Compute


def summed(
    plan: Plan, query: Query, source: Any, chunk_rows: int, compute: Compute, name: str
) -> tuple[list[Any], Layout]:
    """Exact tiles, where the compute holds them, and their layout.

    Parameters
    ----------
    plan
        Cuts the work.
    query
        What is asked: the plan's query, or one step of its training.
    source
        Records, shape (rows, columns).
    chunk_rows
        Rows that a task reads at once.
    compute
        Runs the graph.
    name
        Public beginning of the task names.
    """
    rows = source.shape[0]
    _, layout = plan.effort.cut_for(rows, chunk_rows, compute.workers, compute.threads)
    return compute.hold(exact_graph(source, query, layout, chunk_rows, name), quiet), layout


def drawn(
    design: Design, held: list[Any], layout: Layout, compute: Compute, key: NoiseKey, name: str
) -> NDArray[np.int64]:
    """The whole release, in grid steps, from its exact tiles.

    Parameters
    ----------
    design
        What turns the answer into the release.
    held, layout
        Exact tiles and their layout; see :func:`summed`.
    compute
        Runs the graph.
    key
        Key of the noise.
    name
        Public beginning of the task names, and the handle of the key.
    """
    try:
        compute.install(name, key)
        tile_values: dict[int, NDArray[np.int64]] = {}
        compute.stream(noisy_graph(held, layout, design, name, name), tile_values.__setitem__, quiet)
    finally:
        compute.forget(name)
    tiles = [tile_values[i] for i in range(len(tile_values))]
    return assembled(tiles, released_layout(layout, design), design.by_tile and design.symmetric)


def quiet(_: float) -> None:
    """Nobody watches the progress of a second."""
