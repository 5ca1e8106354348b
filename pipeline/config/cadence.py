"""On which dates a config is released, as far as the ``deployments.toml`` beside it says.

A schedule names days of the calendar in its own time zone, and each is one logical date: changes of the clock move no
date and repeat none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from blockveil.pipeline.base.errors import BlockveilError, ConfigError
from blockveil.pipeline.config.deployments_file import FILE_NAME, Deployments, parse_deployments
from blockveil.pipeline.config.loaded import LoadedConfig
from blockveil.pipeline.config.toml import read_toml

Often = Literal["night", "week", "month", "several"]

_PLURAL: dict[Often, str] = {"night": "nights", "week": "weeks", "month": "months", "several": "releases"}
_DAYS: dict[Often, float] = {"night": 1.0, "week": 7.0, "month": 365.25 / 12, "several": 1.0}

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True)
class CalendarDays:
    """Days that the last three fields of a schedule name: day of the month, month, day of the week.

    Attributes
    ----------
    days, months, weekdays
        Values of each field; Sunday is 0. None for all of them.
    """

    days: frozenset[int] | None
    months: frozenset[int] | None
    weekdays: frozenset[int] | None

    @classmethod
    def of(cls, cron: str) -> CalendarDays:
        """Read the fields of a schedule.

        Raises
        ------
        ValueError
            A field is none of ``*``, numbers, names, ranges, lists and steps.
        """
        _, _, day, month, weekday = cron.lower().split()
        weekdays = _values(weekday, 0, 7, _WEEKDAYS)
        return cls(
            _values(day, 1, 31, ()),
            _values(month, 1, 12, ("", *_MONTHS)),
            None if weekdays is None else frozenset(each % 7 for each in weekdays),
        )

    def __contains__(self, day: date) -> bool:
        """Whether a day is among them: where both a day and a weekday are named, either is enough, as cron has it."""
        if self.months is not None and day.month not in self.months:
            return False
        of_month = self.days is None or day.day in self.days
        of_week = self.weekdays is None or day.isoweekday() % 7 in self.weekdays
        either = self.days is not None and self.weekdays is not None
        return of_month or of_week if either else of_month and of_week

    @property
    def often(self) -> Often:
        """How often such days come."""
        of_month, of_week = (0 if each is None else len(each) for each in (self.days, self.weekdays))
        if self.months is not None:
            return "several"
        if of_month == 31 or of_week == 7 or of_month == of_week == 0:
            return "night"
        if of_month == 0 and of_week == 1:
            return "week"
        return "month" if of_week == 0 and of_month == 1 and max(self.days or ()) <= 28 else "several"


def _values(field: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int] | None:
    def number(text: str) -> int:
        value = names.index(text) if text and text in names else int(text)
        if not (text.isascii() and low <= value <= high):
            raise ValueError(field)
        return value

    values = set[int]()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span in ("*", "?"):
            ends = low, high
        else:
            ends = number(first), number(last) if dash else high if step else number(first)
        every = int(step) if "/" in part else 1
        if every < 1 or ends[0] > ends[1]:
            raise ValueError(field)
        values.update(range(ends[0], ends[1] + 1, every))
    return None if field in ("*", "?") else frozenset(values)


@dataclass(frozen=True)
class Cadence:
    """How releases of a config follow each other.

    Attributes
    ----------
    calendar
        Days of its schedule; None where no schedule says it, or none is followed.
    zone
        Time zone of the schedule; None for that of the machine.
    source
        Where this is known from, in words.
    every
        Days from one release to the next where there is no schedule.
    """

    calendar: CalendarDays | None
    zone: str | None
    source: str
    every: int = 1

    @classmethod
    def each(cls, days: int) -> Cadence:
        """One release every few days from tomorrow on, whatever a schedule says.

        Raises
        ------
        ConfigError
            Releases are less than a day apart.
        """
        if days < 1:
            raise ConfigError(
                f"nights every {days} days", "They are a day apart at least", "Give a whole number from 1 on"
            )
        return cls(None, None, "as was asked for", days)

    @property
    def often(self) -> Often:
        """How often there is a release."""
        if self.calendar is not None:
            return self.calendar.often
        return {1: "night", 7: "week"}.get(self.every, "several")  # type: ignore[return-value] # a key of the words

    @property
    def unit(self) -> str:
        """What releases are counted in, in the plural: nights, weeks, months or releases."""
        return _PLURAL[self.often]

    @property
    def unit_days(self) -> float:
        """Days of one such unit; 1 where releases are at no even distance."""
        return _DAYS[self.often]

    @property
    def words(self) -> str:
        """How often, in words."""
        if self.often == "several":
            return f"every {self.every} days" if self.calendar is None else "on the days of its schedule"
        return f"every {self.often}"

    def today(self, now: datetime) -> date:
        """Day of the calendar at an instant, in the schedule's zone."""
        return now.astimezone(None if self.zone is None else ZoneInfo(self.zone)).date()

    def dates(self, first: date) -> Iterator[date]:
        """Dates of releases from a day on; none beyond the years that a calendar has."""
        step = timedelta(days=1 if self.calendar is not None else self.every)
        day = first
        while day <= date.max - step:
            if self.calendar is None or day in self.calendar:
                yield day
            day += step


def deployments_beside(loaded: LoadedConfig) -> Deployments | None:
    """What runs when in the folder of a config; None where nothing, or nothing readable, says it.

    `serve` and `deploy` report what is wrong with such a file.
    """
    file = loaded.base / FILE_NAME
    try:
        return parse_deployments(read_toml(file), FILE_NAME) if file.is_file() else None
    except (BlockveilError, OSError):
        return None


def cadence_of(loaded: LoadedConfig) -> Cadence:
    """How often a config is released by the schedule beside it; every night where none is there."""
    deployments = deployments_beside(loaded)
    if deployments is None:
        return Cadence(None, None, f"no {FILE_NAME} beside it says so")
    night = next((each for each in deployments.night if each.config == loaded.path.stem), None)
    if night is None:
        return Cadence(None, None, f"{FILE_NAME} has no [[night]] of it")
    try:
        return Cadence(CalendarDays.of(night.cron), night.timezone, f'"{night.cron}" in {FILE_NAME}, {night.timezone}')
    except ValueError:
        return Cadence(None, None, f'the days of "{night.cron}" in {FILE_NAME} are not followed')
