"""What a server can show of its runs and deployments, whatever one of them holds.

A form whose text cannot be written as UTF-8 is stored by Prefect's server, which then answers every question whose
answer would contain that run with an error: one such run would stop the nights of all deployments, and every start of
a service. Nobody can see, start or change it, so it is deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterEndTime,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.context import SettingsContext, get_settings_context
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, Settings

_PAGE = 200
_BEYOND = 10**9
_BROKEN = 500
_TRIES, _SECONDS = 3, 0.3

_MOST_KEPT = 8
_kept: dict[tuple[int, int], tuple[Settings, Settings]] = {}
"""Settings, and the same with other retries, by the identity of the first, which no others get while they are here."""

_log = logging.getLogger(__name__)

Item = TypeVar("Item")


def is_broken(error: PrefectHTTPStatusError) -> bool:
    """Whether a server failed to answer a question that it took."""
    return error.response.status_code == _BROKEN


def shown_deployments(client: SyncPrefectClient, full_names: Iterable[str]) -> dict[str, DeploymentResponse]:
    """Deployments by full name, asked for all at once; without those that are missing, or that a server cannot show.

    :mod:`.deployments` makes both anew.
    """
    pairs = {name: name.split("/", 1) for name in full_names}
    flows = FlowFilter(name=FlowFilterName(any_=sorted({flow for flow, _ in pairs.values()})))
    of = DeploymentFilter(name=DeploymentFilterName(any_=sorted({name for _, name in pairs.values()})))
    for _ in range(_TRIES):  # a failure of the moment looks the same, and must not make a pause forgotten
        names, unnamed = readable(
            lambda limit, offset: client.read_flows(flow_filter=flows, limit=limit, offset=offset)
        )
        flow_of = {flow.id: flow.name for flow in names}
        deployments, unreadable = readable(
            lambda limit, offset: client.read_deployments(
                flow_filter=flows, deployment_filter=of, limit=limit, offset=offset
            )
        )
        if not unreadable + unnamed:
            break
        time.sleep(_SECONDS)
    else:
        _log.warning("The server cannot show %d of the deployments, which somebody has changed", unreadable + unnamed)
    responses = {f"{flow_of.get(each.flow_id)}/{each.name}": each for each in deployments}
    return {name: responses[name] for name in pairs if name in responses}


def runs(
    deployments: Iterable[UUID] | None = None,
    states: Iterable[StateType] | None = None,
    *,
    planned_after: datetime | None = None,
    planned_before: datetime | None = None,
    ended_after: datetime | None = None,
) -> FlowRunFilter:
    """Filter of runs; what is left out does not count.

    Parameters
    ----------
    deployments
        Numbers of their deployments.
    states
        Types of their present states.
    planned_after, planned_before, ended_after
        Times between which they were expected to start, and after which they ended.
    """
    start = FlowRunFilterExpectedStartTime(after_=planned_after, before_=planned_before)
    return FlowRunFilter(
        deployment_id=None if deployments is None else FlowRunFilterDeploymentId(any_=list(deployments)),
        state=None if states is None else FlowRunFilterState(type=FlowRunFilterStateType(any_=list(states))),
        expected_start_time=start if planned_after or planned_before else None,
        end_time=None if ended_after is None else FlowRunFilterEndTime(after_=ended_after),
    )


def in_pool(name: str | None) -> WorkPoolFilter | None:
    """Filter of runs of a work pool; none without a name."""
    return None if name is None else WorkPoolFilter(name=WorkPoolFilterName(any_=[name]))


def pages(
    client: SyncPrefectClient,
    of: FlowRunFilter,
    pool: WorkPoolFilter | None = None,
) -> Sequence[FlowRun]:
    """All runs of a filter; read before any of them is changed, for a changed one may leave the filter.

    Parameters
    ----------
    client
        Of the server.
    of
        What the runs are.
    pool
        Their work pool; None for any.
    """

    def read(limit: int, offset: int) -> Sequence[FlowRun]:
        return client.read_flow_runs(flow_run_filter=of, work_pool_filter=pool, limit=limit, offset=offset)

    flow_runs, unreadable = readable(read)
    if unreadable:
        filters = {"flow_runs": of, "work_pools": pool}
        _delete_unreadable(client, filters, {run.id for run in flow_runs})
    return flow_runs


def readable(read: Callable[[int, int], Sequence[Item]]) -> tuple[list[Item], int]:
    """All that a server can show of a list, and how many things of it it cannot.

    ``read`` takes how many at most, and from which place on.

    Raises
    ------
    PrefectHTTPStatusError
        The server answers nothing at all.
    """
    items: list[Item] = []
    offset = unreadable = 0
    while True:
        part, missing = _page(read, offset)
        items += part
        unreadable += missing
        offset += _PAGE
        if len(part) + missing < _PAGE:
            return items, unreadable


def _page(read: Callable[[int, int], Sequence[Item]], offset: int) -> tuple[list[Item], int]:
    try:
        with _retries(1):
            return list(read(_PAGE, offset)), 0
    except PrefectHTTPStatusError as error:
        if not is_broken(error):
            raise
    # What a server cannot show it cannot show a moment later either: each wait of a minute would be one in vain.
    with _retries(0):
        return _halves(read, offset, _PAGE)


def _retries(most: int) -> SettingsContext:
    """Settings of this process but for how often a client asks again.

    They are kept, for Prefect checks hundreds of settings anew, which takes longer than an answer of the server.
    """
    context = get_settings_context()
    key = id(context.settings), most
    if key not in _kept:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = context.settings, context.settings.copy_with_update({PREFECT_CLIENT_MAX_RETRIES: most})
    return SettingsContext(profile=context.profile, settings=_kept[key][1])


def _halves(read: Callable[[int, int], Sequence[Item]], offset: int, size: int) -> tuple[list[Item], int]:
    half = size // 2
    first, missing = _part(read, offset, half)
    second, more = _part(read, offset + half, size - half)
    return first + second, missing + more


def _part(read: Callable[[int, int], Sequence[Item]], offset: int, size: int) -> tuple[list[Item], int]:
    try:
        return list(_again_if_closed(read, size, offset)), 0
    except PrefectHTTPStatusError as error:
        if not is_broken(error):
            raise
    if size > 1:
        return _halves(read, offset, size)
    _again_if_closed(read, 1, _BEYOND)  # raises where it is the server that is broken, and not what it would show
    return [], 1


def _again_if_closed(read: Callable[[int, int], Sequence[Item]], size: int, offset: int) -> Sequence[Item]:
    """What is read, on a new connection where the server closed the one on which it had failed."""
    try:
        return read(size, offset)
    except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
        return read(size, offset)


def _delete_unreadable(client: SyncPrefectClient, filters: dict[str, Any], known: set[UUID]) -> None:
    """Delete the runs of a filter that the server cannot show; their numbers it can."""
    query = {name: each.model_dump(mode="json") for name, each in filters.items() if each is not None}
    answer = client.request("POST", "/ui/flow_runs/history", json=query)
    answer.raise_for_status()
    for number in {UUID(each["id"]) for each in answer.json()} - known:
        try:
            client.read_flow_run(number)
        except ObjectNotFound:
            continue
        except PrefectHTTPStatusError as error:
            if not is_broken(error):
                raise
            with suppress(ObjectNotFound):
                client.delete_flow_run(number)
            _log.warning("Deleted run %s: its form holds what the server stores and can never show", number)
