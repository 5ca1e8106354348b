"""The stage after the last step of a training, from which errors of the coefficients follow.

Its noise is under a key of its own, bound to the committed key and to the released sums of all steps. The weights that
it reads records at follow from these by arithmetic that is the same on every machine, so an attempt that was killed is
repeated with the same bits.
"""

from __future__ import annotations

import hashlib
import secrets

from blockveil.engine.answers.graph import exact_graph
from blockveil.engine.noise.design import Released
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.kinds.gradients.training import Weights
from blockveil.pipeline.plan.effort import Effort
from blockveil.pipeline.plan.fisher_stage import NAME
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.releases import in_memory
from blockveil.pipeline.releases.compute import Compute
from blockveil.pipeline.releases.workspace import Reservation, Workspace


def draw(
    workspace: Workspace, reservation: Reservation, compute: Compute, key: NoiseKey, weights: Weights, steps: Released
) -> ReleaseArrays:
    """Compute and draw the stage, and return its arrays; none where the training declares no errors.

    Parameters
    ----------
    workspace, reservation
        The release and its charge, which is committed.
    compute
        Runs the graph.
    key
        Of the release.
    weights
        After the last step, by layer.
    steps
        Released integers of all steps, which the key of the stage is bound to.

    Raises
    ------
    BlockveilError
        The records have changed, or cannot be read.
    """
    plan, dataset = workspace.plan, reservation.dataset
    stage = plan.designed.fisher
    if stage is None:
        return {}
    chunk_rows = plan.effort.chunk_rows(dataset.chunk_rows)
    effort = Effort(plan.config, stage.answer, weighs=False)
    layout = effort.layout(dataset.rows, chunk_rows, compute.workers, compute.threads)
    name = f"blockveil-{reservation.charge.charge_id[:12]}-{secrets.token_hex(4)}-{NAME}"
    graph = exact_graph(dataset.source, stage.question.query(weights), layout, chunk_rows, name)
    held = compute.hold(graph, in_memory.quiet)
    # Of other records, nothing may be drawn: a later attempt gives the same noise to the right ones.
    dataset.check_unchanged(committed=True)
    bound = hashlib.sha256(NAME.encode() + steps.astype("<i8").tobytes()).digest()
    released = in_memory.drawn(stage.answer.design, held, layout, compute, key.of_stage(bound), name)
    return stage.arrays(released, dataset.rows)
