"""The ingest flow: a thin Prefect shell around :mod:`.ingest_run`. No value of the data enters
Prefect.
"""

from __future__ import annotations

import math
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from blockveil.flows.runs import artifacts, deployed
from blockveil.flows.runs.release_flow import config_file
from blockveil.flows.runs.steps import Steps, Stopped
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest import ingest_run
from blockveil.pipeline.data.ingest.source_rows import Tell


@flow(name="ingest", flow_run_name="{config}", persist_result=False, log_prints=False, retries=0)
def ingest_dataset(config: str) -> State[Any]:
    """Make the store of records that releases read, or append new files to it. Spends nothing.

    Args:
        config: Name of a reviewed ingest config, for example ingest-example.
    """
    steps = Steps()
    steps.on_failure = "No store was made, and one that grows is as it was."
    try:
        steps.run("check the deployment", deployed.of_run)
        source = steps.run("look at the source", lambda: ingest_run.look(load_ingest(config_file(config))))
        teller = artifacts.Teller(f"ingest {config}", "ingest-progress")
        outcome = steps.run("read, write and publish", lambda: ingest_run.ingest(source, _coarse(teller)))
        teller.done()
        return Completed(message=f"{source.config.ingest.store}: {outcome.message}.")
    except Stopped as stopped:
        return stopped.state


def _coarse(tell: Tell) -> Tell:
    """Tell shares in steps of a twentieth: a batch's share of a file would say how many records the file has."""

    def tell_coarsely(stage: str, share: float | None) -> None:
        tell(stage, None if share is None else math.floor(20.0 * share) / 20.0)

    return tell_coarsely
