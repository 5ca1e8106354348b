"""Runs that seem to be at work although their process is gone.

Whoever starts processes judges, by the states that a server has now. No event decides: a busy server may lose one, and
a run that waits for a person has no process and is as it should be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from time import monotonic
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import Cancelled, Crashed

from blockveil.flows.service.pages import in_pool, pages, runs
from blockveil.pipeline.base.printable import one_line

AT_WORK = (StateType.RUNNING, StateType.PENDING, StateType.CANCELLING)
"""States of a run that has a process."""

SILENT_SECONDS = 90.0
"""How long a run and its worker show no sign of life, while somebody looks on, until its process counts as gone."""

LABEL = "blockveil.worker"
"""Label of a run: the worker of a team's server that has its process."""

Died = Callable[[UUID], State[Any] | None]
"""Gives a run whose process died the state that follows; None where it is left to be marked as crashed."""

_log = logging.getLogger(__name__)


class Watch:
    """Ends runs that have lost their process: those that nobody else starts, or those of a team's work pool.

    Parameters
    ----------
    numbers
        Deployments whose runs only this process starts.
    pool
        Work pool of a team's server in place of them: a run is its worker's, whose beats are asked of the server.
    worker
        Name of this process in the pool; no other one has or had it.
    died
        Looks after a run whose process died; None marks each as crashed.
    """

    def __init__(
        self, numbers: Collection[UUID] = (), pool: str | None = None, worker: str = "", died: Died | None = None
    ) -> None:
        self.worker, self.died, self._pool = worker, died, pool
        self._at_work = runs(numbers if pool is None else None, AT_WORK)
        self._since: dict[UUID, tuple[Any, float]] = {}

    def look(self, mine: Collection[UUID], patience: float = SILENT_SECONDS) -> None:
        """Settle what has shown no sign of life for as long as this looks on without a break.

        Of what is ``mine`` this process has the process. Where nobody can have one, no patience is needed.
        """
        try:
            with get_client(sync_client=True) as client:
                for run in self._silent(client, mine, monotonic(), patience):
                    self._try_to_settle(client, run)
        except Exception as error:  # noqa: BLE001 - a server that is away says nothing about runs
            self._since.clear()
            _log.warning("Whether runs have lost their process is not known yet (%s)", type(error).__name__)

    def _silent(self, client: SyncPrefectClient, mine: Collection[UUID], now: float, patience: float) -> list[FlowRun]:
        beats = self._beats(client)
        # A process says where its run stands before it ends. So a run that this one does not have, and that stays in
        # one state while its worker does not beat, has lost its process: no clock of another machine is asked.
        runs = pages(client, self._at_work, in_pool(self._pool))
        others = [run for run in runs if run.id not in mine and run.state is not None]
        signs = {run.id: (run.state and run.state.id, beats.get(str(run.labels.get(LABEL)))) for run in others}
        before = self._since
        self._since = {
            number: before[number] if number in before and before[number][0] == sign else (sign, now)
            for number, sign in signs.items()
        }
        return [run for run in others if now - self._since[run.id][1] >= patience]

    def _beats(self, client: SyncPrefectClient) -> dict[str, Any]:
        """When each other worker of the pool was last heard of, by the server's clock."""
        if self._pool is None:
            return {}
        beats, part = dict[str, Any](), True
        while part:
            workers = client.read_workers_for_work_pool(self._pool, offset=len(beats), limit=200)
            part = len(workers) > 0
            beats.update({each.name: each.last_heartbeat_time for each in workers})
        return {name: beat for name, beat in beats.items() if name != self.worker}

    def _try_to_settle(self, client: SyncPrefectClient, run: FlowRun) -> None:
        try:
            self._settle(client, run)
        except Exception as error:  # noqa: BLE001 - one ledger that is away must not hold back other runs
            _log.warning("What follows run '%s' is not known yet (%s)", run.id, type(error).__name__)

    def _settle(self, client: SyncPrefectClient, run: FlowRun) -> None:
        present = client.read_flow_run(run.id).state
        if present is None or run.state is None or present.id != run.state.id:
            return
        state: State[Any] | None
        if present.type is StateType.CANCELLING:
            state = Cancelled(message="It was to be cancelled, and its process is gone.")
        elif self.died is not None and self.died(run.id) is not None:
            return
        else:
            state = Crashed(
                message="No sign of life: its process is gone. What it had charged stands; running it again is free."
            )
        client.set_flow_run_state(run.id, state, force=True)
        _log.warning("%s: %s", one_line(run.name), state.message)
