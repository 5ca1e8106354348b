"""Starts runs, each as a process of this code: of the deployments of `blockveil serve`, or of a team's work pool.

Prefect's own runner and worker start what the server names: code by its path, steps, commands, environments. This one
takes the number of a run and nothing else; :mod:`.child` looks up what it is.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, WorkPoolFilter
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import Abort, ObjectNotFound, PrefectHTTPStatusError
from prefect.states import Cancelled, Crashed, Pending
from prefect.utilities.engine import propose_state

from blockveil.flows.base import code
from blockveil.flows.base.prefect_internals import Execution
from blockveil.flows.cluster import scratch
from blockveil.flows.runs.deployed import DATASET
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.flows.service.pages import in_pool, is_broken, pages, runs
from blockveil.flows.service.silence import AT_WORK, LABEL, Watch

AHEAD = timedelta(seconds=10)
"""How long before its time a run's process is started; it then waits for its time."""

GRACE_SECONDS = 4
"""How long a run that is asked to end may take, until it is killed: its night goes on as after any other death."""

FAREWELL_SECONDS = 7
"""How long all runs may take to end, and the server to be told."""

WATCH_SECONDS = 20.0
"""How often runs are looked for that have lost their process."""

OF_A_DATASET = 2
"""How many nights of a data set may have a process at once: one has the turn of the data set, and one gets ready."""

STOPPED = "The service was stopped."
"""Message of a run that was ended with the service."""

Find = Callable[[PrefectClient, datetime], Awaitable[Sequence[FlowRun]]]

Result = TypeVar("Result")

_PLANNED = (StateType.SCHEDULED,)

_log = logging.getLogger(__name__)


def of_deployments(numbers: Sequence[UUID]) -> Find:
    """Runs of deployments that are due before a time."""

    async def find(client: PrefectClient, before: datetime) -> Sequence[FlowRun]:
        with _healing(runs(numbers, _PLANNED)):
            return await client.get_scheduled_flow_runs_for_deployments(list(numbers), scheduled_before=before)

    return find


def of_pool(pool: str, name: str, seconds: float) -> Find:
    """Runs of a work pool that are due before a time; shows the server that this worker lives.

    Runs of deployments that are pinned to other code stay where they are: a worker that has that code starts them, or
    this one does once they are deployed with its own.

    Parameters
    ----------
    pool
        Name of the work pool.
    name
        Name of this worker.
    seconds
        How often it asks.
    """
    reported = set[str]()

    async def find(client: PrefectClient, before: datetime) -> Sequence[FlowRun]:
        await client.send_worker_heartbeat(pool, name, heartbeat_interval_seconds=seconds)
        with _healing(runs(states=_PLANNED), in_pool(pool)):
            due = await client.get_scheduled_flow_runs_for_work_pool(pool, scheduled_before=before)
        # One that is pinned to nothing was made by no `blockveil service deploy`: it is started, and refused in words.
        pins = {number: await _pin(client, number) for number in {each.flow_run.deployment_id for each in due}}
        mine = code.installed() if due else ""  # what a process would run that is started now
        other = {number: pin for number, pin in pins.items() if pin and pin != mine}
        for pin in {*other.values()} - reported:
            _log.warning("Runs wait for a worker with the code that they are pinned to, %s; here is %s", pin[:60], mine)
        reported.update(other.values())
        return [each.flow_run for each in due if each.flow_run.deployment_id not in other]

    return find


@contextmanager
def _healing(of: FlowRunFilter, pool: WorkPoolFilter | None = None) -> Iterator[None]:
    """Where the server cannot say what is due, delete what it cannot show, so that it can the next time."""
    try:
        yield
    except PrefectHTTPStatusError as error:
        if is_broken(error):
            with get_client(sync_client=True) as client:
                pages(client, of, pool)
        raise


async def _pin(client: PrefectClient, deployment: UUID | None) -> str | None:
    """Code that a deployment is pinned to; None where there is none, or the server cannot show it."""
    try:
        return None if deployment is None else (await client.read_deployment(deployment)).version
    except ObjectNotFound:
        return None
    except PrefectHTTPStatusError as error:
        if not is_broken(error):
            raise
        return None


@dataclass
class _Work:
    """A run that this process has taken: the tag of its data set, and its process once that is being started."""

    dataset: str | None
    execution: Execution | None = None


