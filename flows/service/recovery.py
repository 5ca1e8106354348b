"""After an interruption: runs that only seem to be running, and nights that are due although their time has passed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from traceback import extract_tb
from uuid import UUID
from zoneinfo import ZoneInfo

from prefect import get_client
from prefect.client.orchestration import PrefectClient, SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import DeploymentResponse

from blockveil.flows.base.prefect_internals import times
from blockveil.flows.runs.deployed import MARK
from blockveil.flows.service import deployments, revival
from blockveil.flows.service.alarms import Alarms
from blockveil.flows.service.pages import pages, runs, shown_deployments
from blockveil.flows.service.revival import night_of, was_stopped
from blockveil.flows.service.runner import Find, in_background
from blockveil.flows.service.silence import AT_WORK
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.printable import one_line
from blockveil.pipeline.config.deployments_file import LoadedDeployments, NightSection
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import budgets
from blockveil.pipeline.plan.planning import plan_near
from blockveil.pipeline.releases import catch_up
from blockveil.pipeline.releases.catch_up import Room

_TAKEN = (*AT_WORK, StateType.SCHEDULED, StateType.PAUSED)
TEND_SECONDS = 20.0
"""How often the nights of a service are looked after."""

_log = logging.getLogger(__name__)

_NOT_DUE = timedelta(minutes=2)
# The server's own schedule has planned a night by then.

_STARTING = timedelta(minutes=5)
# So long after a start of the service a night may be one that the start has removed.


@dataclass(frozen=True)
class Planned:
    """A night that should run now, what it costs, and whether a run was made for it."""

    config: str
    night: date
    why: str
    note: str
    cost: str = ""


def catch_up_nights(
    loaded: LoadedDeployments,
    since: date | None,
    now: datetime,
    apply: bool,
    only: NightSection | None = None,
    room: Room | None = None,
) -> list[Planned]:
    """Nights that are due although their time has passed, and what each costs; with ``apply`` those that fit get a run.

    Parameters
    ----------
    loaded
        What runs when.
    since
        First night to look at; None for the one after the newest release, and none that was planned before its
        deployment was made. Nights that were begun count always.
    now
        Present time.
    apply
        Whether to make the runs.
    only
        The one schedule to look at; None for all.
    room
        What nights that were looked at before have left of the budgets.
    """
    due, room = list[Planned](), room or Room()
    with get_client(sync_client=True) as client:
        nights = [night for night in loaded.deployments.night if night.mode == "release" and only in (None, night)]
        on_server = shown_deployments(client, [f"release/{night.config}" for night in nights])
        for night in nights:
            deployment = _deployment(on_server, night)
            if not revival.is_active(deployment):
                continue
            config, is_paid = loaded.configs[night.config], False
            ledger = Ledger(config.ledger_url)
            for each in _due(client, loaded, night, deployment, since, now):
                plan = plan_near(config, each.night)
                # Of nights that share a charge, the first that runs pays for all.
                is_paid = (is_paid and plan.series is not None) or each.begun or budgets.is_paid(plan, ledger)
                cost = room.take(plan, budgets.granted(plan, ledger), paid=is_paid)
                is_paid = cost is not None
                if cost is None:
                    due.append(Planned(night.config, each.night, each.why, "not run", "the budget does not hold it"))
                    continue
                note = _start(client, deployment.id, night, each) if apply else "to be run"
                due.append(Planned(night.config, each.night, each.why, note, cost))
    return due


def unplanned_nights(loaded: LoadedDeployments, began: datetime, now: datetime) -> list[Planned]:
    """Make runs of nights that were due while the service started, and that the server has planned no run for.

    Registering a deployment again removes its planned runs, and the server plans new ones a little later: a night
    that is due between the two would be lost.

    Parameters
    ----------
    loaded
        What runs when.
    began
        When the service started.
    now
        Present time.
    """
    until = min(now - _NOT_DUE, began + _STARTING)
    overdue = []
    with get_client(sync_client=True) as client:
        for night, deployment in revival.deployed_nights(client, loaded):
            number = deployment.id
            if not revival.is_active(deployment):
                continue
            since = max(_created(deployment, now), began)
            days = {at.date() for at in times(night.cron, night.timezone, since, until)}
            if not days:
                continue
            run_filter = runs([number], planned_after=since - timedelta(days=1))
            config = loaded.configs[night.config]
            ledger = Ledger(config.ledger_url)
            charges = catch_up.charges_of(ledger, config.config.release) if ledger.exists() else {}
            for day in sorted(days - {night_of(run, night) for run in pages(client, run_filter)} - set(charges)):
                due = catch_up.Due(day, "it was due and no run was planned")
                overdue.append(Planned(night.config, day, due.why, _start(client, number, night, due)))
    return overdue


def _created(deployment: DeploymentResponse, now: datetime) -> datetime:
    """When a deployment was made; nights before that are nobody's."""
    return now if deployment.created is None else datetime.fromtimestamp(deployment.created.timestamp(), UTC)


def _deployment(shown: dict[str, DeploymentResponse], night: NightSection) -> DeploymentResponse:
    deployment = shown.get(f"release/{night.config}")
    if deployment is not None:
        return deployment
    raise ConfigError(
        f"'{night.config}' is not deployed on this server, or in a way that it cannot show",
        "Missed nights are caught up by their deployment",
        "Run `blockveil service deploy` first, or `blockveil serve`",
    )


