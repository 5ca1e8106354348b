"""Declared lists of categories of which a source held no value: a list that was meant as a range looks so.

Whether a list was matched is private. It is told to the person at the terminal, whom it keeps from paying for a column
of zeros, and to nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable

from blockveil.pipeline.base.errors import ForOperator
from blockveil.pipeline.config.ingest_columns import CategoryColumn
from blockveil.pipeline.config.ingest_file import IngestConfig


class MatchedLists:
    """Columns of which a value was in their list."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __repr__(self) -> str:
        """Show nothing."""
        return "MatchedLists()"

    @property
    def so_far(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(sorted(self._names))

    def add(self, names: Iterable[str]) -> None:
        """Take in further names."""
        self._names.update(names)

    def require(self, config: IngestConfig) -> None:
        """Refuse a source of which some list had no value at all; ForOperator with the first such column."""
        for column in config.columns:
            if isinstance(column, CategoryColumn) and column.name not in self._names:
                raise ForOperator(
                    f'No value of column "{column.name}" is in its declared list of categories',
                    "A list names values as the source has them, letter for letter; a range is a column of numbers",
                    "Correct its categories, or declare another kind of column",
                )
