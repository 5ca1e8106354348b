"""The night that a run is for, where nobody names it."""

from __future__ import annotations

from datetime import UTC, date, datetime

from prefect import runtime

from blockveil.flows.runs import deployed


def of_run() -> date:
    """Date of the run in the calendar of its deployment's schedule, else that of its start in this machine's zone.

    A retried, late or resumed run keeps its scheduled start and so its night.
    """
    planned, here = _planned()
    return here.night_at(planned)


def today() -> date:
    """First date that is not over where the schedule is, at the run's scheduled start.

    It is the date of the night, or the one before where clocks skip the time and the run was planned before midnight.
    """
    planned, here = _planned()
    return here.today(planned)


def _planned() -> tuple[datetime, deployed.Deployed]:
    start = runtime.flow_run.scheduled_start_time
    # Times from the server are of another class, whose arithmetic is not that of the standard library.
    instant = datetime.now(UTC) if start is None else datetime.fromtimestamp(start.timestamp(), UTC)
    return instant, deployed.of_run() or deployed.Deployed(None, by_schedule=False)
