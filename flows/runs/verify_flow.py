"""The flow that verifies a ledger: every hash, every state, and that nothing known earlier has been cut off."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from prefect import flow, get_run_logger, runtime
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from prefect.variables import Variable

from blockveil.flows.runs import deployed
from blockveil.flows.runs.release_flow import resolve
from blockveil.flows.runs.steps import Steps, Stopped
from blockveil.pipeline.ledger import Ledger, Verification
from blockveil.pipeline.ledger.address import place_of
from blockveil.pipeline.plan.balance import budget_lines
from blockveil.pipeline.releases import lost_ledger

DAMAGED = "LedgerDamaged"
"""State of a run that found a ledger that does not verify."""


def _run_name() -> str:
    return f"verify the ledger of {runtime.flow_run.parameters['config']}"


@flow(name="verify-ledger", flow_run_name=_run_name, persist_result=False, log_prints=False, retries=0)
def verify_ledger(config: str) -> State[Any]:
    """Recompute the chain of a ledger and compare it with what earlier checks saw. Reads no records, spends nothing.

    Args:
        config: Name of a reviewed config that names the ledger, for example quickstart.
    """
    steps = Steps()
    steps.on_failure = "Nothing was read, charged or released."
    try:
        chain, last_head = steps.run("verify", lambda: _verify(config))
    except Stopped as stopped:
        return stopped.state
    if chain.problems:
        more = f" (and {len(chain.problems) - 1} more)" if len(chain.problems) > 1 else ""
        message = (
            f"The ledger of '{config}' does not verify: {chain.problems[0]}{more}. Stop releasing, keep the file, and "
            "compare it with its backup."
        )
        get_run_logger().error(message)
        return Failed(name=DAMAGED, message=message)
    since = "this is the first check" if last_head is None else "it continues what the last check saw"
    return Completed(message=f"{chain.entries} entries, chain intact; {since}. Head: {chain.head}")


def _verify(name: str) -> tuple[Verification, str | None]:
    deployed.of_run()
    loaded = resolve(name, {}, ())
    ledger = Ledger(loaded.ledger_url)
    # The head of the last check is kept by the orchestrator, away from the ledger: that is what finds rows cut off.
    place = head_variable(loaded.ledger_url)
    last_head = Variable.get(place)
    chain = ledger.verify(None if last_head is None else str(last_head))
    missing = lost_ledger.problem(loaded, ledger)
    if missing is not None:
        chain = replace(chain, problems=[*chain.problems, missing])
    if not chain.problems:
        Variable.set(place, chain.head, tags=["blockveil"], overwrite=True)
        rows = [
            {"data set": dataset, "what": what, "value": value}
            for dataset in ledger.datasets()
            for what, value in budget_lines(ledger.budget(dataset))
        ]
        rows += [{"data set": "", "what": "Granted after a loss", "value": loss} for loss in chain.losses]
        create_table_artifact(
            [*rows, {"data set": "", "what": "Head", "value": chain.head}],
            key="ledger-verification",
            description=f"{chain.entries} entries, chain intact",
        )
    return chain, None if last_head is None else str(last_head)


def head_variable(ledger_url: str) -> str:
    """Name of the Prefect variable that keeps the last verified head of a ledger.

    Its digest covers no password: whoever reads the name could try passwords against it, and a new one would lose it.
    """
    return f"blockveil_head_{hashlib.sha256(place_of(ledger_url).encode()).hexdigest()[:16]}"
