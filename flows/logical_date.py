"""The night that a run is for, where nobody names it."""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo
from zoneinfo import ZoneInfo

from prefect import get_client, runtime
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound


def of_run() -> date:
    """Day of the run's scheduled start in the zone of its deployment's schedule, else in this machine's zone.

    A retried, late or resumed run keeps its scheduled start and so its night.
    """
    planned = runtime.flow_run.scheduled_start_time or datetime.now(UTC)
    context = FlowRunContext.get()
    zone = None if context is None or context.flow_run is None else _zone(context.flow_run)
    day: date = planned.astimezone(zone).date()
    return day


def _zone(run: FlowRun) -> tzinfo | None:
    """Zone of the schedule that made the run, else the one that all schedules of its deployment share."""
    if run.deployment_id is None:
        return None
    try:
        with get_client(sync_client=True) as client:
            schedules = client.read_deployment(run.deployment_id).schedules
    except ObjectNotFound:
        return None
    maker = getattr(run.created_by, "id", None)
    # A schedule without a zone is one in UTC.
    zones = {planned.id: getattr(planned.schedule, "timezone", None) or "UTC" for planned in schedules}
    names = {zones[maker]} if maker in zones else set(zones.values())
    return ZoneInfo(names.pop()) if len(names) == 1 else None
