"""A report as a list of sections: every format renders the same list, and only renders it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from blockveil.pipeline.report.papers import Picture

Look = Literal["", "promise", "warning", "finding", "exact", "under", "list"]


@dataclass(frozen=True)
class Link:
    """A link to another page of the same site; others may lead to it where it has a name of its own."""

    address: str
    text: str
    name: str = ""

    def __str__(self) -> str:
        return self.text


Cell = str | Link | tuple[str | Link, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportSection:
    """One part of a report: its title, what it says, and what shows it, in this order.

    Attributes
    ----------
    title
        Its title; empty where it continues the section above it.
    key
        Name of what it answers, as a run page's artifact has it; empty where it has none.
    sentences
        What it says.
    look
        How its sentences are set.
    lines
        What is told and its value; the source of that line, where each has its own.
    table
        Rows of a table, cells by the names of columns.
    picture, caption
        A picture, and how it is read.
    code
        Lines of a program or of a proof.
    within
        Sections below its title.
    source
        Where its numbers come from.
    decided_by
        What decides its numbers; empty where the section that it is in says so.
    folded
        Whether a page shows it when its title is opened.
    changes
        Whether it changes after the release, so that it is put in anew into a page that has been written.
    """

    title: str = ""
    key: str = ""
    sentences: Sequence[str] = ()
    look: Look = ""
    lines: Sequence[tuple[str, ...]] = ()
    table: Sequence[Mapping[str, Cell]] = ()
    picture: Picture | None = None
    caption: str = ""
    code: str = ""
    within: Sequence[ReportSection] = ()
    source: str = ""
    decided_by: str = ""
    folded: bool = False
    changes: bool = False


def every(sections: Sequence[ReportSection]) -> Iterator[ReportSection]:
    """Sections and those within them, in the order of the page."""
    for each in sections:
        yield each
        yield from every(each.within)


def as_values(sections: Sequence[ReportSection]) -> list[dict[str, Any]]:
    """The same for programs: what a section has, by the names of :class:`ReportSection`, and a picture by its text."""
    return [_values(each) for each in sections]


def _values(section: ReportSection) -> dict[str, Any]:
    values = {
        "title": section.title,
        "key": section.key,
        "sentences": list(section.sentences),
        "lines": [list(line) for line in section.lines],
        "table": [dict(row) for row in section.table],
        "picture": "" if section.picture is None else section.picture.text,
        "code": section.code,
        "within": as_values(section.within),
        "source": section.source,
    }
    return {name: value for name, value in values.items() if value}
