"""Releases that are missing and runs that wait, told by what is so, again until the server has sent the alarm.

Alarms of runs follow events, of which a busy server may lose one. This one asks what is there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from uuid import UUID, uuid4

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import DeploymentResponse

from blockveil.flows.runs.deployed import MARK, times
from blockveil.flows.service import revival
from blockveil.flows.service.pages import pages
from blockveil.flows.service.silence import AT_WORK
from blockveil.pipeline.base.printable import one_line
from blockveil.pipeline.config.deployments_file import LoadedDeployments, NightSection
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.releases import catch_up

MISSING = "blockveil.night.missing"
"""Event of a night that is not released although its time has passed and nothing works at it."""

AGAIN = timedelta(minutes=2)
"""How long the server may take to send an alarm, until it is told again."""

_log = logging.getLogger(__name__)

_WAITS = ("AwaitingRetry", "AwaitingConcurrencySlot")


class Overdue:
    """Tells once of each missing release and each run that still waits, and again until the server has sent it.

    Parameters
    ----------
    loaded
        What runs when, and whom to tell.
    began
        When the service started: what it has not made up for since then is missing for a reason.
    """

    def __init__(self, loaded: LoadedDeployments, began: datetime) -> None:
        self._loaded, self._began = loaded, began
        self._told: dict[str, tuple[UUID, datetime]] = {}
        self._sent: set[str] = set()
        self._released: set[str] = set()

    def tell(self, now: datetime) -> None:
        """Raise the alarm for everything that is missing or still waits, and of which nobody has been told.

        Parameters
        ----------
        now
            Present time.
        """
        recipients = len(self._loaded.deployments.alerts.notify)
        if not recipients:
            return
        with get_client(sync_client=True) as client:
            for release_id, (event, _) in self._told.items():
                if release_id not in self._sent and _executed(client, event) >= recipients:
                    self._sent.add(release_id)
            for release_id, message in (*self._missing(client, now), *self._waiting(client, now)):
                told = self._told.get(release_id)
                if release_id not in self._sent and (told is None or now - told[1] >= AGAIN):
                    self._told[release_id] = _emit(client, release_id, message), now

    def _missing(self, client: SyncPrefectClient, now: datetime) -> Iterator[tuple[str, str]]:
        for night, deployment in revival.deployed_nights(client, self._loaded):
            if not revival.is_active(deployment):
                continue
            try:
                yield from self._missing_of(client, night, deployment, now)
            except Exception as error:  # noqa: BLE001 - one ledger that is away must not hold back other alarms
                _log.warning("Whether %s is released is not known yet (%s)", night.config, type(error).__name__)

    def _waiting(self, client: SyncPrefectClient, now: datetime) -> Iterator[tuple[str, str]]:
        """Runs that have waited for a person for as long as a night may be late: whoever was to be told may not be."""
        late = timedelta(minutes=self._loaded.deployments.alerts.late_minutes)
        paused = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED])))
        for run in pages(client, paused, DeploymentFilter(tags=DeploymentFilterTags(all_=[MARK]))):
            if run.state is not None and now - run.state.timestamp >= late:
                yield f"{run.id}/{run.state.id}", f"{one_line(run.name)} still waits for a person."

    def _missing_of(
        self, client: SyncPrefectClient, night: NightSection, deployment: DeploymentResponse, now: datetime
    ) -> Iterator[tuple[str, str]]:
        release = self._loaded.configs[night.config].config.release
        late = timedelta(minutes=self._loaded.deployments.alerts.late_minutes)
        created = now if deployment.created is None else datetime.fromtimestamp(deployment.created.timestamp(), UTC)
        since = max(created, now - revival.RECENT)
        planned = {at.date(): at for at in times(night.cron, night.timezone, since, now)}
        due = {day: at for day, at in planned.items() if now - at >= late}
        ids = {day: f"{release.dataset}/{release.name}/{day.isoformat()}" for day in due}
        if self._released.issuperset(ids.values()):
            return
        ledger = Ledger(self._loaded.configs[night.config].ledger_url)
        charges = catch_up.charges_of(ledger, release) if ledger.exists() else {}
        self._released |= {ids[day] for day in due if charges.get(day) is State.RELEASED}
        runs = _runs(client, deployment.id, night, since)
        for day, at in due.items():
            run, newer = runs.get(day), any(other > at for other in planned.values())
            if ids[day] not in self._released and _is_missing(run, newer, planned_here=at >= self._began):
                yield ids[day], f"{ids[day]} is not released. {_stands(run)}"


def _runs(
    client: SyncPrefectClient, deployment: UUID, night: NightSection, since: datetime
) -> dict[date | None, FlowRun]:
    """The run of each night whose state is the newest."""
    asked = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[deployment]),
        expected_start_time=FlowRunFilterExpectedStartTime(after_=since - timedelta(days=1)),
    )
    releases = (run for run in pages(client, asked) if run.parameters.get("mode") == "release" and run.state)
    return {revival.night_of(run, night): run for run in sorted(releases, key=_changed)}


def _changed(run: FlowRun) -> datetime:
    return datetime.min.replace(tzinfo=UTC) if run.state is None else run.state.timestamp


def _is_missing(run: FlowRun | None, newer: bool, *, planned_here: bool) -> bool:
    """Whether a night that is not released is so without anybody's will, and without anybody at work.

    Parameters
    ----------
    run
        The night's run, if there is one.
    newer
        Whether a newer night is due: then even a run that works is long overdue.
    planned_here
        Whether it was due since the service started.
    """
    if run is None or run.state is None:
        return planned_here
    state = run.state
    if state.type is StateType.COMPLETED or (state.type is StateType.CANCELLED and not revival.was_stopped(run)):
        return False  # skipped by the policy, or given up by a person
    return newer or not (state.type in AT_WORK or state.name in _WAITS)


def _stands(run: FlowRun | None) -> str:
    if run is None or run.state is None:
        return "The server has no run of it."
    return one_line(f"Its run '{run.name}' is {run.state.name}. {run.state.message or ''}").strip()


def _emit(client: SyncPrefectClient, release_id: str, message: str) -> UUID:
    """Send the event of an alarm by a request that fails where it does not arrive; its number."""
    number = uuid4()
    event = {
        "id": str(number),
        "occurred": datetime.now(UTC).isoformat(),
        "event": MISSING,
        "resource": {"prefect.resource.id": f"blockveil.night.{release_id}", "prefect.resource.name": release_id},
        "payload": {"message": message},
    }
    client._client.post("/events", json=[event]).raise_for_status()
    return number


def _executed(client: SyncPrefectClient, event: UUID) -> int:
    """How many recipients the server has sent an event to."""
    asked = {
        "event": {"name": ["prefect.automation.action.executed"]},
        "related": {"id": [f"prefect.event.{event}"]},
    }
    answer = client._client.post("/events/filter", json={"filter": asked, "limit": 50})
    answer.raise_for_status()
    return len({each["payload"].get("action_index") for each in answer.json()["events"]})
