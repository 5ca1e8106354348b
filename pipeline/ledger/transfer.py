"""Entries as text and back: JSON Lines, and events for a lineage catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TextIO

import sqlalchemy as sa

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.ledger.entries import Entry
from blockveil.pipeline.ledger.run_facets import run_events
from blockveil.pipeline.ledger.schema import entry

Form = Literal["jsonl", "openlineage"]

_COLUMNS = {column.name: column for column in entry.columns}

_LONGEST_LINE = 2**28
"""Letters of a line. A config, of which an entry holds a copy, has 2**26 bytes at most; some files have no end."""


def write_rows(rows: Sequence[Mapping[str, Any]], form: Form, stream: TextIO) -> int:
    """Write rows; returns how many rows, or events, were written."""
    lines = [dict(row) for row in rows] if form == "jsonl" else run_events([Entry.of(dict(row)) for row in rows])
    stream.writelines(canonical_json(line).decode() + "\n" for line in lines)
    return len(lines)


def read_rows(stream: TextIO) -> list[dict[str, Any]]:
    """Read rows that :func:`write_rows` wrote as JSON Lines; their chain is not checked here.

    Raises
    ------
    LedgerError
        A line is something else.
    """
    rows = []
    for number, row in enumerate(_parsed(stream), start=1):
        if row is None:
            raise LedgerError(
                f"Entry {number} of the file is not an entry of a ledger",
                "A file to import is an export of a ledger, as JSON Lines",
                "Export the ledger again; other forms cannot be imported",
            )
        rows.append(row)
    return rows


def _parsed(stream: TextIO) -> Iterator[dict[str, Any] | None]:
    try:
        while line := stream.readline(_LONGEST_LINE):
            yield None if len(line) == _LONGEST_LINE else _row(line)
    except UnicodeDecodeError:
        yield None


def _row(line: str) -> dict[str, Any] | None:
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _checked(tree) if isinstance(tree, dict) else None


def _checked(row: dict[str, Any]) -> dict[str, Any] | None:
    """The row, or None where a column is unknown, missing or of another type."""
    complete = row.keys() == _COLUMNS.keys()
    return row if complete and all(_is_of(column, row[name]) for name, column in _COLUMNS.items()) else None


def _is_of(column: sa.Column[Any], value: Any) -> bool:
    if value is None:
        return bool(column.nullable)
    return type(value) is (int if isinstance(column.type, sa.Integer) else str)
