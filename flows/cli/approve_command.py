"""``blockveil ledger approve``: an officer's signature under one release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Config, Date, Json, parse_date, parse_name, print_answer, read_config
from blockveil.pipeline.base.ed25519 import private_key
from blockveil.pipeline.base.errors import ConfigError, LedgerError
from blockveil.pipeline.config.secrets import read_secret


def approve(
    config: Config,
    sign: Annotated[
        str, typer.Option(help="env:NAME or file:PATH of the officer's Ed25519 private key (PEM).", show_default=False)
    ],
    by: Annotated[str, typer.Option(help="The officer, as approval.officers names them.", show_default=False)],
    why: Annotated[
        str,
        typer.Option(
            help="Why, in one line that the ledger keeps for ever and the release states.", show_default=False
        ),
    ],
    date: Date = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write; in the folder approvals beside the config by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sign one release as an officer, where its config asks for signatures. Reads no records and spends nothing.

    The signature is valid for exactly the plan that is shown. Run it where your key is, and send the file by any way.
    """
    from blockveil.pipeline.ledger import Ledger
    from blockveil.pipeline.plan import budgets, promise, signed_approval
    from blockveil.pipeline.plan.begun_plans import plan_begun
    from blockveil.pipeline.report import save

    if not (why.strip() and why.isprintable() and len(why) <= 200):
        raise ConfigError("--why does not say why", "It is a line of 1 to 200 printable characters", "Correct it")
    loaded = read_config(config)
    ledger = Ledger(loaded.ledger_url)
    plan = plan_begun(loaded, parse_date(date), ledger)
    secret = private_key(read_secret("--sign", sign, Path.cwd()))
    if secret is None:
        raise ConfigError(
            "--sign: this is no key (it is not shown)", "It is an Ed25519 private key in PEM", "Correct it"
        )
    if budgets.granted(plan, ledger) is None:
        raise LedgerError(
            f"Nobody has granted '{plan.config.release.account}' a budget yet",
            "An approval holds for one ledger, which has to be there",
            "Let whoever may grant it run `blockveil ledger grant` first",
        )
    approval = signed_approval.sign(plan, ledger, parse_name("--by", by) or "", why, secret)
    question = budgets.approval_needed(plan, ledger)
    path = output or signed_approval.inbox(plan)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(path, signed_approval.text_of(approval), "The approval")
    rows = [
        ("Release", plan.release_id),
        ("Promise", promise.sentence(plan)),
        *([] if question is None else [("Asked", question.text)]),
        ("Approved", approval.words),
        ("Written", str(path)),
    ]
    print_answer(rows, as_json, approval=approval.plain)
