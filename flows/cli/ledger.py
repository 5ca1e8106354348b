"""``blockveil ledger``: read, verify, export, and give back a reservation that was never drawn on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.common import Config, Debug, read_config
from pipeline.errors import LedgerError
from pipeline.keys import KeyStore
from pipeline.ledger import Entry, Ledger

app = typer.Typer(help="Read and verify the ledger.", no_args_is_help=True)


@app.command()
def show(config: Config, debug: Debug = False) -> None:
    """Print all entries like a bank statement."""
    del debug
    for entry in Ledger(read_config(config).ledger_url).history():
        typer.echo(_line(entry))


def _line(entry: Entry) -> str:
    if entry.kind == "BUDGET":
        what = f"{entry.dataset}: epsilon {entry.payload['epsilon']:g} at delta {entry.payload['delta']:g}"
    else:
        what = str(entry.release_id)
    amount = ""
    if entry.kind == "RESERVED":
        amount = f"mu {entry.payload['event']['mu']:.6g}"
    elif entry.kind == "VOID":
        amount = f"given back ({entry.payload['reason']})"
    elif entry.kind == "RELEASED":
        amount = entry.payload["location"]
    return f"{entry.sequence:>6}  {entry.time[:19]}  {entry.kind:<9}  {what}  {amount}".rstrip()


@app.command()
def verify(
    config: Config,
    head: Annotated[str | None, typer.Option(help="Head hash kept elsewhere; finds rows that were cut off.")] = None,
    debug: Debug = False,
) -> None:
    """Recompute every hash and replay every state; prints the head hash, to be kept elsewhere."""
    del debug
    found = Ledger(read_config(config).ledger_url).verify(head)
    if found.problems:
        more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
        raise LedgerError(
            f"The ledger does not verify: {found.problems[0]}{more}",
            "Every row continues the one before it and is never changed",
            "Stop releasing, keep the file, and compare it with its backup",
        )
    typer.echo(f"{found.entries} entries, chain intact. Head: {found.head}")


@app.command()
def export(
    config: Config,
    form: Annotated[Literal["jsonl", "csv"], typer.Option("--format", help="Form of the export.")] = "jsonl",
    output: Annotated[Path | None, typer.Option(help="File to write; the terminal where it is not given.")] = None,
    debug: Debug = False,
) -> None:
    """Write all entries. They hold data fingerprints: keep the export as private as the ledger."""
    del debug
    ledger = Ledger(read_config(config).ledger_url)
    if output is None:
        ledger.export(form, sys.stdout)
        return
    with output.open("w", encoding="utf-8", newline="") as stream:
        count = ledger.export(form, stream)
    typer.echo(f"{count} entries written to {output}")


@app.command()
def void(
    config: Config,
    release_id: Annotated[str, typer.Argument(help="dataset/name/date", show_default=False)],
    debug: Debug = False,
) -> None:
    """Give back a reservation of a run that died before anything was drawn, instead of resuming it."""
    del debug
    loaded = read_config(config)
    ledger = Ledger(loaded.ledger_url)
    charge = ledger.find(release_id)
    if charge is None or not ledger.void_if_reserved(charge.charge_id, "operator"):
        state = "has no charge" if charge is None else f"is {charge.state}"
        raise LedgerError(
            f"'{release_id}' {state}",
            "Only a reservation on which nothing was drawn can be given back",
            "Run `blockveil ledger show` to see where it stands",
        )
    KeyStore(loaded.keys_root).destroy(charge.charge_id)
    typer.echo(f"{release_id}: the reservation was given back")
