"""The audit flow: a thin Prefect shell around :mod:`.auditing`, which reads no data and spends
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from prefect import flow, get_run_logger, task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.registry import FILES
from blockveil.flows.runs import deployed
from blockveil.flows.runs.deployed import NotReviewed
from blockveil.flows.runs.steps import NOT_REVIEWED
from blockveil.pipeline.base.errors import ConfigError

if TYPE_CHECKING:
    from blockveil.pipeline.study.auditing import Audit

    Auditable = str
else:
    Auditable = Literal[tuple(FILES)]  # the mechanisms of the catalogue, as the form lists them


@flow(name="audit", flow_run_name="{mechanism}", persist_result=False, log_prints=False, retries=0)
def audit(
    mechanism: Auditable,
    epsilon: float,
    delta: float,
    mutant: Literal["none", "half-scale", "reseeded", "unclipped", "by-position", "one-epoch"] = "none",
    trials: int = 400_000,
    seed: int = 0,
) -> State[Any]:
    """Attack a mechanism on its worst neighbours and bound its true loss from below. Reads no data.

    Args:
        mechanism: Name of a mechanism of the catalogue.
        epsilon: The epsilon of the guarantee that the mechanism is calibrated to; R1SMG is attacked at its paper's
            settings instead.
        delta: The delta of that guarantee.
        mutant: A deliberate mistake to attack instead; each must be refuted.
        trials: Outputs drawn from each of two neighbours, in each case.
        seed: Of the simulation. The same seed gives the same result.
    """
    try:
        deployed.of_run()
    except NotReviewed as error:
        return Failed(name=NOT_REVIEWED, message=str(error))
    progress: Any = create_progress_artifact(progress=0.0, description="attacking")

    def tell(_stage: str, share: float | None) -> None:
        update_progress_artifact(progress, progress=100.0 * (share or 0.0))

    try:
        found = _attack(mechanism, epsilon, delta, trials, seed, None if mutant == "none" else mutant, tell)
    except ConfigError as error:
        get_run_logger().error("%s", error)
        return Failed(name="BadParameter", message=str(error))
    update_progress_artifact(progress, progress=100.0)
    create_table_artifact(key="audit-cases", table=found.rows(), description=found.sentence)
    create_markdown_artifact(key="audit-verdict", markdown=f"# Audit\n\n{found.sentence}\n")
    get_run_logger().info("%s", found.sentence)
    return Failed(name="Refuted", message=found.sentence) if found.flagged else Completed(message=found.sentence)


def _attack(
    mechanism: str, epsilon: float, delta: float, trials: int, seed: int, mutant: str | None, tell: Any
) -> Audit:
    # A fifth of the time that the process of any run takes to start, for this flow alone.
    from blockveil.pipeline.study.auditing import run_audit

    try:
        guarantee = ApproxDP(epsilon, delta)
    except ValueError as error:
        failure = ConfigError("This audit cannot be made", str(error), "Correct the parameter")
    else:
        attack = task(name="attack", cache_policy=NO_CACHE, persist_result=False)(run_audit)
        return attack(mechanism, guarantee, trials, seed, tell, mutant)
    raise failure
