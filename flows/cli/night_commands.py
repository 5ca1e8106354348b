"""``blockveil plan``, ``run`` and ``demo``: one release."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from blockveil.flows.cli.common import (
    Config,
    Date,
    Debug,
    Set,
    parse_date,
    parse_name,
    parse_overrides,
    print_rows,
    read_config,
    say,
)
from blockveil.flows.runs import budgets, stopping
from blockveil.flows.runs import overrides as allowed
from blockveil.flows.runs.pace import pace
from blockveil.flows.service import server
from blockveil.pipeline.base.errors import BlockveilError, ConfigError, LedgerError
from blockveil.pipeline.base.printable import one_line
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data import quickstart
from blockveil.pipeline.data.preview import look
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import summary
from blockveil.pipeline.plan.approval import NotApproved
from blockveil.pipeline.plan.drowning import drowned
from blockveil.pipeline.plan.machine_speed import measure as rates_of
from blockveil.pipeline.plan.planning import Plan, as_begun, make_plan
from blockveil.pipeline.releases import lost_ledger

NoPrefect = Annotated[bool, typer.Option("--no-prefect", help="Run the same steps without Prefect.")]
Approve = Annotated[
    str | None, typer.Option("--approve", help="Your name, to approve a release that needs a person; see [approval].")
]
Json = Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")]
Measure = Annotated[
    bool, typer.Option("--measure", help="Measure this machine for a second, to predict the time on it.")
]

DEMO_BUDGET = {"epsilon": 3.0, "delta": 1e-5}
"""The demo's own budget: a few nights."""


class PrefectFailed(BlockveilError):
    """Prefect did not run the release."""

    exit_code: ClassVar[int] = 8


def plan(
    config: Config,
    date: Date = None,
    set: Set = None,  # noqa: A002 - the option's name
    as_json: Json = False,
    measure: Measure = False,
    debug: Debug = False,
) -> None:
    """Show what a release would cost and how exact it would be. Reads no data and spends nothing.

    Where the store is there, what it says of its records is looked at: a release that would be refused for it is
    refused here.
    """
    del debug
    made = make_plan(read_config(config, parse_overrides(set)), parse_date(date))
    store = look(made.loaded)
    if as_json:
        noise = drowned(made)
        warned = {} if noise is None else {"warning": noise.plain}
        say(json.dumps({**made.public, "plan_digest": made.digest, **warned}, indent=2, sort_keys=True))
    else:
        machine = made.machine()
        rates = rates_of(machine.slots) if measure else None
        print_rows(summary.describe(made, budgets.granted(made), rates, store, budgets.is_paid(made)))


def run(
    config: Config,
    date: Date = None,
    set: Set = None,  # noqa: A002 - the option's name
    no_prefect: NoPrefect = False,
    approve: Approve = None,
    debug: Debug = False,
) -> None:
    """Release, or finish a release that an earlier run began. The same release is never charged twice."""
    night, overrides, approver = parse_date(date), parse_overrides(set), parse_name("--approve", approve)
    from blockveil.flows.runs.quiet import quieten  # before Prefect is imported

    quieten(debug)
    loaded = read_config(config, overrides, allowed.RELEASE)
    _release(loaded, night, overrides, no_prefect, approver)


def _release(
    loaded: LoadedConfig, night: date, overrides: dict[str, str], no_prefect: bool, approve: str | None = None
) -> None:
    made = as_begun(make_plan(loaded, night), Ledger(loaded.ledger_url))
    say(f"{made.release_id}: {made.guarantee_sentence()} {look(loaded).sentence}")
    if made.config.in_clear:
        say(f"Warning: the cluster is {summary.IN_CLEAR}")
    for warning in summary.warnings(made):
        say(f"Warning: {warning}")
    question = budgets.approval_needed(made)
    if question is not None and approve is None:
        raise NotApproved.because(question.text, "Let who may decide give --approve NAME")
    with ProgressLine() as progress:
        if no_prefect:
            message = _plainly(made, progress, approve if question is not None else None)
        else:
            progress("starting Prefect", None)
            with server.at_hand():
                message = _by_flow(loaded, night, overrides, progress, approve)
    _tell_result(made, message)


def _plainly(plan: Plan, progress: Callable[[str, float | None], None], approver: str | None) -> str:
    from blockveil.flows.cluster.clusters import open_compute
    from blockveil.pipeline.releases import night as steps
    from blockveil.pipeline.report import make_report

    with stopping.by_exception(), open_compute(plan.loaded) as compute:
        attempt = f"process {os.getpid()}" + ("" if approver is None else f", approved by {approver}")
        outcome = steps.run_release(plan, compute, attempt, progress)
    make_report(steps.Workspace.open(plan), outcome)
    return f"Released {outcome.release_id}." + (f" Resumed: {outcome.resumed}." if outcome.resumed else "")


