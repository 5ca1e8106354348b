"""What a night measures: the exact sum before the charge is committed, its noise after that, and arrays of a release.

The measurements are that of a whole answer, here; the one that weighs records by age (:mod:`.aged_measurement`); that
of a training (:mod:`.training_steps`); and that of a night that learns the shape of its noise
(:mod:`.learning_stages`). :func:`.charged_steps.measure` takes each through the same order.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from blockveil.engine.answers.gram import RowSource
from blockveil.engine.answers.graph import Query, assembled, exact_graph, noisy_graph, released_layout
from blockveil.engine.answers.layout import Tile
from blockveil.engine.noise.design import Released
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.publishing import Draft

if TYPE_CHECKING:
    from dask.delayed import Delayed


class Measurement(Protocol):
    """One measurement, whose steps are taken once, in the order in which they stand here."""

    @property
    def plan(self) -> Plan:
        """What is released; of a night that learns, known as a whole once it is drawn."""

    def exact(self) -> None:
        """Compute the first exact sum; nothing is drawn, and the charge is committed only once this has succeeded."""

    def draw(self, key: NoiseKey) -> None:
        """Make the noise known wherever tasks run, and measure whatever the arrays need; a later sum may be exact.

        Whoever calls it has the key forgotten, under the handle of the charge.
        """

    def close(self, draft: Draft) -> ReleaseArrays:
        """Write all arrays of the release; those that are small, for the attributes."""


class PlainMeasurement:
    """A whole answer: written at once where it is small, block by block where it is large.

    Parameters
    ----------
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
    records
        The same records, kept by an earlier stage; None reads them where they are stored.
    """

    def __init__(
        self,
        plan: Plan,
        dataset: Dataset,
        handle: str,
        compute: Compute,
        tell: Tell,
        records: RowSource | None = None,
    ) -> None:
        self.plan, self._rows, self._handle = plan, dataset.rows, handle
        self._compute, self._tell = compute, tell
        self._records = dataset.source if records is None else records
        self._query: Query = plan.question.query
        self._chunk_rows = plan.effort.chunk_rows(dataset.chunk_rows)
        cut = plan.effort.cut(plan.effort.machine(compute.workers, compute.threads), dataset.rows)
        self._cut, self._narrow = cut.layout(dataset.rows, self._chunk_rows), cut.work.narrow
        self._layout = released_layout(self._cut, plan.design)
        # A scheduler takes tasks of one name for one task. Two attempts at once may cut the records differently: a part
        # of the one in a sum of the other would count records twice.
        self._name = f"blockveil-{handle[:12]}-{secrets.token_hex(4)}"
        self._held: list[Any] = []
        self._noisy: Sequence[Delayed] = ()
        self._written = 0

    def exact(self) -> None:
        """Compute the sum, held where it was computed."""
        graph = exact_graph(self._records, self._query, self._cut, self._chunk_rows, self._name, self._narrow)
        self._held = self._compute.hold(graph, partial(self._tell, "reading, clipping and adding up"))

    def draw(self, key: NoiseKey) -> None:
        """Make noised tiles known, which are drawn when they are written."""
        self._tell("drawing the noise", None)
        self._compute.install(self._handle, key)
        self._noisy = noisy_graph(self._held, self._cut, self.plan.design, self._handle, self._name)

    def close(self, draft: Draft) -> ReleaseArrays:
        """Draw and write; as :meth:`Measurement.close`."""
        answer = self.plan.answer
        if not answer.work(self._rows).blocked:
            whole = self._arrays(self._whole())
            draft.write(whole)
            return whole
        blocks = answer.blocks(self._rows)
        if blocks is None:
            raise RuntimeError("a plan of an answer that cannot be written in blocks is refused")
        return self._in_blocks(draft, blocks)

    def _read(self, position: int, measured: NDArray[Any]) -> Released:
        """What is released of a measured tile, in grid steps; called from several threads, once for each tile."""
        del position
        return measured

    def _arrays(self, released: Released) -> ReleaseArrays:
        """Arrays of an answer that is written at once."""
        return self.plan.answer.arrays(released, self._rows)

    def _whole(self) -> Released:
        tiles: dict[int, Released] = {}
        self._each(range(len(self._layout.tiles)), tiles.__setitem__)
        symmetric = self.plan.design.by_tile and self.plan.design.symmetric
        return assembled([tiles[position] for position in range(len(tiles))], self._layout, symmetric)

    def _in_blocks(self, draft: Draft, blocks: Blocks) -> ReleaseArrays:
        arrays = {
            name: draft.create(name, large.shape, large.dimensions, large.dtype, large.chunks, shrinks=large.shrinks)
            for name, large in blocks.large.items()
        }
        tiles, first = self._layout.tiles, dict[Tile, Released]()

        def put(tile: Tile, released: Released) -> None:
            # Borders of tiles are borders of chunks, so no two threads write one chunk.
            for name, place, values in blocks.values(tile, released):
                arrays[name][place] = values

        ahead = [position for position, tile in enumerate(tiles) if blocks.needed_first(tile)]
        self._each(ahead, lambda position, released: first.__setitem__(tiles[position], released))
        small = blocks.small(first)
        draft.write(small)
        for tile, released in first.items():
            put(tile, released)
        rest = sorted(set(range(len(tiles))) - set(ahead))
        self._each(rest, lambda position, released: put(tiles[position], released))
        last = blocks.last()
        draft.write(last)
        return {**small, **last}

    def _each(self, positions: Sequence[int], consume: Callable[[int, Released], None]) -> None:
        """Draw these tiles and bring them here, each in turn, from several threads."""

        def progress(share: float) -> None:
            done = (self._written + share * len(positions)) / len(self._noisy)
            self._tell("drawing the noise and writing the release", done)

        def put(index: int, measured: Released) -> None:
            consume(positions[index], self._read(positions[index], measured))

        self._compute.stream([self._noisy[position] for position in positions], put, progress)
        self._written += len(positions)
