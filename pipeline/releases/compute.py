"""What a release needs from whatever runs its graph. The pipeline names no scheduler; one in this process serves tests.

The contract every implementation keeps:

* an un-noised total never leaves the place where it was computed, except as an argument of a further task there;
* a key reaches the place where tasks run by :meth:`Compute.install`, never as a task argument, and leaves it again;
* a failure surfaces as one of :func:`translate`, without the original message.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from blockveil.engine.answers import held_records
from blockveil.engine.answers import progress as listener
from blockveil.engine.answers.gram import DamagedRecordsError, OtherRecordsError, UnreachableRecordsError
from blockveil.engine.answers.graph import ExactGraph, TaskFailed
from blockveil.engine.answers.value_cells import CountError
from blockveil.engine.noise import keyring
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.product_threads import one_thread
from blockveil.engine.records.quantiser import NotFiniteError
from blockveil.pipeline.base.errors import BlockveilError, ComputeError, DataError, StoreUnreachable

if TYPE_CHECKING:
    from dask.delayed import Delayed

_IN_A_ROW = 3
"""Tasks for one value that wait for each other, as reading, taking a tile and its noise do: no two run at once."""

Progress = Callable[[float], None]
Tell = Callable[[str, float | None], None]
"""Receives a stage in the user's words, and the fraction of it that is done where that is known."""

Consume = Callable[[int, NDArray[Any]], None]
"""Receives the position of a value and the value."""


class Compute(Protocol):
    """Runs the graph of one release.

    Attributes
    ----------
    workers, threads
        Worker processes, and tasks at once in one of them.
    """

    workers: int
    threads: int

    def hold(self, graph: ExactGraph, progress: Progress) -> list[Any]:
        """Compute the exact tiles and keep them where they are; return values usable in a further graph.

        ``progress`` is called from the caller's thread.
        """

    def defer(self, graph: ExactGraph) -> list[Any]:
        """Return values of the exact tiles for a graph that is streamed next, whose charge is irrevocable.

        They are computed with that graph where this saves time, and held as by :meth:`hold` elsewhere.
        """

    def stream(self, values: Sequence[Delayed], consume: Consume, progress: Progress) -> None:
        """Compute noised values and bring each here, a few at a time.

        ``consume`` is called in any order and from several threads; ``progress`` from the caller's thread.
        """

    def install(self, handle: str, key: NoiseKey) -> None:
        """Make a key known under a public handle wherever tasks run."""

    def forget(self, handle: str) -> None:
        """Remove a key from wherever tasks run, and records that are kept there; silent when it is not there."""


def translate(error: BaseException) -> BlockveilError:
    """Error to show for a failed graph. Only the kind of an unexpected error is kept: its text could quote a record."""
    if isinstance(error, NotFiniteError):
        return DataError(
            "The records hold a missing or infinite value",
            "Each value must be finite, because a sum over it would be undefined",
            "Clean the data, or have its ingest drop such records or put a public constant there; where query.missing "
            'may be "impute", give a public constant for each feature',
        )
    if isinstance(error, CountError):
        return DataError(
            "A column of codes holds a value that is not a whole number",
            "A code is a whole number; without edges a column is read as codes",
            "Declare lower and upper for this axis, or encode the column as integers",
        )
    if isinstance(error, OtherRecordsError):
        return DataError(
            "A worker does not find the records that the release is of",
            "All workers read the same store, since parts of two copies could count a record twice",
            "Put the store where all workers reach it at this path, or into an object store",
        )
    if isinstance(error, DamagedRecordsError):
        return DataError(
            "The stored records are damaged: a chunk is cut short, or its content is not what was written",
            "Each chunk must be as it was written, because a sum without its records would be another one",
            "Restore the store from its source or a copy, and run again",
        )
    if isinstance(error, UnreachableRecordsError):
        return StoreUnreachable(
            "The store of the records did not answer while they were read",
            "Every worker must reach it, with the credentials of its environment",
            "Check the store and the way to it, and run again",
        )
    kind = error.kind if isinstance(error, TaskFailed) else type(error).__name__
    return ComputeError(kind, secrets.token_hex(4))


class WorkShares:
    """How much of all parts is done, from what each of them tells.

    Parameters
    ----------
    parts
        Names of the parts.
    progress
        Receives the mean share.
    """

    def __init__(self, parts: Iterable[str], progress: Progress) -> None:
        self._shares, self._progress = dict.fromkeys(parts, 0.0), progress

    def tell(self, part: str, share: float) -> None:
        """A part has come so far; parts that are not ours are ignored."""
        if share > self._shares.get(part, 1.0):
            self._shares[part] = share
            self._progress(sum(self._shares.values()) / len(self._shares))


class ThreadCompute:
    """Dask threads in this process: for small matrices, and where no cluster is wanted."""

    workers = 1

    def __init__(self, threads: int = 2) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads)  # of all sums: its threads end with this object

    def hold(self, graph: ExactGraph, progress: Progress) -> list[Any]:
        """Compute the tiles with threads."""
        shares, reports = WorkShares(graph.parts, progress), SimpleQueue[tuple[str, float] | None]()
        listener.listen(lambda part, share: reports.put((part, share)))
        runner = ThreadPoolExecutor(1)
        try:
            running = runner.submit(self._run, graph.tiles)
            running.add_done_callback(lambda _: reports.put(None))
            while (event := reports.get()) is not None:
                shares.tell(*event)
            return list(running.result())
        finally:
            runner.shutdown(wait=False)  # whoever interrupts does not wait for the sum before the budget is given back
            listener.listen(None)

    def defer(self, graph: ExactGraph) -> list[Any]:
        """The tiles as they are: for a small step of a training, running a graph takes longer than what it computes."""
        return list(graph.tiles)

    def stream(self, values: Sequence[Delayed], consume: Consume, progress: Progress) -> None:
        """Compute noised values with threads, a few at a time, or all at once where they need the same tasks."""
        tasks = [value.__dask_graph__().keys() for value in values]
        few = self.threads if sum(map(len, tasks)) == len(set().union(*tasks)) else len(values)
        for first in range(0, len(values), few):
            some = self._run(values[first : first + few])
            for position, value in enumerate(some, start=first):
                consume(position, value)
            progress((first + len(some)) / len(values))

    def install(self, handle: str, key: NoiseKey) -> None:
        """Install the key in this process."""
        keyring.install(handle, key)

    def forget(self, handle: str) -> None:
        """Forget the key in this process, and records that are kept beside it."""
        keyring.forget(handle)
        held_records.forget(handle)

    def _run(self, values: Sequence[Delayed]) -> tuple[Any, ...]:
        from dask import get, threaded  # where something is computed: many commands compute nothing
        from dask.highlevelgraph import HighLevelGraph

        try:
            # As dask.compute does it for graphs that are not to be optimised, in a fifth of its time: a training has
            # two small graphs in each step.
            graph = HighLevelGraph.merge(*(value.__dask_graph__() for value in values)).to_dict()
            keys = [value.key for value in values]
            with one_thread("blas"):  # tasks are parallel already
                if len(values) == 1 and len(graph) <= _IN_A_ROW:
                    return tuple(get(graph, keys))
                return tuple(threaded.get(graph, keys, pool=self._pool))
        except Exception as error:  # noqa: BLE001 - whatever it is, its text stays here
            failure = translate(error)
        raise failure
