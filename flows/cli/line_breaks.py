"""Lines that end between words where a terminal does. A file or a program gets each line whole."""

from __future__ import annotations

import shutil
import textwrap
from typing import IO

_LEAST = 40
"""On a terminal of fewer columns there is no room to indent what goes on."""

_HEADS = 24
"""Columns that what a line is about may take, and at most a third of the terminal; a longer one has its own line."""


def columns_of(stream: IO[str]) -> int | None:
    """Columns of the terminal that a stream writes to; None where it writes to none, or to a very narrow one."""
    columns = shutil.get_terminal_size().columns if stream.isatty() else 0
    return columns if columns >= _LEAST else None


def column_of_heads(longest: int, columns: int | None) -> int:
    """How wide the left one of two columns is."""
    return longest if columns is None else min(longest, _HEADS, columns // 3)


def broken(text: str, columns: int | None, indent: int = 0) -> str:
    """Text whose lines end between words; what goes on is indented as the line is. A path is never broken.

    Parameters
    ----------
    text
        Lines, the first of which begins behind ``indent`` further characters.
    columns
        As :func:`columns_of` gives them; lines stay as they are for None.
    indent
        Further characters that each line is indented by.
    """
    if columns is None:
        return text
    lines = []
    for line in text.split("\n"):
        before = len(line) - len(line.lstrip(" "))
        lines += textwrap.wrap(
            line,
            columns - indent,
            subsequent_indent=" " * before,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return ("\n" + " " * indent).join(lines)
