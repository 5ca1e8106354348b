"""What a night measures: the exact sum before the charge is committed, its noise after that, and arrays of a release.

The measurements are that of a whole answer; the one that weighs records by age; that of a night that learns the shape
of its noise; and that of a training (:mod:`.training_steps`). :func:`.charged_steps.measure` takes each through the
same order.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import zarr
from numpy.typing import NDArray

from blockveil.engine.answers.cost import Cut
from blockveil.engine.answers.gram import RowSource
from blockveil.engine.answers.graph import Query, assembled, exact_graph, noisy_graph, released_layout
from blockveil.engine.answers.kept_rows import KeptRows
from blockveil.engine.answers.layout import Layout, Tile
from blockveil.engine.answers.sparse import EntrySource
from blockveil.engine.answers.weighted import WeightedQuery
from blockveil.engine.noise.design import Released
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.level_strategy import Levels, of_change
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.data.released import RUNNING_TOTAL, known_result
from blockveil.pipeline.plan.effort import Effort
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.stages import Drawn, Stage, StagesBefore, arrays
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks
from blockveil.pipeline.questions.question import additive
from blockveil.pipeline.questions.stepwise import course_of
from blockveil.pipeline.releases import in_memory
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.growing import ByAge
from blockveil.pipeline.releases.publishing import Draft
from blockveil.pipeline.releases.training_steps import Hear, StepwiseMeasurement

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


def measurement_of(
    plan: Plan, dataset: Dataset, handle: str, ages: ByAge | None, compute: Compute, tell: Tell, hear: Hear
) -> Measurement:
    """What a night measures.

    Parameters
    ----------
    plan, dataset, handle, compute, tell
        As of :class:`.PlainMeasurement`.
    ages
        What weighs the records of a night of a series by their age; None of another night.
    hear
        Receives what is public of the steps of a training so far.

    Raises
    ------
    BlockveilError
        As the constructor of the measurement; nothing is spent.
    """
    course, learning = course_of(plan.question, plan.design), plan.designed.learning
    if course is not None:
        return StepwiseMeasurement(course, plan, dataset, handle, compute, tell, hear)
    if learning is not None:
        return StagedMeasurement(learning, plan, dataset, handle, compute, tell)
    if ages is not None:
        return AgedMeasurement(ages, plan, dataset, handle, compute, tell)
    return PlainMeasurement(plan, dataset, handle, compute, tell)


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
        cut, self._cut = plan.effort.cut_for(dataset.rows, self._chunk_rows, compute.workers, compute.threads)
        self._narrow = cut.work.narrow
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
            total_share = (self._written + share * len(positions)) / len(self._noisy)
            self._tell("drawing the noise and writing the release", total_share)

        def put(index: int, measured: Released) -> None:
            consume(positions[index], self._read(positions[index], measured))

        self._compute.stream([self._noisy[position] for position in positions], put, progress)
        self._written += len(positions)


def weighted_query(plan: Plan, levels: Levels, ends: tuple[int, ...]) -> WeightedQuery:
    """The sum of what is asked, in which each record is weighed by its age.

    Parameters
    ----------
    plan
        What is asked.
    levels
        The weights.
    ends
        Where the records of each range of ages end, the oldest first.
    """
    return WeightedQuery(plan.question.query, ends, levels.weights[::-1], *additive(plan.design).weight_digits)


class AgedMeasurement(PlainMeasurement):
    """Turns measured tiles of a night into what is read of it, and keeps that for later nights: a row for each tile.

    Parameters
    ----------
    ages
        The night.
    plan, dataset, handle, compute, tell
        As of :class:`.PlainMeasurement`.

    Raises
    ------
    StoreError
        A result that it is read with is missing, or is not the one that the ledger knows.
    """

    def __init__(self, ages: ByAge, plan: Plan, dataset: Dataset, handle: str, compute: Compute, tell: Tell) -> None:
        super().__init__(plan, dataset, handle, compute, tell)
        self._ages, self._query, self._narrow = ages, weighted_query(plan, ages.levels, ages.ends), False
        # Each is checked before anything is drawn.
        self._earlier = {number: known_result(*result) for number, result in ages.results.items()}
        self._width = max(tile.entries for tile in self._layout.tiles)
        self._kept: zarr.Array[Any] | None = None

    def close(self, draft: Draft) -> ReleaseArrays:
        """Write what is read of the night beside the other arrays; as :meth:`.PlainMeasurement.close`."""
        shape = (len(self._layout.tiles), self._width)
        self._kept = draft.create(RUNNING_TOTAL, shape, ("tile", "entry"), chunks=(1, self._width))
        return super().close(draft)

    def _read(self, position: int, measured: NDArray[Any]) -> Released:
        tile, running_total = self._layout.tiles[position], self._kept
        if running_total is None:
            raise RuntimeError("a release is begun before tiles of it are read")
        released = self._ages.levels.estimate(measured, self._ages.number, lambda number: self._of(number, position))
        row = np.zeros((1, self._width))
        row[0, : tile.entries] = released.ravel()
        running_total[position : position + 1] = row
        return released

    def _of(self, number: int, position: int) -> NDArray[np.float64]:
        """A tile of what was read of an earlier night."""
        tile = self._layout.tiles[position]
        entries: NDArray[np.float64] = np.asarray(self._earlier[number][position, : tile.entries])
        return entries.reshape(tile.shape)

    def _arrays(self, released: Released) -> ReleaseArrays:
        """Those of the whole, and the same of each window, of the records of its nights alone; post-processing."""
        plan, ages, arrays = self.plan, self._ages, dict[str, Any](super()._arrays(released))
        for nights, before in ages.windows.items():
            within, design = released, additive(plan.design)
            if nights < ages.number:
                tiles = [self._of(ages.number - nights, position) for position in range(len(self._layout.tiles))]
                within = released - assembled(tiles, self._layout, plan.design.by_tile and plan.design.symmetric)
                design = of_change(additive(plan.design), ages.levels, ages.number, nights)
            answer = plan.question.answer(design)
            for name, (values, axes) in answer.arrays(within, self._rows - before).items():
                if np.asarray(values).dtype.kind == "f" and not name.endswith("_edges"):
                    arrays[f"last_{nights}_{name}"] = values, axes
        return arrays


class StagedMeasurement:
    """Stages, computed and drawn like a whole release, each under a key that is bound to all before it; then the last.

    The charge of all stages is committed after the first exact sum, before anything is drawn, and never changes. The
    noise of each stage is under a key of its own, bound to the committed key and to all that was released before it.
    What a stage gives follows from released integers by arithmetic that is the same on every machine, so an attempt
    that was killed at any stage is repeated from the first one with the same bits. Ranks of quantiles are the same but
    for last digits, as transforms are: another kind of machine chooses other cells only where a rank is at a border of
    its level in all other digits. Were anything before a stage another, its noise would be too, and no difference of
    two sums could show.

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
            peak = max(self._cut(each)[0].peak_bytes for each in stages)
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
            layout, bound = self._cut(stage.answer)[1], self._bound(key, stage.name, *stage.shape)
            name = f"{self._name}-{stage.name}"
            released = in_memory.drawn(stage.answer.design, self._held, layout, self._compute, bound, name)
            self._before.append(released)
            self._drawn.append(Drawn(stage, released))
        learned = self._learning.learned(self._drawn, rows)
        self.plan = self.plan.of_last_stage(learned)
        self._last = PlainMeasurement(self.plan, dataset, self._handle, self._compute, self._tell, self._records)
        self._last.exact()
        dataset.check_unchanged(committed=True)
        self._last.draw(self._bound(key, "answer", *learned.shape))

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
        self._tell(stage.purpose, None)
        name = f"{self._name}-{stage.name}"
        graph = exact_graph(self._records, stage.query, self._cut(stage.answer)[1], self._chunk_rows, name)
        return self._compute.hold(graph, in_memory.quiet)

    def _cut(self, answer: Answer) -> tuple[Cut, Layout]:
        effort, compute = Effort(self.plan.config, answer, weighs=False), self._compute
        return effort.cut_for(self._dataset.rows, self._chunk_rows, compute.workers, compute.threads)

    def _bound(self, key: NoiseKey, name: str, *shape: NDArray[np.int64 | np.float64]) -> NoiseKey:
        """Key of a stage, of its name and all before it."""
        self._before += shape
        return key.of_stage(_stage_digest(name, self._before))


def _stage_digest(name: str, before: Sequence[NDArray[np.int64 | np.float64]]) -> bytes:
    """What a stage's key is bound to: its name, and all that was released before it and made of that."""
    digest = hashlib.sha256(name.encode())
    for each in before:
        digest.update(f"{each.dtype.str} {each.shape} ".encode() + np.ascontiguousarray(each).tobytes())
    return digest.digest()
