"""Nights that died, or failed by what may pass: what the ledger calls released is Completed, the rest is tried again.

Trying again is safe, because the ledger decides what is drawn and charged: what was begun is finished at no further
cost. It is the same run that starts again, so that its page tells the whole story, and its lateness is not judged anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.states import AwaitingRetry, Completed

from blockveil.flows.runs import turns
from blockveil.flows.runs.steps import TRIED_AGAIN, WAITS
from blockveil.flows.service.pages import pages, runs, shown_deployments
from blockveil.flows.service.runner import STOPPED
from blockveil.flows.service.silence import Died
from blockveil.pipeline.base.printable import one_line
from blockveil.pipeline.config.deployments_file import LoadedDeployments, NightSection
from blockveil.pipeline.config.night_dates import night_at
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger import State as Stands

RECENT = timedelta(days=2)
"""What is longer ago is left to a person."""

_PASSES = "It failed by what may pass"
_TURN = "blockveil-revival"
# Limit on the server that lets one worker at a time revive runs.

_log = logging.getLogger(__name__)


def night_of(run: FlowRun, night: NightSection) -> date | None:
    """Logical date of a run, or None where it is not known: a server keeps runs whose form or start is no date too."""
    logical_date = run.parameters.get("logical_date")
    if logical_date:
        text = str(logical_date)[:10]
        try:
            day = date.fromisoformat(text)
        except ValueError:
            return None
        return day if day.isoformat() == text else None
    start = run.expected_start_time
    try:
        return None if start is None else night_at(start, night.cron, night.timezone)
    except (
        OverflowError,
        ValueError,
    ):  # a start on the first or the last day that there is, none in that zone
        return None


def was_stopped(run: FlowRun) -> bool:
    """Whether a run was ended because the service was, which is no decision of a person about this night."""
    return run.state is not None and run.state.message == STOPPED


def may_pass(run: FlowRun) -> bool:
    """Whether a run failed by what may end without anybody's doing."""
    state = run.state
    return state is not None and state.type is StateType.FAILED and TRIED_AGAIN in (state.message or "")


def failed_before(run: FlowRun) -> bool:
    """Whether a run waits for its next try after one that failed by what may pass."""
    state = run.state
    return state is not None and state.type is StateType.SCHEDULED and _PASSES in (state.message or "")


def outlook(loaded: LoadedDeployments, night: NightSection, run: FlowRun, now: datetime) -> State[Any] | None:
    """What becomes of a night's run that died or may pass: Completed, another try, or None where nothing can be done.

    Parameters
    ----------
    loaded
        What runs when.
    night
        The night that the run is of.
    run
        The run.
    now
        Present time.
    """
    config, day = loaded.configs[night.config], night_of(run, night)
    if run.parameters.get("mode") != "release" or day is None:
        return None
    release_id = f"{config.config.release.dataset}/{config.config.release.name}/{day.isoformat()}"
    ledger = Ledger(config.ledger_url)
    charge = ledger.find(release_id) if ledger.exists() else None
    if charge is not None and charge.state is Stands.RELEASED:
        return Completed(message=f"Released {release_id}. Its process ended before it could say so.")
    if was_stopped(run):
        return AwaitingRetry(scheduled_time=now, message="It was stopped with the service, and goes on with it.")
    if run.run_count == 0:  # it never began: whether it comes too late it says by itself, as the policy has it
        old = run.expected_start_time is None or now - run.expected_start_time > RECENT
        at = now + WAITS[0]
        return None if old else AwaitingRetry(scheduled_time=at, message="Its process died before it began.")
    if run.run_count > len(WAITS):
        return None
    why, words = (_PASSES, f" {run.state.message}") if run.state and may_pass(run) else ("Its process died", "")
    return AwaitingRetry(
        scheduled_time=now + WAITS[run.run_count - 1],
        message=f"{why} ({run.run_count} of {len(WAITS) + 1} tries). It is tried again; what was begun costs nothing "
        f"more.{words}",
    )


def deployed_nights(
    client: SyncPrefectClient, loaded: LoadedDeployments, pool: str | None = None
) -> list[tuple[NightSection, DeploymentResponse]]:
    """Nights that release, with their deployments, as far as the server shows them.

    Parameters
    ----------
    client
        Of the server.
    loaded
        What runs when.
    pool
        Work pool of the deployments; None for those that one process serves.
    """
    names = {f"release/{night.config}": night for night in loaded.deployments.night if night.mode == "release"}
    on_server = shown_deployments(client, names).items()
    return [(names[name], deployment) for name, deployment in on_server if deployment.work_pool_name == pool]


