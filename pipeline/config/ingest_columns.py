"""``[[columns]]`` of an ingest: what a column of the source holds, and what is stored for it.

What becomes of a missing value, of an unknown category and of a value outside the bins has no default: each is a
decision about people's records.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Literal

from pydantic import Field, Strict

from blockveil.pipeline.config.map_columns import CrossColumn, MappedColumn
from blockveil.pipeline.sections.fields import Bound, Label, Section, Whole, refusal, rule

Missing = Literal["refuse", "drop"]
Encode = Literal["one-hot", "code"]


class _Column(Section):
    name: Label
    """the name of the column in the source"""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of the source."""
        return (self.name,)

    @property
    def drops(self) -> bool:
        """Whether a record may be left out for its value in this column."""
        return "drop" in (getattr(self, key, None) for key in ("missing", "unknown", "outside"))


class _Alike(_Column):
    count: Annotated[Whole, Field(ge=1, le=10**6)] | None = None
    """the number of columns of this kind, name1, name2, ...; without it one column of this very name"""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of the source."""
        return (self.name,) if self.count is None else repeated(self.name, self.count)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of the store."""
        return self.inputs


class NumberColumn(_Alike):
    """A real number."""

    kind: Literal["number"]
    """the kind of values"""
    missing: Missing | Bound
    """what to do with a missing or infinite value: "refuse", "drop" the record, or a public constant"""


class IntegerColumn(_Alike):
    """A whole number."""

    kind: Literal["whole"]
    """the kind of values"""
    missing: Missing | Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]
    """what to do with a missing value: "refuse", "drop" the record, or a public constant"""


class BooleanColumn(_Alike):
    """True or false, stored as 1 or 0."""

    kind: Literal["boolean"]
    """the kind of values"""
    missing: Missing | Annotated[bool, Strict()]
    """what to do with a missing value: "refuse", "drop" the record, true or false"""


class _Encoded(_Column):
    encode: Encode
    """one column of 0 or 1 for each category, or one column of codes 0, 1, ..."""

    def _outputs(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        return (self.name,) if self.encode == "code" else tuple(f"{self.name}={label}" for label in labels)


class CategoryColumn(_Encoded):
    """One of a public list of categories."""

    kind: Literal["category"]
    """the kind of values"""
    categories: Annotated[tuple[str, ...] | tuple[Whole, ...], Field(min_length=1, max_length=10**5)]
    """the public list, all text or all whole numbers, in the order of columns or codes"""
    unknown: Missing | Literal["zeros", "other"]
    """what to do with a category not in the list: "refuse", "drop", all "zeros", or a last category "other" """
    missing: Missing | Literal["unknown"]
    """what to do with a missing value: "refuse", "drop", or as "unknown" """

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of the store."""
        other = ("other",) if self.unknown == "other" else ()
        return self._outputs((*map(str, self.categories), *other))

    @rule
    def _coherent(self) -> None:
        labels = [str(category) for category in self.categories]
        check_different("categories", [*labels, "other"] if self.unknown == "other" else labels)
        if self.unknown == "zeros" and self.encode == "code":
            raise refusal(
                "unknown", '"zeros" with encode = "code"', "Code 0 is the first category", 'Write "other" instead'
            )


class BinsColumn(_Encoded):
    """A number, stored as the bin of public edges that it lies in."""

    kind: Literal["bins"]
    """the kind of values"""
    edges: Annotated[tuple[Bound, ...], Field(min_length=2, max_length=10**5)]
    """public edges; a bin holds its lower edge, the last bin also its upper edge"""
    outside: Missing | Literal["clip"]
    """what to do with a number beyond the edges: "refuse", "drop" the record, or "clip" to the nearest bin"""
    missing: Missing | Bound
    """what to do with a missing value: "refuse", "drop" the record, or a public constant, which is binned"""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of the store."""
        pairs = zip(self.edges, self.edges[1:], strict=False)
        return self._outputs(tuple(f"{low:.6g} to {high:.6g}" for low, high in pairs))

    @rule
    def _coherent(self) -> None:
        if any(low >= high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise refusal("edges", "they do not increase", "Each edge is above the one before", "Sort the edges")
        constant = self.missing
        if not isinstance(constant, str) and not self.edges[0] <= constant <= self.edges[-1]:
            raise refusal("missing", f"{constant!r}", "A constant must lie in a bin", "Choose one between the edges")


class DateColumn(_Column):
    """A date, or the day of a time: stored as a number of days, or as its weekday or month."""

    kind: Literal["date"]
    """the kind of values"""
    extract: Literal["days", "weekday", "month"]
    """what is stored: the number of "days" since a public date, or the "weekday" or "month" as a category"""
    since: Annotated[date, Strict()] | None = None
    """of "days": the public date that counts as 0, such as 2020-01-01; earlier dates are negative"""
    encode: Encode | None = None
    """of "weekday" and "month": one column of 0 or 1 for each, or one column of codes, Monday or January being 0"""
    missing: Missing
    """what to do with a missing value: "refuse", or "drop" the record"""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of the store."""
        if self.extract == "days" or self.encode == "code":
            return (self.name,)
        return tuple(f"{self.name}={label}" for label in CALENDAR[self.extract])

    @rule
    def _coherent(self) -> None:
        days = self.extract == "days"
        if days != (self.since is not None):
            raise refusal(
                "since",
                f'{"missing" if days else "given"} with extract = "{self.extract}"',
                "Days are counted from a public date; weekdays and months need none",
                "Give the date that counts as 0" if days else "Remove it",
            )
        if days == (self.encode is not None):
            raise refusal(
                "encode",
                f'{"given" if days else "missing"} with extract = "{self.extract}"',
                "Weekdays and months are categories; days are a number",
                "Remove it" if days else 'Write "one-hot" or "code"',
            )


CALENDAR = {
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": (
        "January", "February", "March", "April", "May", "June",
        "July", "August", "September", "October", "November", "December",
    ),
}  # fmt: skip
"""Categories of a date that everybody knows, in the order of their codes."""

Column = Annotated[
    NumberColumn | IntegerColumn | BooleanColumn | CategoryColumn | BinsColumn | DateColumn | MappedColumn,
    Field(discriminator="kind"),
]


TRUE = ("true", "True", "TRUE", "yes", "Yes", "YES", "1", "1.0")
FALSE = ("false", "False", "FALSE", "no", "No", "NO", "0", "0.0")
"""Texts of a CSV file that are true and false."""


def declared_texts(column: Column) -> Iterator[tuple[str, frozenset[str]]]:
    """Columns of a CSV file whose values are declared, and the texts of these."""
    match column:
        case BooleanColumn():
            yield from ((name, frozenset({*TRUE, *FALSE})) for name in column.inputs)
        case CategoryColumn():
            yield column.name, frozenset(map(str, column.categories))
        case CrossColumn():
            yield from ((each.name, frozenset(map(str, each.categories))) for each in column.columns)


def repeated(name: str, count: int) -> tuple[str, ...]:
    """Names of columns of one kind."""
    return tuple(f"{name}{position}" for position in range(1, count + 1))


def check_different(key: str, names: tuple[str, ...] | list[str]) -> None:
    """Refuse a name that appears twice."""
    if len(set(names)) != len(names):
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        raise refusal(key, f'"{twice}" appears twice', "Names must differ", "Rename or remove one")
