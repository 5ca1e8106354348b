"""``blockveil ingest``: from files of records to the store that releases read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Json, parse_date, parse_day, print_answer, print_message, say_sentence
from blockveil.flows.cli.progress_line import ProgressLine

Config = Annotated[Path, typer.Argument(help="Config file of an ingest, TOML.", show_default=False)]
Before = Annotated[
    str | None,
    typer.Option(
        "--before",
        help="With source.arrival, read the dates before this one, YYYY-MM-DD; today by default.",
    ),
]
Discard = Annotated[bool, typer.Option("--discard", help="Remove what an unfinished ingest left, and do nothing else.")]


def ingest(config: Config, before: Before = None, discard: Discard = False, as_json: Json = False) -> None:
    """Make the store of records that releases read, or append what is new in its source. Spends nothing.

    A run that was killed is finished by running it again.
    """
    from blockveil.pipeline.config.ingest_file import load_ingest
    from blockveil.pipeline.data.ingest import ingest_run, known_sources
    from blockveil.pipeline.data.ingest.arrivals import up_to

    loaded = load_ingest(config)
    if discard:
        leftovers = ingest_run.discard(loaded)
        report = "What an unfinished ingest left is removed." if leftovers else "No unfinished ingest left anything."
        print_message(report, as_json, removed=bool(leftovers))
        return
    source = ingest_run.look(loaded, before=up_to(loaded.config, parse_day("--before", before), parse_date(None)))
    try:
        with ProgressLine() as progress:
            outcome = ingest_run.ingest(source, progress)
    finally:
        if source.counts.repeated and sys.stderr.isatty():
            say_sentence(f"Only here: {source.counts.repeated}.", err=True)
    count = source.counts.read or source.counts.held_files
    if count and sys.stderr.isatty():  # a person looks at it; a log or a pipe would keep it
        say_sentence(f"Only here: {source.counts.sentence()}", err=True)
    for other in known_sources.elsewhere(loaded):
        say_sentence(
            f"The same source is in another store, which another ledger pays for: {other}. Their promises to the same "
            "people add up, and neither ledger sees the other. Let one ledger pay for both.",
            err=True,
        )
    unit, declared = loaded.config.unit, loaded.config
    bound = "one record each" if declared.rows_per_unit == 1 else f"at most {declared.rows_per_unit} rows each"
    rows = [
        ("Store", str(outcome.path)),
        ("Done", outcome.message),
        ("Unit", f"{unit.name}: {bound}"),
        ("Columns", str(len(declared.outputs))),
    ]
    print_answer(rows, as_json, columns=len(declared.outputs), rows_per_unit=declared.rows_per_unit)
