"""The release flow: a release as a run of Prefect's, of a config's name or of what this process has planned.

A person's approval is asked before anything is read or charged; nothing is held while a run waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from itertools import count
from typing import Annotated, Any, Literal, ParamSpec

from prefect import Flow, flow, get_client, get_run_logger, runtime
from prefect.client.schemas.objects import State
from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput, read_flow_run_input
from prefect.input.run_input import keyset_from_base_key
from prefect.states import Completed, Failed
from pydantic import Field, StringConstraints

from blockveil.flows.runs import artifacts, deployed, run_log, turns
from blockveil.flows.runs import overrides as allowed
from blockveil.flows.runs.conductor import attempt_of, conduct
from blockveil.flows.runs.ingest_flow import make_store
from blockveil.flows.runs.reviewed import config_file
from blockveil.flows.runs.steps import Steps, Stopped
from blockveil.pipeline.base.printable import one_line
from blockveil.pipeline.config import LoadedConfig, load_config
from blockveil.pipeline.config.deployments_file import NightSection
from blockveil.pipeline.data.preview import Looked, look
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import budgets, signed_approval
from blockveil.pipeline.plan.approval import ApprovalRequest, NotApproved
from blockveil.pipeline.plan.begun_plans import plan_begun
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases import charged_steps, lineage
from blockveil.pipeline.releases.compute import Tell

run_log.show(lineage.__name__)
run_log.show(charged_steps.__name__)

Mode = Literal["dry-run", "release"]
Fields = ParamSpec("Fields")

WAIT_HOURS = 72
"""How long a run waits for a person; nothing is held meanwhile."""


class Approval(RunInput):
    """The form that resumes a run."""

    decision: Annotated[Literal["approve", "refuse"], Field(description="Whether this release may spend.")]
    name: Annotated[
        str,
        StringConstraints(min_length=1, max_length=60, pattern=r"^[^\s].*[^\s]$|^[^\s]$"),
        Field(description="Who decides. It is kept in the ledger with the charge."),
    ]


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
    parameters = runtime.flow_run.parameters
    try:
        day = parameters["logical_date"] or deployed.of_run().night()
    except Exception:  # noqa: BLE001 - a name must not stop a run; the plan fails with the reason
        day = "today"
    return f"{parameters['release']} {day} ({parameters['mode']})"


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
        with _turn(steps, plan, ledger, None) as approver:
            _bring_in(steps, plan, ledger)
            return _release(steps, plan, ledger, approver)
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
            with _turn(steps, plan, ledger, approver) as decided_by:
                return _release(steps, plan, ledger, decided_by, heard)
        except Stopped as stopped:
            return stopped.state

    return _as_flow(planned)(plan.loaded.path.stem, "release", plan.logical_date, overrides, return_state=True)


def _plan(name: str, mode: Mode, day: date | None, overrides: dict[str, str]) -> tuple[Plan, Ledger, str | None]:
    """The planned release, and why it comes too late where it does."""
    context = deployed.of_run()
    loaded = resolve(name, overrides, allowed.RELEASE if mode == "release" else allowed.DRY_RUN)
    ledger = Ledger(loaded.ledger_url)
    plan = plan_begun(loaded, day or context.night(), ledger)
    # An override may name any place, and what is there must not show to whoever fills in a form.
    elsewhere = any(key.partition(".")[0] == "data" for key in overrides)
    artifacts.show_plan(plan, ledger, None if elsewhere else look(loaded))
    late = None if day is not None else context.missed(datetime.now(UTC))
    if mode == "release" and plan.charged:
        late = None  # what an earlier attempt began is finished, however late: it costs nothing more
    return plan, ledger, late


@contextmanager
def _turn(steps: Steps, plan: Plan, ledger: Ledger, given: str | None) -> Iterator[str | None]:
    """Hold this run's turn, once a person has approved the release where one must; who that was.

    ``given`` is who has approved already, on the command line; None where nobody has.
    """
    approver = _ask(steps, plan, ledger, given)
    with turns.of_dataset(steps, plan.config.release.dataset):
        # Others may have spent while this run waited for its turn: what they have left decides.
        yield approver or _ask(steps, plan, ledger, given)


def _bring_in(steps: Steps, plan: Plan, ledger: Ledger) -> None:
    """Bring in the records of a night whose schedule names an ingest, unless an attempt before has charged for it.

    A night that was begun is finished on the records with which it began.
    """
    night = deployed.of_run().entry
    if not isinstance(night, NightSection) or night.ingest is None:
        return
    name = night.ingest
    if steps.run("look for a charge", lambda: budgets.has_charge(plan, ledger)):
        return
    on_failure = steps.on_failure
    steps.on_failure = "Nothing was spent. No store was made, and one that grows is as it was."
    get_run_logger().info("%s", make_store(steps, name, plan.logical_date))
    steps.on_failure = on_failure


def _release(steps: Steps, plan: Plan, ledger: Ledger, approver: str | None, heard: Tell | None = None) -> State[Any]:
    release_id = plan.release_id
    tell = artifacts.Teller(release_id, heard=heard)
    attempt = attempt_of(plan, ledger, str(runtime.flow_run.id), approver, tell, artifacts.show_training)
    steps.on_failure, steps.abandon = "Nothing was spent.", attempt.abandon
    message = conduct(attempt, steps.run, lambda report: artifacts.show_report(release_id, report))
    tell.done()
    return Completed(message=message)


def _ask(steps: Steps, plan: Plan, ledger: Ledger, given: str | None) -> str | None:
    """Let the run go on once a person has approved; who that was, or None where nobody had to.

    The run is suspended: its process ends and nothing is held. When a person resumes it, it starts again, plans
    again, and an answer counts only for the very plan that was shown.
    """
    if plan.config.approval is None:
        return None
    question = steps.run("ask for approval", lambda: budgets.approval_needed(plan, ledger))
    if question is None:
        return None
    has_officers = plan.config.approval.officers is not None
    by = steps.run("look for a signature", lambda: _signer(plan, ledger, question)) if has_officers else given
    if by is not None:
        return by
    if runtime.deployment.id is None:
        remedy = signed_approval.remedy(plan) if has_officers else "Give --approve NAME"
        raise Stopped(_refused(f"{question.text} This run has no deployment, so it cannot wait", remedy))
    get_run_logger().warning("%s Waiting for up to %d hours.", question.text, WAIT_HOURS)
    answer: Any = None
    failure: str | None = None
    try:
        key, _ = _asked(question)
        answer = suspend_flow_run(
            wait_for_input=Approval.with_initial_data(description=question.text),
            timeout=WAIT_HOURS * 3600,
            key=key,
        )
    except Exception as error:  # noqa: BLE001 - it quotes what somebody may have written to the server
        failure = type(error).__name__
    if failure is not None:
        raise Stopped(_refused(*_unusable(failure)))
    decided_by = one_line(answer.name)
    get_run_logger().info("%s: decision %r by %r", plan.release_id, answer.decision, decided_by)
    if answer.decision != "approve":
        raise Stopped(_refused(*_by_a_person(plan, answer)))
    if has_officers:  # whoever resumes the run has the shared password alone
        return steps.run("look for a signature", lambda: _found(plan, ledger, question))
    return decided_by


def _signer(plan: Plan, ledger: Ledger, question: ApprovalRequest) -> str | None:
    """Name of the officer who has signed already, or None; a signature does not outdo a refusal of this run."""
    answer = _answered(question)
    if answer is not None and answer.decision != "approve":
        raise NotApproved.because(*_by_a_person(plan, answer))
    try:
        return _found(plan, ledger, question)
    except NotApproved:
        return None


def _found(plan: Plan, ledger: Ledger, question: ApprovalRequest) -> str:
    return signed_approval.found(plan, ledger, question).name


def _asked(question: ApprovalRequest) -> tuple[str, Any]:
    """Name under which this run asks, and what a person has entered for it, if anything.

    A question whose answer never came, as that of a run that was taken for dead, is asked anew under another name: the
    server asks under each only once.
    """
    names = _used_names()
    for number in count(1):
        key = question.key if number == 1 else f"{question.key}-{number}"
        response: Any = read_flow_run_input(keyset_from_base_key(f"suspended-{key}")["response"])
        if response or key not in names:
            break
    return key, response


def _used_names() -> Collection[str]:
    """Names under which this run has asked already."""
    with get_client(sync_client=True) as client:
        return client.read_flow_run(runtime.flow_run.id).empirical_policy.pause_keys or ()


def _answered(question: ApprovalRequest) -> Approval | None:
    """What a person has entered on the page of this run, if it has waited for that already."""
    try:
        _, response = _asked(question)
        return Approval(**response) if response else None
    except (TypeError, ValueError) as error:
        why = type(error).__name__
    raise NotApproved.because(*_unusable(why))


def _unusable(why: str) -> tuple[str, str]:
    return f"The server has no decision for this run that can be read ({why})", "Run it again to ask anew"


def _by_a_person(plan: Plan, answer: Approval) -> tuple[str, str]:
    return f"{plan.release_id} was refused by {one_line(answer.name)}", "Run it again to ask anew"


def _refused(what: str, remedy: str) -> Any:
    error = NotApproved.because(what, remedy)
    text = f"{error} Nothing was read, charged or released."
    get_run_logger().error(text)
    return Failed(name="NotApproved", message=text, data=error)
