"""Conducts one release from its reservation to its report, whoever runs the steps: this process or Prefect's tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from blockveil.flows.cluster.computing import open_compute
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.approved import with_approver
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases.charged_steps import Outcome
from blockveil.pipeline.releases.compute import Tell
from blockveil.pipeline.releases.night import Attempt, walk
from blockveil.pipeline.releases.order import StepRunner
from blockveil.pipeline.releases.training_steps import Hear, unheard
from blockveil.pipeline.report import Report, make_report


def attempt_of(plan: Plan, ledger: Ledger, who: str, approver: str | None, tell: Tell, hear: Hear = unheard) -> Attempt:
    """One try to make a release, on the cluster of its config, which is open for the measurement alone.

    Work for which workers would take longer to start is done by threads of this process.

    Parameters
    ----------
    plan, ledger
        The release, and the ledger that its config names.
    who
        Name of the process or run, for the ledger's record.
    approver
        Who has approved the release, or None where nobody had to.
    tell
        Receives progress in the user's words.
    hear
        Receives what is public of the steps of a training so far.
    """
    compute = partial(open_compute, plan.loaded, plan.effort.here)
    return Attempt(plan, ledger, with_approver(who, approver), compute, tell, hear)


def conduct(attempt: Attempt, run: StepRunner, show: Callable[[Report], object] = lambda page: None) -> str:
    """Make a release and its report; what became of it, in words.

    Parameters
    ----------
    attempt
        The try to make it.
    run
        Runs one step.
    show
        Shows the report, as a part of the step that writes it.

    Raises
    ------
    BaseException
        What a step or its runner raised; the budget is given back where nothing was drawn.
    """
    outcome = walk(attempt, run)

    def report() -> None:
        attempt.tell("writing the report", None)
        try:
            page = make_report(attempt.plan, attempt.books.ledger, outcome)
        except StoreError as error:
            failure = type(error)(
                f"{outcome.release_id} is released, without a report. {error.value}", error.rule, error.remedy
            )
        else:
            show(page)
            return
        raise failure

    run("report", report)
    return _in_words(outcome)


def _in_words(outcome: Outcome) -> str:
    words = outcome.resumed
    return f"Released {outcome.release_id}." + (f" {words[0].upper()}{words[1:]}." if words else "")
