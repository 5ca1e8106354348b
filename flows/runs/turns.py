"""One run of a data set at a time, over all deployments and machines of a server.

This saves work and keeps nights in order. It is not what protects the budget: the ledger's transaction does, also
where a server is away.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from typing import Any
from uuid import UUID

from httpx import HTTPStatusError
from prefect import get_client, get_run_logger
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate, GlobalConcurrencyLimitUpdate
from prefect.client.schemas.objects import State
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.states import Failed

from blockveil.flows.base import temporary
from blockveil.flows.runs.steps import Steps, Stopped, when_tried_again

WAIT_SECONDS = 6 * 3600
"""How long a run waits for another one of its data set."""

LEASE_SECONDS = 60
"""A killed run's turn ends after this."""


def limit_name(dataset: str) -> str:
    """Name of a data set's limit on the server."""
    return f"blockveil-dataset-{dataset}"


def make_limit(client: SyncPrefectClient, name: str) -> None:
    """Make a limit of one slot that counts, or put it right; whoever holds its slot keeps it.

    It is not read before: a server cannot show one whose slots somebody lets decay too fast.

    Parameters
    ----------
    client
        Of the server.
    name
        Name of the limit.
    """
    settings = GlobalConcurrencyLimitUpdate(active=True, limit=1, slot_decay_per_second=0.0)
    try:
        client.update_global_concurrency_limit(name, settings)
    except ObjectNotFound:
        try:
            client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=1))
        except ObjectAlreadyExists:  # made by somebody else in between
            client.update_global_concurrency_limit(name, settings)


def take(client: SyncPrefectClient, name: str) -> UUID | None:
    """Take the one slot of a limit, which ends by itself after :data:`LEASE_SECONDS`; None where another one has it.

    Parameters
    ----------
    client
        Of the server.
    name
        Name of the limit.
    """
    make_limit(client, name)
    try:
        answer = client.increment_concurrency_slots_with_lease([name], 1, "concurrency", LEASE_SECONDS)
    except HTTPStatusError as error:
        if error.response.status_code != HTTPStatus.LOCKED:
            raise
        return None
    return UUID(answer.json()["lease_id"])


def give_back(client: SyncPrefectClient, lease: UUID) -> None:
    """Give back a slot that was taken."""
    with suppress(ObjectNotFound, HTTPStatusError):  # it ends by itself
        client.release_concurrency_slots_with_lease(lease)


@contextmanager
def of_dataset(steps: Steps, dataset: str) -> Iterator[None]:
    """Hold the turn of a data set.

    Raises
    ------
    Stopped
        Another run kept it for too long.
    """
    if temporary.is_temporary.get():
        # A temporary server serves this run alone, and forgets leases: a killed run's turn would never end.
        yield
        return
    turn, busy = ExitStack(), False
    try:
        with get_client(sync_client=True) as client:
            make_limit(client, limit_name(dataset))
        turn.enter_context(
            concurrency(
                limit_name(dataset),
                timeout_seconds=WAIT_SECONDS,
                lease_duration=LEASE_SECONDS,
                strict=True,
                # A server that is away for a minute must not end a release that is under way.
                raise_on_lease_renewal_failure=False,
            )
        )
    except TimeoutError:
        busy = True
    except Exception as error:  # noqa: BLE001 - what only saves work must not decide what is released
        get_run_logger().warning("Other runs of this data set are not held back (%s)", type(error).__name__)
    if busy:
        raise Stopped(_busy(dataset, steps.on_failure))
    try:
        yield
    finally:
        try:
            turn.close()
        except Exception as error:  # noqa: BLE001 - as above; the turn ends with its lease
            get_run_logger().warning("The turn of this data set could not be ended (%s)", type(error).__name__)


def _busy(dataset: str, spent: str) -> State[Any]:
    reason = f"Another run of data set '{dataset}' was at work for {WAIT_SECONDS // 3600} hours. One runs at a time."
    message = f"{reason} {spent} {when_tried_again()}"
    get_run_logger().error(message)
    return Failed(name="DatasetBusy", message=message)
