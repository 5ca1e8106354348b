"""``blockveil report``: the report of a release, or of two of them against each other."""

from __future__ import annotations

import json
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blockveil.flows.cli.common import Json, NamedRelease, parse_date, print_rows, read_config, say
from blockveil.flows.cli.named_release import named_release
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.stores import Location
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import budgets
from blockveil.pipeline.plan.planning import plan_near

if TYPE_CHECKING:
    from blockveil.pipeline.report.burndown import Balance

Against = Annotated[str | None, typer.Option("--against", help="Another night to compare it with.")]
Config = Annotated[
    Path | None, typer.Option("--config", help="Config of the release, to find a release id and to show its budget.")
]
Output = Annotated[Path | None, typer.Option("--output", help="Page to write, .html; beside the release otherwise.")]


def report(
    release: NamedRelease,
    against: Against = None,
    config: Config = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Write the report of a release, HTML and JSON; with --against a comparison of two. Reads published values only."""
    loaded = None if config is None else read_config(config)
    path = named_release(release, loaded)
    if output is not None and output.suffix != ".html":
        raise ConfigError(f'--output "{output}" does not end in .html', "A report is an HTML page", "Correct it")
    earlier = None if against is None else named_release(against, loaded)
    show = partial(_report, path, loaded) if earlier is None else partial(_compare, path, earlier)
    folder = None if isinstance(path, str) else Path(os.path.realpath(path)).parent
    if output is not None or (folder is not None and os.access(folder, os.W_OK)):
        show(output, as_json, kept=True)
        return
    # Whoever may only read sees the same lines, of a page that is thrown away.
    with tempfile.TemporaryDirectory(prefix="blockveil-report-") as scratch:
        show(Path(scratch) / "report.html", as_json, kept=False)
    if not as_json:
        elsewhere = "the release is not on this machine"
        why = elsewhere if folder is None else f'this account may not write to "{folder.name}"'
        say(f"No page was written: {why}. Give --output for one.")


def _report(path: Location, loaded: LoadedConfig | None, output: Path | None, as_json: bool, *, kept: bool) -> None:
    from blockveil.pipeline.report import write_report

    report = write_report(path, _balance(path, loaded), output)
    if as_json:
        say(report.data.read_text(encoding="utf-8"), nl=False)
        return
    content = json.loads(report.data.read_text(encoding="utf-8"))
    print_rows(
        [
            ("Release", content["release_id"]),
            *report.lines[:1],  # what stands out, if anything does
            ("Guarantee", content["guarantee"]["sentence"]),
            ("In words", content["guarantee"]["in_words"]),
            *report.lines[1:],
            *([("Report", str(report.path)), ("JSON", str(report.data))] if kept else []),
        ]
    )


def _compare(path: Location, earlier: Location, output: Path | None, as_json: bool, *, kept: bool) -> None:
    from blockveil.pipeline.report import comparison_page, write_comparison

    comparison, page, data = write_comparison(path, earlier, output)
    if as_json:
        say(data.read_text(encoding="utf-8"), nl=False)
        return
    rows = [("Compared", comparison_page.title(comparison)), ("Result", comparison_page.sentence(comparison))]
    rows += [("Warning", line) for line in comparison.warnings]
    rows += [*comparison_page.lines(comparison), *(("Config", line) for line in comparison.configs)]
    print_rows([*rows, *([("Page", str(page)), ("JSON", str(data))] if kept else [])])


def _balance(path: Location, loaded: LoadedConfig | None) -> Balance:
    """What is left of the data set's budget, and what a guess reaches; nothing where no config names its ledger."""
    from blockveil.pipeline.report.burndown import UNKNOWN, Balance

    if loaded is None:
        return UNKNOWN
    # A release lies in <root>/<dataset>/<name>.
    parts = path.split("/") if isinstance(path, str) else list(path.resolve().parts)
    if parts[-3:-2] != [loaded.config.release.dataset]:
        return UNKNOWN
    plan = plan_near(loaded, parse_date(None))
    ledger = Ledger(plan.loaded.ledger_url)
    status = budgets.granted(plan, ledger)
    return UNKNOWN if status is None else Balance.of(ledger, plan, status)
