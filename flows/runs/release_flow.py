"""The release flow: a release as a run of Prefect's, of a config's name or of what this process has planned."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Literal, ParamSpec

from prefect import Flow, flow, runtime
from prefect.client.schemas.objects import State
from prefect.states import Completed

from blockveil.flows.runs import approvals, artifacts, deployed, run_log, turns
from blockveil.flows.runs import overrides as allowed
from blockveil.flows.runs.conductor import attempt_of, conduct
from blockveil.flows.runs.ingest_flow import begin_night
from blockveil.flows.runs.logical_date import of_run as night_of_run
from blockveil.flows.runs.reviewed import config_file
from blockveil.flows.runs.steps import Steps, Stopped
from blockveil.pipeline.config import LoadedConfig, load_config
from blockveil.pipeline.data.preview import Looked, look
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.begun_plans import plan_begun
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases import charged_steps, lineage
from blockveil.pipeline.releases.compute import Tell

run_log.show(lineage.__name__)
run_log.show(charged_steps.__name__)

Mode = Literal["dry-run", "release"]
Fields = ParamSpec("Fields")


def resolve(name: str, overrides: dict[str, str], prefixes: tuple[str, ...]) -> LoadedConfig:
    """Config of a release name under the config root.

    Parameters
    ----------
    name
        File name of a config without ``.toml``.
    overrides
        Dotted keys and values.
    prefixes
        Tables and keys that may be overridden.

    Raises
    ------
    ConfigError
        The name is not a plain name, has no config, or an override is not allowed.
    """
    return load_config(config_file(name), overrides=overrides, allowed_prefixes=prefixes)


def _run_name() -> str:
    given = runtime.flow_run.parameters
    try:
        day = given["logical_date"] or night_of_run()
    except Exception:  # noqa: BLE001 - a name must not stop a run; the plan fails with the reason
        day = "today"
    return f"{given['release']} {day} ({given['mode']})"


def _as_flow(body: Callable[Fields, State[Any]]) -> Flow[Fields, State[Any]]:
    return flow(name="release", flow_run_name=_run_name, persist_result=False, log_prints=False, retries=0)(body)


@_as_flow
def release(
    release: str,
    mode: Mode = "dry-run",
    logical_date: date | None = None,
    overrides: dict[str, str] = {},  # noqa: B006 - a form field; never changed
) -> State[Any]:
    """Release one private matrix, or show what it would cost.

    Args:
        release: Name of a reviewed config, for example quickstart.
        mode: A dry run plans and spends nothing; a release charges the budget once.
        logical_date: The night this release is for. Empty means the day of the scheduled start. One night is charged
            once, however often it runs.
        overrides: A release may change compute, cluster.workers and cluster.threads_per_worker, for example
            {"cluster.workers": "4"}. A dry run may change privacy too.
    """
    steps = Steps()
    try:
        plan, ledger, late = steps.run("plan", lambda: _plan(release, mode, logical_date, overrides))
        night_id = plan.release_id
        if late is not None:
            return Completed(
                name="Skipped",
                message=f"{night_id} is skipped: {late}. Nothing was read, charged or released; a run with this "
                "logical date catches up on it.",
            )
        if mode == "dry-run":
            return Completed(message=f"Dry run of {night_id}: nothing was read, charged or released.")
        return _release(steps, plan, ledger)
    except Stopped as stopped:
        return stopped.state


def release_planned(
    plan: Plan, ledger: Ledger, store: Looked | None, overrides: dict[str, str], approver: str | None, heard: Tell
) -> State[Any]:
    """Release what this process has planned, as a run of the same flow; the run's final state.

    Parameters
    ----------
    plan, ledger
        The release, and the ledger that its config names.
    store
        What the store says of its records, where it was looked at.
    overrides
        What the plan changes of its config, for the run's page.
    approver
        Who approves the release if it needs a person, or None.
    heard
        Receives progress beside Prefect.
    """

    def planned(release: str, mode: Mode, logical_date: date, overrides: dict[str, str]) -> State[Any]:
        del release, mode, logical_date, overrides  # for the run's page: the plan has been made of them
        steps = Steps()
        try:
            steps.run("plan", lambda: artifacts.show_plan(plan, ledger, store))
            return _release(steps, plan, ledger, approver, heard)
        except Stopped as stopped:
            return stopped.state

    return _as_flow(planned)(plan.loaded.path.stem, "release", plan.logical_date, overrides, return_state=True)


def _plan(name: str, mode: Mode, day: date | None, overrides: dict[str, str]) -> tuple[Plan, Ledger, str | None]:
    """The planned release, and why it comes too late where it does."""
    here = deployed.of_run()
    loaded = resolve(name, overrides, allowed.RELEASE if mode == "release" else allowed.DRY_RUN)
    ledger = Ledger(loaded.ledger_url)
    plan = plan_begun(loaded, day or night_of_run(), ledger)
    # An override may name any place, and what is there must not show to whoever fills in a form.
    elsewhere = any(key.partition(".")[0] == "data" for key in overrides)
    artifacts.show_plan(plan, ledger, None if elsewhere else look(loaded))
    late = None if here is None or day is not None else here.missed(datetime.now(UTC))
    if mode == "release" and plan.charged:
        late = None  # what an earlier attempt began is finished, however late: it costs nothing more
    return plan, ledger, late


def _release(
    steps: Steps, plan: Plan, ledger: Ledger, given: str | None = None, heard: Tell | None = None
) -> State[Any]:
    """Release once a person has approved, where one must, and once it is this run's turn."""
    approver = approvals.ask(steps, plan, ledger, given)
    with turns.of_dataset(steps, plan.config.release.dataset):
        # Others may have spent while this run waited for its turn: what they have left decides.
        approver = approver or approvals.ask(steps, plan, ledger, given)
        begin_night(steps, plan, ledger)
        release_id = plan.release_id
        tell = artifacts.Teller(release_id, heard=heard)
        attempt = attempt_of(plan, ledger, str(runtime.flow_run.id), approver, tell, artifacts.show_training)
        steps.on_failure, steps.abandon = "Nothing was spent.", attempt.abandon
        message = conduct(attempt, steps.run, lambda made: artifacts.show_report(release_id, made))
        tell.done()
        return Completed(message=message)
