"""What a person says about one column without having looked at it, in a few words.

Such words are ``-60 to 600``, ``yes-no`` and ``F, M``.

The same words are typed at a terminal, written into a file of answers and given to a Python call.
Words that could be a range or a list are refused: read the wrong way, they would spend a budget on a column of zeros.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from blockveil.pipeline.config.ingest_columns import CALENDAR
from blockveil.pipeline.scaffold.named_ranges import NAMED, in_words
from blockveil.pipeline.sections.fields import LARGEST, SMALLEST, Bound, Label, refusal

HELP = (
    "the lowest and the highest value that you can defend without having looked, such as 0 to 120; with `whole` behind "
    "it, whole numbers and no others, which are not rounded; with `in 12` behind it, that many cells for counts. "
    f"Or a range with a name: {', '.join(NAMED)}. A list of texts, such as F, M; of "
    "numbers it begins with a word, such as codes: 1, 2, 3. yes-no. Of a date: weekday, month, or 2025-01-01 to "
    "2026-12-31. Records beyond a bound are moved to it. Of a number whose bounds you do not know: unknown; "
    "they are found, and paid for out of the same promise"
)
"""How a column can be answered."""

CHOICES = "A range such as 0 to 120, a list such as F, M, yes-no, weekday, month or unknown"
"""The same in one line."""

CODES = "codes"
"""The word before a list whose items may look like numbers."""

WHOLE = "whole"
"""The word behind a range of whole numbers."""

YES_NO = "yes-no"
UNKNOWN = "unknown"

_TWO = (YES_NO, "yes/no", "yes or no", "true-false", "true/false", "true or false")

_NOT_KNOWN = (UNKNOWN, "not known", "don't know", "do not know")

_PLAIN = r"(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_GROUPED = r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?"
"""A number with commas between thousands."""
_NUMBER = rf"[+-]?(?:{_GROUPED}|{_PLAIN})%?"
_DAY = r"\d{4}-\d{2}-\d{2}"
_BETWEEN, _IN = r"\s*(?:to|TO|\.\.|…)\s*", r"(?:\s+in\s+(\d+)(?:\s+cells)?)?"
_ALONE = rf"(?:\s+({WHOLE}))?"
_RANGE = re.compile(rf"({_NUMBER}){_BETWEEN}({_NUMBER}){_ALONE}{_IN}", re.ASCII)
_PAIR = re.compile(rf"\[\s*([+-]?{_PLAIN})\s*,\s*([+-]?{_PLAIN})\s*\]{_ALONE}{_IN}", re.ASCII)
_DATES = re.compile(rf"({_DAY}){_BETWEEN}({_DAY}){_IN}", re.ASCII)
_DIGITS_OF_A_DAY = re.compile(r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])", re.ASCII)
_CODES = re.compile(rf"{CODES}\s*:\s*(.*)", re.IGNORECASE)
_WHOLE = re.compile(r"0|-?[1-9]\d{0,14}", re.ASCII)
_LIKE_A_NUMBER = re.compile(r"[-+$€£]*\s*\.?\d[\d.,_\s]*(?:[eE][+-]?\d+)?\s*(?:k|m|bn|%)?", re.IGNORECASE)
_LIKE_A_RANGE = re.compile(r"\bto\b|\.\.|…|\d\s+[-–—]|^[\[(]|[\])]$", re.IGNORECASE)
_NAMED = re.compile(rf"^({'|'.join(NAMED)})((?:\s+{WHOLE})?(?:\s+in\s+\d+(?:\s+cells)?)?)$", re.IGNORECASE)
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
    whole
        Whether all values are whole numbers, which an ingest checks.
    """

    lowest: float
    highest: float
    cells: int | None = None
    whole: bool = False


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
    """The weekday or month of a date."""

    part: str


