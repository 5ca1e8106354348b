"""``blockveil ledger restored``, ``attest`` and ``lost-key``: what an operator states of a ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Config, Debug, Json, open_ledger, print_message, read_config
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.ledger.grants import named_grant
from blockveil.pipeline.ledger.restoring import ATTESTED, RESTORED, Statement

AnyConfig = Annotated[Path | None, typer.Argument(help="Config file that names the ledger.", show_default=False)]
Address = Annotated[
    str | None,
    typer.Option("--ledger", help="The ledger itself instead of a config: a path, sqlite:///path, or env:NAME."),
]


def restored(
    since: Annotated[
        str, typer.Option(help="When the copy was made: YYYY-MM-DD or YYYY-MM-DDTHH:MM, UTC.", show_default=False)
    ],
    config: AnyConfig = None,
    ledger: Address = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say that an older copy of the ledger was put back: book what it lacks, and end the series that were open.

    What this account has committed on this machine is known, and booked exactly. Run it on each machine that refuses.
    """
    del debug
    opened = open_ledger(config, ledger)
    done = opened.state(Statement(RESTORED, {"since": _moment(since)}))
    if config is not None and done.given_back:
        from blockveil.pipeline.releases.keys import open_keys

        keys = open_keys(read_config(config))
        for _, charge_id in done.given_back:
            keys.destroy(charge_id)
    lines = [f"Entry {done.sequence}: restored from a copy of {_moment(since)}. Series that were open are ended."]
    lines += [f"Booked: {release_id}" for release_id in done.booked]
    lines += [f"Given back, for nothing was drawn: {release_id}" for release_id, _ in done.given_back]
    if not done.marked:
        lines.append(
            "This account had not used this ledger on this machine, so what is missing is not known here: book it with "
            "`blockveil budget charge`, and run this command on the machines that released."
        )
    given_back = [release_id for release_id, _ in done.given_back]
    known = {"entry": done.sequence, "booked": list(done.booked), "given_back": given_back, "marked": done.marked}
    print_message("\n".join(lines), as_json, **known)


def attest(
    by: Annotated[str, typer.Option(help="Who says so.", show_default=False)],
    why: Annotated[str, typer.Option(help="Why it is known, in one line.", show_default=False)],
    config: AnyConfig = None,
    ledger: Address = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say that no older copy of the ledger was put back, where this account goes on with it on a new machine.

    The ledger keeps who says so, and why.
    """
    del debug
    said = named_grant(by, why)
    done = open_ledger(config, ledger).state(Statement(ATTESTED, {"by": said["granted_by"], "why": said["why"]}))
    print_message(
        f"Entry {done.sequence}: attested. Runs of this account may go on here.", as_json, entry=done.sequence
    )


def lost_key(
    config: Config,
    by: Annotated[str, typer.Option(help="Who states that the key was lost.", show_default=False)],
    why: Annotated[str, typer.Option(help="What happened to it, in one line.", show_default=False)],
    gone: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Store of the ledger that is gone for good; may be repeated."),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """State that the key of the ledger's digests of records was lost, and go on under a new one.

    Series that were begun end, unfinished nights are never drawn, and the ledger keeps who says so.
    """
    del debug
    from blockveil.pipeline.releases.lost_key import replace_lost_key

    said = named_grant(by, why)
    done = replace_lost_key(read_config(config), said["granted_by"], said["why"], gone or ())
    lines = [f"Entry {done.sequence}: the ledger goes on under a new key. Series that were begun are ended."]
    lines += [f"Given back, for nothing was drawn: {release_id}" for release_id in done.given_back]
    lines += [
        f"The records of {release_id} are not all in a store that is still there: other parts of its data set are "
        "charged as all records, without data.part_of"
        for release_id in done.parts
    ]
    known = {"entry": done.sequence, "given_back": list(done.given_back), "parts": list(done.parts)}
    print_message("\n".join(lines), as_json, **known)


def _moment(text: str) -> str:
    """A time as the ledger writes it."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is not None:
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    if found is None or found > datetime.now(UTC):
        raise ConfigError(
            f"--since {text[:40]!r} is no time at which a copy can have been made",
            "It is written YYYY-MM-DD or YYYY-MM-DDTHH:MM, UTC, and has passed",
            "Correct it",
        )
    return found.isoformat(timespec="minutes")
