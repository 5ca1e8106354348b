"""Answers about many columns at once: several names, a pattern of names, and everything else.

``height, weight: 0 to 300`` is about two columns, ``q*: 1 to 5`` about all whose names begin with q, and ``*: unknown``
about all columns that no other answer is about.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from typing import Any

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.scaffold.column_answers import CODES

SKIP = ("", "skip", "-")
"""Answers that leave a column out."""

_ANY = "*"


def column_lines(text: str) -> dict[str, str]:
    """Answers about columns from lines such as ``age: 0 to 120``, by what stands before the colon.

    Raises
    ------
    ConfigError
        A line names no column, or the same ones as another line.
    """
    answers: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        head, mark, words = line.partition(":") if ":" in line else line.partition("=")
        head, words = head.strip(), words.strip()
        if re.fullmatch(r'"[^"]*"', head):
            head = head.strip('"')
        if not mark or not head:
            raise ConfigError(
                f'"{line.strip()[:60]}" names no column',
                "A line is a name, a colon and what it holds",
                "Write age: 0 to 120",
            )
        if head in answers:
            raise ConfigError(f'Two lines are about "{head}"', "Each column is described once", "Remove one")
        answers[head] = words
    return answers


def is_skip(answer: Any) -> bool:
    """Whether an answer leaves a column out."""
    return isinstance(answer, str) and answer.strip().lower() in SKIP


def each_column(answers: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The answer about each column, in the order in which they were given.

    Parameters
    ----------
    answers
        Answers by the name of a column, by several names with commas between them, or by a pattern, in which ``*``
        stands for any text. A name comes before a pattern, and a pattern before those that follow it.
    names
        Columns that can be released. A name that is none of them is kept as it is, to be refused by its name.

    Raises
    ------
    ConfigError
        No column has a name like the pattern, or a column is named twice.
    """
    heads = {head: parts(str(head), names) for head in answers}
    explicit = [part for patterns in heads.values() for part in patterns if part in names or _ANY not in part]
    for name in explicit:
        if explicit.count(name) > 1:
            raise ConfigError(f'Two answers are about "{name}"', "Each column is described once", "Remove one")
    by_column: dict[str, Any] = {}
    with_answer = set(explicit)
    for head, patterns in heads.items():
        for part in patterns:
            columns = [part] if part in with_answer else _like(part, names, with_answer)
            by_column |= dict.fromkeys(columns, answers[head])
            with_answer |= set(columns)
    return by_column


def head_of(line: str, names: Sequence[str]) -> tuple[str, str] | None:
    """What a typed line is about, and what it says of that; None for an answer alone."""
    for colon in re.finditer(":", line):
        head = line[: colon.start()].strip()
        if all(part in names or _ANY in part for part in parts(head, names)):
            return head, line[colon.end() :].strip()
    if ":" not in line or line.startswith('"'):
        return None
    head, _, words = line.partition(":")
    if head.strip().lower() == CODES:
        return None
    return head.strip(), words.strip()  # no column has this name, which is reported where it is checked


def parts(head: str, names: Sequence[str]) -> list[str]:
    """Names and patterns that stand before a colon; the name of a column may hold commas itself."""
    if head in names:
        return [head]
    return [part.strip() for part in next(csv.reader([head], skipinitialspace=True), [])] or [head]


def _like(pattern: str, names: Sequence[str], taken: set[str]) -> list[str]:
    """Columns that a pattern is about: those like it that no answer is about so far."""
    regex = re.compile(".*".join(map(re.escape, pattern.split(_ANY))), re.DOTALL)
    like = [name for name in names if regex.fullmatch(name)]
    if not like:
        raise ConfigError(
            f'columns: "{pattern[:60]}"',
            "No column that can be released has a name like it",
            "Write a name as the source has it; * stands for any text",
        )
    return [name for name in like if name not in taken]