class Runner:
    """Looks for runs that are due and gives each a process. Ends them before it ends itself.

    Parameters
    ----------
    find
        Looks for them.
    root
        The reviewed folder.
    seconds
        How often it looks.
    limit
        How many runs may work at once.
    watch
        Ends runs that have lost their process, and looks after those whose process dies here.
    """

    def __init__(self, find: Find, root: Path, seconds: float, limit: int, watch: Watch) -> None:
        self._find, self._root, self._seconds, self._limit, self._watch = find, root, seconds, limit, watch
        self._at_work: dict[UUID, _Work] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping, self._watched = False, monotonic()

    async def until_stopped(self, gone: Callable[[], bool]) -> None:
        """Start runs until a signal says stop or ``gone`` does; then the runs that work are ended, and waited for."""
        stop_event = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop_event.set)
        async with get_client() as client:
            stop = asyncio.ensure_future(stop_event.wait())
            while not stop.done() and not gone():
                look = asyncio.ensure_future(self._look(client))
                await asyncio.wait((stop, look), return_when=asyncio.FIRST_COMPLETED)
                look.cancel()  # a busy server may answer a minute later
                await asyncio.gather(look, return_exceptions=True)
                await asyncio.wait((stop,), timeout=self._seconds)
            stop.cancel()
            self._stopping = True
            ends = [asyncio.ensure_future(self._end(number, work)) for number, work in self._at_work.items()]
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=FAREWELL_SECONDS)
            for task in (*self._tasks, *ends):  # which ends its process
                task.cancel()
            await asyncio.gather(*self._tasks, *ends, return_exceptions=True)

    async def _end(self, number: UUID, work: _Work) -> None:
        """Ask the process of a run to end as soon as it has one, and kill it where it takes too long."""
        while work.execution is None or not work.execution.has_process(number):
            await asyncio.sleep(0.1)
        await work.execution.end(number, GRACE_SECONDS)

    async def _look(self, client: PrefectClient) -> None:
        if monotonic() - self._watched >= WATCH_SECONDS:
            self._watched = monotonic()
            await in_background(self._watch.look, frozenset(self._at_work))
        try:
            runs = await self._find(client, datetime.now(UTC) + AHEAD)
        except Exception as error:  # noqa: BLE001 - a server that is away for a while must not end the service
            _log.warning("The server was asked for runs that are due, in vain (%s)", type(error).__name__)
            return
        for run in sorted(runs, key=_due):
            if len(self._at_work) >= self._limit:
                return
            dataset = next((tag for tag in run.tags if tag.startswith(DATASET)), None)
            beside = [each for each in self._at_work.values() if each.dataset == dataset]
            if run.id not in self._at_work and (dataset is None or len(beside) < OF_A_DATASET):
                self._at_work[run.id] = _Work(dataset)
                task = asyncio.ensure_future(self._start(client, run))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _start(self, client: PrefectClient, run: FlowRun) -> None:
        """One run, from its pending state to the end of its process."""
        try:
            if await _may_start(client, run.id) and not self._stopping:
                await self._process(run)
        except Exception as error:  # noqa: BLE001 - one run must not end the others
            _log.error("Run '%s' was not started (%s)", run.id, type(error).__name__)
            with suppress(Exception):  # else it would seem to be about to start for ever
                text = f"Its process could not be started ({type(error).__name__}). Run it again."
                end_state: State[Any] = Cancelled(message=STOPPED) if self._stopping else Crashed(message=text)
                await propose_state(client, end_state, flow_run_id=run.id)
        finally:
            del self._at_work[run.id]
        if self._stopping:
            await _say_stopped(client, run.id)

    async def _process(self, run: FlowRun) -> None:
        # A folder of its own: nobody's settings and nobody's code lie there.
        with scratch.private_folder() as folder:
            async with Execution.begin() as execution:
                if self._watch.worker:
                    await execution.client.update_flow_run_labels(run.id, {LABEL: self._watch.worker})
                self._at_work[run.id].execution = execution
                command = shlex.join([sys.executable, "-P", "-m", "blockveil.flows.service.start_child"])
                env = {CONFIG_ROOT: str(self._root), "PYTHONSAFEPATH": "1"}
                await execution.run(run, command, folder, env, partial(self._after_death, execution.client))

    async def _after_death(
        self, client: PrefectClient, run: FlowRun, _: str, crash: Callable[[], Awaitable[State[Any] | None]]
    ) -> State[Any] | None:
        """State after the death of a process, decided before the run is marked as crashed, which raises an alarm."""
        if self._stopping:
            return None  # `_say_stopped` says why it ended
        try:
            present = (await client.read_flow_run(run.id)).state
            if present is not None and present.type not in (*AT_WORK, StateType.SCHEDULED):
                return None  # such as one that waits for a person: how its process ended is nothing to it
            after_death = self._watch.died
            state = None if after_death is None else await in_background(after_death, run.id)
        except Exception as error:  # noqa: BLE001 - a server or a ledger that is away; the run is looked at again later
            _log.warning("What follows run '%s' is not known yet (%s)", run.id, type(error).__name__)
            state = None
        return state or await crash()


def _due(run: FlowRun) -> float:
    return float("inf") if run.next_scheduled_start_time is None else run.next_scheduled_start_time.timestamp()


async def _may_start(client: PrefectClient, number: UUID) -> bool:
    """Whether the server lets a run start now; else it waits for its turn, or somebody else has it."""
    try:
        state: State[Any] = await propose_state(client, Pending(), flow_run_id=number)
    except Abort:
        return False
    return state.is_pending()


async def _say_stopped(client: PrefectClient, number: UUID) -> None:
    """Say of a run that was ended with the service why it was, unless it has come to its end, or waits for a person."""
    with suppress(ObjectNotFound):
        state = (await client.read_flow_run(number)).state
        if state is not None and state.type in AT_WORK:
            await client.set_flow_run_state(number, Cancelled(message=STOPPED), force=True)


async def in_background(work: Callable[..., Result], *values: Any) -> Result:
    """Do work in a thread that no end of this process waits for, unlike that of ``asyncio.to_thread``."""
    loop, context = asyncio.get_running_loop(), copy_context()
    future: asyncio.Future[Callable[[], Result]] = loop.create_future()

    def settle(outcome: Callable[[], Result]) -> None:
        if not future.done():
            future.set_result(outcome)

    def run() -> None:
        outcome: Callable[[], Result]
        try:
            result = context.run(work, *values)
            outcome = lambda: result  # noqa: E731
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            outcome = partial(_raise, error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, daemon=True).start()
    return (await future)()


def _raise(error: Exception) -> Any:
    raise error
