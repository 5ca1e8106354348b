"""``blockveil run`` and ``demo``: one release."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from blockveil.flows.cli.common import (
    Config,
    Date,
    Json,
    Set,
    parse_date,
    parse_name,
    parse_overrides,
    print_answer,
    read_config,
    say,
    say_sentence,
)
from blockveil.flows.cli.progress_line import ProgressLine
from blockveil.flows.cli.stage_times import StageTimes, in_words
from blockveil.flows.runs import overrides as allowed
from blockveil.flows.runs import stopping
from blockveil.flows.service import server
from blockveil.pipeline.base.errors import BlockveilError, LedgerError
from blockveil.pipeline.base.extras import MissingExtra, is_installed
from blockveil.pipeline.data import quickstart
from blockveil.pipeline.data.preview import Looked, look
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import balance, budgets, effort, promise, signed_approval, summary
from blockveil.pipeline.plan.approval import NotApproved
from blockveil.pipeline.plan.begun_plans import plan_begun
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases import lost_ledger
from blockveil.pipeline.releases.compute import Tell
from blockveil.pipeline.releases.order import plainly

NoPrefect = Annotated[bool, typer.Option("--no-prefect", help="Run the same steps without Prefect.")]
Approve = Annotated[
    str | None,
    typer.Option("--approve", help="Your name, to approve a release that needs a person (section approval)."),
]

Timings = Annotated[bool, typer.Option("--timings", help="Show how long each stage took.")]

DEMO_BUDGET = {"epsilon": 3.0, "delta": 1e-5}
"""The demo's own budget: a few nights."""


class PrefectFailed(BlockveilError):
    """Prefect did not run the release."""

    exit_code: ClassVar[int] = 8


def run(
    config: Config,
    date: Date = None,
    set: Set = None,  # noqa: A002 - the option's name
    no_prefect: NoPrefect = False,
    approve: Approve = None,
    timings: Timings = False,
    as_json: Json = False,
) -> None:
    """Release, or finish a release that an earlier run began. The same release is never charged twice."""
    times = StageTimes()
    times.begin("plan and budget")
    day, overrides, approver = parse_date(date), parse_overrides(set), parse_name("--approve", approve)
    from blockveil.flows.runs.quiet import quieten  # before Prefect is imported

    quieten("--debug" in sys.argv)
    loaded = read_config(config, overrides, allowed.RELEASE)
    ledger = Ledger(loaded.ledger_url)
    plan = plan_begun(loaded, day, ledger)
    _release(plan, ledger, overrides, no_prefect, approver, as_json, times if timings else None)


def _release(
    plan: Plan,
    ledger: Ledger,
    overrides: dict[str, str],
    no_prefect: bool = False,
    approve: str | None = None,
    as_json: bool = False,
    times: StageTimes | None = None,
) -> None:
    if not no_prefect:
        MissingExtra.require("prefect")  # a temporary server would be another process, which cannot say so
    store = look(plan.loaded)
    if not as_json:
        _announce(plan, store)
    question = budgets.approval_needed(plan, ledger)
    if question is not None:
        approve = signed_approval.approver(plan, ledger, approve, question)
        if approve is None:
            raise NotApproved.because(question.text, "Let who may decide give --approve NAME")
    with ProgressLine() as progress:

        def tell(stage: str, share: float | None) -> None:
            progress(stage, share)
            if times is not None:
                times.heard(stage)

        if no_prefect:
            message = _plainly(plan, ledger, approve if question is not None else None, tell)
        else:
            tell("starting Prefect", None)
            with server.at_hand():
                message = _by_prefect(plan, ledger, store, overrides, approve, tell)
            tell("stopping Prefect", None)
    _tell_result(plan, ledger, message, as_json, None if times is None else times.seconds())


def _announce(made: Plan, store: Looked) -> None:
    """Say what is going to be promised, and what to be warned of."""
    say_sentence(f"{made.release_id}: {promise.sentence(made)} {store.sentence}")
    for warning in _warnings(made):
        say_sentence(f"Warning: {warning}")


