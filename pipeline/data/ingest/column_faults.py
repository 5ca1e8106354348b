"""A column of a source that does not hold what is declared, in words without a value of it."""

from __future__ import annotations

from blockveil.pipeline.base.errors import DataError


class Unfit(Exception):
    """A column does not hold what is declared.

    Attributes
    ----------
    column
        Name of the column.
    problem, rule, remedy
        What was found, without a value, what must hold, and what to do.
    """

    def __init__(self, column: str, problem: str, rule: str, remedy: str = "Correct the config or the source") -> None:
        super().__init__(column, problem, rule, remedy)
        self.column, self.problem, self.rule, self.remedy = column, problem, rule, remedy


class ColumnFault(DataError):
    """A file of a source does not hold what is declared of one column."""

    column: str = ""

    @classmethod
    def of(cls, column: str, value: str, rule: str, remedy: str) -> ColumnFault:
        """The fault of a column; the others as of :class:`.BlockveilError`."""
        fault = cls(value, rule, remedy)
        fault.column = column
        return fault
