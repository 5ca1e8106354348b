"""What there is to tell a person of, decided by states of now, each once, and again until the server has sent it.

Runs, ledgers and the schedule say what is so; no event does, for a busy server may lose one. What was told is asked of
the server, so that several workers, or a service that starts again, tell it once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import DeploymentResponse

from blockveil.flows.base.prefect_internals import times
from blockveil.flows.runs import turns
from blockveil.flows.runs.verify_flow import DAMAGED
from blockveil.flows.service import automations, revival
from blockveil.flows.service.pages import in_pool, pages, runs, shown_deployments
from blockveil.flows.service.silence import AT_WORK
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.base.printable import one_line
from blockveil.pipeline.config.deployments_file import LoadedDeployments, NightSection
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.plan import budgets
from blockveil.pipeline.plan.planning import plan_near, release_id
from blockveil.pipeline.releases import catch_up
from blockveil.pipeline.report import learned_shape

AGAIN = timedelta(minutes=2)
"""How long the server may take to send an alarm, until it is told again; twice as long after each further time."""

_TURN = "blockveil-alarms"
_EXHAUSTED = "BudgetExhausted"
_LOW_NIGHTS = 7  # a release that leaves room for fewer such nights raises the alarm
_WAITS = ("AwaitingRetry", "AwaitingConcurrencySlot")
_LONGEST = 2000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Alarm:
    """Something to tell a person of.

    Attributes
    ----------
    key
        What it is about, and what became of that: it is told once.
    message
        What there is to tell.
    run
        The run that it is about, if it is about one.
    pauses
        Deployments that are paused before it is told for the first time.
    """

    key: str
    message: str
    run: UUID | None = None
    pauses: tuple[UUID, ...] = ()


class Alarms:
    """Tells once of what is wrong, late or waiting, and again until the server has sent it to everybody.

    Parameters
    ----------
    loaded
        What runs when, and whom to tell.
    began
        When this process started: what it has not made up for since then is missing for a reason.
    numbers
        Deployments whose runs only this process starts.
    pool
        Work pool of a team's server in place of them.
    """

    def __init__(
        self, loaded: LoadedDeployments, began: datetime, numbers: Collection[UUID] = (), pool: str | None = None
    ) -> None:
        self._loaded, self._began, self._pool = loaded, began, pool
        self._of = list(numbers) if pool is None else None
        self._late = timedelta(minutes=loaded.deployments.alerts.late_minutes)
        self._seen_late = frozenset[str]()
        self._open: dict[str, Alarm] = {}
        self._sent: set[str] = set()
        self._told: dict[tuple[str, str], list[datetime]] = {}
        self._released: set[str] = set()
        self._low: dict[str, tuple[Any, Alarm | None]] = {}
        self._drift: dict[str, tuple[str, Alarm | None]] = {}
        self._alive: datetime | None = None

    def tell(self, now: datetime) -> None:
        """Tell of everything that is so and of which somebody has not been told."""
        with get_client(sync_client=True) as client:
            self._live(client, now)
            present = {alarm.key: alarm for alarm in self._present(client, now)}
            self._sent &= present.keys()
            self._open.update((key, alarm) for key, alarm in present.items() if key not in self._sent)
            lease = turns.take(client, _TURN) if self._open else None
            if lease is None:
                return  # another worker tells now
            any_sent = False
            for alarm in list(self._open.values()):
                any_sent |= self._tell(client, alarm, now)
            if not any_sent:  # else the turn ends by itself: until then the server has kept what it was told
                turns.give_back(client, lease)

    def _live(self, client: SyncPrefectClient, now: datetime) -> None:
        """Show that somebody starts runs; where nobody does, the server tells of that by itself."""
        if self._alive is None or now - self._alive >= self._late / 4:
            automations.emit(client, automations.ALIVE, "blockveil.service", now)
            self._alive = now

    def _tell(self, client: SyncPrefectClient, alarm: Alarm, now: datetime) -> bool:
        """Tell every recipient that was not sent it and is not about to be; whether anybody was told."""
        events = automations.told(client, alarm.key, now)
        recipients = automations.recipients(self._loaded)
        missing = [each for each in recipients if not any(event.sent for event in events if event.recipient == each)]
        if not missing:
            del self._open[alarm.key]
            self._sent.add(alarm.key)
            return False
        if not events and not any((alarm.key, each) in self._told for each in recipients):
            for deployment in alarm.pauses:
                client.pause_deployment(deployment)
        any_sent = False
        for recipient in missing:
            mine = self._told.setdefault((alarm.key, recipient), [])
            occurrences = [event.occurred for event in events if event.recipient == recipient]
            number = max(len(mine), len(occurrences))
            if number and now - max(*mine, *occurrences, datetime.min.replace(tzinfo=UTC)) < AGAIN * 2 ** (number - 1):
                continue
            automations.emit(client, automations.ALARM, alarm.key, now, recipient, alarm.message[:_LONGEST], alarm.run)
            mine.append(now)
            any_sent = True
        return any_sent

    def _present(self, client: SyncPrefectClient, now: datetime) -> Iterator[Alarm]:
        """Everything there is to tell of, as far as ledgers and server answer."""
        parts: list[tuple[str, Callable[[], Iterator[Alarm]]]] = [
            ("runs have failed", partial(self._ended, client, now)),
            ("runs wait", partial(self._waiting, client, now)),
        ]
        by_config = {night.config: each for night, each in revival.deployed_nights(client, self._loaded, self._pool)}
        for night in self._loaded.deployments.night:
            deployment = by_config.get(night.config)
            is_off = deployment is not None and not revival.is_active(deployment)
            if night.mode == "release":
                parts.append((f"the budget of {night.config} is low", partial(self._low_of, night, now)))
                parts.append((f"the records of {night.config} have moved", partial(self._drift_of, night, now)))
            if night.mode == "release" and not is_off:
                missing = partial(self._missing, client, night, deployment, now)
                parts.append((f"{night.config} is released", missing))
        for what, part in parts:
            try:
                yield from part()
            except Exception as error:  # noqa: BLE001 - one ledger that is away must not hold back other alarms
                _log.warning("Whether %s is not known yet (%s)", what, type(error).__name__)

    def _ended(self, client: SyncPrefectClient, now: datetime) -> Iterator[Alarm]:
        """Runs that failed or crashed; what they found may pause nights."""
        badly = runs(self._of, (StateType.FAILED, StateType.CRASHED), ended_after=now - revival.RECENT)
        for run in pages(client, badly, in_pool(self._pool)):
            name, pauses = run.state_name, tuple[UUID, ...]()
            if name == _EXHAUSTED and run.deployment_id is not None:
                pauses = (run.deployment_id,)
            elif name == DAMAGED:  # a ledger that does not verify must not be charged further
                nights = [f"release/{night.config}" for night in self._loaded.deployments.night]
                pauses = tuple(each.id for each in shown_deployments(client, nights).values())
            yield Alarm(_of_try(run, "failed"), _in_words(run), run.id, pauses)

    def _waiting(self, client: SyncPrefectClient, now: datetime) -> Iterator[Alarm]:
        """Runs that wait for a person, for another try of what failed, or for too long to be started."""
        waiting = runs(self._of, (StateType.PAUSED, StateType.SCHEDULED, StateType.PENDING), planned_before=now)
        late = dict[str, Alarm]()
        for run in pages(client, waiting, in_pool(self._pool)):
            if run.state is None:
                continue
            if run.state.type is StateType.PAUSED:
                yield Alarm(f"{run.id}/{run.state.id}/waits", _in_words(run), run.id)
            elif revival.failed_before(run):
                yield Alarm(_of_try(run, "failed"), _in_words(run), run.id)
            if run.state.type is not StateType.PAUSED and now - _planned(run) >= self._late:
                minutes = self._loaded.deployments.alerts.late_minutes
                text = f"Not started within {minutes} min: {_in_words(run)}"
                late[_of_try(run, "late")] = Alarm(_of_try(run, "late"), text, run.id)
        # A machine that slept finds its runs late, and starts them at once: it looks twice.
        yield from (alarm for key, alarm in late.items() if key in self._seen_late)
        self._seen_late = frozenset(late)

    def _low_of(self, night: NightSection, now: datetime) -> Iterator[Alarm]:
        """A budget that holds fewer nights like the newest one than the reviewed folder wants."""
        loaded = self._loaded.configs[night.config]
        release, ledger = loaded.config.release, Ledger(loaded.ledger_url)
        if not ledger.exists() or release.account not in ledger.datasets():
            return
        status = ledger.budget(release.account)
        if self._low.get(night.config, (None,))[0] != status:
            day = catch_up.last_released(catch_up.charges_of(ledger, release), now.date() + timedelta(days=1))
            self._low[night.config] = status, None
            if day is not None:
                plan = plan_near(loaded, day)
                nights = budgets.nights_left(plan, ledger, status)
                threshold = _LOW_NIGHTS if plan.new_part is None else 1
                text = f"The budget of '{release.account}' holds {nights} more nights like {plan.release_id}."
                self._low[night.config] = status, Alarm(f"{plan.release_id}/low", text) if nights < threshold else None
        _, alarm = self._low[night.config]
        if alarm is not None:
            yield alarm

    def _drift_of(self, night: NightSection, now: datetime) -> Iterator[Alarm]:
        """A newest release whose learned shape shortened more records than its config declares."""
        loaded = self._loaded.configs[night.config]
        shape, ledger = loaded.config.query.geometries.get("geometry"), Ledger(loaded.ledger_url)
        if getattr(shape, "clipped_share_at_most", None) is None or not ledger.exists():
            return
        charges = catch_up.charges_of(ledger, loaded.config.release)
        day = catch_up.last_released(charges, now.date() + timedelta(days=1))
        if day is None:
            return
        newest = release_id(loaded.config, day)
        if self._drift.get(night.config, ("",))[0] != newest:
            text = _drift(loaded.output_root / f"{newest}.json")
            alarm = None if text is None else Alarm(f"{newest}/drift", f"{newest}: {text}")
            self._drift[night.config] = newest, alarm
        _, alarm = self._drift[night.config]
        if alarm is not None:
            yield alarm

    def _missing(
        self, client: SyncPrefectClient, night: NightSection, deployment: DeploymentResponse | None, now: datetime
    ) -> Iterator[Alarm]:
        release = self._loaded.configs[night.config].config.release
        creation = None if deployment is None else deployment.created
        created = self._began if creation is None else datetime.fromtimestamp(creation.timestamp(), UTC)
        since = max(created, now - revival.RECENT)
        starts = {at.date(): at for at in times(night.cron, night.timezone, since, now)}
        due = {day: at for day, at in starts.items() if now - at >= self._late}
        ids = {day: f"{release.dataset}/{release.name}/{day.isoformat()}" for day in due}
        if self._released.issuperset(ids.values()):
            return
        ledger = Ledger(self._loaded.configs[night.config].ledger_url)
        charges = catch_up.charges_of(ledger, release) if ledger.exists() else {}
        self._released |= {ids[day] for day in due if charges.get(day) is State.RELEASED}
        newest = {} if deployment is None else _newest(client, deployment.id, night, since)
        for day, at in due.items():
            run, newer = newest.get(day), any(other > at for other in starts.values())
            if ids[day] not in self._released and _is_missing(run, newer, planned_here=at >= self._began):
                text = f"{ids[day]} is not released. {_stands(run)}"
                yield Alarm(f"{ids[day]}/missing", text, None if run is None else run.id)


def _drift(pointer: Path) -> str | None:
    """Warning of a release about its learned shape; None where it has none, or was withdrawn or removed."""
    try:
        return learned_shape.drift(open_release(pointer).attributes)
    except StoreError as error:
        if error.passes:
            raise
        return None


def _of_try(run: FlowRun, what: str) -> str:
    return f"{run.id}/{run.run_count}/{what}"


def _in_words(run: FlowRun) -> str:
    message = "" if run.state is None else run.state.message or ""
    return f"{one_line(run.name)}: {one_line(run.state_name or '')}. {one_line(message)}".strip()


def _planned(run: FlowRun) -> datetime:
    """When a run that has not started should have: a turn that does not come moves no first start."""
    first = None if run.run_count else run.expected_start_time
    later = run.state and (run.state.state_details.scheduled_time or run.state.timestamp)
    return first or later or datetime.max.replace(tzinfo=UTC)


def _newest(
    client: SyncPrefectClient, deployment: UUID, night: NightSection, since: datetime
) -> dict[date | None, FlowRun]:
    """The run of each night whose state is the newest."""
    run_filter = runs([deployment], planned_after=since - timedelta(days=1))
    releases = (run for run in pages(client, run_filter) if run.parameters.get("mode") == "release" and run.state)
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
