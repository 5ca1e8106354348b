"""The flow that writes the configs of a first release as text, from pasted names. It reads no file and writes none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Literal

from prefect import flow, runtime
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed

from blockveil.flows.runs import deployed
from blockveil.flows.runs.steps import Steps, Stopped
from blockveil.pipeline.base.printable import as_markdown
from blockveil.pipeline.base.spelling import UnitType
from blockveil.pipeline.plan import summary
from blockveil.pipeline.scaffold import interview
from blockveil.pipeline.scaffold.answers import Every, PurposeName
from blockveil.pipeline.scaffold.column_names import SourceColumns, pasted
from blockveil.pipeline.scaffold.folder import BegunFolder, FirstRelease, compose
from blockveil.pipeline.scaffold.many_columns import column_lines
from blockveil.pipeline.scaffold.promised import levels
from blockveil.pipeline.scaffold.whole_answers import all_answered

_FOLDER = Path("/my-release")
"""Stands for the folder that the files will be put into; nothing is looked up there."""


def _run_name() -> str:
    return f"first configs for {runtime.flow_run.parameters['dataset']}"


# Prefect's own check would name neither the value nor what to do: the flow checks.
@flow(
    name="init",
    flow_run_name=_run_name,
    validate_parameters=False,
    persist_result=False,
    log_prints=False,
    retries=0,
)
def init(
    dataset: str,
    names: str,
    columns: str,
    rows_at_most: int,
    purpose: PurposeName,
    strictness: str,
    every: Every,
    unit_column: str,
    row_count_public: bool,
    until: date | None = None,
    unit: str | None = None,
    missing: Literal["drop", "refuse"] | None = None,
    unit_type: UnitType | None = None,
    rows_per_unit: str | None = None,
    directions: int | None = None,
    target: str | None = None,
    ways: int | None = None,
    examples: int | None = None,
    timezone: str = "UTC",
    first: date | None = None,
) -> State[Any]:
    """Write the configs of a first release as text, to be copied into a reviewed folder. Reads no file.

    Args:
        dataset: Name of the data set, in lower-case letters, digits and dashes.
        names: The header line of the source, or the names of its columns, one a line. Never values.
        columns: What is known of each column without looking, a line each, such as `age: 0 to 120`.
        rows_at_most: A public bound on the number of records.
        purpose: What it is for.
        strictness: strict, usual, loose, or numbers such as `epsilon 1 delta 1e-7`, over all nights together.
        every: How often it is released.
        unit_column: The column that says whom a row is about, or `row` where each row is somebody of its own.
        row_count_public: Whether everybody may know the exact number of records.
        until: The last night; empty for a single one.
        unit: Who or what the release protects, such as "one patient"; empty to name it after its column.
        missing: What becomes of a record with a missing number; empty to drop it unless their number is public.
        unit_type: What that column holds, `whole` numbers or `text`; empty where each row is somebody of its own.
        rows_per_unit: At most how many rows of each are kept, or `average`.
        directions: How many principal directions.
        target: The column that a model predicts.
        ways: Of tables, how many columns each of them is over.
        examples: Of training, about how many records there are, a public guess.
        timezone: The time zone of the nights.
        first: The first night. Empty means the day of the run.
    """
    steps = Steps()
    words = dict(locals())
    try:
        made = steps.run("write the configs", lambda: _compose(words))
    except Stopped as stopped:
        return stopped.state
    return Completed(message=f"Configs for {made.plan.release_id}: nothing was read, charged or released.")


def _compose(words: dict[str, Any]) -> FirstRelease:
    here = deployed.of_run()
    source = SourceColumns("records.csv", "csv", pasted(str(words["names"])))
    values = {key: words[key] for key in _AS_GIVEN if words[key] is not None}
    values |= {"first": words["first"] or here.night(), "columns": column_lines(str(words["columns"]))}
    for key in ("rows_per_unit", "strictness"):
        if words[key] is not None:
            question = next(each for each in interview.DECISIONS if each.key == key)
            values |= question.read(str(words[key]))
    given = all_answered(source, _dated(values))
    begun = BegunFolder(given, source, _FOLDER / str(given.dataset), _FOLDER)
    made = compose(begun, given)
    page = _page(made, levels(begun, given))
    create_markdown_artifact(page, key="first-configs", description="Configs of a first release, as text")
    return made


_AS_GIVEN = (
    "dataset", "unit", "unit_column", "unit_type", "rows_at_most", "row_count_public", "missing", "purpose",
    "directions", "target", "ways", "examples", "every", "until", "timezone",
)  # fmt: skip


def _dated(values: dict[str, Any]) -> dict[str, Any]:
    """A form gives dates as text where nothing has read them yet."""
    return {key: _date(value) if key in ("first", "until") else value for key, value in values.items()}


def _date(value: Any) -> Any:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _page(made: FirstRelease, strict: Sequence[str]) -> str:
    columns, rows = _table(made.understood), _table(summary.describe(made.plan, None))
    listed = "\n".join(f"- {as_markdown(line)}" for line in strict)
    strictness = f"## How strict may the promise be?\n\n{listed}"
    parts = [f"## What was understood\n\n{columns}", f"## What it would cost\n\n{rows}", strictness]
    parts += [f"## {name}\n\n{_fenced(text)}" for name, text in made.files.items() if not name.startswith(".")]
    return "\n\n".join(parts)


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = "\n".join(f"| {as_markdown(what)} | {as_markdown(value)} |" for what, value in rows)
    return f"| | |\n|---|---|\n{lines}"


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}{fence}"
