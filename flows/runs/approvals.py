"""A person's approval, asked before anything is read or charged; nothing is held while a run waits for it."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Annotated, Any, Literal

from prefect import get_client, get_run_logger, runtime
from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput, read_flow_run_input
from prefect.input.run_input import keyset_from_base_key
from prefect.states import Failed
from pydantic import Field, StringConstraints

from blockveil.flows.runs.steps import Steps, Stopped
from blockveil.pipeline.base.printable import one_line
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import budgets, signed_approval
from blockveil.pipeline.plan.approval import ApprovalRequest, NotApproved
from blockveil.pipeline.plan.planning import Plan

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


def ask(steps: Steps, plan: Plan, ledger: Ledger, given: str | None) -> str | None:
    """Let the run go on once a person has approved; who that was, or None where nobody had to.

    The run is suspended: its process ends and nothing is held. When a person resumes it, it starts again, plans
    again, and an answer counts only for the very plan that was shown.

    Parameters
    ----------
    steps
        The steps of the run.
    plan, ledger
        The release, and the ledger that its config names.
    given
        Who has approved already, on the command line; None where nobody has.

    Raises
    ------
    Stopped
        It was refused, or this run cannot wait.
    """
    if plan.config.approval is None:
        return None
    question = steps.run("ask for approval", lambda: budgets.approval_needed(plan, ledger))
    if question is None:
        return None
    signed = plan.config.approval.require_signature
    by = steps.run("look for a signature", lambda: _signer(plan, ledger, question)) if signed else given
    if by is not None:
        return by
    if runtime.deployment.id is None:
        remedy = signed_approval.remedy(plan) if signed else "Give --approve NAME"
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
    if signed:  # whoever resumes the run has the shared password alone
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
    used = _used_names()
    for number in count(1):
        key = question.key if number == 1 else f"{question.key}-{number}"
        entered: Any = read_flow_run_input(keyset_from_base_key(f"suspended-{key}")["response"])
        if entered or key not in used:
            break
    return key, entered


def _used_names() -> Collection[str]:
    """Names under which this run has asked already."""
    with get_client(sync_client=True) as client:
        return client.read_flow_run(runtime.flow_run.id).empirical_policy.pause_keys or ()


def _answered(question: ApprovalRequest) -> Approval | None:
    """What a person has entered on the page of this run, if it has waited for that already."""
    try:
        _, entered = _asked(question)
        return Approval(**entered) if entered else None
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
