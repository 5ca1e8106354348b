"""The flow for what-if questions: the full typed model in a form. It reads no data and can spend nothing."""

from __future__ import annotations

from datetime import date
from typing import Any

from prefect import flow, runtime
from prefect.client.schemas.objects import State
from prefect.states import Completed

from blockveil.flows.runs import artifacts, deployed
from blockveil.flows.runs.release_flow import resolve
from blockveil.flows.runs.steps import Steps, Stopped
from blockveil.pipeline.accuracy.accuracy_page import accuracy_markdown
from blockveil.pipeline.accuracy.good_enough import AccuracyQuestion, good_enough
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.ledger import BudgetStatus, Ledger
from blockveil.pipeline.plan import budgets, summary
from blockveil.pipeline.plan.planning import Plan, plan_near
from blockveil.pipeline.plan.price import price_of
from blockveil.pipeline.plan.what_if import WhatIf, WhatIfQuestion, parse, plan_of


def _run_name() -> str:
    return f"what if {runtime.flow_run.parameters['budget_of'] or 'nobody pays'}"


# Prefect's own check would name neither the value nor what to do, and would log the whole question: the flow checks.
@flow(
    name="plan",
    flow_run_name=_run_name,
    validate_parameters=False,
    persist_result=False,
    log_prints=False,
    retries=0,
)
def plan(question: WhatIf, budget_of: str | None = None, logical_date: date | None = None) -> State[Any]:
    """Show what any release would cost and how exact it would be. Reads no data, spends nothing, releases nothing.

    Args:
        question: The release in question; it may name no file and no place.
        budget_of: Name of a reviewed config whose budget the question is compared with. Empty for none.
        logical_date: The night in question. Empty means the day of the run.
    """
    steps = Steps()
    try:
        release_plan = steps.run("plan", lambda: _plan(parse(question, budget_of, logical_date)))
    except Stopped as stopped:
        return stopped.state
    return Completed(message=f"Plan of {release_plan.release_id}: nothing was read, charged or released.")


def _plan(asked: WhatIfQuestion) -> Plan:
    context = deployed.of_run()
    release_plan = plan_of(asked.question, asked.logical_date or context.night())
    budget = None if asked.budget_of is None else _budget(release_plan, asked.budget_of)
    rows = summary.describe(release_plan, None if budget is None else price_of(release_plan, budget))
    # At the bound: a guess of the number of records is no parameter of a run.
    accuracy = good_enough(release_plan, AccuracyQuestion(options=True, preview=True))
    artifacts.show_what_if(release_plan, rows, accuracy_markdown(accuracy))
    return release_plan


def _budget(made: Plan, name: str) -> BudgetStatus | None:
    """Budget of a reviewed config, if losses of the question add up to its."""
    loaded = resolve(name, {}, ())
    status = budgets.granted(plan_near(loaded, made.logical_date), Ledger(loaded.ledger_url))
    if status is not None and (status.neighbours, status.privacy_unit) != (made.neighbours, made.config.privacy.unit):
        raise ConfigError(
            f"The budget of '{status.dataset}' is for {status.neighbours.value}, \"{status.privacy_unit}\"",
            "Losses for different relations or privacy units do not add up",
            "Ask with the same neighbours and unit, or leave budget_of empty",
        )
    return status
