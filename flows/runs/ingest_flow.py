"""The ingest flow: a thin Prefect shell around :mod:`.ingest_run`. No value of the data enters
Prefect.
"""

from __future__ import annotations

import math
from datetime import date
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from blockveil.flows.runs import artifacts, deployed
from blockveil.flows.runs.reviewed import config_file
from blockveil.flows.runs.steps import Steps, Stopped
from blockveil.pipeline.config.ingest_file import LoadedIngest, load_ingest
from blockveil.pipeline.data.ingest import ingest_run
from blockveil.pipeline.data.ingest.arrivals import up_to
from blockveil.pipeline.data.ingest.source_rows import Source, Tell


@flow(name="ingest", flow_run_name="{config}", persist_result=False, log_prints=False, retries=0)
def ingest_dataset(config: str) -> State[Any]:
    """Make the store of records that releases read, or append what is new in its source. Spends nothing.

    Args:
        config: Name of a reviewed ingest config, for example ingest-example.
    """
    steps = Steps()
    steps.on_failure = "No store was made, and one that grows is as it was."
    try:
        steps.run("check the deployment", deployed.of_run)
        return Completed(message=make_store(steps, config, None))
    except Stopped as stopped:
        return stopped.state


def make_store(steps: Steps, name: str, night: date | None) -> str:
    """Make a store or go on with it, as steps of a run; what became of it, in words.

    Parameters
    ----------
    steps
        Of the run.
    name
        Of the ingest config.
    night
        Logical date of the release that the records are for; None where the run releases nothing.

    Raises
    ------
    Stopped
        A step failed.
    """
    source = steps.run("look at the source", lambda: _look(load_ingest(config_file(name)), night))
    teller = artifacts.Teller(f"ingest {name}", "ingest-progress")
    outcome = steps.run("read, write and publish", lambda: ingest_run.ingest(source, _coarse(teller)))
    teller.done()
    return f"{source.config.ingest.store}: {outcome.message}."


def _look(loaded: LoadedIngest, night: date | None) -> Source:
    context = deployed.of_run()
    before = up_to(loaded.config, night, context.night())
    return ingest_run.look(loaded, before=None if before is None else min(before, context.today()))


def _coarse(tell: Tell) -> Tell:
    """Tell shares in steps of a twentieth: a batch's share of a file would say how many records the file has."""

    def tell_coarsely(stage: str, share: float | None) -> None:
        tell(stage, None if share is None else math.floor(20.0 * share) / 20.0)

    return tell_coarsely
