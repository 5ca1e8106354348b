"""Alarms as code: what the server does by itself when a night fails, is late, waits, or finds a damaged ledger.

Whom to tell is named in ``deployments.toml`` by Prefect blocks, so no address or password lies in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.events.actions import ActionTypes, CallWebhook, PauseDeployment, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound

from blockveil.flows.runs.deployed import BUDGET_LOW, MARK
from blockveil.flows.runs.steps import FAILURES, NOT_REVIEWED
from blockveil.flows.runs.verify_flow import DAMAGED
from blockveil.flows.service.admission import REFUSED
from blockveil.flows.service.overdue import MISSING
from blockveil.flows.service.pages import readable, shown_deployments
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.deployments_file import LoadedDeployments

PREFIX = "blockveil: "
"""Starts the name of every alarm of this product."""

_EXHAUSTED = "BudgetExhausted"
_OTHER_FAILURES = tuple(name for name in FAILURES if name not in (_EXHAUSTED, NOT_REVIEWED))
# Those have alarms of their own.
_NOT_STARTED = ("Late", "AwaitingConcurrencySlot", "Pending")
_STARTED = ("Running", "Completed", "Cancelled", "Cancelling", "Suspended", *FAILURES)
# Suspended and failed runs have been reported already.

_TEXT = "{{ event.payload.message }}"

_MESSAGE = "{{ flow_run.name }}: {{ flow_run.state.name }}. {{ flow_run.state.message }} {{ flow_run|ui_url }}"


def install(loaded: LoadedDeployments) -> list[str]:
    """Make or replace the alarms on the server; one line for each.

    Raises
    ------
    ConfigError
        A block that deployments.toml names does not exist.
    """
    made = build(loaded)
    with get_client(sync_client=True) as client:
        known, _ = readable(lambda limit, offset: client.read_automations(limit=limit, offset=offset))
        for old in known:
            if old.name.startswith(PREFIX):
                client.delete_automation(old.id)
        for automation in made:
            client.create_automation(automation)
    return [f"{automation.name.removeprefix(PREFIX)}: {automation.description}" for automation in made]


def build(loaded: LoadedDeployments) -> list[AutomationCore]:
    """Alarms of a file, not yet on the server; blocks are looked up there."""
    notify = [_by_block(name) for name in loaded.deployments.alerts.notify]

    def tell(message: str) -> list[ActionTypes]:
        return [action(message) for action in notify]

    made = [
        _alarm(
            "budget exhausted", [_EXHAUSTED], [PauseDeployment(source="inferred"), *tell(_MESSAGE)],
            "pauses the deployment",
        ),
        _alarm(
            "ledger damaged", [DAMAGED], [*_pauses(loaded), *tell(_MESSAGE)], "pauses every nightly release",
        ),
    ]  # fmt: skip
    if notify:
        made += [
            _alarm("failed", _OTHER_FAILURES, tell(_MESSAGE), "tells of runs that failed or crashed"),
            _late(loaded.deployments.alerts.late_minutes, tell),
            _alarm("waits for approval", ["Suspended"], tell(_MESSAGE), "tells of runs that wait for a person"),
            _event("budget low", BUDGET_LOW, tell(_TEXT), "tells of a budget that is nearly spent"),
            _event("release missing", MISSING, tell(_TEXT), "tells of nights that are not released, by the ledger"),
            _event("refused", REFUSED, tell(_TEXT), "tells of runs that ask for what the reviewed folder does not say"),
        ]
    return made


def _alarm(name: str, states: Sequence[str], actions: list[ActionTypes], what: str) -> AutomationCore:
    """Act on runs of ours that enter one of these states."""
    return AutomationCore(
        name=PREFIX + name,
        description=what,
        trigger=EventTrigger(
            expect={f"prefect.flow-run.{state}" for state in states},
            match_related=_ours(),
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=actions,
    )


def _ours() -> ResourceSpecification:
    return ResourceSpecification({"prefect.resource.id": f"prefect.tag.{MARK}", "prefect.resource.role": "tag"})


def _late(minutes: int, tell: Callable[[str], list[ActionTypes]]) -> AutomationCore:
    """Tell of a run that nobody takes, that waits for another one, or that was taken and shows no sign of life."""
    return AutomationCore(
        name=PREFIX + "late",
        description=f"tells of runs that do not start within {minutes} min",
        trigger=EventTrigger(
            after={f"prefect.flow-run.{state}" for state in _NOT_STARTED},
            expect={f"prefect.flow-run.{state}" for state in _STARTED},
            match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
            match_related=_ours(),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(minutes=minutes),
        ),
        actions=tell(f"Not started within {minutes} min: {_MESSAGE}"),
    )


def _event(name: str, event: str, actions: list[ActionTypes], what: str) -> AutomationCore:
    """Act on an event of ours, whose payload says what there is to tell."""
    return AutomationCore(
        name=PREFIX + name,
        description=what,
        trigger=EventTrigger(expect={event}, posture=Posture.Reactive, threshold=1),
        actions=actions,
    )


def _pauses(loaded: LoadedDeployments) -> list[ActionTypes]:
    """Pause each nightly release; a ledger that does not verify must not be charged further."""
    with get_client(sync_client=True) as client:
        shown = shown_deployments(client, [f"release/{night.config}" for night in loaded.deployments.night])
    return [PauseDeployment(source="selected", deployment_id=each.id) for each in shown.values()]


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
            found: Any = client.read_block_document_by_name(name, kind)
    except ObjectNotFound:
        found = None
    if found is None:
        raise ConfigError(
            f'There is no block "{kind}/{name}" on this server',
            "Alarms are sent through Prefect blocks, which hold addresses and passwords",
            "Make it on the page Blocks of the Prefect UI, or correct alerts.notify in deployments.toml",
        )
    return UUID(str(found.id))
