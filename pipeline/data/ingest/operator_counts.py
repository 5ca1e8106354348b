"""What an ingest counted, and which lists of categories it matched: for the person at the terminal, and kept nowhere.

All of it follows from private values. It enters no file, log, message, state or return value that anything else
reads; a run that went on where another had stopped counts its own share alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base.errors import ForOperator
from blockveil.pipeline.config.ingest_columns import CategoryColumn
from blockveil.pipeline.config.ingest_file import IngestConfig


@dataclass
class OperatorCounts:
    """Private numbers of one ingest.

    Attributes
    ----------
    read
        Rows of the source that were looked at.
    fit
        Those of them that were not left out for their own values.
    stored
        Rows of the store.
    units
        Privacy units with a row that fits; 0 where each row is one.
    over
        Units with more rows than their bound.
    new_files, held_files
        Files of a store that grows: those that this run took in, and those that it held already.
    repeated
        Which file holds rows of which, in words, where the ingest was refused for that.
    """

    read: int = 0
    fit: int = 0
    stored: int = 0
    units: int = 0
    over: int = 0
    new_files: int = 0
    held_files: int = 0
    repeated: str | None = None

    def batch(self, read: int, fit: int) -> None:
        """Count a batch of the source."""
        self.read += read
        self.fit += fit

    def of_units(self, rows: NDArray[np.int64], most: NDArray[np.int64] | None) -> None:
        """Count units by how many rows each has and may have; without a bound none is over it."""
        self.units += rows.size
        self.over += 0 if most is None else int(np.count_nonzero(rows > most))

    def __repr__(self) -> str:
        """Nothing of what was counted."""
        return "OperatorCounts()"

    def sentence(self) -> str:
        """The numbers in words."""
        left_out = self.read - self.fit
        text = f"read {self.read:,} rows, left out {left_out:,} for their own values, stored {self.stored:,} records"
        if self.new_files or self.held_files:
            text = f"new files {self.new_files:,}, files in the store already {self.held_files:,}; {text}"
        if self.units:
            text += f"; {self.units:,} units, {self.over:,} of them with more rows than their bound"
        return f"{text}. These numbers are private: they are shown here, and kept nowhere."


class MatchedLists:
    """Columns of which a value was in their declared list of categories: a list that was meant as a range has none.

    Whether a list was matched keeps the person at the terminal from paying for a column of zeros.
    """

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
