"""The ingest flow: a thin Prefect shell around :mod:`.ingest_run`. No value of the data enters
Prefect.
"""

from __future__ import annotations

import math
from datetime import date
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from blockveil.flows.runs import artifacts, deployed, logical_date
from blockveil.flows.runs.reviewed import config_file
from blockveil.flows.runs.steps import Steps, Stopped
from blockveil.pipeline.config.deployments_file import NightSection
from blockveil.pipeline.config.ingest_file import LoadedIngest, load_ingest
from blockveil.pipeline.data.ingest import ingest_run
from blockveil.pipeline.data.ingest.arrivals import up_to
from blockveil.pipeline.data.ingest.source_rows import Source, Tell
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import budgets
from blockveil.pipeline.plan.planning import Plan


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
    before = up_to(loaded.config, night, logical_date.of_run())
    return ingest_run.look(loaded, before=None if before is None else min(before, logical_date.today()))


def begin_night(steps: Steps, plan: Plan, ledger: Ledger) -> None:
    """Bring in the records of a night whose schedule names an ingest, unless an attempt before has charged for it.

    A night that was begun is finished on the records with which it began.

    Raises
    ------
    Stopped
        A step failed: nothing was reserved, and the store is as it was.
    """
    here = deployed.of_run()
    night = None if here is None else here.entry
    if not isinstance(night, NightSection) or night.ingest is None:
        return
    name = night.ingest
    if steps.run("look for a charge", lambda: budgets.has_charge(plan, ledger)):
        return
    after = steps.on_failure
    steps.on_failure = "Nothing was spent. No store was made, and one that grows is as it was."
    get_run_logger().info("%s", make_store(steps, name, plan.logical_date))
    steps.on_failure = after


def _coarse(tell: Tell) -> Tell:
    """Tell shares in steps of a twentieth: a batch's share of a file would say how many records the file has."""

    def tell_coarsely(stage: str, share: float | None) -> None:
        tell(stage, None if share is None else math.floor(20.0 * share) / 20.0)

    return tell_coarsely
