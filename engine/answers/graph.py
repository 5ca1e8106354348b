"""A noisy query as one Dask graph: read and answer by parts; then a tree of sums for each tile; then noise by tiles.

Un-noised answers exist only as task results inside the cluster's memory. Task names are numbers, so nothing about the
data or the key shows in them; the noise key reaches a worker through :mod:`.keyring`, never as a task
argument.

A scheduler takes tasks whose names are the same up to the first number for one group, and spreads the tasks of a group
that needs few others over all workers. Taking a tile out of a part is such a task, and would be sent the whole part: so
all names have their number before the kind of task, which makes one group of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import progress
from blockveil.engine.answers.gram import RecordsError, RowSource, given_up
from blockveil.engine.answers.layout import Layout, Tile, WorkPart
from blockveil.engine.answers.value_cells import CountError
from blockveil.engine.noise import keyring
from blockveil.engine.noise.design import Block, Design
from blockveil.engine.records.quantiser import NotFiniteError

if TYPE_CHECKING:
    from dask.delayed import Delayed

_BRANCHES = 16
"""Partial answers combined in one task; bounds what a worker holds meanwhile."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Number = TypeVar("Number", np.int64, np.float64, np.int64 | np.float64, np.int32 | np.int64)
Sums = NDArray[np.int32 | np.int64]
"""Un-noised sums: in 32 bits while they travel and wait, where these hold all of them."""


class TaskFailed(RuntimeError):
    """A task failed; only the kind of failure is kept, because a message could quote a record.

    Attributes
    ----------
    kind
        Class name of the original exception.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"a task failed with {kind}")
        self.kind = kind

    def __reduce__(self) -> tuple[type[TaskFailed], tuple[str]]:
        """Travel between processes without the original exception."""
        return type(self), (self.kind,)


def _sealed(function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Call a function, letting no exception text out that could quote a record."""
    try:
        return function(*args, **kwargs)
    except (NotFiniteError, CountError, RecordsError, keyring.MissingNoiseKey):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
        kind = type(error).__name__
    raise TaskFailed(kind)


