"""``blockveil budget``: grant and look at budgets."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.guarantees import Neighbours
from flows.cli.common import Config, Debug, parse_date, print_rows, read_config
from pipeline.ledger import Ledger
from pipeline.planning import make_plan
from pipeline.summary import budget_lines

app = typer.Typer(help="Grant a data set's budget, and see what is left of it.", no_args_is_help=True)


@app.command("set")
def set_(
    config: Config,
    epsilon: Annotated[float, typer.Option(help="Largest loss of all releases together.", show_default=False)],
    delta: Annotated[float, typer.Option(help="Probability that the loss may exceed it.", show_default=False)],
    debug: Debug = False,
) -> None:
    """Grant or change the budget of the config's data set, for its privacy unit and neighbouring relation."""
    del debug
    loaded = read_config(config)
    status = Ledger(loaded.ledger_url).set_budget(
        dataset=loaded.config.release.dataset,
        epsilon=epsilon,
        delta=delta,
        neighbours=Neighbours(loaded.config.privacy.neighbours),
        privacy_unit=loaded.config.privacy.unit,
    )
    print_rows(budget_lines(status))


@app.command()
def show(config: Config, debug: Debug = False) -> None:
    """Show what the config's data set has spent, what is left, and how many more such releases fit."""
    del debug
    loaded = read_config(config)
    status = Ledger(loaded.ledger_url).budget(loaded.config.release.dataset)
    print_rows(budget_lines(status, make_plan(loaded, parse_date(None)).charge))
