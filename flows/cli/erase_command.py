"""``blockveil service erase``: takes units out of a store that grows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Json, print_message, say_sentence
from blockveil.flows.cli.progress_line import ProgressLine

Config = Annotated[Path, typer.Argument(help="Config file of the ingest that makes the store.", show_default=False)]
Units = Annotated[
    Path,
    typer.Argument(
        metavar="UNITS",
        help="File with one identifier on each line, as the source names units; - for standard input.",
        show_default=False,
    ),
]


Releases = Annotated[
    list[Path] | None,
    typer.Option(
        "--release",
        metavar="CONFIG",
        help="Config of a release that reads a copy of the store; may be repeated. Releases of this store are known.",
        show_default=False,
    ),
]
Gone = Annotated[
    list[str] | None,
    typer.Option(
        "--deleted-store",
        metavar="PATH",
        help="Store of the ledger that no longer exists, or the config of a release that read it; may be repeated.",
        show_default=False,
    ),
]


def erase(
    config: Config,
    units: Units,
    release: Releases = None,
    gone: Gone = None,
    as_json: Json = False,
) -> None:
    """Remove all rows of units from a store that grows, and all that an unfinished ingest left. Spends nothing.

    Delete the units from the source first. A run that was killed is finished by running it again.
    """
    from blockveil.pipeline.config.ingest_file import load_ingest
    from blockveil.pipeline.data.ingest import erasing, ingest_run
    from blockveil.pipeline.releases.renewing import ReleaseLedgers

    loaded = load_ingest(config)
    unit_ids = erasing.read_units(units)
    with ProgressLine() as progress:
        ledgers = ReleaseLedgers(tuple(release or ()), tuple(gone or ()))
        erasure = erasing.erase(ingest_run.look(loaded, needed=False), unit_ids, progress, ledgers)
    if sys.stderr.isatty():  # a person looks at it; a log or a pipe would keep it
        say_sentence(f"Only here: {erasure.sentence}", err=True)
    message = (
        "The store holds no row of these units, and will take in none. Copies elsewhere are untouched: backups, the "
        "source, and what was released."
    )
    print_message(message, as_json, store=str(loaded.target))
