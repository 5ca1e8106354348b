"""``blockveil plan``: what a release would cost, and whether it would be good enough."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockveil.engine.answers.rates import Rates
from blockveil.flows.cli.common import (
    Config,
    Date,
    Json,
    Set,
    parse_date,
    parse_overrides,
    print_json,
    print_rows,
    read_config,
    say,
)
from blockveil.pipeline.accuracy.good_enough import AccuracyQuestion, GoodEnough, Rows, good_enough
from blockveil.pipeline.accuracy.population import Supposed
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.data.preview import look
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import budgets, summary
from blockveil.pipeline.plan.begun_plans import plan_ahead
from blockveil.pipeline.plan.excess_noise import ExcessNoise, advised
from blockveil.pipeline.plan.planning import Plan

Measure = Annotated[
    bool, typer.Option("--measure", help="Measure this machine for a second, to predict the time on it.")
]
GuessedRows = Annotated[
    int | None, typer.Option("--rows", help="Assumed number of records, to predict how exact the release would be.")
]
Correlation = Annotated[
    float, typer.Option("--correlation", help="Assumed correlation of neighbouring features, 0 to below 1.")
]
Spread = Annotated[
    float,
    typer.Option("--spread", help="Assumed standard deviation of a feature, as a share of the width of its bounds."),
]
Options = Annotated[
    bool, typer.Option("--options", help="Show every change of the config that lowers the noise, with its price.")
]
Preview = Annotated[
    bool, typer.Option("--preview", help="Release simulated records in memory, and show them beside their release.")
]
Target = Annotated[
    str | None,
    typer.Option("--target", help='Accuracy to reach, such as "correlation 0.05" or "directions 3"; needs --rows.'),
]
Html = Annotated[Path | None, typer.Option("--html", help="HTML page to write, with the plan and a preview.")]


def plan(
    config: Config,
    date: Date = None,
    set: Set = None,  # noqa: A002 - the option's name
    as_json: Json = False,
    measure: Measure = False,
    rows: GuessedRows = None,
    correlation: Correlation = 0.5,
    spread: Spread = 1.0 / 6.0,
    options: Options = False,
    preview: Preview = False,
    target: Target = None,
    html: Html = None,
) -> None:
    """Show what a release would cost and how exact it would be. Reads no data and spends nothing.

    If the store exists, its metadata are checked too: what would refuse the release refuses the plan. Assumptions about
    the records, such as their number, change what is displayed and nothing else.
    """
    if html is not None:
        _check_place(html)
    loaded = read_config(config, parse_overrides(set))
    ledger = Ledger(loaded.ledger_url)
    plan = plan_ahead(loaded, parse_date(date), ledger)
    store = look(plan.loaded)
    question = AccuracyQuestion(Supposed(rows, correlation, spread), options, preview or html is not None, target)
    accuracy = good_enough(plan, question)
    machine = plan.effort.machine()
    rates = _measured(machine.slots) if measure else None
    noise = advised(plan)
    lines = summary.describe(plan, budgets.price(plan, ledger), rates, store, None if noise is None else noise.advice)
    if html is not None:
        _write(html, plan, lines, accuracy)
    if as_json:
        print_json(_plain(plan, accuracy, noise))
    else:
        _print(lines, accuracy, preview, html)


def _measured(slots: int) -> Rates:
    from blockveil.pipeline.plan.machine_speed import measure  # takes long to import, and few plans ask for it

    return measure(slots)


def _plain(made: Plan, found: GoodEnough, noise: ExcessNoise | None) -> dict[str, object]:
    """The plan, its digest, and what is displayed beside it and enters neither."""
    warning = {} if noise is None else {"warning": noise.plain}
    return {**made.public, "plan_digest": made.digest, "accuracy": found.plain, **warning}


def _print(lines: Rows, found: GoodEnough, preview: bool, html: Path | None) -> None:
    print_rows(lines)
    say("")
    print_rows(found.lines)
    if preview:
        say("\n".join(["", *found.text]))
    if html is not None:
        print_rows([("Page", str(html))])


def _check_place(page: Path) -> None:
    """Refuse what is no file of a page before anything is computed for it."""
    if page.suffix.lower() not in (".html", ".htm") or page.is_dir() or not page.parent.is_dir():
        raise ConfigError(
            f"--html {page}", "It is a file that ends with .html, in a folder that is there", "Correct it"
        )


def _write(path: Path, made: Plan, lines: Rows, found: GoodEnough) -> None:
    from blockveil.pipeline.accuracy.accuracy_page import accuracy_html  # only a page waits for the pictures' library
    from blockveil.pipeline.report import save

    save(path, accuracy_html(made, lines, found), "The page")
