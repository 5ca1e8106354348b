"""From noised tiles to the arrays of a release: whole where the answer is small, block by block where it is large."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from blockveil.engine.answers.graph import assembled
from blockveil.engine.answers.layout import Layout, Tile
from blockveil.engine.noise.design import Released
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.growing import NightReader
from blockveil.pipeline.releases.publishing import Draft

if TYPE_CHECKING:
    from dask.delayed import Delayed


class Tiles:
    """Noised tiles that are computed when they are asked for.

    Parameters
    ----------
    values
        Noised tiles, as Dask values, in the order of the layout.
    compute
        Runs them.
    tell
        Receives progress in the user's words.
    reader
        Of a night that is read with earlier ones, what turns a measured tile into what is read.
    """

    def __init__(
        self, values: Sequence[Delayed], compute: Compute, tell: Tell, reader: NightReader | None = None
    ) -> None:
        self._values, self._compute, self._tell, self._done = values, compute, tell, 0
        self._reader = reader

    def besides(self, plan: Plan, layout: Layout, whole: Released, rows: int) -> ReleaseArrays:
        """Arrays that follow from the whole and from earlier nights."""
        return {} if self._reader is None else self._reader.windows(plan, layout, whole, rows)

    def begin(self, draft: Draft) -> None:
        """Make room for what is kept of them beside the arrays of the release."""
        if self._reader is not None:
            self._reader.begin(draft)

    def each(self, positions: Sequence[int], consume: Callable[[int, Released], None]) -> None:
        """Bring these tiles here, each in turn, from several threads."""
        read = (lambda position, tile: tile) if self._reader is None else self._reader.read

        def progress(share: float) -> None:
            done = (self._done + share * len(positions)) / len(self._values)
            self._tell("drawing the noise and writing the release", done)

        values = [self._values[position] for position in positions]
        self._compute.stream(
            values, lambda index, tile: consume(positions[index], read(positions[index], tile)), progress
        )
        self._done += len(positions)


def write(draft: Draft, plan: Plan, rows: int, layout: Layout, tiles: Tiles) -> ReleaseArrays:
    """Write all arrays of a release.

    Parameters
    ----------
    draft
        Release that is being written.
    plan
        What is released.
    rows
        Number of records; used only where it is public.
    layout, tiles
        Tiles of the answer, and how to get them noised.

    Returns
    -------
    The arrays that are small, for the attributes.
    """
    answer = plan.answer
    tiles.begin(draft)
    if not answer.work(rows).blocked:
        released = _assembled(plan, layout, tiles)
        whole = {**answer.arrays(released, rows), **tiles.besides(plan, layout, released, rows)}
        draft.write(whole)
        return whole
    blocks = answer.blocks(rows)
    if blocks is None:
        raise RuntimeError("a plan of an answer that cannot be written in blocks is refused")
    return _write_blocks(draft, blocks, layout, tiles)


def _assembled(plan: Plan, layout: Layout, tiles: Tiles) -> Released:
    found: dict[int, Released] = {}
    tiles.each(range(len(layout.tiles)), found.__setitem__)
    symmetric = plan.design.by_tile and plan.design.symmetric
    return assembled([found[i] for i in range(len(found))], layout, symmetric)


def _write_blocks(draft: Draft, blocks: Blocks, layout: Layout, tiles: Tiles) -> ReleaseArrays:
    arrays = {
        name: draft.create(name, large.shape, large.dimensions, large.dtype, large.chunks, shrinks=large.shrinks)
        for name, large in blocks.large.items()
    }
    first: dict[Tile, Released] = {}

    def put(tile: Tile, released: Released) -> None:
        # Borders of tiles are borders of chunks, so no two threads write one chunk.
        for name, place, values in blocks.values(tile, released):
            arrays[name][place] = values

    ahead = [i for i, tile in enumerate(layout.tiles) if blocks.needed_first(tile)]
    tiles.each(ahead, lambda i, released: first.__setitem__(layout.tiles[i], released))
    small = blocks.small(first)
    draft.write(small)
    for tile, released in first.items():
        put(tile, released)
    rest = sorted(set(range(len(layout.tiles))) - set(ahead))
    tiles.each(rest, lambda i, released: put(layout.tiles[i], released))
    last = blocks.last()
    draft.write(last)
    return {**small, **last}
