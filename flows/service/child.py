"""The process of one run, which `blockveil serve` and `blockveil service worker` start by :mod:`.start_child`.

It takes the number of the run from its environment, looks the run up in the reviewed folder, and runs the flow of this
code that is meant. Nothing that a server names is imported, loaded or unpickled.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.engine import handle_engine_signals
from prefect.exceptions import ObjectNotFound
from prefect.flow_engine import run_flow
from prefect.logging.loggers import flow_run_logger
from prefect.states import Failed, Running
from prefect.utilities.engine import propose_state_sync

from blockveil.flows.base import prefect_internals
from blockveil.flows.runs import deployed, steps
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.flows.service import admission
from blockveil.pipeline.base.errors import BlockveilError

RUN = "PREFECT__FLOW_RUN_ID"
"""Environment variable: number of the run."""


def main() -> None:
    """Run the run that the environment names; ends the process as Prefect's own engine does."""
    prefect_internals.listen_for_the_end()
    number = UUID(os.environ[RUN])
    with handle_engine_signals(number):
        obey(number, Path(os.environ[CONFIG_ROOT]), Path.cwd())


def obey(number: UUID, root: Path, scratch: Path) -> State[Any]:
    """Run a run of the server as the reviewed folder says, or refuse it; its final state.

    Parameters
    ----------
    number
        Number of the run.
    root
        The reviewed folder.
    scratch
        Private folder for what Prefect may want to keep of a result; nothing of ours is kept.
    """
    run, deployment, flow_name = _read(number)
    try:
        permit = admission.admit(run, deployment, flow_name, root)
    except Exception as error:  # noqa: BLE001 - the text of a foreign one could quote what a server sent
        failure = steps.known(error)
    else:
        token = deployed.here.set(permit.deployed)
        try:
            # The state, not its result: a result that the server names would be fetched and unpickled. And storage of
            # our own: else Prefect would ask the server for a block to keep results in.
            flow = permit.flow.with_options(result_storage=scratch)
            state: Any = run_flow(flow, flow_run=run, parameters=permit.parameters, return_type="state")
        finally:
            deployed.here.reset(token)
        return cast(State[Any], state)
    return _refuse(run, failure)


def _read(number: UUID) -> tuple[FlowRun, Any, str]:
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(number)
        if run.deployment_id is None:
            return run, None, ""
        try:
            deployment = client.read_deployment(run.deployment_id)
            flow = client.read_flow(deployment.flow_id)
        except ObjectNotFound:
            return run, None, ""
    return run, deployment, flow.name


def _refuse(run: FlowRun, error: BlockveilError) -> State[Any]:
    text = f"{error} Nothing was read, charged or released."
    with get_client(sync_client=True) as client:
        if error.passes:  # it counts as a try
            propose_state_sync(client, Running(), flow_run_id=run.id)
            text = f"{text} {steps.when_tried_again(run.run_count + 1)}"
        flow_run_logger(run).error(text)
        return propose_state_sync(client, Failed(name=steps.name_of(error), message=text), flow_run_id=run.id)
