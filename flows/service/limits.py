"""Limits on the server by which one run at a time works, put right whatever somebody has made of them.

They only save work, so none of them is trusted, and none can stop a service: what protects the budget is the ledger.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound

from blockveil.flows.runs import turns
from blockveil.pipeline.config.deployments_file import LoadedDeployments, datasets


def prepare(loaded: LoadedDeployments, anew: bool = False) -> None:
    """Make the limits that let one run of a data set work at a time.

    A slot that is taken is nobody's where they are made ``anew``: no run is at work then.
    """
    with get_client(sync_client=True) as client:
        for dataset in datasets(loaded):
            name = turns.limit_name(dataset)
            if anew:
                _delete(client, name)
            turns.make_limit(client, name)


def of_deployment(client: SyncPrefectClient, number: UUID, shown: DeploymentResponse | None, anew: bool) -> None:
    """Give a deployment a limit of its own, which counts: somebody may have switched it off, filled or exchanged it.

    Parameters
    ----------
    client
        Of the server.
    number
        Number of the deployment.
    shown
        What the server shows of it, if it can.
    anew
        Whether no run is at work, so that a slot that is taken is nobody's.
    """
    name, limit = f"deployment:{number}", None if shown is None else shown.global_concurrency_limit
    if limit is not None and limit.name == name and limit.active_slots <= (0 if anew else 1):
        turns.make_limit(client, name)  # on, and without decay
        return
    _patch(client, number, global_concurrency_limit_id=None)
    _delete(client, name)
    _patch(client, number, concurrency_limit=1)


def _patch(client: SyncPrefectClient, number: UUID, **changes: Any) -> None:
    client.request("PATCH", "/deployments/{id}", path_params={"id": number}, json=changes).raise_for_status()


def _delete(client: SyncPrefectClient, name: str) -> None:
    with suppress(ObjectNotFound):
        client.delete_global_concurrency_limit_by_name(name)