def is_active(deployment: DeploymentResponse) -> bool:
    """Whether a deployment runs by its schedule."""
    return not deployment.paused and any(each.active for each in deployment.schedules)


def of_nights(
    client: SyncPrefectClient, loaded: LoadedDeployments, pool: str | None = None
) -> dict[Any, tuple[NightSection, bool]]:
    """Nights that release, and whether they run, by the number of their deployment.

    Parameters
    ----------
    client
        Of the server.
    loaded
        What runs when.
    pool
        As in :func:`deployed_nights`.
    """
    nights = deployed_nights(client, loaded, pool)
    return {deployment.id: (night, is_active(deployment)) for night, deployment in nights}


def _ended(client: SyncPrefectClient, deployments: list[UUID], now: datetime) -> Iterator[FlowRun]:
    """Runs of deployments that did not end well; of those that say how they failed, which may be many, recent ones."""
    yield from pages(client, runs(deployments, (StateType.CRASHED, StateType.CANCELLED)))
    yield from pages(client, runs(deployments, (StateType.FAILED,), ended_after=now - RECENT))


def _is_revivable(run: FlowRun, now: datetime) -> bool:
    """Whether a run that did not end well is no decision of a person, nor a failure that would come again."""
    if run.state is None or now - run.state.timestamp > RECENT:
        return False
    if run.state.type is StateType.CANCELLED:
        return was_stopped(run)
    return run.state.type is StateType.CRASHED or may_pass(run)


def revive(loaded: LoadedDeployments, now: datetime, pool: str | None = None) -> list[str]:
    """Give recent runs that died, may pass, or were stopped with their process, their outlook's state; lines of it.

    Parameters
    ----------
    loaded
        What runs when.
    now
        Present time.
    pool
        Work pool whose runs these are; None where one process serves them. One worker of a pool at a time revives.
    """
    with get_client(sync_client=True) as client:
        nights = of_nights(client, loaded, pool)
        runs = [run for run in _ended(client, list(nights), now) if _is_revivable(run, now)] if nights else []
        lease = turns.take(client, _TURN) if runs and pool is not None else None
        if lease is None and pool is not None:
            return []
        try:
            return [line for run in runs if (line := _revived(client, loaded, run, nights[run.deployment_id], now))]
        finally:
            if lease is not None:
                turns.give_back(client, lease)


def _revived(
    client: SyncPrefectClient, loaded: LoadedDeployments, run: FlowRun, of: tuple[NightSection, bool], now: datetime
) -> str | None:
    """Give a run the state of its outlook; a line of it, or None where it stays as it ended."""
    present = client.read_flow_run(run.id).state
    if present is None or run.state is None or present.id != run.state.id:
        return None  # another worker was faster
    try:
        state = _next_state(loaded, run, of, now)
    except Exception as error:  # noqa: BLE001 - one ledger that is away must not hold back other nights
        _log.warning("%s: not tried again yet (%s)", one_line(run.name), type(error).__name__)
        return None
    if state is None:
        return None
    client.set_flow_run_state(run.id, state, force=True)
    return f"{run.name}: {state.message}"


def _next_state(
    loaded: LoadedDeployments, run: FlowRun, of: tuple[NightSection, bool], now: datetime
) -> State[Any] | None:
    """The outlook of a run; None where it has none, or none but another try of a paused night."""
    night, active = of
    state = outlook(loaded, night, run, now)
    return state if state is not None and (active or state.is_completed()) else None


def after_death(loaded: LoadedDeployments, pool: str | None = None) -> Died:
    """Give a run of which the process has just died the state that is its outlook, where it has one.

    Without a pool the runs are those that one process serves.
    """

    def died(number: UUID) -> State[Any] | None:
        with get_client(sync_client=True) as client:
            run = client.read_flow_run(number)
            nights = of_nights(client, loaded, pool)
            if run.state is None or run.state.type not in (StateType.RUNNING, StateType.PENDING):
                return None  # it has reported itself how it ended
            if run.deployment_id not in nights:
                return None
            state = _next_state(loaded, run, nights[run.deployment_id], datetime.now(UTC))
            if state is None:
                return None
            client.set_flow_run_state(number, state, force=True)
        _log.warning("%s: %s", one_line(run.name), state.message)
        return state

    return died