def _warnings(made: Plan) -> list[str]:
    in_clear = [f"the cluster is {effort.IN_CLEAR}"] if made.config.in_clear else []
    return [*in_clear, *summary.warnings(made)]


def _plainly(plan: Plan, ledger: Ledger, approver: str | None, progress: Tell) -> str:
    from blockveil.flows.runs.conductor import attempt_of, conduct

    with stopping.by_exception():
        return conduct(attempt_of(plan, ledger, f"process {os.getpid()}", approver, progress), plainly)


def _by_prefect(
    plan: Plan, ledger: Ledger, store: Looked, overrides: dict[str, str], approver: str | None, progress: Tell
) -> str:
    from blockveil.flows.runs.release_flow import release_planned

    try:
        state: Any = release_planned(plan, ledger, store, overrides, approver, progress)
    except Exception as error:
        # What a release itself meets comes as a state; here Prefect could not run or record it.
        from blockveil.flows.service import named_server

        raise PrefectFailed(*named_server.why_not_recorded(error, "give --no-prefect")) from error
    if not state.is_completed():
        state.result(raise_on_failure=True)
    return str(state.message)


def _tell_result(
    plan: Plan, ledger: Ledger, message: str, as_json: bool, seconds: dict[str, float] | None = None
) -> None:
    from blockveil.pipeline.releases.destination import destination_of
    from blockveil.pipeline.releases.publishing import find_published
    from blockveil.pipeline.report import error_lines, report_path

    release = find_published(plan.loaded.output_root, plan.release_id)
    if release is None:
        raise LedgerError("The release is not there", "A finished release has a pointer", "Run again")
    status, charge = ledger.budget(plan.config.release.account), ledger.find(plan.release_id)
    rows = [("Result", message)]
    rows += [("Warning", charge.warning)] if charge is not None and charge.warning is not None else []
    rows += error_lines(release.path)
    rows += balance.budget_lines(status, plan.charge_of_a_night, plan.new_part)
    rows += [("Release", str(release.path)), ("Report", str(report_path(release.path)))]
    destination = destination_of(plan.loaded)
    rows += [] if destination is None else [("Sent to", destination.pointer_address(plan.release_id))]
    values: dict[str, Any] = {"release_id": plan.release_id, "output_digest": release.output_digest}
    values["pointer"] = release.pointer
    if seconds is not None:
        rows += in_words(seconds)
        values["seconds"] = seconds
    warnings = _warnings(plan) if as_json else []  # a person has read them before the run
    print_answer(
        [*(("Warning", text) for text in warnings), *rows], as_json, **values, in_numbers=budgets.in_numbers(status)
    )


def demo() -> None:
    """Release the covariance of 30,000 real credit-card records, with everything on this machine."""
    from blockveil.flows.runs.quiet import quieten

    quieten("--debug" in sys.argv)
    loaded = read_config(_demo_config())
    if quickstart.write_records(quickstart.SOURCE, loaded.store_path):
        say(f"Records written to {loaded.store_path}")
    ledger = Ledger(loaded.ledger_url)
    plan = plan_begun(loaded, parse_date(None), ledger)
    if budgets.granted(plan, ledger) is None:
        lost_ledger.check_grant(loaded, ledger, after_loss=None)
        account, unit = loaded.config.release.account, loaded.config.privacy.unit
        ledger.set_budget(account, DEMO_BUDGET["epsilon"], DEMO_BUDGET["delta"], plan.neighbours, unit)
        say(f"Budget granted: epsilon {DEMO_BUDGET['epsilon']:g} at delta {DEMO_BUDGET['delta']:g}")
    alone = not is_installed("prefect")
    if alone:
        say("Prefect is not installed: the same steps run in this process")
    _release(plan, ledger, {}, no_prefect=alone)


def _demo_config() -> Path:
    path = Path("configs") / quickstart.CONFIG.name  # in a checkout, or where somebody keeps a copy
    return path if path.exists() else quickstart.write_config(Path("blockveil-demo"))
