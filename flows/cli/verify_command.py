"""``blockveil verify``: what releases show by themselves.

A config and a ledger are imported only where what is given needs them: importing them takes longer than most checks.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blockveil.flows.cli.common import Json, print_json, print_rows, read_public_key, say
from blockveil.flows.cli.named_release import named_release
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.base.foreign_files import MOST_METADATA, NotPlain, read_regular
from blockveil.pipeline.data.pointers import require_there
from blockveil.pipeline.data.stores import Location
from blockveil.pipeline.verification.findings import Evidence, Verified
from blockveil.pipeline.verification.verified import releases_at, verify

if TYPE_CHECKING:
    from blockveil.pipeline.ledger.proofs import Proof

Named = Annotated[
    list[str],
    typer.Argument(
        metavar="RELEASE...",
        help="Pointers or folders of releases, folders of many, or their addresses.",
        show_default=False,
    ),
]


Key = Annotated[
    str | None,
    typer.Option(help="env:NAME or file:PATH of the Ed25519 public key that signed them."),
]


Proofs = Annotated[
    list[Path] | None,
    typer.Option("--proof", help="Proof that `blockveil ledger prove` wrote for one of the releases."),
]
LedgerKey = Annotated[
    str | None, typer.Option(help="env:NAME or file:PATH of the Ed25519 public key that signed the proofs.")
]

Officers = Annotated[
    list[str] | None,
    typer.Option(
        "--officer", help="env:NAME or file:PATH of an officer's public key; one officer must have approved them."
    ),
]


def verify_releases(
    releases: Named,
    key: Key = None,
    proof: Proofs = None,
    ledger_key: LedgerKey = None,
    officer: Officers = None,
    as_json: Json = False,
) -> None:
    """Check the content, promise, noise and unit of releases. Needs no ledger, config or server.

    With a key, each must be signed with it. With proofs, their entries must stand in a ledger and not be withdrawn.
    With officers, one of them must have signed the approval of each.
    """
    places = list[tuple[Location, Location]]()
    for name in releases:
        place = named_release(name, None)
        locations = releases_at(place)
        if locations == [place]:
            require_there(place, name)
        places += [(each, place) for each in locations]
    evidence = Evidence(
        None if key is None else read_public_key("--key", key),
        tuple(_proof(path) for path in proof or ()),
        None if ledger_key is None else _text("--ledger-key", ledger_key),
        tuple(read_public_key("--officer", one) for one in officer or ()),
    )
    verdicts = [verify(place, evidence, root) for place, root in places]
    if as_json:
        print_json({"releases": [one.plain for one in verdicts], "hold": all(one.holds for one in verdicts)})
    else:
        for one in verdicts:
            _print(one)
        print_rows([("Not checked", evidence.not_checked)])
    faults = [one for one in verdicts if not one.holds]
    if faults:
        raise StoreError(
            f"{faults[0].name} does not verify" + (f", nor do {len(faults) - 1:,} more" if len(faults) > 1 else ""),
            "A release shows its content, promise, noise, sensitivity and unit by itself",
            faults[0].remedy,
        )


def _text(option: str, reference: str) -> str:
    from blockveil.pipeline.config.secrets import read_secret

    return read_secret(option, reference, Path.cwd())


def _proof(path: Path) -> Proof:
    from blockveil.pipeline.ledger.proofs import Proof

    try:
        return Proof.from_json(read_regular(path, MOST_METADATA).decode())
    except (OSError, NotPlain, UnicodeDecodeError):
        failure = StoreError(f'"{path}" cannot be read', "A proof is a file", "Correct the path")
    raise failure


def _print(found: Verified) -> None:
    say(found.name)
    marks = {True: "", False: "FAILS: ", None: ""}
    print_rows([(f"  {one.what}", f"{marks[one.holds]}{one.words}") for one in found.findings])
