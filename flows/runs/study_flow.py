"""The flow that compares mechanisms for a reviewed config at several epsilons. It reads no data and spends nothing."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import flow, runtime
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed
from pydantic import Field

from blockveil.engine.mechanisms.catalogue import ENTRIES
from blockveil.flows.runs import deployed, overrides
from blockveil.flows.runs.release_flow import resolve
from blockveil.flows.runs.steps import Steps, Stopped
from blockveil.pipeline.plan.planning import make_plan

Epsilons = Annotated[list[Annotated[float, Field(gt=0, le=1000)]], Field(min_length=1, max_length=12)]
Rows = list[dict[str, str]]


def _run_name() -> str:
    return f"compare mechanisms for {runtime.flow_run.parameters['config']}"


@flow(name="study", flow_run_name=_run_name, persist_result=False, log_prints=False, retries=0)
def study(config: str, epsilons: Epsilons = [0.1, 0.5, 1.0, 2.0]) -> State[Any]:  # noqa: B006 - a form field
    """Compare the expected error of every proven mechanism, and list what is not private as published.

    Args:
        config: Name of a reviewed config, for example quickstart; its query and bounds are compared on.
        epsilons: Each epsilon to compare at, with the config's delta.
    """
    steps = Steps()
    try:
        best = steps.run("compare", lambda: _compare(config, epsilons))
    except Stopped as stopped:
        return stopped.state
    return Completed(message=f"Least expected error: {best}. Nothing was read, charged or released.")


def _compare(name: str, epsilons: list[float]) -> str:
    here = deployed.of_run()
    errors: dict[str, dict[str, str]] = {}
    best = []
    for epsilon in epsilons:
        asked = {"mechanism": '{kind = "auto", minimise = "total"}', "privacy.epsilon": repr(float(epsilon))}
        plan = make_plan(resolve(name, asked, overrides.DRY_RUN), here.night())
        for row in plan.compared:
            key = ", ".join([row.mechanism, *(f"{what} {value}" for what, value in row.parameters.items())])
            shown = "does not apply" if row.error is None else f"{row.error:.4g}"
            errors.setdefault(key, {"mechanism": key[:300]})[f"epsilon {epsilon:g}"] = shown
        best.append(f"{plan.compared[0].mechanism} at epsilon {epsilon:g}")
    create_table_artifact(
        list(errors.values()),
        key="mechanism-comparison",
        description=f"Expected squared error of all entries for '{name}', in raw units; least first at the first level",
    )
    create_table_artifact(
        [{"mechanism": entry.name, "status": entry.status.value, "title": entry.title} for entry in ENTRIES],
        key="mechanism-status",
        description="What each published guarantee is worth",
    )
    return ", ".join(best)
