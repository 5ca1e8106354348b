"""``blockveil ledger admin reconcile``, ``attest`` and ``replace-key``: what an operator states of a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Config, Json, open_ledger, print_message, read_config

AnyConfig = Annotated[Path | None, typer.Argument(help="Config file that names the ledger.", show_default=False)]
Address = Annotated[
    str | None,
    typer.Option("--ledger", help="The ledger itself instead of a config: a path, sqlite:///path, or env:NAME."),
]


def reconcile(
    config: AnyConfig = None,
    ledger: Address = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="When the copy was made, for the record: YYYY-MM-DD or YYYY-MM-DDTHH:MM, UTC; else its newest entry."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Reconcile a ledger that was restored from an older copy: book what it lacks, and end its open series.

    Charges that this account committed on this machine are booked exactly. Run it on each machine that refuses.
    """
    from blockveil.pipeline.releases.put_back import state_restored

    entry = state_restored(open_ledger(config, ledger), None if config is None else read_config(config), since)
    given_back = [release_id for release_id, _ in entry.given_back]
    fields = {"entry": entry.sequence, "booked": list(entry.booked), "given_back": given_back, "marked": entry.marked}
    print_message(str(entry), as_json, **fields)


def attest(
    by: Annotated[str, typer.Option(help="Who says so.", show_default=False)],
    why: Annotated[str, typer.Option(help="Why it is known, in one line.", show_default=False)],
    config: AnyConfig = None,
    ledger: Address = None,
    as_json: Json = False,
) -> None:
    """Attest that no older copy of the ledger was restored, when this account continues on a new machine.

    The ledger keeps who says so, and why.
    """
    from blockveil.pipeline.releases import put_back

    sequence = put_back.attest(open_ledger(config, ledger), by, why)
    print_message(f"Entry {sequence}: attested. Runs of this account may go on here.", as_json, entry=sequence)


def replace_key(
    config: Config,
    by: Annotated[str, typer.Option(help="Who states that the key was lost.", show_default=False)],
    why: Annotated[str, typer.Option(help="What happened to it, in one line.", show_default=False)],
    gone: Annotated[
        list[str] | None,
        typer.Option(
            "--deleted-store", metavar="PATH", help="Store of the ledger that no longer exists; may be repeated."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Replace the lost key of the ledger's digests of records.

    Open series end, unfinished nights are never released, and the ledger keeps who says so and why.
    """
    from blockveil.pipeline.releases.lost_key import replace_lost_key

    entry = replace_lost_key(read_config(config), by, why, gone or ())
    fields = {"entry": entry.sequence, "given_back": list(entry.given_back), "parts": list(entry.parts)}
    print_message(str(entry), as_json, **fields)
