"""``blockveil ledger withdraw``: a release that proved wrong."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from blockveil.flows.cli.common import Config, Json, print_message, read_config


def withdraw_release(
    config: Config,
    release_id: Annotated[str, typer.Argument(metavar="RELEASE", help="dataset/name/date", show_default=False)],
    why: Annotated[
        str, typer.Option(help="Why, in one line that everybody may read; no value of a record.", show_default=False)
    ],
    remove: Annotated[bool, typer.Option("--remove", help="Remove its values too, here and where they were sent.")] = (
        False
    ),
    as_json: Json = False,
) -> None:
    """Withdraw a release for good: the ledger and the readers' pages record it, and its budget remains spent."""
    from blockveil.pipeline.releases.withdrawing import withdraw

    withdrawal = withdraw(read_config(config), release_id, why, remove=remove)
    remark = "" if withdrawal.reason == why else "It had been withdrawn before; the first reason stays.\n"
    message = (
        f"{withdrawal.release_id} was withdrawn on {withdrawal.day}: {withdrawal.reason}\n{remark}"
        "Its budget remains spent, because nobody can take back what was read. Tell those who have copies: a copy does "
        "not show that it was withdrawn."
    )
    print_message(message, as_json, **asdict(withdrawal))
