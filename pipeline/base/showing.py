"""Rows of facts as text and as HTML, for a terminal and for a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from blockveil.pipeline.base.printable import as_html, one_line

FactRows = Sequence[tuple[str, str]]


def as_text(title: str, rows: FactRows) -> str:
    """Aligned lines below a title."""
    width = max((len(what) for what, _ in rows), default=0)
    return "\n".join([one_line(title), *(f"{one_line(what).ljust(width)}  {one_line(value)}" for what, value in rows)])


def as_page_part(title: str, rows: FactRows) -> str:
    """A table for a notebook: text alone, without script, style sheet or link."""
    cells = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{as_html(what)}</th>'
        f'<td style="text-align:left">{as_html(value)}</td></tr>'
        for what, value in rows
    )
    return f"<div><p><strong>{as_html(title)}</strong></p><table><tbody>{cells}</tbody></table></div>"
