"""``blockveil init``: from the names of columns and a few answers to the configs of a first release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from blockveil.flows.cli.common import Date, Debug, Json, parse_date, print_json, print_rows, say
from blockveil.pipeline.accuracy.good_enough import AccuracyQuestion, GoodEnough, good_enough
from blockveil.pipeline.accuracy.population import Supposed
from blockveil.pipeline.base.errors import BlockveilError, ConfigError
from blockveil.pipeline.config.toml import read_toml
from blockveil.pipeline.plan import summary
from blockveil.pipeline.scaffold import interview
from blockveil.pipeline.scaffold.answers import Answers
from blockveil.pipeline.scaffold.column_answers import HELP
from blockveil.pipeline.scaffold.column_names import SourceColumns
from blockveil.pipeline.scaffold.folder import FirstRelease, begin, compose, write
from blockveil.pipeline.scaffold.interview import Decision, answered

GuessedRows = Annotated[
    int | None, typer.Option("--rows", help="A guess of the number of records, to say how exact the release would be.")
]
_MORE = "?"


def init(
    source: Annotated[
        str | None,
        typer.Argument(help="File, folder or pattern of the records, or DATABASE/TABLE.", show_default=False),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option("--answers", help="File of answers, TOML; only what it leaves open is asked.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: every answer is in the file.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Folder to write; named after the source where it is not given.")
    ] = None,
    rows: GuessedRows = None,
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
    begun = begin(location, tree, Path.cwd(), output, parse_date(date))
    given = begun.given
    if yes:
        interview.require_complete(given, begun.source)
    else:
        given = _ask(given, begun.source)
    made = compose(given, begun.source, begun.folder, Path.cwd())
    accuracy = good_enough(made.plan, AccuracyQuestion(Supposed(rows)))
    write(made)
    if as_json:
        next_steps = [{"command": command, "why": why} for command, why in made.commands]
        print_json({"folder": made.folder, "next": next_steps, **made.plan.public, "accuracy": accuracy.plain})
    else:
        _show(made, accuracy)


def _ask(given: Answers, source: SourceColumns) -> Answers:
    if source.names:
        say(f"The source has {len(source.names)} columns: {', '.join(source.names)}. Nothing else of it was read.")
    say(f"Type {_MORE} for help with a question. Every answer is public, and must not be taken from the records.\n")
    while (question := next(interview.due(given, source), None)) is not None:
        if question.key == "strictness":
            for line in interview.levels(given):
                say(f"  {line}")
        given = _columns(given, source, question) if question.key == "columns" else _answer(given, source, question)
    return given


def _answer(given: Answers, source: SourceColumns, question: Decision) -> Answers:
    """Ask until an answer can be."""
    while True:
        words = _words(question.text, question.suggestion(given), question.help)
        try:
            return answered(given, source, question.read(words))
        except BlockveilError as error:
            say(f"  {error}")


def _columns(given: Answers, source: SourceColumns, question: Decision) -> Answers:
    """Ask about each column that can be released."""
    say(f"{question.text}\n  {question.help}")
    while True:
        found: dict[str, str] = {}
        for name in source.names or given.names or ():
            if name != given.unit_column and (words := _column(given, source, found, name)) is not None:
                found[name] = words
        try:
            return answered(given, source, {"columns": found})
        except BlockveilError as error:
            say(f"  {error}\n  Once more:")


def _column(given: Answers, source: SourceColumns, so_far: Mapping[str, str], name: str) -> str | None:
    without = given.model_copy(update={"target": None, "directions": None})
    while True:
        words = _words(f"  {name}", "skip", HELP)
        if words.lower() in interview.SKIP:
            return None
        try:
            answered(without, source, {"columns": {**so_far, name: words}, "target": None, "directions": None})
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


def _show(made: FirstRelease, accuracy: GoodEnough) -> None:
    say("")
    print_rows(summary.describe(made.plan, None))
    say("")
    print_rows(accuracy.lines)
    say(f"\nWritten: {made.folder}. What to do next:\n")
    for command, why in made.commands:
        say(f"  {command}   # {why}")
