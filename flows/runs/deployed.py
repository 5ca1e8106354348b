"""The deployment that a run belongs to, as the reviewed folder has it: its schedule, its night, and missed nights.

Nothing here is asked of the server. :mod:`.admission` looks a run up in the reviewed folder before it
starts.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from prefect import runtime

from blockveil.flows.base.prefect_internals import times
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.config.deployments_file import NightSection, Scheduled
from blockveil.pipeline.config.night_dates import night_at

MARK = "blockveil"
"""Tag of every deployment of this product."""

DATASET = "dataset:"
"""Begins the tag of a night, and of its runs, that names its data set."""


class NotReviewed(BlockveilError):
    """A run asks for what the reviewed folder does not say."""

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True)
class Deployed:
    """What the reviewed folder says about a run.

    Attributes
    ----------
    entry
        What is scheduled; None for a run that people start.
    by_schedule
        Whether the schedule made the run, not a person.
    """

    entry: Scheduled | None = None
    by_schedule: bool = False

    def night(self) -> date:
        """Logical date of the present run where nobody names one: of its schedule, or of this machine's zone.

        A retried, late or resumed run keeps its scheduled start and so its night.
        """
        start = _planned_start()
        return (
            start.astimezone().date() if self.entry is None else night_at(start, self.entry.cron, self.entry.timezone)
        )

    def today(self) -> date:
        """First date that is not over where the schedule is, at the present run's scheduled start.

        It is the date of the night, or the one before where clocks skip the time and the run was planned before
        midnight.
        """
        return _planned_start().astimezone(None if self.entry is None else ZoneInfo(self.entry.timezone)).date()

    def missed(self, now: datetime) -> str | None:
        """Why this scheduled run comes too late to be run, or None where it may go on.

        Only a run's first start is judged: one that was resumed, approved or tried again had started in time.
        """
        start, night = runtime.flow_run.scheduled_start_time, self.entry
        started_before = (runtime.flow_run.run_count or 0) > 1
        if not isinstance(night, NightSection) or not self.by_schedule or started_before or start is None:
            return None
        late = now - start
        if late <= timedelta(minutes=night.grace_minutes):
            return None
        if night.missed_nights == "skip":
            return f"it starts {_hours(late)} late and missed nights are skipped"
        if night.missed_nights == "latest" and self._has_newer(night, start, now):
            return f"it starts {_hours(late)} late, a newer night is due, and only the latest is caught up"
        return None

    def _has_newer(self, night: NightSection, planned: datetime, now: datetime) -> bool:
        day = self.night()
        return any(at.date() > day for at in times(night.cron, night.timezone, planned, now))


def _planned_start() -> datetime:
    start = runtime.flow_run.scheduled_start_time
    # Times from the server are of another class, whose arithmetic is not that of the standard library.
    return datetime.now(UTC) if start is None else datetime.fromtimestamp(start.timestamp(), UTC)


here: ContextVar[Deployed | None] = ContextVar("here", default=None)
"""What the reviewed folder says about the run of this process."""


def of_run() -> Deployed:
    """What the reviewed folder says about the present run; nothing is scheduled where nobody deployed it.

    Raises
    ------
    NotReviewed
        It has a deployment, and was started by what does not look it up.
    """
    deployment = here.get()
    if deployment is None and runtime.deployment.id is not None:
        raise NotReviewed(
            "This run was started by another worker than Blockveil's",
            "Runs of deployments are started by what looks them up in the reviewed folder",
            "Start `blockveil serve`, or `blockveil service worker` for a team's server, and no `prefect worker`",
        )
    return deployment or Deployed()


def _hours(span: timedelta) -> str:
    minutes = int(span.total_seconds() // 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
