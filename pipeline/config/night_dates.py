"""The logical date of an instant: a civil date of the schedule's zone, each exactly once however its clocks change."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_DAY = timedelta(days=1)


def night_at(instant: datetime, cron: str, zone: str) -> date:
    """Logical date of a run by the instant for which it was planned.

    Clocks skip some times of a schedule, and have others twice. A scheduler then plans the run with the offset from UTC
    before or after the change, and the run of a skipped midnight may lie on the day before. Each date owns the instants
    of its time with either offset; any other instant, as of a run that a person starts, has the date of that moment.

    Parameters
    ----------
    instant
        When the run was planned for, with a zone of any kind.
    cron, zone
        The schedule, of which minute and hour are plain numbers, and the name of its time zone.

    Raises
    ------
    OverflowError, ValueError
        The instant is on the first or the last day that there is, which is none in the zone.
    """
    moment = datetime.fromtimestamp(instant.timestamp(), UTC)
    local_date = moment.astimezone(ZoneInfo(zone)).date()
    for day in (local_date, local_date + _DAY, local_date - _DAY):
        if moment in _instants(day, cron, zone):
            return day
    return local_date


def wall_clock(day: date, cron: str, zone: str) -> datetime:
    """Time of a schedule on a date, in its zone: the second where clocks have it twice.

    Its ``date()`` is the logical date, also where clocks skip the time; as an instant it is then after the change.
    """
    first, second = (_at(day, cron, zone, fold) for fold in (0, 1))
    return second if second.timestamp() > first.timestamp() else first


def _instants(day: date, cron: str, zone: str) -> tuple[datetime, datetime]:
    first, second = (_at(day, cron, zone, fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def _at(day: date, cron: str, zone: str, fold: int) -> datetime:
    minute, hour = map(int, cron.split()[:2])
    return datetime.combine(day, time(hour, minute, tzinfo=ZoneInfo(zone), fold=fold))
