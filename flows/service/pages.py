"""All runs of a server that fit a filter."""

from __future__ import annotations

from collections.abc import Sequence

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun

_PAGE = 200


def pages(
    client: SyncPrefectClient, runs: FlowRunFilter, deployments: DeploymentFilter | None = None
) -> Sequence[FlowRun]:
    """All runs of a filter; read before any of them is changed, for a changed one may leave the filter."""
    found: list[FlowRun] = []
    while True:
        page = client.read_flow_runs(
            flow_run_filter=runs, deployment_filter=deployments, limit=_PAGE, offset=len(found)
        )
        found += page
        if len(page) < _PAGE:
            return found
