"""What somebody answers to begin with: each answer public, and none taken from the records.

Every rule that a release will be held to later is checked here, at the answer that it is about. An answer that is not
given yet breaks no rule, so that the answers so far can be checked after each question.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.kinds import kinds
from blockveil.pipeline.base.spelling import UnitType
from blockveil.pipeline.config.deployments_file import Zone
from blockveil.pipeline.config.ingest_columns import CALENDAR
from blockveil.pipeline.scaffold.column_answers import (
    CHOICES,
    Calendar,
    Categories,
    ColumnAnswer,
    DateRange,
    Numbers,
    Unknown,
    YesNo,
    parse_column,
)
from blockveil.pipeline.scaffold.purposes import Purpose
from blockveil.pipeline.sections.fields import Label, Location, Name, Number, Section, Whole, refusal, rule

PURPOSES = {each.name: each for kind in kinds() for each in kind.part("interview", tuple[Purpose, ...]())}
"""What a release can be for, by the name of the answer."""

if TYPE_CHECKING:
    PurposeName = str
else:
    PurposeName = Literal[tuple(PURPOSES)]
Every = Literal["once", "night", "week", "month"]
Level = Literal["strict", "usual", "loose"]

_NO_WORD = ("id", "uid", "uuid", "guid", "key", "nr", "no", "index")
"""Names of a column that do not say whom it identifies."""

LEVELS: dict[str, float] = {"strict": 1.0, "usual": 3.0, "loose": 8.0}
"""Epsilon of all nights together, by how strict the promise is."""

MOST_NIGHTS = 3660

AVERAGE = "average"

_LONGEST = 120
"""Letters of a unit's name."""

OF_PURPOSES = {
    question.key: tuple(each.name for each in PURPOSES.values() if question.key in {own.key for own in each.questions})
    for purpose in PURPOSES.values()
    for question in purpose.questions
}
"""Which purposes an answer belongs to."""

EACH_ROW = "row"
"""The answer, in place of a column, that each row is somebody of its own."""


def _column(value: Any) -> Any:
    if isinstance(value, str):
        return parse_column(value)
    if isinstance(value, list | tuple) and len(value) == 2 and all(type(part) in (int, float) for part in value):
        return parse_column(f"{value[0]!r} to {value[1]!r}")
    if isinstance(value, list | tuple) and value and all(isinstance(part, str) for part in value):
        return Categories(tuple(value))
    if isinstance(value, Numbers | DateRange | Calendar | Categories | YesNo | Unknown):
        return value
    raise refusal(
        "", "this is no answer about a column", f"It is none of these: {CHOICES}", "Write one of them as text"
    )


Answered = Annotated[ColumnAnswer, BeforeValidator(_column)]


class Strictness(Section):
    """A promise in numbers, over all nights together."""

    epsilon: Annotated[Number, Field(gt=0, le=1000)]
    """how far one unit may move the odds of anything that is learned from all nights: by a factor of e^epsilon at most,
    but for delta"""
    delta: Annotated[Number, Field(gt=0, le=0.5)]
    """what is added to that; well below 1 / rows_at_most"""


