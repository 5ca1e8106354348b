"""Errors a caller can act on: one class for each thing to do, each with the value, the rule and the remedy.

A message never holds a data value, a key, a row count or the text of a foreign exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self, TypeVar

from blockveil.pipeline.base.printable import printable, short

T = TypeVar("T")

_LONGEST_WORD = 120
_LONG_RULE = 200
"""Letters of a rule that is not said twice."""

_MOST_SHOWN = 50


class BlockveilError(Exception):
    """Base of all errors that are shown to a person.

    Parameters
    ----------
    value
        What was found.
    rule
        What must hold.
    remedy
        What to do.

    Attributes
    ----------
    exit_code
        Exit code of the command line.
    passes
        Whether what was found may end without anybody's doing, so that another try may succeed.
    """

    exit_code: ClassVar[int] = 1
    passes: ClassVar[bool] = False

    def __init__(self, value: str, rule: str, remedy: str) -> None:
        super().__init__(value, rule, remedy)
        self.value, self.rule, self.remedy = _plain(value), _plain(rule), _plain(remedy)

    def __str__(self) -> str:
        """Two lines: what is wrong and why, then what to do."""
        end = "" if self.remedy.endswith("?") else "."
        return f"{self.value}. {self.rule}.\n{self.remedy}{end}"

    @property
    def in_full(self) -> str:
        """The error for a terminal, with every problem where several were found at once."""
        return str(self)


def guard(
    work: Callable[[], T],
    failure: Callable[[Any], BlockveilError],
    kinds: type[Exception] | tuple[type[Exception], ...] = Exception,
) -> T:
    """Return what some work returns; an error that is none of ours becomes the failure that is made of it.

    Its text may quote a record or a key, so the failure is raised outside of the handler: it carries nothing of it.

    Parameters
    ----------
    work
        The work.
    failure
        Makes the failure from the error, of which it says no more than the kind.
    kinds
        Errors that are taken; others pass.
    """
    try:
        return work()
    except BlockveilError:
        raise
    except kinds as error:
        refusal = failure(error)
    raise refusal


def _plain(text: str) -> str:
    """Text without what steers a terminal, and with words of a bearable length: it may quote a config or a path."""
    return re.sub(r"\S+", lambda word: short(word[0], _LONGEST_WORD), printable(text))


class SeveralProblems(BlockveilError):
    """An error that may be of several problems, which are told together.

    Parameters
    ----------
    value, rule, remedy
        See :class:`BlockveilError`.
    others
        Further problems, in the order in which a person meets them.
    """

    def __init__(self, value: str, rule: str, remedy: str, others: Sequence[Self] = ()) -> None:
        super().__init__(value, rule, remedy)
        self.args = (value, rule, remedy, tuple(others))
        self.others = tuple(others)
        for other in self.others[: _MOST_SHOWN - 1]:  # a traceback, which is what a notebook shows, has all of them too
            self.add_note(str(other))

    def __str__(self) -> str:
        """Two lines, and how many more problems there are."""
        text = super().__str__()
        return f"{text.removesuffix('.')} ({len(self.others)} more to correct)." if self.others else text

    @property
    def each(self) -> tuple[Self, ...]:
        """All problems, each as an error of its own."""
        return type(self)(self.value, self.rule, self.remedy), *self.others

    @property
    def in_full(self) -> str:
        """All problems, numbered; a long rule is said once."""
        if not self.others:
            return str(self)
        first_numbers: dict[str, int] = {}
        texts = [each._after(first_numbers, number) for number, each in enumerate(self.each, start=1)]
        lines = [f"{number}. {text}".replace("\n", "\n   ") for number, text in enumerate(texts[:_MOST_SHOWN], start=1)]
        remainder = len(texts) - len(lines)
        more = [f"({remainder} more)"] if remainder else []
        return "\n".join([f"there are {len(texts)} problems.", *lines, *more])

    def _after(self, told: dict[str, int], number: int) -> str:
        """The problem as one of several; a long rule that another one has told is only named."""
        first = told.setdefault(self.rule, number)
        if first == number or len(self.rule) <= _LONG_RULE:
            return super().__str__()
        return f"{self.value}. The rule is that of {first}."


class ConfigError(SeveralProblems):
    """The config or a parameter is not usable."""

    exit_code = 2


class BudgetExhausted(BlockveilError):
    """The data set's budget does not hold the release."""

    exit_code = 3


class DataError(SeveralProblems):
    """The records do not fit their declaration."""

    exit_code = 4


class ForOperator(DataError):
    """Records are not as declared, and what is wrong with them is for the person at the terminal alone.

    Its text, which enters logs and states of runs, says nothing of what was found.
    """

    def __init__(self, value: str, rule: str, remedy: str) -> None:
        super().__init__(
            "The ingest refused its source",
            "What is wrong with records is shown to a person at a terminal alone",
            "Run `blockveil ingest` of the same config at a terminal; it says what is wrong",
        )
        self._found = DataError(value, rule, remedy)

    def __reduce__(self) -> tuple[type[ForOperator], tuple[str, str, str]]:
        """Travel between processes; what is printed of an error, its arguments too, says nothing of what was found."""
        return type(self), (self._found.value, self._found.rule, self._found.remedy)

    @property
    def at_terminal(self) -> str:
        """What is wrong, for a person at a terminal."""
        return str(self._found)


class ReleaseConflict(BlockveilError):
    """The same release exists with other data or another config."""

    exit_code = 5

    def __init__(self, value: str, rule: str, remedy: str, differences: Sequence[str]) -> None:
        super().__init__(value, rule, remedy)
        self.differences = list(differences)

    def __reduce__(self) -> tuple[type[ReleaseConflict], tuple[str, str, str, list[str]]]:
        """Travel between processes with the differences."""
        return type(self), (self.value, self.rule, self.remedy, self.differences)


class LedgerError(BlockveilError):
    """The ledger cannot be used, or an entry would break its rules."""

    exit_code = 6


class StoreError(BlockveilError):
    """A store, a disk or a permission is in the way."""

    exit_code = 7


class StoreUnreachable(StoreError):
    """A store does not answer, or answers with a failure: later it may."""

    passes = True


class DiskFull(StoreError):
    """A disk or a quota is full."""

    passes = True


class NotPermitted(StoreError):
    """A store or a folder says nothing to this account, so that nobody knows what is there."""


class ComputeError(BlockveilError):
    """The computation failed; only the kind of failure and a number to look it up are known here."""

    exit_code = 8
    passes = True

    def __init__(self, kind: str, error_id: str) -> None:
        super().__init__(
            f"The computation failed with {kind} (error {error_id})",
            "Details could quote a record, so they are not shown",
            "Run again; the release resumes where that is safe. If it persists, check workers and memory",
        )
        self.kind, self.error_id = kind, error_id

    def __reduce__(self) -> tuple[type[ComputeError], tuple[str, str]]:
        """Travel between processes."""
        return type(self), (self.kind, self.error_id)


class KeyLost(BlockveilError):
    """The noise key of a committed charge is gone; the release cannot be completed with it."""

    exit_code = 9
