"""Answers that are given all at once, by a file or a call: all that is wrong or open is named at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.scaffold.answers import OF_PURPOSES, Answers
from blockveil.pipeline.scaffold.column_names import SourceColumns
from blockveil.pipeline.scaffold.interview import checked, open_questions, together

_JUDGED_BY = {
    "unit_column": ("unit_type", "rows_per_unit", "row_count_public", "columns"),
    "rows_per_unit": ("row_count_public",),
    "row_count_public": ("missing",),
    "purpose": tuple(OF_PURPOSES),
    "columns": ("ways", "directions", "target"),
    "until": ("every",),
    "rows_at_most": ("examples",),
}
"""Answers that nobody can judge, nor miss, while another one is wrong."""


def all_answered(source: SourceColumns, values: Mapping[str, Any]) -> Answers:
    """Answers that leave no question open.

    An answer that is wrong is set aside, so that the others are held against each other's rules.

    Raises
    ------
    ConfigError
        With each answer that cannot be and each that is missing.
    """
    problems: list[ConfigError] = []
    aside: set[str] = set()
    verdict = checked(Answers(), source, values)
    while verdict.answers is None:
        problems += verdict.problems
        more = {key for at_fault in verdict.at_fault for key in (at_fault, *_JUDGED_BY.get(at_fault, ()))}
        if more <= aside:
            raise together(problems)
        aside |= more
        verdict = checked(Answers(), source, {key: value for key, value in values.items() if key not in aside})
    problems += [error for key, error in open_questions(verdict.answers, source).items() if key not in aside]
    if problems:
        raise together(problems)
    return verdict.answers