class Answers(Section):
    """What is answered so far."""

    source: Location | None = None
    """the file, folder or pattern of the records"""
    arrays: tuple[Label, ...] | None = None
    """of a Zarr group: the names of its arrays, side by side"""
    names: tuple[Label, ...] | None = None
    """of arrays, which name no columns: the names of all columns in their order"""
    dataset: Name | None = None
    """the name of the data set and of its budget: lower-case letters, digits and dashes"""
    unit: Label | None = None
    """whom or what each record is about, such as "one patient"; named after unit_column where it is not given"""
    unit_column: Label | None = None
    """the column that identifies them, where one of them can have several rows; "row" where each row is one of them"""
    unit_type: UnitType | None = None
    """what unit_column holds: "whole" numbers, of which 7, 7.0 and 07 are one, or "text" """
    rows_per_unit: Literal["average"] | Annotated[Whole, Field(ge=1, le=1000)] | None = None
    """the most rows of one of them that are kept, or "average" for one record that is the mean of all their rows"""
    rows_at_most: Annotated[Whole, Field(ge=1, le=10**15)] | None = None
    """a public bound on the number of records, now and later"""
    row_count_public: bool | None = None
    """whether the number of records is public anyway"""
    missing: Literal["drop", "refuse"] | None = None
    """what becomes of a record with a missing number: it is left out ("drop"), or stops the ingest ("refuse"); by
    default it is left out unless the number of records is public"""
    columns: Annotated[dict[Label, Answered], Field(min_length=1)] | None = None
    """the columns that are released, each with what is known about it without looking"""
    purpose: PurposeName | None = None
    """what the release is for"""
    ways: Annotated[Whole, Field(ge=1, le=12)] | None = None
    """of "tables": how many columns each of them is over"""
    directions: Annotated[Whole, Field(ge=1, le=2**15)] | None = None
    """of "directions": how many"""
    target: Label | None = None
    """of "training" and "gradients": the column that a linear model predicts"""
    examples: Annotated[Whole, Field(ge=1, le=10**15)] | None = None
    """of "training": about how many records there are, a public guess; sums of gradients are divided by it"""
    every: Every | None = None
    """how often it is released"""
    first: Annotated[date, Strict()] | None = None
    """the first night, as a date"""
    until: Annotated[date, Strict()] | None = None
    """the last night, as a date"""
    timezone: Zone = "UTC"
    """the time zone of the nights"""
    strictness: Level | Strictness | None = None
    """the promise over all nights together: "strict", "usual", "loose", or numbers"""

    @property
    def neighbours(self) -> Neighbours:
        """How neighbours differ."""
        return Neighbours.REPLACE_ONE if self.row_count_public else Neighbours.ADD_REMOVE

    @property
    def counted(self) -> bool:
        """Whether records are counted in cells."""
        return self.purpose is not None and PURPOSES[self.purpose].counted

    @property
    def unknown(self) -> tuple[str, ...]:
        """Columns whose bounds a charged release is to find."""
        return tuple(name for name, answer in (self.columns or {}).items() if isinstance(answer, Unknown))

    @property
    def called(self) -> str:
        """Whom or what each record is about, in words: after the column that identifies them where nobody says."""
        column = self.unit_column or EACH_ROW
        who = "unit" if column.lower() in _NO_WORD else re.sub(r"(?i:[ _.-]id)$|(?<=[a-z])I[Dd]$", "", column)
        return self.unit or f"one {who}"[:_LONGEST].rstrip()

    @property
    def policy(self) -> Literal["drop", "refuse"]:
        """What becomes of a record with a missing number; none is left out where their number is public."""
        return self.missing or ("refuse" if self.row_count_public else "drop")

    @property
    def consequences(self) -> Iterator[str]:
        """What follows from the answers where nobody says otherwise, a line each."""
        if self.unit is None:
            yield f'unit = "{self.called}": the promise is printed with these words'
        if self.missing is None:
            becomes = "is left out" if self.policy == "drop" else "stops the ingest"
            yield f'missing = "{self.policy}": a record with a missing number {becomes}'

    @property
    def most_rows_per_unit(self) -> int:
        """Rows of the store that one unit can have."""
        return self.rows_per_unit if isinstance(self.rows_per_unit, int) else 1

    @property
    def nights(self) -> int | None:
        """How many releases there are in all; None while that is open."""
        if self.every is None or self.first is None or (self.until is None and self.every != "once"):
            return None
        return 1 if self.every == "once" or self.until is None else len(_dates(self.every, self.first, self.until))

    @property
    def epsilon(self) -> float | None:
        """Epsilon of all nights together."""
        if self.strictness is None:
            return None
        return self.strictness.epsilon if isinstance(self.strictness, Strictness) else LEVELS[self.strictness]

    @property
    def delta(self) -> float | None:
        """Delta of all nights together: a hundredth of 1 / rows_at_most, and at most 1e-6, where no number is given."""
        if isinstance(self.strictness, Strictness):
            return self.strictness.delta
        if self.strictness is None or self.rows_at_most is None:
            return None
        return min(1e-6, _below(self.rows_at_most))

    @rule
    def _unit_and_rows(self) -> None:
        for key in ("rows_per_unit", "unit_type"):
            if getattr(self, key) is not None and self.unit_column is None:
                raise refusal(
                    key,
                    f"{getattr(self, key)!r} without unit_column",
                    "Without a column that identifies them, each row is somebody of its own",
                    f"Name the column, or leave {key} out",
                )
        if self.unit_column is not None and self.unit_column in (self.columns or {}):
            raise refusal(
                f"columns.{self.unit_column}",
                "it identifies whom the release protects",
                "An identifier is not released",
                "Leave it out of the columns",
            )

    @rule
    def _number_of_rows(self) -> None:
        if not self.row_count_public:
            return
        if self.most_rows_per_unit > 1:
            raise refusal(
                "row_count_public",
                f"true with rows_per_unit = {self.most_rows_per_unit}",
                "Somebody with several rows changes the number of rows, so it cannot be public",
                "Answer no; or keep one row of each, or their average",
            )
        if self.missing == "drop":
            raise refusal(
                "missing",
                '"drop" with row_count_public = true',
                "How many rows are left out depends on private values, so their number would not be public",
                'Answer "refuse", or that the number of rows is not known',
            )

    @rule
    def _purpose_fits(self) -> None:
        for key, purposes in OF_PURPOSES.items():
            if self.purpose not in purposes and getattr(self, key) is not None:
                belongs = f"It belongs to {' and '.join(purposes)}"
                raise refusal(key, "given for another purpose", belongs, "Leave it out")
        if self.counted and self.rows_per_unit == AVERAGE:
            raise refusal(
                "purpose",
                f'"{self.purpose}" of averages',
                "Counts are of rows; the average of a category is none of the categories",
                "Keep some rows of each",
            )
        for name, answer in (self.columns or {}).items():
            if self.counted and isinstance(answer, Unknown):
                raise refusal(
                    f"columns.{name}",
                    "unknown",
                    "Counts are of cells between bounds that are public beforehand",
                    "Write it as 0 to 120 in 12, or leave it out",
                )
            if self.counted and isinstance(answer, Numbers | DateRange) and answer.cells is None:
                raise refusal(
                    f"columns.{name}",
                    "it has no number of cells",
                    "Counts are of cells, of equal width between the bounds",
                    "Write it as 0 to 120 in 12",
                )

    @rule
    def _columns_fit(self) -> None:
        if self.columns is None:
            return
        if self.directions is not None and self.directions >= (size := sum(map(width, self.columns.values()))):
            raise refusal(
                "directions", str(self.directions), f"There are fewer directions than columns ({size})", "Ask for fewer"
            )
        if self.ways is not None and self.ways > len(self.columns):
            raise refusal("ways", str(self.ways), f"There are fewer columns ({len(self.columns)})", "Ask for fewer")
        if self.target is not None and self.target not in self.columns:
            raise refusal(
                "target", f'"{self.target}"', "The model predicts one of the columns", "Name one, and what it holds"
            )
        if self.target is not None and len(self.columns) < 2:
            raise refusal("columns", "only the target", "A model predicts from other columns", "Name one more")
        if self.target is not None and isinstance(self.columns[self.target], Unknown):
            raise refusal(
                f"columns.{self.target}",
                "unknown",
                "What a model predicts has bounds that are public beforehand",
                "Write the lowest and the highest value that you can defend",
            )
        if self.target is not None and not isinstance(self.columns[self.target], Numbers | YesNo):
            raise refusal(
                "target",
                f'"{self.target}" is neither',
                "A model predicts a number or yes-no",
                "Choose another column; or take the correlations, from which a classifier of categories follows",
            )

    @rule
    def _dates_fit(self) -> None:
        if self.first is not None and self.until is not None and self.until < self.first:
            raise refusal(
                "until", str(self.until), f"The last night is not before the first, {self.first}", "Correct it"
            )
        if self.every == "once" and self.until is not None and self.until != self.first:
            raise refusal("until", f'{self.until} with every = "once"', "There is one night then", "Leave it out")
        if (self.nights or 1) > MOST_NIGHTS:
            raise refusal("until", str(self.until), f"There are at most {MOST_NIGHTS} nights", "Choose an earlier date")
        if self.nights == 0:
            raise refusal("until", str(self.until), "At least one night lies before it", "Choose a later date")

    @rule
    def _examples_fit(self) -> None:
        if self.examples is not None and self.rows_at_most is not None and self.examples > self.rows_at_most:
            raise refusal(
                "examples",
                f"{self.examples:,} with rows_at_most = {self.rows_at_most:,}",
                "It is a guess of the number of records, of which there are at most rows_at_most",
                "Write a smaller number",
            )

    @rule
    def _promise_protects(self) -> None:
        if not isinstance(self.strictness, Strictness) or self.rows_at_most is None:
            return
        if self.strictness.delta >= 1.0 / self.rows_at_most:
            raise refusal(
                "strictness.delta",
                f"{self.strictness.delta!r} with rows_at_most = {self.rows_at_most}",
                "delta is well below 1 / rows_at_most: publishing a random record in clear would be allowed",
                f"Write at most {_below(self.rows_at_most):g}",
            )


