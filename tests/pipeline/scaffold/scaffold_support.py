"""Answers that make a release, and the folder that they make."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from blockveil.pipeline.scaffold.answers import Answers
from blockveil.pipeline.scaffold.column_names import SourceColumns
from blockveil.pipeline.scaffold.folder import BegunFolder, FirstRelease, compose
from blockveil.pipeline.scaffold.interview import answered

NAMES = ("person", "day", "ward", "age", "cost", "urgent")
SCHEMA = SourceColumns("visits.csv", "csv", NAMES)
COLUMNS = {"age": "0 to 120", "cost": "-10.5 to 1e4", "urgent": "yes-no", "ward": "a, b"}
CELLS = {"age": "0 to 120 in 6", "day": "2026-01-01 to 2026-12-31 in 3", "urgent": "yes-no", "ward": "a, b"}

GIVEN: dict[str, Any] = {
    "dataset": "visits",
    "unit": "one person",
    "unit_column": "person",
    "unit_type": "whole",
    "rows_per_unit": 3,
    "rows_at_most": 5000,
    "missing": "drop",
    "columns": COLUMNS,
    "purpose": "correlations",
    "every": "night",
    "first": date(2026, 12, 1),
    "until": date(2026, 12, 31),
    "strictness": "usual",
}

PURPOSES: dict[str, dict[str, Any]] = {
    "correlations": {},
    "totals": {},
    "counts": {"columns": CELLS},
    "tables": {"columns": CELLS, "ways": 2},
    "directions": {"directions": 2},
    "training": {"target": "urgent", "examples": 4000},
    "gradients": {"target": "cost"},
}


def given(**changes: Any) -> Answers:
    """Complete answers, with changes; None takes one away."""
    values = {key: value for key, value in {**GIVEN, **changes}.items() if value is not None}
    return answered(Answers(), SCHEMA, values)


def made(folder: Path, schema: SourceColumns = SCHEMA, **changes: Any) -> FirstRelease:
    """FirstRelease files of answers with changes."""
    answers = given(**changes)
    return compose(BegunFolder(answers, schema, folder / "visits", folder), answers)
