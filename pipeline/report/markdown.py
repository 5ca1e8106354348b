"""The report for a run page: tables, and pictures as data, so that nothing is fetched."""

from __future__ import annotations

from collections.abc import Sequence

from blockveil.pipeline.base.printable import as_code, as_markdown
from blockveil.pipeline.report import facts as found
from blockveil.pipeline.report import promises, technical_rows
from blockveil.pipeline.report.facts import Facts, Rows
from blockveil.pipeline.report.markup import data_uri
from blockveil.pipeline.report.pictures import CARD, Picture

_WIDEST = 80
"""Longest value in a table."""


def summary(facts: Facts, budget: Rows, path: str, report: str) -> str:
    """What was released, what it promises, how exact it is, and where it lies."""
    sections = [
        f"# {as_markdown(facts.title)}",
        *([f"**{as_markdown(found.finding(facts))}**"] if facts.nothing else []),
        f"> {as_markdown(facts.attributes['guarantee']['sentence'])}",
        *([] if (text := promises.too_large(facts)) is None else [f"**Warning**: {as_markdown(text)}"]),
        pairs([*found.error_lines(facts), *found.spectrum_lines(facts), *budget]),
        f"Release: {as_code(path)}\n\nReport: {as_code(report)}",
    ]
    return "\n\n".join(sections) + "\n"


def guarantee(facts: Facts) -> str:
    """The guarantee: in words, and what an engineer checks."""
    sentence, *words = promises.promises(facts)
    words += [text for text in (promises.too_large(facts),) if text is not None]
    words.append(promises.not_protected(facts))
    text = "\n\n".join([f"> {as_markdown(sentence)}", *map(as_markdown, words)])
    return f"{text}\n\n{pairs(technical_rows.guarantee_rows(facts))}\n\n{pairs(technical_rows.origin_rows(facts))}\n"


def image(picture: Picture) -> str:
    """A picture and its text."""
    text = as_markdown(picture.text)
    return f"![{text}]({data_uri(picture.draw(CARD))})\n\n{text}\n"


def pairs(rows: Rows) -> str:
    """A table of two columns; a list where a value is long, because a table on a run page does not wrap."""
    if any(len(value) > _WIDEST for _, value in rows):
        return "\n".join(f"- **{as_markdown(what)}**: {as_markdown(value)}" for what, value in rows)
    return "| | |\n|---|---|\n" + "\n".join(f"| {as_markdown(what)} | {as_markdown(value)} |" for what, value in rows)


def grid(rows: Sequence[dict[str, str]]) -> str:
    """A table of rows."""
    names = list(rows[0])
    cells = [names, *([row[name] for name in names] for row in rows)]
    lines = [[as_markdown(text) for text in line] for line in cells]
    lines.insert(1, ["---"] * len(names))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