def _below(rows: int) -> float:
    """The power of ten at or below a hundredth of 1 / rows."""
    return float(f"1e-{len(str(rows - 1)) + 2}") if rows > 1 else 1e-2


def width(answer: ColumnAnswer) -> int:
    """Columns of the store that a column becomes, where categories are one column each."""
    match answer:
        case Categories(values):
            return len(values)
        case Calendar(part):
            return len(CALENDAR[part])
    return 1


def _dates(every: Every, first: date, until: date) -> list[date]:
    """Nights from the first on that the schedule of :mod:`.texts` has: weeks on the first one's weekday."""
    if every == "month":
        months = range(first.year * 12 + first.month - 1, until.year * 12 + until.month)
        day = min(first.day, 28)
        dates = [date(month // 12, month % 12 + 1, day) for month in months]
        return [each for each in dates if first <= each <= until]
    step = 7 if every == "week" else 1
    return [first + timedelta(days) for days in range(0, (until - first).days + 1, step)]


def absent_columns(unit_column: str | None, released: Iterable[str], names: Sequence[str]) -> list[ConfigError]:
    """What is wrong with answers about columns that the source does not have; the nearest name is shown.

    Parameters
    ----------
    unit_column
        The column that identifies whom the release protects.
    released
        Columns that are released.
    names
        Columns of the source; where there are none, nothing is known to be wrong.
    """
    references = [("unit_column", unit_column), *(("columns", name) for name in released)]
    return [_absent(key, name, names) for key, name in references if names and name is not None and name not in names]


def _absent(key: str, name: str, names: Sequence[str]) -> ConfigError:
    near = difflib.get_close_matches(name, names, n=1)
    return ConfigError(
        f'{key}: "{name}"',
        "The source has no such column",
        f'Did you mean "{near[0]}"?' if near else "Write the name as the source has it",
    )
