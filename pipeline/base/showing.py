"""Rows of facts as text and as HTML, for a terminal and for a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class FactSheet(ABC):
    """What shows itself as rows of facts below a title: in a terminal as text, in a notebook as a table."""

    @property
    @abstractmethod
    def _title(self) -> str: ...

    @abstractmethod
    def rows(self) -> FactRows:
        """What is shown, and its value."""

    def __str__(self) -> str:
        """Return the facts, one line each."""
        return as_text(self._title, self.rows())

    def _repr_html_(self) -> str:
        return as_page_part(self._title, self.rows())
