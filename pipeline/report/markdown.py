"""Sections as markdown for a run page: tables, and pictures as data, so that nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blockveil.pipeline.base.printable import as_code, as_markdown
from blockveil.pipeline.report import words
from blockveil.pipeline.report.facts import Facts, Rows, finding
from blockveil.pipeline.report.papers import CARD, Picture
from blockveil.pipeline.report.report_sections import Cell, ReportSection

_MARKS = {"promise": ("> ", ""), "list": ("- ", ""), "warning": ("**Warning**: ", ""), "finding": ("**", "**")}
_WIDEST = 80
"""Longest value in a table."""


def text_of(section: ReportSection, level: int = 2) -> str:
    """A section under a heading of its level, and those within it."""
    before, after = _MARKS.get(section.look, ("", ""))
    parts = [
        *([f"{'#' * level} {as_markdown(section.title)}"] if section.title else []),
        *(f"{before}{as_markdown(sentence)}{after}" for sentence in section.sentences),
        *([pairs(section.lines)] if section.lines else []),
        *([image(section.picture)] if section.picture is not None else []),
        *([as_markdown(section.caption)] if section.caption else []),
        *([grid(section.table)] if section.table else []),
        *(as_code(line) for line in section.code.splitlines()),
        *(text_of(each, level + 1) for each in section.within),
    ]
    return "\n\n".join(parts)


def summary(facts: Facts, rows: Rows, path: str, report: str) -> str:
    """What was released, what it promises, how exact it is, and where it lies.

    Parameters
    ----------
    facts
        The release.
    rows
        Lines of its noise and signal, and of its budget.
    path, report
        Where the release and its page lie.
    """
    large, guarantee = words.too_large(facts), facts.attributes["guarantee"]["sentence"]
    first = [
        *([ReportSection(sentences=[finding(facts)], look="finding")] if facts.nothing else []),
        ReportSection(sentences=[guarantee], look="promise"),
        *([] if large is None else [ReportSection(sentences=[large], look="warning")]),
        ReportSection(lines=rows),
    ]
    text = text_of(ReportSection(title=facts.title, within=first), 1)
    return f"{text}\n\nRelease: {as_code(path)}\n\nReport: {as_code(report)}\n"


def image(picture: Picture) -> str:
    """A picture and its text."""
    text = as_markdown(picture.text)
    return f"![{text}]({picture.address(CARD)})\n\n{text}\n"


def pairs(rows: Sequence[tuple[str, ...]]) -> str:
    """A table of two columns; a list where a value is long, because a table on a run page does not wrap."""
    if any(len(value) > _WIDEST for _, value, *_ in rows):
        return "\n".join(f"- **{as_markdown(what)}**: {as_markdown(value)}" for what, value, *_ in rows)
    return "| | |\n|---|---|\n" + "\n".join(
        f"| {as_markdown(what)} | {as_markdown(value)} |" for what, value, *_ in rows
    )


def grid(rows: Sequence[Mapping[str, Cell]]) -> str:
    """A table of rows."""
    names = list(rows[0])
    cells = [names, *([str(row[name]) for name in names] for row in rows)]
    lines = [[as_markdown(text) for text in line] for line in cells]
    lines.insert(1, ["---"] * len(names))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