@dataclass(frozen=True)
class Categories:
    """One of a public list, all texts or all whole numbers."""

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
        It is none of what :data:`HELP` lists, could be two of them, or its bounds are not in order.
    """
    words = " ".join(text.split())
    if words.lower() in _TWO:
        return YesNo()
    if words.lower() in _NOT_KNOWN:
        return Unknown()
    if words.lower() in CALENDAR:
        return Calendar(words.lower())
    words = _NAMED.sub(lambda match: in_words(match[1].lower()) + match[2], words)
    if (dates := _DATES.fullmatch(words)) is not None:
        return _days(*dates.groups())
    if (numbers := _RANGE.fullmatch(words) or _PAIR.fullmatch(words)) is not None:
        return _numbers(*numbers.groups())
    if (codes := _CODES.fullmatch(words)) is not None:
        return _categories(codes[1], explicit=True)
    if "," in words:
        return _categories(words)
    raise _not_understood(words)


def _not_understood(words: str) -> PydanticCustomError:
    """The refusal of words that are no answer; with a digit in them a range was probably meant."""
    if not re.search(r"\d", words):
        return refusal("", f'"{words[:60]}"', f"It is none of these: {CHOICES}", "Write one of them")
    return refusal(
        "",
        f'"{words[:60]}"',
        "A range is two dates, or two numbers in digits with a point before decimals, and the word to between them",
        "Write it as 0 to 120, or as 2025-01-01 to 2026-12-31",
    )


def _numbers(low: str, high: str, whole: str | None, cells: str | None) -> Numbers:
    if _DIGITS_OF_A_DAY.fullmatch(low) and _DIGITS_OF_A_DAY.fullmatch(high):
        days = [f"{day[:4]}-{day[4:6]}-{day[6:]}" for day in (low, high)]
        raise refusal(
            "",
            f'"{low} to {high}"',
            "It could be dates or numbers",
            f"Write {days[0]} to {days[1]} for dates, or {low}.0 to {high}.0 for numbers",
        )
    lowest, highest = _number(low), _number(high)
    if not highest - lowest >= SMALLEST:
        raise refusal("", f'"{low} to {high}"', "The lowest value comes first and lies below the highest", "Swap them")
    if whole is not None and not _are_whole(lowest, highest):
        raise refusal(
            "",
            f'"{low} to {high} {WHOLE}"',
            "The bounds of whole numbers are values too, hence whole",
            f"Give whole bounds, or leave {WHOLE} out",
        )
    return Numbers(lowest, highest, _cells(cells), whole is not None)


def _are_whole(*bounds: float) -> bool:
    return all(bound.is_integer() for bound in bounds)


def _number(text: str) -> float:
    try:
        return float(_BOUND.validate_python(float(text.rstrip("%").replace("_", "").replace(",", ""))))
    except ValidationError:
        pass
    raise refusal(
        "", f'"{text[:60]}"', f"A bound lies between {-LARGEST:g} and {LARGEST:g}", "Write one that you can defend"
    )


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


def _categories(words: str, *, explicit: bool = False) -> Categories:
    """A list; without the word for one, its items must not look like numbers or ranges unless they are in quotes."""
    parts = [part.strip() for part in words.rstrip(", ").split(",")]
    plain = [part for part in parts if not part.startswith('"')]
    if not explicit and any(_LIKE_A_NUMBER.fullmatch(part) or _LIKE_A_RANGE.search(part) for part in plain):
        raise refusal(
            "",
            f'"{words[:60]}"',
            "It could be a range or a list. Numbers have a point before decimals, and commas between thousands alone",
            f"Write it as 0 to 120 for a range, or as {CODES}: 1, 2, 3 for a list",
        )
    try:
        labels = [_LABEL.validate_python(part.strip('"') if part.startswith('"') else part) for part in parts]
    except ValidationError:
        raise refusal("", f'"{words[:60]}"', "A list has a text or code between commas", "Remove empty ones") from None
    if len(set(labels)) < len(labels):
        raise refusal("", f'"{words[:60]}"', "Each category stands in the list once", "Remove the second one")
    if all(_WHOLE.fullmatch(part) for part in parts):
        return Categories(tuple(int(part) for part in parts))
    return Categories(tuple(labels))


def meaning(answer: ColumnAnswer) -> str:
    """What an answer was understood to be, in words for the person who gave it."""
    match answer:
        case Numbers(lowest, highest, cells, whole):
            return f"a {'whole ' * whole}number from {_plain(lowest)} to {_plain(highest)}{_cells_in_words(cells)}"
        case DateRange(first, last, cells):
            return f"a date from {first} to {last}{_cells_in_words(cells)}"
        case Calendar(part):
            return f"the {part} of a date"
        case Categories(values):
            kind = "code" if isinstance(values[0], int) else "text"
            listing = ", ".join(str(each) for each in values[:_SHOWN]) + (", ..." if len(values) > _SHOWN else "")
            return f"one of {len(values)} {kind}{'' if len(values) == 1 else 's'}: {listing}"
        case Unknown():
            return "a number whose bounds a charged release finds"
    return "yes or no"


def hint(answer: ColumnAnswer) -> str:
    """What could be said more exactly: that a number between whole bounds is whole; empty where nothing could."""
    if not isinstance(answer, Numbers) or answer.whole or not _are_whole(answer.lowest, answer.highest):
        return ""
    return f' (if all its values are whole numbers, say "{words_of(replace(answer, whole=True))}")'


_SHOWN = 8
"""Categories that are shown when an answer is confirmed."""


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number.is_integer() and abs(number) < 10**15 else f"{number:,.15g}"


def _cells_in_words(cells: int | None) -> str:
    return "" if cells is None else f", in {cells:,} cells"


def words_of(answer: ColumnAnswer) -> str | list[str]:
    """An answer as :func:`parse_column` reads it, or a list of categories as a file of answers holds it."""
    match answer:
        case Numbers(lowest, highest, cells, whole):
            ends = [f"{end:.17g}" for end in (lowest, highest)]
            point = ".0" if all(map(_DIGITS_OF_A_DAY.fullmatch, ends)) else ""
            return f"{ends[0]}{point} to {ends[1]}{point}{f' {WHOLE}' * whole}{_in(cells)}"
        case DateRange(first, last, cells):
            return f"{first} to {last}{_in(cells)}"
        case Calendar(part):
            return part
        case Categories(values):
            texts = [each for each in values if isinstance(each, str)]
            return texts or f"{CODES}: {', '.join(map(str, values))}"
        case Unknown():
            return UNKNOWN
    return YES_NO


def _in(cells: int | None) -> str:
    return "" if cells is None else f" in {cells}"
