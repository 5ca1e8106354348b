"""How alarms are sent: events, which the server passes on through the Prefect blocks that ``deployments.toml`` names.

Addresses and passwords are in those blocks, on the server alone: who runs releases calls no address that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.events.actions import ActionTypes, CallWebhook, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound

from blockveil.flows.service.pages import readable
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.deployments_file import LoadedDeployments

PREFIX = "blockveil: "
"""Starts the name of every automation of this product."""

ALARM = "blockveil.alarm"
"""Event of an alarm for one recipient, whose payload says what there is to tell."""

ALIVE = "blockveil.alive"
"""Event of a process that starts runs."""

_RECIPIENT = "blockveil.recipient"
_RESOURCE = "blockveil.alarm."
_RUN, _EVENT = "prefect.flow-run.", "prefect.event."
_LOOK_BACK = timedelta(days=8)  # a server keeps events for a week
_MOST = 50

_TEXT = "{{ event.payload.message }}{% if flow_run %} {{ flow_run|ui_url }}{% endif %}"


@dataclass(frozen=True)
class Told:
    """An alarm that the server knows."""

    recipient: str
    occurred: datetime
    sent: bool


def recipients(loaded: LoadedDeployments) -> Sequence[str]:
    """Blocks of who is told; one that is empty, where nobody is, keeps what was done of an alarm."""
    return list(dict.fromkeys(loaded.deployments.alerts.notify)) or [""]


def install(loaded: LoadedDeployments, *, own: bool = False) -> list[str]:
    """Make or replace the automations on the server; one line for each.

    A server is ``own`` that ends with the process that starts its runs, so that it never misses that one.

    Raises
    ------
    ConfigError
        A block that deployments.toml names does not exist.
    """
    automations = build(loaded, own=own)
    with get_client(sync_client=True) as client:
        present, _ = readable(lambda limit, offset: client.read_automations(limit=limit, offset=offset))
        for old in present:
            if old.name.startswith(PREFIX):
                client.delete_automation(old.id)
        for automation in automations:
            client.create_automation(automation)
    return [f"{automation.name.removeprefix(PREFIX)}: {automation.description}" for automation in automations]


def build(loaded: LoadedDeployments, *, own: bool = False) -> list[AutomationCore]:
    """Automations of a file, not yet on the server; parameters and errors as :func:`install`."""
    alerts = loaded.deployments.alerts
    actions = {name: _by_block(name) for name in dict.fromkeys(alerts.notify)}
    automations = [
        AutomationCore(
            name=f"{PREFIX}alarms to {name}",
            description="sends what there is to tell",
            trigger=EventTrigger(
                expect={ALARM},
                match=ResourceSpecification({"prefect.resource.id": f"{_RESOURCE}*", _RECIPIENT: name}),
                posture=Posture.Reactive,
                threshold=1,
            ),
            actions=[action(_TEXT)],
        )
        for name, action in actions.items()
    ]
    if actions and not own:
        text = f"For {alerts.late_minutes} min nobody has started the runs of this server: start a worker or `serve`."
        automations.append(
            AutomationCore(
                name=f"{PREFIX}nobody starts runs",
                description=f"tells of {alerts.late_minutes} min without a worker or service, as long as it is so",
                trigger=EventTrigger(
                    expect={ALIVE},
                    posture=Posture.Proactive,
                    threshold=1,
                    within=timedelta(minutes=alerts.late_minutes),
                ),
                actions=[action(text) for action in actions.values()],
            )
        )
    return automations


def emit(
    client: SyncPrefectClient,
    event: str,
    about: str,
    now: datetime,
    recipient: str = "",
    message: str = "",
    run: UUID | None = None,
) -> None:
    """Send an event by a request that fails where it does not arrive.

    Parameters
    ----------
    client
        Of the server.
    event
        :data:`ALARM` or :data:`ALIVE`.
    about
        What it is about.
    now
        Present time.
    recipient
        Block of who is told.
    message
        What there is to tell.
    run
        The run that it is about, if it is about one.
    """
    resources = [] if run is None else [{"prefect.resource.id": f"{_RUN}{run}", "prefect.resource.role": "flow-run"}]
    body = {
        "id": str(uuid4()),
        "occurred": now.isoformat(),
        "event": event,
        "resource": {"prefect.resource.id": f"{_RESOURCE}{about}", _RECIPIENT: recipient},
        "related": resources,
        "payload": {"message": message},
    }
    client.request("POST", "/events", json=[body]).raise_for_status()


def told(client: SyncPrefectClient, about: str, now: datetime) -> list[Told]:
    """What the server knows of an alarm: whom it was to tell, when, and whether it has.

    Parameters
    ----------
    client
        Of the server.
    about
        What the alarm is about.
    now
        Present time.
    """
    alarms = _events(client, now, ALARM, resource={"id": [f"{_RESOURCE}{about}"]})
    numbers = [f"{_EVENT}{each['id']}" for each in alarms]
    actions = _events(client, now, "prefect.automation.action.executed", related={"id": numbers}) if numbers else []
    deliveries = {part["prefect.resource.id"] for each in actions for part in each["related"]}
    return [
        Told(
            to := each["resource"].get(_RECIPIENT, ""),
            datetime.fromisoformat(each["occurred"]),
            not to or f"{_EVENT}{each['id']}" in deliveries,
        )
        for each in alarms
    ]


def _events(client: SyncPrefectClient, now: datetime, name: str, **more: Any) -> list[dict[str, Any]]:
    span = {"since": (now - _LOOK_BACK).isoformat(), "until": (now + timedelta(days=1)).isoformat()}
    event_filter = {"event": {"name": [name]}, "occurred": span, **more}
    answer = client.request("POST", "/events/filter", json={"filter": event_filter, "limit": _MOST})
    answer.raise_for_status()
    events: list[dict[str, Any]] = answer.json()["events"]
    return events


def _by_block(reference: str) -> Callable[[str], ActionTypes]:
    """Action that sends a message through a block of the server."""
    kind, _, name = reference.partition("/")
    block = _block_id(kind, name)
    if kind == "webhook":
        return lambda message: CallWebhook(block_document_id=block, payload=message)
    return lambda message: SendNotification(block_document_id=block, subject="Blockveil", body=message)


def _block_id(kind: str, name: str) -> UUID:
    try:
        with get_client(sync_client=True) as client:
            block: Any = client.read_block_document_by_name(name, kind)
    except ObjectNotFound:
        block = None
    if block is None:
        raise ConfigError(
            f'There is no block "{kind}/{name}" on this server',
            "Alarms are sent through Prefect blocks, which hold addresses and passwords",
            "Make it on the page Blocks of the Prefect UI, or correct alerts.notify in deployments.toml",
        )
    return UUID(str(block.id))