def _due(
    client: SyncPrefectClient,
    loaded: LoadedDeployments,
    night: NightSection,
    deployment: DeploymentResponse,
    since: date | None,
    now: datetime,
) -> list[catch_up.Due]:
    config, zone = loaded.configs[night.config], ZoneInfo(night.timezone)
    ledger = Ledger(config.ledger_url)
    has_budget = budgets.granted(plan_near(config, now.date()), ledger) is not None
    charges = catch_up.charges_of(ledger, config.config.release) if has_budget else {}
    if since is None:
        start, last = _created(deployment, now), catch_up.last_released(charges, now.astimezone(zone).date())
        first = date.min if last is None else last + timedelta(days=1)
    else:
        start, first = datetime.combine(since, time(), zone), since
    starts = [at for at in times(night.cron, night.timezone, start, now) if at.date() >= first]
    fresh = {at.date() for at in starts if now - at <= timedelta(minutes=night.grace_minutes)}
    days_with_run = {night_of(run, night) for run in pages(client, runs([deployment.id], _TAKEN))}
    if since is None:  # who asks for nights by their date wants those too that somebody has ended before
        days_with_run |= _decided(client, deployment.id, night, start)
    return catch_up.due([at.date() for at in starts], charges, days_with_run - {None}, night.missed_nights, fresh)


def _decided(client: SyncPrefectClient, deployment: UUID, night: NightSection, since: datetime) -> set[date | None]:
    """Nights of runs that were skipped by the policy, or cancelled by a person."""
    run_filter = runs([deployment], (StateType.COMPLETED, StateType.CANCELLED), planned_after=since - timedelta(days=1))
    releases = [run for run in pages(client, run_filter) if run.parameters.get("mode") == "release"]
    return {night_of(run, night) for run in releases if not was_stopped(run)}


def _start(client: SyncPrefectClient, deployment: UUID, night: NightSection, due: catch_up.Due) -> str:
    run = client.create_flow_run_from_deployment(
        deployment,
        parameters={"release": night.config, "mode": "release", "logical_date": due.night.isoformat()},
        tags=[MARK, "catch-up"],
    )
    return f"run {run.name}"


def tended(find: Find, tend: Callable[[], None]) -> Find:
    """The same search for due runs, which now and then looks after the nights.

    That is :func:`all_nights` of a service, and :func:`all_runs` of a worker.
    """
    last = float("-inf")

    async def look(client: PrefectClient, before: datetime) -> Sequence[FlowRun]:
        nonlocal last
        if monotonic() - last >= TEND_SECONDS:
            last = monotonic()
            await in_background(tend)
        return await find(client, before)

    return look


def all_nights(loaded: LoadedDeployments, began: datetime, numbers: Collection[UUID] = ()) -> Callable[[], None]:
    """Look after the nights of a service: died, missed or missing ones, its alarms, and what its forms offer.

    What was missed before the service started is caught up first, as soon as its ledger answers.

    Parameters
    ----------
    loaded
        What runs when.
    began
        When the service started.
    numbers
        Its deployments.
    """
    names, behind, alarms = loaded.offered, list(loaded.deployments.night), Alarms(loaded, began, numbers)

    def revive() -> None:
        revive_runs(loaded)

    def catch_up_all() -> None:
        room = Room()
        for night in list(behind):
            try:
                _log_planned(catch_up_nights(loaded, None, datetime.now(UTC), apply=True, only=night, room=room))
                behind.remove(night)
            except Exception as error:  # noqa: BLE001 - one ledger that is away must not hold back other nights
                _log.warning("Missed nights of %s are not caught up yet (%s)", night.config, type(error).__name__)

    def plan() -> None:
        _log_planned(unplanned_nights(loaded, began, datetime.now(UTC)))

    def offer() -> None:
        nonlocal names
        names = deployments.offer(loaded, names)

    return partial(_tend, (revive, catch_up_all, plan, offer, lambda: alarms.tell(datetime.now(UTC))))


def all_runs(loaded: LoadedDeployments, began: datetime, pool: str) -> Callable[[], None]:
    """Look after the runs of a team's work pool: died ones, and its alarms.

    Parameters
    ----------
    loaded
        What runs when.
    began
        When the worker started.
    pool
        Name of the work pool.
    """
    alarms = Alarms(loaded, began, pool=pool)
    return partial(_tend, (lambda: revive_runs(loaded, pool), lambda: alarms.tell(datetime.now(UTC))))


def revive_runs(loaded: LoadedDeployments, pool: str | None = None) -> None:
    """Revive what died or may pass, as :func:`.revival.revive`, and log it."""
    for line in revival.revive(loaded, datetime.now(UTC), pool):
        _log.warning("%s", one_line(line))


def _log_planned(nights: Sequence[Planned]) -> None:
    for night in nights:
        _log.warning("Caught up: %s %s, %s (%s)", night.config, night.night, night.why, night.note)


def _tend(parts: Sequence[Callable[[], None]]) -> None:
    for part in parts:
        try:
            part()
        except Exception as error:  # noqa: BLE001 - a server or a ledger that is away must not end the service
            # Its place and not its message, which may quote what a server or a ledger holds.
            places = [frame for frame in extract_tb(error.__traceback__) if "blockveil" in Path(frame.filename).parts]
            where = f"{Path(places[-1].filename).name}:{places[-1].lineno}"
            _log.warning("Not everything was looked after this time (%s at %s)", type(error).__name__, where)
