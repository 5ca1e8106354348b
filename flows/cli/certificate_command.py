"""``blockveil export certificate``: one page on a release, or on all releases of a period."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blockveil.flows.cli.common import Json, parse_period, print_message, read_config
from blockveil.flows.cli.named_release import named_release
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.config.secrets import read_secret
from blockveil.pipeline.data.pointers import require_there
from blockveil.pipeline.data.released import open_release, stating
from blockveil.pipeline.data.stores import Location
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.proofs import Proof
from blockveil.pipeline.report.certified import Account, Certified
from blockveil.pipeline.verification.findings import Evidence
from blockveil.pipeline.verification.verified import verify

if TYPE_CHECKING:
    from blockveil.pipeline.config import LoadedConfig

Named = Annotated[
    str | None,
    typer.Argument(metavar="[RELEASE]", help="Release id (with --config), pointer or folder, or its address."),
]
Config = Annotated[Path | None, typer.Option("--config", help="Config of the release, for its ledger and budget.")]
Since = Annotated[str | None, typer.Option("--since", help="First night, YYYY-MM-DD, of all releases of a budget.")]
Until = Annotated[str | None, typer.Option("--until", help="Last night, YYYY-MM-DD, of all releases of a budget.")]
Sign = Annotated[
    str | None, typer.Option(help="env:NAME or file:PATH of the Ed25519 private key (PEM) of the ledger's keeper.")
]
Output = Annotated[Path | None, typer.Option("--output", help="Page to write, .html; beside the release otherwise.")]


def certificate(
    release: Named = None,
    config: Config = None,
    since: Since = None,
    until: Until = None,
    sign: Sign = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Write a printable page on a release, or on all of a period: what is promised, and how anybody can check it.

    A release that fails verification or contradicts the ledger gets no page. Reads published values only.
    """
    if output is not None and output.suffix != ".html":
        raise ConfigError(f'--output "{output}" does not end in .html', "A certificate is an HTML page", "Correct it")
    loaded = None if config is None else read_config(config)
    days = parse_period(("--since", since), ("--until", until))
    if release is None:
        if loaded is None or output is None or days == (None, None):
            raise _incomplete(
                "for all releases of a period", "Give a release, or --config, --since or --until, and --output"
            )
        _of_period(loaded, days, output, as_json)
    elif days != (None, None):
        raise _incomplete("for one release", "Leave out --since and --until, or the release")
    else:
        place = named_release(release, loaded)
        require_there(place, release)
        _of_release(place, loaded, sign, output, as_json)


def _incomplete(what: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"This does not say what is wanted {what}",
        "A certificate is of one release, or of all releases of a budget from one night to another",
        remedy,
    )


def _of_release(
    place: Location, loaded: LoadedConfig | None, sign: str | None, output: Path | None, as_json: bool
) -> None:
    from blockveil.pipeline.report import certificate, report_path, save

    release, account, proof = _certified(place), None, None
    path = output or report_path(release.place).with_suffix(".certificate.html")
    with stating(release.place):
        if loaded is not None:
            ledger = Ledger(loaded.ledger_url)
            account = Account.of(ledger, loaded.config.release.account)
            account.check(release)
            proof = ledger.proof(release.release_id)
            release = _by_ledger(release, proof)
        if proof is not None and sign is not None:
            proof = replace(proof, head=proof.head.signed(read_secret("--sign", sign, Path.cwd())))
        text = certificate.of_release(release, account, proof)
    save(path, text, "The certificate")
    message = f"Certificate of {release.release_id} written to {path}"
    print_message(message, as_json, written=path, releases=[release.release_id], proof=proof)


def _by_ledger(found: Certified, proof: Proof) -> Certified:
    """The same after the ledger was asked, too."""
    words = f"entry {proof.sequence} of {proof.head.entries} paid for it, and the ledger sealed values of this digest"
    return replace(found, checked=[*found.checked, ("Ledger", words)], not_checked=Evidence(None, (proof,)).not_checked)


def _of_period(loaded: LoadedConfig, days: tuple[date | None, date | None], output: Path, as_json: bool) -> None:
    from blockveil.pipeline.report import certificate, save

    account = Account.of(Ledger(loaded.ledger_url), loaded.config.release.account)
    charges = account.within(*days)
    by_id: dict[str, Certified] = {}
    for each in charges:
        place = loaded.output_root / f"{each.release_id}.json"
        if each.withdrawn is None and place.exists():
            by_id[each.release_id] = _certified(place)
    first, last = days
    words = f"nights {'from the first' if first is None else f'from {first}'} to {last or 'the newest'}"
    with stating(loaded.output_root):
        text = certificate.of_period(account, charges, by_id, words)
    save(output, text, "The certificate")
    releases = f"{len(by_id):,} of {len(charges):,} releases of '{account.status.dataset}'"
    message = f"Certificate of {releases} written to {output}"
    print_message(message, as_json, written=output, releases=sorted(by_id), not_here=len(charges) - len(by_id))


def _certified(place: Location) -> Certified:
    """A release that holds what it promises; StoreError where something that is checked fails."""
    verdict = verify(place)
    failures = [each for each in verdict.findings if each.holds is False]
    if failures:
        raise StoreError(
            f"{verdict.name} does not verify: {failures[0].words}",
            "Only a release that holds what it states is certified",
            verdict.remedy,
        )
    release = open_release(place)
    rows = [(each.what, each.words) for each in verdict.findings]
    return Certified(release.path, release.attributes, rows, verdict.not_checked)
