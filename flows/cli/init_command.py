"""``blockveil init``: from the names of columns and a few answers to the configs of a first release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from blockveil.flows.cli.column_questions import ColumnQuestions
from blockveil.flows.cli.common import Date, Json, parse_date, print_json, print_rows, say, say_sentence
from blockveil.flows.cli.typed_words import BACK, MORE, Back, said_yes, typed
from blockveil.pipeline.accuracy.good_enough import AccuracyQuestion, GoodEnough, good_enough
from blockveil.pipeline.accuracy.population import Supposed
from blockveil.pipeline.base.errors import BlockveilError, ConfigError
from blockveil.pipeline.config.toml import read_toml
from blockveil.pipeline.plan import summary
from blockveil.pipeline.scaffold import interview
from blockveil.pipeline.scaffold.answers import Answers
from blockveil.pipeline.scaffold.folder import BegunFolder, FirstRelease, begin, compose
from blockveil.pipeline.scaffold.interview import Decision, answered
from blockveil.pipeline.scaffold.promised import levels
from blockveil.pipeline.scaffold.written_folder import write

GuessedRows = Annotated[
    int | None,
    typer.Option("--rows", min=1, help="Assumed number of records, to predict how exact the release would be."),
]
_OF_ALL = ("target", "directions", "ways")
"""Answers that are about all columns together."""


def init(
    source: Annotated[
        str | None,
        typer.Argument(
            help="File, folder or pattern of the records, a Delta or Iceberg table, or DATABASE/TABLE.",
            show_default=False,
        ),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option("--answers", help="File of answers, TOML; only the remaining questions are asked.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: every answer is in the file.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Folder to write; named after the source by default.")
    ] = None,
    rows: GuessedRows = None,
    new_budget: Annotated[
        str | None,
        typer.Option(help="Why people whose records another ledger pays for get a second budget; kept in the ledger."),
    ] = None,
    date: Date = None,
    as_json: Json = False,
) -> None:
    """Write the configs of a first release. Reads the names of the columns and nothing else.

    Asks for what only a person can decide, each answer public. Ends with the plan of the first night, and with the
    commands that make it.
    """
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
    draft = begin(location, tree, Path.cwd(), output, parse_date(date), whole=yes, new_budget=new_budget)
    release = compose(draft, draft.given) if yes else _Asking(draft, rows).made()
    accuracy = good_enough(release.plan, AccuracyQuestion(Supposed(rows), rhythm=release.rhythm))
    write(release)
    if as_json:
        next_steps = [{"command": command, "why": why} for command, why in release.commands]
        print_json(
            {
                "folder": release.folder,
                "columns": dict(release.understood),
                "joins": dict(release.budget),
                "next": next_steps,
                **release.plan.public,
                "accuracy": accuracy.plain,
            }
        )
    else:
        _show(release, accuracy)


class _Asking:
    """Somebody at a terminal, who may go back to an earlier question."""

    def __init__(self, begun: BegunFolder, rows: int | None) -> None:
        """Ask what is open of a release that is begun, and hold it against a guess of the number of records."""
        self._begun, self._source, self._rows = begun, begun.source, rows
        self._given: list[Answers] = [begun.given]

    def made(self) -> FirstRelease:
        """The release that follows from the answers."""
        if self._source.names:
            names = ", ".join(self._source.names)
            say_sentence(f"The source has {len(self._source.names)} columns: {names}. Nothing else of it was read.")
        if self._begun.earlier is not None:
            say_sentence(
                f'"{self._begun.earlier.release.path}" reads the same source. This question joins its ledger and its '
                "budget; only what is new is asked."
            )
        say_sentence(
            f"Type {MORE} for help with a question, and {BACK} to go back to the one before. Every answer is public, "
            "and must not be taken from the records.\n"
        )
        while True:
            self._ask()
            try:
                release = compose(self._begun, self._given[-1])
                if self._confirmed(release):
                    return release
                self._back_to_columns()
            except ConfigError as error:
                if len(self._given) == 1:
                    raise
                say_sentence(f"  {interview.at_question(error)}\n  The last question once more:")
                self._given.pop()

    def _confirmed(self, made: FirstRelease) -> bool:
        """Show how the columns were understood, before anything is written; whether that is right."""
        say("\nThis is what was understood:")
        print_rows([(f"  {name}", words) for name, words in (*made.understood, *made.budget)])
        more = "Nothing is written before you say yes. Say no to describe the columns again."
        return said_yes("Is this right? (yes or no)", more)

    def _back_to_columns(self) -> None:
        """Ask about the columns again."""
        if self._given[0].columns is not None:
            raise ConfigError(
                "The columns are not as meant",
                "They are described in the file of answers",
                "Correct its [columns] and run init again; nothing was written",
            )
        while self._given[-1].columns is not None:
            self._given.pop()

    def _ask(self) -> None:
        """Ask until no question is open."""
        while (question := next(interview.due(self._given[-1], self._source), None)) is not None:
            try:
                self._given.append(self._answer(self._given[-1], question))
                if question.key == "every" and question.due(self._given[-1], self._source):
                    say_sentence(
                        f"  Until when? Write the last night too, such as {self._given[-1].every} until 2026-12-31."
                    )
            except Back:
                if len(self._given) == 1:
                    say("  This is the first question.")
                else:
                    self._given.pop()

    def _answer(self, given: Answers, question: Decision) -> Answers:
        """Ask one question until an answer can be."""
        for line in self._levels(given) if question.key == "strictness" else ():
            say_sentence(f"  {line}")
        if question.key == "columns":
            say_sentence(f"{question.text}\n  {question.help}")
        while True:
            try:
                answers = answered(given, self._source, self._values(given, question))
                interview.require_room(answers, self._rows)
                return answers
            except BlockveilError as error:
                say_sentence(f"  {interview.at_question(error)}")

    def _levels(self, given: Answers) -> list[str]:
        """What follows from the answers so far, and what each level of the last one would promise."""
        follows = [f"{line}." for line in given.consequences]
        head = ["This follows from the answers, unless a file of answers says otherwise:", *follows] if follows else []
        return [*head, *levels(self._begun, given)]

    def _values(self, given: Answers, question: Decision) -> Mapping[str, Any]:
        if question.key == "columns":
            return {"columns": self._columns(given)}
        return question.read(typed(question.text, question.suggestion(given), question.help))

    def _columns(self, given: Answers) -> dict[str, str]:
        """Ask about each column that can be released."""
        # Of few columns so far a target may be missing yet, and there may be fewer than directions.
        without = given.model_copy(update=dict.fromkeys(_OF_ALL))

        def check(columns: Mapping[str, str]) -> None:
            if columns:
                answered(without, self._source, {"columns": columns, **dict.fromkeys(_OF_ALL)})

        names = interview.released(self._source.names or given.names or (), given.unit_column)
        return ColumnQuestions(names, check, given.counted).answers()


def _show(made: FirstRelease, accuracy: GoodEnough) -> None:
    say("")
    print_rows([*made.budget, *made.understood])
    say("")
    print_rows(summary.describe(made.plan, None))
    say("")
    print_rows(accuracy.lines)
    say(f"\nWritten: {made.folder}. What to do next:\n")
    for command, why in made.commands:
        say(f"  {command}   # {why}")