class Query(Protocol):
    """An exact integer answer, computed by ranges of rows and by tiles."""

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of the answer of rows ``start <= row < stop``, read ``chunk_rows`` at once."""


@runtime_checkable
class EachTile(Protocol):
    """A query that can give its tiles one after the other, so that not all are there at once."""

    def each(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> Iterator[NDArray[np.int64]]:
        """What :meth:`Query.partial` gives, in the same order."""


@dataclass(frozen=True)
class ExactGraph:
    """The exact answer as Dask values, none of which is private yet.

    Attributes
    ----------
    parts
        Tasks that read records, for progress: name of the task and value.
    tiles
        Tiles of the answer, in the order of the layout.
    """

    parts: dict[str, Delayed]
    tiles: list[Delayed]


def _task(function: Callable[..., Result], *values: Any) -> Any:
    """A task that takes these values as they are, and then those of other tasks that it is called with."""
    from dask import delayed  # where a graph is made: a plan makes none

    # Given to the call, each would be searched for other tasks, field by field: longer than a small step of a training.
    return delayed(partial(function, *values), pure=False)


def _part(
    name: str, source: Any, part: WorkPart, query: Query, chunk_rows: int, tiles: list[Tile], narrow: bool
) -> list[Sums]:
    with progress.task(name):
        return _sealed(_partial, source, part, query, chunk_rows, tiles, narrow)


def _partial(source: Any, part: WorkPart, query: Query, chunk_rows: int, tiles: list[Tile], narrow: bool) -> list[Sums]:
    arguments = (source, part.start, part.stop, chunk_rows, tiles)
    # One tile after the other, so that no two of each are there at any time.
    wide = query.each(*arguments) if isinstance(query, EachTile) else given_up(query.partial(*arguments))
    return [_narrowed(tile) if narrow else tile for tile in wide]


def _narrowed(wide: NDArray[np.int64]) -> NDArray[np.int32]:
    # Of all records together an entry is at most n K^2 <= 2**31 - 1, so every sum of parts fits too.
    narrow = wide.astype(np.int32)
    if not np.array_equal(narrow, wide):
        raise OverflowError("a sum is larger than its bound")
    return narrow


def _pick(parts: list[Sums], position: int) -> Sums:
    return parts[position]


def _sum(parts: list[Sums]) -> Sums:
    return _sealed(_added, parts)


def _added(parts: list[Sums]) -> Sums:
    if len(parts) == 1:
        return parts[0]
    # Never in place: a part may be added up again where a worker dies.
    total = np.add(parts[0], parts[1], dtype=np.int64)
    for part in parts[2:]:
        total += part
    return _narrowed(total) if parts[0].dtype == np.int32 else total


def _released(block: Block, design: Design, handle: str, exact: Sums) -> NDArray[np.int64]:
    return _sealed(_draw, exact, block, design, handle)


def _draw(exact: Sums, block: Block, design: Design, handle: str) -> NDArray[np.int64]:
    return design.release(keyring.fetch(handle), exact.astype(np.int64, copy=False), block)


def exact_graph(
    source: RowSource, query: Query, layout: Layout, chunk_rows: int, name: str, narrow: bool = False
) -> ExactGraph:
    """Graph of the exact integer answer.

    Parameters
    ----------
    source
        Records, shape (n, d); must travel to workers (a Zarr array does).
    query
        What is asked.
    layout
        Tiles of the answer and parts of the work.
    chunk_rows
        Rows to read at once.
    name
        Public beginning of the task names, unique to the run.
    narrow
        Whether sums travel and wait in 32 bits, which must hold every sum over some of the records.
    """
    from dask import delayed

    pick, together = (delayed(function, pure=False) for function in (_pick, _sum))
    parts, pieces = {}, [list["Delayed"]() for _ in layout.tiles]
    for i, part in enumerate(layout.parts):
        key = f"{name}-{i}-read"
        part_tiles = [layout.tiles[number] for number in part.tiles]
        parts[key] = _task(_part, key, source, part, query, chunk_rows, part_tiles, narrow)(dask_key_name=key)
        for position, number in enumerate(part.tiles):
            pieces[number].append(pick(parts[key], position, dask_key_name=f"{name}-{number}-{i}-tile"))
    tiles = []
    for number, level in enumerate(pieces):
        layer = 0
        while len(level) > 1:
            groups = [level[i : i + _BRANCHES] for i in range(0, len(level), _BRANCHES)]
            level = [
                together(group, dask_key_name=f"{name}-{number}-{layer}-{i}-sum") for i, group in enumerate(groups)
            ]
            layer += 1
        tiles.append(level[0])
    return ExactGraph(parts, tiles)


def assembled(tiles: Sequence[NDArray[Number]], layout: Layout, symmetric: bool) -> NDArray[Number]:
    """Whole answer from its tiles, of their type; those below the diagonal are mirror images.

    Tiles may have axes before their rows, such as one of digits, which the answer then has too.
    """
    before: tuple[int, ...] = tiles[0].shape[:-2]
    rows, columns = max(tile.rows[1] for tile in layout.tiles), max(tile.columns[1] for tile in layout.tiles)
    whole: NDArray[Number] = np.empty((*before, rows, columns), dtype=tiles[0].dtype)
    for tile, values in zip(layout.tiles, tiles, strict=True):
        whole[..., slice(*tile.rows), slice(*tile.columns)] = values
        if symmetric and not tile.on_diagonal:
            whole[..., slice(*tile.columns), slice(*tile.rows)] = np.swapaxes(values, -1, -2)
    return whole


def _whole(layout: Layout, symmetric: bool, tiles: list[Sums]) -> Sums:
    return _sealed(assembled, tiles, layout, symmetric)


def released_layout(layout: Layout, design: Design) -> Layout:
    """Tiles of what is released: of the answer, or one where the whole answer is turned into something else first."""
    if design.by_tile:
        return layout
    rows, columns = design.shape
    return Layout((Tile((0, rows), (0, columns)),), layout.parts)


def noisy_graph(tiles: Sequence[Any], layout: Layout, design: Design, handle: str, name: str) -> list[Delayed]:
    """Graph of the released integers.

    Parameters
    ----------
    tiles
        Tiles of the exact answer: Dask values.
    layout
        Tiles of the answer.
    design
        What turns the answer into the release.
    handle
        Name under which the key is installed where tasks run.
    name
        Public beginning of the task names.

    Returns
    -------
    A value for each tile of :func:`released_layout`: int64, its shape, in grid steps. Safe to publish, unless the
    design takes away noise of other steps of it first (:mod:`.banded`).
    """
    if not design.by_tile:
        tiles = [_task(_whole, layout, design.symmetric)(list(tiles), dask_key_name=f"{name}-0-whole")]
    return [
        _task(_released, (tile.rows, tile.columns), design, handle)(exact, dask_key_name=f"{name}-{i}-noise")
        for i, (exact, tile) in enumerate(zip(tiles, released_layout(layout, design).tiles, strict=True))
    ]
