"""``blockveil init``: from the names of columns and a few answers to the configs of a first release."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from blockveil.flows.cli.common import Date, Debug, Json, parse_date, print_answer, say
from blockveil.pipeline.base.errors import BlockveilError, ConfigError
from blockveil.pipeline.config.toml import read_toml
from blockveil.pipeline.plan import summary
from blockveil.pipeline.scaffold import interview
from blockveil.pipeline.scaffold.answers import Answers
from blockveil.pipeline.scaffold.column_answers import HELP
from blockveil.pipeline.scaffold.column_names import SourceColumns, read_columns
from blockveil.pipeline.scaffold.folder import FirstRelease, compose, require_new, write
from blockveil.pipeline.scaffold.interview import Decision, answered

_MORE = "?"


def init(
    source: Annotated[
        str | None,
        typer.Argument(help="File, folder or pattern of the records: CSV, Parquet, NPY or Zarr.", show_default=False),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option("--answers", help="File of answers, TOML; only what it leaves open is asked.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: every answer is in the file.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Folder to write; named after the source where it is not given.")
    ] = None,
    date: Date = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the configs of a first release. Reads the names of the columns and nothing else.

    Asks for what only a person can decide, each answer public. Ends with the plan of the first night, and with the
    commands that make it.
    """
    del debug
    if as_json and not yes:
        raise ConfigError(
            "--json is given without --yes",
            "A program is asked nothing",
            "Give --yes and --answers, or leave out --json",
        )
    tree = {} if answers is None else read_toml(answers, "A file of answers is a TOML file")
    location = source or tree.get("source")
    if not isinstance(location, str):
        raise ConfigError("No source is given", "The configs are for the columns of a source", "Name a file of records")
    schema = read_columns(location, Path.cwd())
    name = _name(output.name if output is not None else location)
    folder = Path.cwd() / (output or Path(name))
    require_new(folder)
    begun = {"dataset": name, "first": parse_date(date), **tree, "source": location}
    given = answered(Answers(), schema, begun)
    if yes:
        interview.require_complete(given, schema)
    else:
        given = _ask(given, schema)
    composed = compose(given, schema, folder, Path.cwd())
    write(composed)
    _show(composed, as_json)


def _name(location: str) -> str:
    """Name of a data set after its source: of ``Flights 2026.csv.gz`` it is ``flights-2026``."""
    stem = Path(location.rstrip("/")).name.partition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:63].strip("-") or "data"


def _ask(given: Answers, schema: SourceColumns) -> Answers:
    if schema.columns:
        say(f"The source has {len(schema.columns)} columns: {', '.join(schema.columns)}. Nothing else of it was read.")
    say(f"Type {_MORE} for help with a question. Every answer is public, and must not be taken from the records.\n")
    while (question := next(interview.due(given, schema), None)) is not None:
        if question.key == "strictness":
            for line in interview.levels(given):
                say(f"  {line}")
        given = _columns(given, schema, question) if question.key == "columns" else _answer(given, schema, question)
    return given


def _answer(given: Answers, schema: SourceColumns, question: Decision) -> Answers:
    """Ask until an answer can be."""
    while True:
        words = _words(question.text, question.suggestion(given), question.help)
        try:
            return answered(given, schema, question.read(words))
        except BlockveilError as error:
            say(f"  {error}")


def _columns(given: Answers, schema: SourceColumns, question: Decision) -> Answers:
    """Ask about each column that can be released."""
    say(f"{question.text}\n  {question.help}")
    while True:
        found: dict[str, str] = {}
        for name in schema.columns or given.names or ():
            if name != given.unit_column and (words := _column(given, schema, found, name)) is not None:
                found[name] = words
        try:
            return answered(given, schema, {"columns": found})
        except BlockveilError as error:
            say(f"  {error}\n  Once more:")


def _column(given: Answers, schema: SourceColumns, so_far: Mapping[str, str], name: str) -> str | None:
    without = given.model_copy(update={"target": None, "directions": None})
    while True:
        words = _words(f"  {name}", "skip", HELP)
        if words.lower() in interview.SKIP:
            return None
        try:
            answered(without, schema, {"columns": {**so_far, name: words}, "target": None, "directions": None})
        except BlockveilError as error:
            say(f"    {error}")
        else:
            return words


def _words(text: str, suggestion: str, more: str) -> str:
    while True:
        found: Any = typer.prompt(text, default=suggestion or None, show_default=bool(suggestion))
        if str(found).strip() != _MORE:
            return str(found).strip()
        say(f"  {more}")


def _show(composed: FirstRelease, as_json: bool) -> None:
    if not as_json:
        say("")
    next_steps = [{"command": command, "why": why} for command, why in composed.commands]
    print_answer(summary.describe(composed.plan, None), as_json, folder=composed.folder, next=next_steps)
    if as_json:
        return
    say(f"\nWritten: {composed.folder}. What to do next:\n")
    for command, why in composed.commands:
        say(f"  {command}   # {why}")
