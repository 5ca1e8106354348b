"""Caps for a period: a calendar month, or a window of a given number of days, both in UTC, by the time of booking."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from blockveil.pipeline.base.errors import LedgerError

_CALENDAR = ("day", "week", "month", "quarter", "year")
_ROLLING = re.compile(r"([1-9][0-9]{0,3})d")


@dataclass(frozen=True)
class Period:
    """Part of a budget that may be spent in a stretch of time.

    Attributes
    ----------
    length
        ``day``, ``week`` (from Monday), ``month``, ``quarter`` or ``year`` of the calendar, or days, such as ``30d``,
        that end now.
    epsilon
        Largest loss of all charges booked in it, at the budget's delta.
    """

    length: str
    epsilon: float

    def __post_init__(self) -> None:
        """Refuse what names no stretch of time."""
        if self.length not in _CALENDAR and not _ROLLING.fullmatch(self.length):
            raise LedgerError(
                f"{self.length[:20]!r} is not a period",
                f"A period is {', '.join(_CALENDAR)}, or days such as 30d",
                "Write it such as month:0.5 or 30d:0.5",
            )
        if not 0 < self.epsilon <= 1000:
            raise LedgerError(
                f"A period's epsilon of {self.epsilon:g} is not usable", "It lies in (0, 1000]", "Give another one"
            )

    @classmethod
    def parse(cls, text: str) -> Period:
        """Period of ``month:0.5``."""
        length, _, epsilon = text.partition(":")
        try:
            return cls(length, float(epsilon))
        except ValueError:
            pass
        raise LedgerError(
            f"{text[:40]!r} is not a cap for a period", "It names a period and an epsilon", "Write it such as month:0.5"
        )

    def start(self, now: str) -> str:
        """First moment of the period that holds a time, both ISO text in UTC."""
        moment = datetime.fromisoformat(now).astimezone(UTC)
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        match self.length:
            case "day":
                first = day
            case "week":
                first = day - timedelta(days=day.weekday())
            case "month":
                first = day.replace(day=1)
            case "quarter":
                first = day.replace(month=3 * ((day.month - 1) // 3) + 1, day=1)
            case "year":
                first = day.replace(month=1, day=1)
            case _:
                # The moment after that many days before now: all charges of any window of that length are counted.
                first = moment - timedelta(days=int(self.length[:-1])) + timedelta(seconds=1)
        return first.isoformat(timespec="seconds")

    @property
    def words(self) -> str:
        """The period in words."""
        return f"any {self.length[:-1]} days" if self.length.endswith("d") else f"this {self.length}"
