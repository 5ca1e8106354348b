"""What a person says about one column without having looked at it, in a few words.

Such words are ``-60 to 600``, ``yes-no`` and ``F, M``.

The same words are typed at a terminal, written into a file of answers and pasted into a form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from pydantic import TypeAdapter, ValidationError

from blockveil.pipeline.config.fields import SMALLEST, Bound, Label, refusal
from blockveil.pipeline.config.ingest_columns import CALENDAR
from blockveil.pipeline.scaffold.named_ranges import NAMED, in_words

HELP = (
    "the lowest and the highest value that you can defend without having looked, such as 0 to 120; with `in 12` behind "
    f"it, that many cells for counts. Or a range with a name: {', '.join(NAMED)}. A list of texts or codes, such as "
    "F, M. yes-no. Of a date: weekday, month, or 2025-01-01 to 2026-12-31. Records beyond a bound are moved to it. Of "
    "a number whose bounds you do not know: unknown; a first release finds them, and is charged for it"
)
"""How a column can be answered."""

YES_NO = "yes-no"
UNKNOWN = "unknown"

_TWO = (YES_NO, "yes/no", "yes or no", "true-false", "true/false", "true or false")

_NOT_KNOWN = (UNKNOWN, "not known", "don't know", "do not know")

_NUMBER = r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?%?"
_DAY = r"\d{4}-\d{2}-\d{2}"
_BETWEEN, _IN = r"\s*(?:to|\.\.|…)\s*", r"(?:\s+in\s+(\d+)(?:\s+cells)?)?"
_RANGE = re.compile(rf"({_NUMBER}){_BETWEEN}({_NUMBER}){_IN}", re.ASCII)
_DATES = re.compile(rf"({_DAY}){_BETWEEN}({_DAY}){_IN}", re.ASCII)
_NAMED = re.compile(rf"^({'|'.join(NAMED)})((?:\s+in\s+\d+(?:\s+cells)?)?)$", re.IGNORECASE)
_BOUND = TypeAdapter(Bound)
_LABEL = TypeAdapter(Label)
_MOST_CELLS = 2**20
_LARGEST_CODE = 2**53


@dataclass(frozen=True)
class Numbers:
    """A number between two public bounds.

    Attributes
    ----------
    lowest, highest
        Bounds in the column's own unit.
    cells
        Cells of equal width for counts; None where no number was given.
    """

    lowest: float
    highest: float
    cells: int | None = None


@dataclass(frozen=True)
class DateRange:
    """A date between two public dates.

    Attributes
    ----------
    first, last
        The dates; both belong to the range.
    cells
        Cells of equal width for counts; None where no number was given.
    """

    first: date
    last: date
    cells: int | None = None

    @property
    def span(self) -> int:
        """DateRange from the first to the last."""
        return (self.last - self.first).days


@dataclass(frozen=True)
class Calendar:
    """The weekday or month of a date.

    Attributes
    ----------
    part
        Key of :data:`.CALENDAR`.
    """

    part: str


@dataclass(frozen=True)
class Categories:
    """One of a public list, all texts or all whole numbers.

    Attributes
    ----------
    values
        The list, in the order in which it was given.
    """

    values: tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True)
class YesNo:
    """True or false."""


@dataclass(frozen=True)
class Unknown:
    """A number whose bounds nobody knows: a charged release finds them."""


ColumnAnswer = Numbers | DateRange | Calendar | Categories | YesNo | Unknown


def parse_column(text: str) -> ColumnAnswer:
    """What somebody answered about a column.

    Raises
    ------
    PydanticCustomError
        It is none of what :data:`HELP` lists, or its bounds are not in order.
    """
    words = " ".join(text.split())
    if words.lower() in _TWO:
        return YesNo()
    if words.lower() in _NOT_KNOWN:
        return Unknown()
    if words.lower() in CALENDAR:
        return Calendar(words.lower())
    words = _NAMED.sub(lambda found: in_words(found[1].lower()) + found[2], words)
    if (dates := _DATES.fullmatch(words)) is not None:
        return _days(*dates.groups())
    if (numbers := _RANGE.fullmatch(words)) is not None:
        return _numbers(*numbers.groups())
    if "," in words:
        return _categories(words)
    raise refusal("", f'"{words[:60]}"', f"It is {HELP}", "Write one of these")


def _numbers(low: str, high: str, cells: str | None) -> Numbers:
    lowest, highest = _number(low), _number(high)
    if not highest - lowest >= SMALLEST:
        raise refusal("", f'"{low} to {high}"', "The lowest value comes first and lies below the highest", "Swap them")
    return Numbers(lowest, highest, _cells(cells))


def _number(text: str) -> float:
    try:
        return float(_BOUND.validate_python(float(text.rstrip("%").replace("_", ""))))
    except ValidationError:
        pass
    raise refusal("", f'"{text[:60]}"', "A bound lies between -1e100 and 1e100", "Write one that you can defend")


def _days(low: str, high: str, cells: str | None) -> DateRange:
    try:
        first, last = date.fromisoformat(low), date.fromisoformat(high)
    except ValueError:
        raise refusal("", f'"{low} to {high}"', "Both are dates of the calendar", "Correct the day") from None
    if not first < last:
        raise refusal("", f'"{low} to {high}"', "The first date lies before the last", "Swap them")
    return DateRange(first, last, _cells(cells))


def _cells(text: str | None) -> int | None:
    if text is None:
        return None
    if not 1 <= int(text[:9]) <= _MOST_CELLS or len(text) > len(str(_MOST_CELLS)):
        raise refusal("", f"in {text[:20]}", f"A column has 1 to {_MOST_CELLS} cells", "Ask for fewer")
    return int(text)


def _categories(words: str) -> Categories:
    parts = [part.strip() for part in words.rstrip(", ").split(",")]
    try:
        labels = [_LABEL.validate_python(part.strip('"') if part.startswith('"') else part) for part in parts]
    except ValidationError:
        raise refusal("", f'"{words[:60]}"', "A list has a text or code between commas", "Remove empty ones") from None
    if len(set(labels)) < len(labels):
        raise refusal("", f'"{words[:60]}"', "Each category stands in the list once", "Remove the second one")
    if all(re.fullmatch(r"-?\d{1,15}", part, re.ASCII) for part in parts):
        return Categories(tuple(int(part) for part in parts))
    return Categories(tuple(labels))


def words_of(answer: ColumnAnswer) -> str | list[str]:
    """An answer as :func:`parse_column` reads it, or a list of categories as a file of answers holds it."""
    match answer:
        case Numbers(lowest, highest, cells):
            return f"{lowest:.17g} to {highest:.17g}{_in(cells)}"
        case DateRange(first, last, cells):
            return f"{first} to {last}{_in(cells)}"
        case Calendar(part):
            return part
        case Categories(values):
            texts = [each for each in values if isinstance(each, str)]
            return texts or "".join(f"{each}, " for each in values).rstrip(" ")
        case Unknown():
            return UNKNOWN
    return YES_NO


def _in(cells: int | None) -> str:
    return "" if cells is None else f" in {cells}"
