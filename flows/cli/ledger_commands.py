"""``blockveil ledger``: read, verify, export, and give back a reservation that was never drawn on."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import typer

from blockveil.flows.cli.common import (
    Config,
    Json,
    address_of,
    open_ledger,
    parse_period,
    print_json,
    print_message,
    read_config,
    read_public_key,
    say,
)
from blockveil.flows.cli.restored_commands import Address, AnyConfig
from blockveil.pipeline.base import named_files
from blockveil.pipeline.base.ed25519 import raw
from blockveil.pipeline.base.errors import LedgerError, StoreError
from blockveil.pipeline.config.secrets import read_secret
from blockveil.pipeline.ledger import Head, Ledger, Verification
from blockveil.pipeline.ledger.approved import signed_by_others
from blockveil.pipeline.ledger.entries import RENEWED, WITHDRAWN
from blockveil.pipeline.ledger.guessing import percent
from blockveil.pipeline.ledger.heads import is_hash
from blockveil.pipeline.ledger.refusals import broken
from blockveil.pipeline.ledger.restoring import ATTESTED, RESTORED
from blockveil.pipeline.ledger.roles import role_sql
from blockveil.pipeline.ledger.statement import Days, Line, statement
from blockveil.pipeline.ledger.transfer import read_rows


def show(
    config: AnyConfig = None,
    ledger: Address = None,
    dataset: Annotated[str | None, typer.Option(help="Only this data set.")] = None,
    release: Annotated[
        str | None, typer.Option(help="Only this release: dataset/name/date, or dataset/name for all its dates.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="First day, YYYY-MM-DD, UTC.")] = None,
    until: Annotated[str | None, typer.Option(help="Last day, YYYY-MM-DD, UTC.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also entries that change no budget: COMMITTED and RELEASED.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print a statement: the cost of each release, the total so far, and the bound on a guess about one unit."""
    days = Days(*parse_period(("--since", since), ("--until", until)))
    entries = open_ledger(config, ledger).history(dataset)
    lines = statement(entries, dataset=dataset, release=release, days=days, every_entry=every)
    if as_json:
        print_json(lines)
        return
    width = max([len("What"), *(len(_what(line)) for line in lines)])
    heads = "  ".join(f"{head:>8}" for head in ("Cost", "Spent", "Epsilon", "Guess"))
    say(f"{'No':>6}  {'Time (UTC)':<16}  {'What':<{width}}  {heads}  State")
    for line in lines:
        amounts = "  ".join(f"{amount:>8}" for amount in _amounts(line))
        when = line.time[:16].replace("T", " ")
        say(f"{line.sequence:>6}  {when}  {_what(line):<{width}}  {amounts}  {_state(line)}".rstrip())
    say("Cost and spent are shares of the budget and add up. Epsilon and guess are of all charges up to there.")


def _amounts(line: Line) -> list[str]:
    from blockveil.pipeline.plan.balance import share_text

    shares = ["" if share is None else f"{share_text(share)}" for share in (line.cost_share, line.spent_share)]
    epsilon = "" if line.spent is None else f"{line.spent:.4g}"
    return [*shares, epsilon, "" if line.guess is None else percent(line.guess)]


def _what(line: Line) -> str:
    return line.release_id or line.dataset


def _state(line: Line) -> str:
    if line.kind == "VOID":
        return f"given back ({line.note})"
    if line.kind == WITHDRAWN:
        return f"withdrawn ({line.note})"
    if line.kind in ("CLOSED", RESTORED, ATTESTED) or (line.kind == RENEWED and line.note):
        return f"{line.kind} ({line.note})"
    if line.kind == "BUDGET":
        return f"budget of {line.note}"
    if line.kind == "RELEASED":
        return f"RELEASED as {line.note}"
    failure = f", failure {line.failure:.3g}" if line.failure else ""
    note = f", {line.note}" if line.note else ""
    note += f", {line.rows_per_unit} rows of a unit" if (line.rows_per_unit or 1) > 1 else ""
    return line.state + failure + note if line.kind == "RESERVED" else line.kind