def _by_flow(
    loaded: LoadedConfig,
    night: date,
    overrides: dict[str, str],
    progress: Callable[[str, float | None], None],
    approver: str | None,
) -> str:
    from blockveil.flows.runs import approvals, artifacts
    from blockveil.flows.runs import release_flow as module

    if loaded.path.suffix != ".toml":
        raise ConfigError(
            f'The config "{loaded.path.name}" has no .toml name', "The flow finds it by name", "Rename it"
        )
    os.environ[module.CONFIG_ROOT] = str(loaded.path.parent)
    artifacts.listener.set(progress)
    approvals.given.set(approver)
    try:
        state: Any = module.release(
            release=loaded.path.stem, mode="release", logical_date=night, overrides=overrides, return_state=True
        )
    except Exception as error:
        # What a release itself meets comes as a state; here Prefect could not run or record it.
        raise PrefectFailed(
            f"Prefect failed with {type(error).__name__}",
            "A run is recorded by a Prefect server: the one PREFECT_API_URL names, else a temporary one",
            "Start or correct the server and run again (what was done is resumed), or give --no-prefect",
        ) from error
    if not state.is_completed():
        state.result(raise_on_failure=True)
    return str(state.message)


def _tell_result(plan: Plan, message: str) -> None:
    from blockveil.pipeline.data.released import open_release
    from blockveil.pipeline.releases.publishing import find_published
    from blockveil.pipeline.report import error_lines, report_path

    published = find_published(plan.loaded.output_root, plan.release_id)
    if published is None:
        raise LedgerError("The release is not there", "A finished release has a pointer", "Run again")
    ledger = Ledger(plan.loaded.ledger_url)
    status, charge = ledger.budget(plan.config.release.account), ledger.find(plan.release_id)
    rows = [("Result", message)]
    rows += [("Warning", charge.warning)] if charge is not None and charge.warning is not None else []
    rows += error_lines(open_release(published.path))
    rows += summary.budget_lines(status, plan.charge_of_a_night, plan.new_part)
    rows += [("Release", str(published.path)), ("Report", str(report_path(published.path)))]
    print_rows(rows)


class ProgressLine:
    """One line that is rewritten on a terminal; silent elsewhere. Its last words are "done", unless the work failed."""

    def __init__(self) -> None:
        self._live, self._started, self._open = sys.stderr.isatty(), time.monotonic(), False
        self._stage, self._began = "", self._started

    def __call__(self, stage: str, share: float | None) -> None:
        """Show a stage, and how far and how fast it goes where that is known."""
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._began = stage, now
        done = "" if share is None else f" {100 * share:3.0f} %, {pace(share, now - self._began)}"
        self._show(f"{stage}{done}")

    def _show(self, text: str) -> None:
        if self._live:
            sys.stderr.write(f"\r\x1b[K{time.monotonic() - self._started:5.1f} s  {one_line(text)}")
            sys.stderr.flush()
            self._open = True

    def __enter__(self) -> ProgressLine:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the line."""
        if self._open:
            if kind is None:
                self._show("done")
            sys.stderr.write("\n")


def demo(debug: Debug = False) -> None:
    """Release the covariance of 30,000 real credit-card records, with everything on this machine."""
    from blockveil.flows.runs.quiet import quieten

    quieten(debug)
    loaded = read_config(_demo_config())
    if quickstart.write_records(quickstart.SOURCE, loaded.store_path):
        say(f"Records written to {loaded.store_path}")
    ledger, dataset = Ledger(loaded.ledger_url), loaded.config.release.account
    made = make_plan(loaded, parse_date(None))
    if budgets.granted(made) is None:
        lost_ledger.check_grant(loaded, ledger, after_loss=None)
        ledger.set_budget(
            dataset, DEMO_BUDGET["epsilon"], DEMO_BUDGET["delta"], made.neighbours, loaded.config.privacy.unit
        )
        say(f"Budget granted: epsilon {DEMO_BUDGET['epsilon']:g} at delta {DEMO_BUDGET['delta']:g}")
    _release(loaded, made.logical_date, {}, no_prefect=False)


def _demo_config() -> Path:
    here = Path("configs") / quickstart.CONFIG.name  # in a checkout, or where somebody keeps a copy
    return here if here.exists() else quickstart.write_config(Path("blockveil-demo"))
