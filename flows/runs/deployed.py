"""The deployment that a run belongs to, as the reviewed folder has it: its schedule and what becomes of missed nights.

Nothing here is asked of the server. :mod:`.admission` looks a run up in the reviewed folder before it
starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from prefect import runtime

from blockveil.flows.base import prefect_internals
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.config.deployments_file import NightSection, Scheduled
from blockveil.pipeline.config.night_dates import night_at, wall_clock

MARK = "blockveil"
"""Tag of every deployment of this product."""

DATASET = "dataset:"
"""Begins the tag of a night, and of its runs, that names its data set."""

_AT_ONCE = 500  # Prefect looks at no more than a thousand
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)  # no night is older


class NotReviewed(BlockveilError):
    """A run asks for what the reviewed folder does not say."""

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True)
class Deployed:
    """What the reviewed folder says about a run.

    Attributes
    ----------
    entry
        What is scheduled; None for a deployment that people start.
    by_schedule
        Whether the schedule made the run, not a person.
    """

    entry: Scheduled | None
    by_schedule: bool

    def night_at(self, instant: datetime) -> date:
        """Logical date of a run without one: of its schedule, or of this machine's zone where it has none."""
        if self.entry is None:
            return instant.astimezone().date()
        return night_at(instant, self.entry.cron, self.entry.timezone)

    def today(self, instant: datetime) -> date:
        """Date of the calendar at an instant, in the zone of the schedule or of this machine."""
        return instant.astimezone(None if self.entry is None else ZoneInfo(self.entry.timezone)).date()

    def missed(self, now: datetime) -> str | None:
        """Why this scheduled run comes too late to be run, or None where it may go on.

        Only a run's first start is judged: one that was resumed, approved or tried again had started in time.
        """
        planned, night = runtime.flow_run.scheduled_start_time, self.entry
        started_before = (runtime.flow_run.run_count or 0) > 1
        if not isinstance(night, NightSection) or not self.by_schedule or started_before or planned is None:
            return None
        late = now - planned
        if late <= timedelta(minutes=night.grace_minutes):
            return None
        if night.missed_nights == "skip":
            return f"it starts {_hours(late)} late and missed nights are skipped"
        if night.missed_nights == "latest" and self._has_newer(night, planned, now):
            return f"it starts {_hours(late)} late, a newer night is due, and only the latest is caught up"
        return None

    def _has_newer(self, night: NightSection, planned: datetime, now: datetime) -> bool:
        day = self.night_at(planned)
        return any(at.date() > day for at in times(night.cron, night.timezone, planned, now))


here: ContextVar[Deployed | None] = ContextVar("here", default=None)
"""What the reviewed folder says about the run of this process."""


def of_run() -> Deployed | None:
    """What the reviewed folder says about the present run, or None where nobody deployed it.

    Raises
    ------
    NotReviewed
        It has a deployment, and was started by what does not look it up.
    """
    found = here.get()
    if found is None and runtime.deployment.id is not None:
        raise NotReviewed(
            "This run was started by another worker than Blockveil's",
            "Runs of deployments are started by what looks them up in the reviewed folder",
            "Start `blockveil serve`, or `blockveil service worker` for a team's server, and no `prefect worker`",
        )
    return found


def times(cron: str, zone: str, after: datetime, until: datetime) -> Sequence[datetime]:
    """Times of a schedule from ``after`` to ``until``, both included, in its zone, on the dates that Prefect plans.

    There is one for each civil date of the schedule, and its ``date()`` is the logical date.
    """
    # Times from the server are of another class, whose arithmetic is not that of the standard library.
    start, end = (max(_EARLIEST, datetime.fromtimestamp(time.timestamp(), UTC)) for time in (after, until))
    # In UTC the clock never changes, so each date comes once. In another zone its time is at most a day off.
    day, last = start - timedelta(days=2), end + timedelta(days=2)
    calendar, found = prefect_internals.cron_schedule(cron, "UTC"), list[datetime]()
    while dates := asyncio.run(calendar.get_dates(_AT_ONCE, start=day, end=last)):
        found += [wall_clock(each.date(), cron, zone) for each in dates]
        day = datetime.fromtimestamp(dates[-1].timestamp() + 1, UTC)
    return [at for at in found if start <= at.astimezone(UTC) <= end]


def _hours(span: timedelta) -> str:
    minutes = int(span.total_seconds() // 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