def verify(
    config: AnyConfig = None,
    ledger: Address = None,
    head: Annotated[
        str | None, typer.Option(help="Head kept elsewhere, a file or its hash; detects removed rows.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="env:NAME or file:PATH of the public key or secret of a signed head.")
    ] = None,
    officer: Annotated[
        list[str] | None,
        typer.Option(help="env:NAME or file:PATH of a public key; each signed approval must be by one of those given."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute every hash and signature and replay every state; prints the head hash, to be kept elsewhere.

    With a config, the entry that paid for its newest release must be there too.
    """
    from blockveil.pipeline.releases import lost_ledger

    opened = open_ledger(config, ledger)
    chain = opened.verify(_kept_head(head, key))
    missing = None if config is None else lost_ledger.problem(read_config(config), opened)
    if missing is not None:
        chain = replace(chain, problems=[*chain.problems, missing])
    if officer is not None:
        others = signed_by_others(chain.approvals, [raw(read_public_key("--officer", each)).hex() for each in officer])
        chain = replace(chain, problems=[*chain.problems, *others])
    if chain.problems:
        raise broken(chain)
    for each in () if as_json else chain.approvals:
        say(f"Approved: {each.release_id} {each.words}")
    for loss in () if as_json else chain.losses:
        say(f"Granted after a loss: {loss}")
    _tell_chain(chain, as_json)


def _tell_chain(found: Verification, as_json: bool, **values: Any) -> None:
    """Say that a chain is intact, and its head."""
    message = f"{found.entries} entries, chain intact. Head: {found.head}"
    fields = {"entries": found.entries, "head": found.head, "time": found.time, "granted_after_a_loss": found.losses}
    values["approvals"] = [each.plain for each in found.approvals]
    print_message(message, as_json, **fields, **values)


def _kept_head(head: str | None, key: str | None) -> str | Head | None:
    """A head of the command line, its signature checked."""
    secret = None if key is None else read_secret("--key", key, Path.cwd())
    if head is None or is_hash(head):
        if secret is not None:
            Head(0, "", "", "", ()).check(secret)
        return head
    try:
        text = Path(head).read_text(encoding="utf-8")
    except (OSError, ValueError):
        text = ""
    checkpoint = Head.from_json(text)
    checkpoint.check(secret)
    return checkpoint


def head_(
    config: AnyConfig = None,
    ledger: Address = None,
    sign: Annotated[
        str | None, typer.Option(help="env:NAME or file:PATH of an Ed25519 private key (PEM) or of a secret for HMAC.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="File to write; standard output by default.")] = None,
    as_json: Json = False,
) -> None:
    """Print the number, hash and time of the last row, signed with --sign; keep it apart from the ledger."""
    head = open_ledger(config, ledger).head()
    if sign is not None:
        head = head.signed(read_secret("--sign", sign, Path.cwd()))
    if output is None:
        say(head.to_json())
    else:
        named_files.write(output, f"{head.to_json()}\n".encode(), "The head")
        print_message(f"Head of {head.entries} entries written to {output}", as_json, written=output, **asdict(head))


def prove(
    config: Config,
    release_id: Annotated[str, typer.Argument(metavar="RELEASE", help="dataset/name/date", show_default=False)],
    sign: Annotated[
        str | None, typer.Option(help="env:NAME or file:PATH of the Ed25519 private key (PEM) of the ledger's keeper.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="File to write; standard output by default.")] = None,
    as_json: Json = False,
) -> None:
    """Print a proof that a release was charged and is not withdrawn so far, for readers without the ledger."""
    proof = Ledger(read_config(config).ledger_url).proof(release_id)
    if sign is not None:
        proof = replace(proof, head=proof.head.signed(read_secret("--sign", sign, Path.cwd())))
    if output is None:
        say(proof.to_json())
    else:
        named_files.write(output, f"{proof.to_json()}\n".encode(), "The proof")
        print_message(f"Proof of entry {proof.sequence} written to {output}", as_json, written=output, **asdict(proof))


def export(
    config: AnyConfig = None,
    ledger: Address = None,
    form: Annotated[
        Literal["jsonl", "openlineage"],
        typer.Option("--format", help="Form of the export; openlineage: a run event a line, without anything private."),
    ] = "jsonl",
    output: Annotated[Path | None, typer.Option(help="File to write; standard output by default.")] = None,
    close_for: Annotated[
        str | None,
        typer.Option(
            help="Close this ledger first; it continues at this address: a path, sqlite:///path, or env:NAME."
        ),
    ] = None,
) -> None:
    """Write all entries. They hold data fingerprints: keep the export as private as the ledger."""
    opened = open_ledger(config, ledger)
    if output is not None:
        named_files.check(output)
    if close_for is not None:
        if form == "openlineage" or output is None:
            raise LedgerError(
                "A ledger is closed for another address only with an export that can be imported there",
                "It goes on from a file of JSON Lines",
                "Give --output, and --format jsonl",
            )
        opened.close_for(address_of(close_for, "--close-for"))
    if output is None:
        if not sys.stdout.isatty():
            opened.export(form, sys.stdout)
            return
        buffer = io.StringIO()
        opened.export(form, buffer)
        say(buffer.getvalue(), nl=False)
        return
    # For its owner alone, as the ledger is.
    with named_files.writing(output, "The export", private=True) as file:
        stream = io.TextIOWrapper(file, encoding="utf-8", newline="")
        try:
            count = opened.export(form, stream)
        finally:
            stream.detach()
    say(f"{count} {'events' if form == 'openlineage' else 'entries'} written to {output}")


def import_(
    source: Annotated[Path, typer.Argument(help="An export, JSON Lines.", show_default=False)],
    config: AnyConfig = None,
    ledger: Address = None,
    head: Annotated[str | None, typer.Option(help="Head kept elsewhere, a file or its hash.")] = None,
    key: Annotated[str | None, typer.Option(help="env:NAME or file:PATH of the key of a signed head.")] = None,
    as_copy: Annotated[
        bool, typer.Option("--as-copy", help="Import as a read-only copy, which can spend nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a new ledger of an export, after its whole chain was verified; also the way from SQLite to PostgreSQL.

    The export must have been closed for this address (`ledger export --close-for`), or be imported as a copy.
    """
    expected, opened = _kept_head(head, key), open_ledger(config, ledger)
    with _readable(source) as stream:
        chain = opened.load(read_rows(stream), expected, as_copy=as_copy)
    _tell_chain(chain, as_json, copy=as_copy)
    if not as_json:
        say("This is a copy, for reading." if as_copy else "The ledger goes on here; the old one is closed.")


def _readable(source: Path) -> TextIO:
    try:
        return source.open(encoding="utf-8", newline="")
    except OSError as error:
        problem = os.strerror(error.errno or 0)
    raise StoreError(f'"{source}" cannot be read ({problem})', "An export is a file", "Correct the path")


def role(
    name: Annotated[str, typer.Argument(help="The PostgreSQL role; made where it is missing.", show_default=False)],
    budgets: Annotated[bool, typer.Option("--budgets", help="May also grant budgets.")] = False,
    as_json: Json = False,
) -> None:
    """Print the SQL that lets a PostgreSQL role read the ledger and add entries, and nothing else."""
    print_message(role_sql(name, budgets=budgets), as_json, role=name)


def void(
    config: Config,
    release_id: Annotated[str, typer.Argument(help="dataset/name/date", show_default=False)],
    as_json: Json = False,
) -> None:
    """Give back a reservation of a run that died before anything was drawn, instead of resuming it."""
    from blockveil.pipeline.releases.keys import open_keys

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
    open_keys(loaded).destroy(charge.charge_id)
    print_message(f"{release_id}: the reservation was given back", as_json, release=release_id)
