"""A release's graph on a Dask cluster: exact tiles stay there, shares of progress and noised tiles come here.

The noise key travels as a worker plugin: it is in no task, name or log, reaches workers that restart or join later, and
is removed after use.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

from dask.delayed import Delayed
from distributed import Client, Future, WorkerPlugin

from blockveil.engine.answers import held_records
from blockveil.engine.answers import progress as listener
from blockveil.engine.answers.graph import ExactGraph
from blockveil.engine.noise import keyring
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.base import private_log
from blockveil.flows.cluster import workers
from blockveil.pipeline.base.errors import BlockveilError, ComputeError
from blockveil.pipeline.releases.compute import Consume, Progress, WorkShares, translate

_PLUGIN = "blockveil-noise-key-"
_TOPIC = "blockveil-progress"
_PACE = 0.25
"""Seconds between two shares that a task tells: each takes the process of the scheduler a millisecond."""

_RECEIVERS = 8
"""Threads that receive and write at most: each holds a tile."""


class Stalled(RuntimeError):
    """No task has reported for too long."""


class SchedulerLost(RuntimeError):
    """The scheduler went away, and with it what it knew of the run."""


class NoiseKeyPlugin(WorkerPlugin):
    """Installs a key in every worker, also in those that join or restart later."""

    def __init__(self, handle: str, key: NoiseKey) -> None:
        # A plugin replaces the one of its name, so releases that share a cluster would take away each other's keys.
        self.name = _PLUGIN + handle
        self._handle, self._key = handle, key

    def setup(self, worker: Any) -> None:
        """Install the key."""
        keyring.install(self._handle, self._key)

    def teardown(self, worker: Any) -> None:
        """Forget the key, and records that are kept beside it."""
        keyring.forget(self._handle)
        held_records.forget(self._handle)

    def __repr__(self) -> str:
        """Show nothing."""
        return "NoiseKeyPlugin(***)"


class Paced:
    """Passes shares of a task on, not many a second, and its end.

    Parameters
    ----------
    tell
        Receives them.
    clock
        Seconds from any start.
    """

    def __init__(self, tell: Callable[[str, float], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock, self._told = tell, clock, dict[str, float]()

    def __call__(self, part: str, share: float) -> None:
        """A task has come so far."""
        now = self._clock()
        if share >= 1.0:
            self._told.pop(part, None)
        elif now - self._told.get(part, now - _PACE) < _PACE:
            return
        else:
            self._told[part] = now
        self._tell(part, share)


class ProgressPlugin(WorkerPlugin):
    """Tells the client how far tasks have come: the public name of a task and a share."""

    name = _TOPIC

    def setup(self, worker: Any) -> None:
        """Pass shares on."""
        listener.listen(Paced(lambda part, share: worker.log_event(_TOPIC, (part, share))))

    def teardown(self, worker: Any) -> None:
        """Tell nobody."""
        listener.listen(None)


class DistributedCompute:
    """Runs a release's graph on a Dask cluster.

    Parameters
    ----------
    client
        Connected client.
    patience
        Longest time in which no task tells anything, in seconds.
    workers
        Workers that are expected, where fewer of them may be there yet.
    """

    def __init__(self, client: Client, patience: float | None = None, workers: int = 1) -> None:
        self._client, self._patience = client, patience
        self._parts, self._heard, self._tells = frozenset[str](), time.monotonic(), False
        threads = client.nthreads()
        self.workers = max(workers, len(threads))
        self.threads = max(1, min(threads.values(), default=1))

    def hold(self, graph: ExactGraph, progress: Progress) -> list[Any]:
        """Compute the tiles and keep them on the cluster; returns their futures."""
        try:
            return self._held(graph, WorkShares(graph.parts, progress))
        except Exception as error:  # noqa: BLE001 - any text could quote a record; only its kind goes on
            failure = failure_of(error)
        raise failure

    def _held(self, graph: ExactGraph, shares: WorkShares) -> list[Future]:
        events, self._parts = SimpleQueue[tuple[str, float] | Future](), frozenset(graph.parts)
        if not self._tells:  # workers that join later get it too; a training has a sum for each step
            workers.register(self._client, ProgressPlugin())
            self._tells = True
        with self._listening(lambda part, share: events.put((part, share))):
            # In one call, so that the scheduler knows all that depends on a part before the part is done.
            futures = self._client.compute([*graph.parts.values(), *graph.tiles], optimize_graph=False)
            waiting = {future.key: future for future in futures}
            for future in futures:
                future.add_done_callback(events.put)
            tiles = futures[len(graph.parts) :]
            del futures, future
            while waiting:
                event = self._next(events)
                if not isinstance(event, Future):
                    shares.tell(*event)
                    continue
                task = waiting.pop(event.key)
                _check(task)
                if task.key in self._parts:
                    shares.tell(str(task.key), 1.0)
                    task.release()  # else partial sums stay in the workers' memory until the last is done
        for tile in tiles:  # a scheduler may go away after the last of them is done: nothing is paid for yet
            _check(tile)
        return tiles

    def defer(self, graph: ExactGraph) -> list[Any]:
        """The same: what is held lives on the cluster while the noised values are brought from it."""
        return self.hold(graph, lambda _: None)

    def _next(self, events: SimpleQueue[tuple[str, float] | Future]) -> tuple[str, float] | Future:
        try:
            return events.get(timeout=self._patience)
        except Empty:
            raise Stalled from None

    @contextmanager
    def _listening(self, tell: Callable[[str, float], None]) -> Iterator[None]:
        """Have the tasks of this run tell how far they have come; those of others are no sign of life."""
        self._client.subscribe_topic(_TOPIC, lambda event: tell(*event[1]) if event[1][0] in self._parts else None)
        try:
            yield
        finally:
            with suppress(Exception):  # a client that lost its scheduler hears nothing anyway
                self._client.unsubscribe_topic(_TOPIC)

    def stream(self, values: Sequence[Delayed], consume: Consume, progress: Progress) -> None:
        """Compute noised values, some more at a time than there are threads on the cluster, and bring each here."""

        def one(position: int) -> None:
            try:
                value = self._brought(values[position])
            except Exception as error:  # noqa: BLE001 - as above; also OSError, which is a full disk only below
                failure = failure_of(error)
            else:
                consume(position, value)
                return
            raise failure

        self._hear()
        at_once = max(2, min(_RECEIVERS, 2 * self.workers * self.threads))
        with self._listening(lambda part, share: self._hear()), ThreadPoolExecutor(at_once) as pool:
            running = [pool.submit(one, position) for position in range(len(values))]
            try:
                for number, task in enumerate(running, start=1):
                    task.result()
                    progress(number / len(running))
                return
            except (BlockveilError, OSError):
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            except Exception as error:  # noqa: BLE001 - as above
                pool.shutdown(wait=False, cancel_futures=True)
                failure = failure_of(error)
        raise failure

    def _brought(self, value: Delayed) -> Any:
        """A noised value, unless nothing comes from the cluster for too long."""
        future = self._client.compute(value, optimize_graph=False)
        while True:
            try:
                answer = future.result(timeout=self._patience)
            except TimeoutError:
                if self._patience is not None and time.monotonic() - self._heard < self._patience:
                    continue
                raise Stalled from None
            self._hear()
            return answer

    def _hear(self) -> None:
        self._heard = time.monotonic()

    def install(self, handle: str, key: NoiseKey) -> None:
        """Send the key to all workers, outside any task."""
        try:
            workers.register(self._client, NoiseKeyPlugin(handle, key))
            return
        except Exception as error:  # noqa: BLE001 - as above
            failure = failure_of(error)
        raise failure

    def forget(self, handle: str) -> None:
        """Remove the key from the workers and from the scheduler's list of plugins."""
        try:
            self._client.unregister_worker_plugin(_PLUGIN + handle)
        except Exception as error:  # noqa: BLE001 - the cluster is gone, and the key with it
            logging.getLogger(__name__).warning(
                "the key could not be removed from the cluster (%s)", type(error).__name__
            )


def failure_of(error: Exception) -> BlockveilError:
    """Error to show; kinds and code lines of an unexpected one are kept for the operator under its number."""
    failure = translate(error)
    if isinstance(failure, ComputeError):
        private_log.keep(error, failure.error_id)
    return failure


def _check(future: Future) -> None:
    """Raise what a future failed with. One that was cancelled has no exception, and no result either."""
    if future.status == "error":
        raise future.exception()
    if future.status == "cancelled":
        raise SchedulerLost
