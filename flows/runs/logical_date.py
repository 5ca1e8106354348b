"""The night that a run is for, where nobody names it."""

from __future__ import annotations

from datetime import UTC, date, datetime

from prefect import runtime

from blockveil.flows.runs import deployed


def of_run() -> date:
    """Day of the run's scheduled start in the zone of its deployment's schedule, else in this machine's zone.

    A retried, late or resumed run keeps its scheduled start and so its night.
    """
    planned = runtime.flow_run.scheduled_start_time or datetime.now(UTC)
    found = deployed.of_run()
    day: date = planned.astimezone(None if found is None else found.zone).date()
    return day
