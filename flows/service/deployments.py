"""Deployments as code: every flow by its module path in the installed package, pinned to the code that made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from prefect import Flow, get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentScheduleUpdate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy, DeploymentSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import PrefectHTTPStatusError
from prefect.schedules import Cron, Schedule
from prefect.types.entrypoint import EntrypointType

from blockveil.flows.base import code, prefect_internals
from blockveil.flows.runs.deployed import DATASET, MARK, NotReviewed
from blockveil.flows.runs.ingest_flow import ingest_dataset
from blockveil.flows.runs.plan_flow import plan
from blockveil.flows.runs.release_flow import release
from blockveil.flows.runs.verify_flow import verify_ledger
from blockveil.flows.service import limits
from blockveil.flows.service.pages import is_broken, readable, shown_deployments
from blockveil.flows.service.server import ServerFailed
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.deployments_file import (
    Ingest,
    LedgerCheck,
    LoadedDeployments,
    NightSection,
    Scheduled,
)
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.preview import look
from blockveil.pipeline.plan.planning import Plan, plan_near
from blockveil.pipeline.plan.what_if import question_of

FLOWS: dict[str, Flow[..., Any]] = {flow.name: flow for flow in (ingest_dataset, plan, release, verify_ledger)}
"""Every flow that can be deployed, by name."""

BY_HAND = "by-hand"
"""Deployment of the release flow for whatever config a person picks."""

_AS_MADE: dict[str, Any] = {
    "path": None,
    "storage_document_id": None,
    "infrastructure_document_id": None,
    "pull_steps": None,
    "job_variables": {},
    "enforce_parameter_schema": True,
}
"""What every deployment has, and what `apply` of Prefect does not put right."""

_ONE_AT_A_TIME = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)
# CANCEL_NEW would lose a night that comes while the one before it is still at work.


def build(loaded: LoadedDeployments, pool: str | None = None) -> list[RunnerDeployment]:
    """Every deployment of a file, not yet registered anywhere.

    Without a pool they are deployments that one process serves.
    """
    deployments = [make() for _, make in _all(loaded).values()]
    for deployment in deployments:
        deployment.work_pool_name = pool
    return deployments


def find(loaded: LoadedDeployments, full_name: str) -> tuple[Scheduled | None, RunnerDeployment]:
    """What a file says about one deployment: its schedule, where it has one, and the deployment itself.

    Raises
    ------
    NotReviewed
        The file has no such deployment.
    """
    entry = _all(loaded).get(full_name)
    if entry is None:
        raise NotReviewed(
            f"The reviewed folder has no deployment {full_name[:140]!r}",
            "Runs are those of deployments.toml",
            "Add it there and deploy again, or delete it on the server",
        )
    return entry[0], entry[1]()


def _all(loaded: LoadedDeployments) -> dict[str, tuple[Scheduled | None, Callable[[], RunnerDeployment]]]:
    """Schedule of each deployment of a file, and what makes it, by full name."""
    file = loaded.deployments
    makers: dict[str, tuple[Scheduled | None, Callable[[], RunnerDeployment]]] = {}
    for night in file.night:
        makers[f"{release.name}/{night.config}"] = night, partial(_night, loaded, night)
        makers[f"{plan.name}/{night.config}"] = None, partial(_what_if, loaded, night)
    for check in file.verify:
        makers[f"{verify_ledger.name}/{check.config}"] = check, partial(_check, check)
    for each in file.ingest:
        makers[f"{ingest_dataset.name}/{each.config}"] = each, partial(_ingest, loaded, each)
    makers[f"{release.name}/{BY_HAND}"] = None, partial(_by_hand, loaded)
    return makers


def register(made: Sequence[RunnerDeployment], anew: bool = False) -> dict[str, UUID]:
    """Make deployments on the server, or put them right; the number of each by its full name.

    A slot that is taken is nobody's where they are made ``anew``: no run is at work then.
    """
    with get_client(sync_client=True) as client:
        numbers = {deployment.full_name: _put_right(client, deployment) for deployment in made}
        on_server = shown_deployments(client, numbers)
        for deployment in made:
            name = deployment.full_name
            limits.of_deployment(client, numbers[name], on_server.get(name), anew)
    return numbers


def require_schedule(made: Sequence[RunnerDeployment], numbers: Mapping[str, UUID]) -> None:
    """Have the server plan the next run of one deployment, as its scheduler does, which tells nobody that it fails.

    Raises
    ------
    ServerFailed
        It cannot.
    """
    active = [
        each.full_name for each in made if not each.paused and any(schedule.active for schedule in each.schedules or [])
    ]
    for name in active[:1]:
        path = f"/deployments/{numbers[name]}/schedule"
        try:
            with get_client(sync_client=True) as client:
                client.request("POST", path, json={"max_runs": 1})  # type: ignore[arg-type]
            return
        except PrefectHTTPStatusError as error:
            if not is_broken(error):
                raise
        raise ServerFailed(
            f"The Prefect server cannot plan runs of {name}: its scheduler would never start a night",
            "Prefect before 3.9.1 plans nothing on SQLAlchemy 2.1, nor 3.9.1 with whenever before 0.11 on Python 3.11",
            'Install what works together where the server runs, pip install --upgrade "blockveil[server]"; see its log',
        )


def served() -> list[UUID]:
    """Numbers of all deployments without a work pool, also of those that the folder has no more."""
    ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[MARK]))
    with get_client(sync_client=True) as client:
        on_server, _ = readable(
            lambda limit, offset: client.read_deployments(deployment_filter=ours, limit=limit, offset=offset)
        )
    return [each.id for each in on_server if each.work_pool_name is None]


def offer(loaded: LoadedDeployments, names: Sequence[str]) -> tuple[str, ...]:
    """Have the forms offer the configs that the folder holds, where ``names`` are others; their names now."""
    present = loaded.offered
    if present != tuple(names):
        forms = [each for each in build(loaded) if each.name == BY_HAND or each.flow_name == plan.name]
        keep_pauses(forms)
        register(forms)
    return present


def _put_right(client: SyncPrefectClient, deployment: RunnerDeployment) -> UUID:
    """Make one deployment as this code makes it, whatever an earlier hand has set, so that its runs are not refused."""
    try:
        number = _applied(client, deployment)
    except PrefectHTTPStatusError as error:
        if not is_broken(error):
            raise
        # Schedules with a text that the server cannot show; it is asked for none of it where it replaces them.
        identity = {"name": deployment.name, "flow_id": str(client.create_flow_from_name(str(deployment.flow_name)))}
        client.request("POST", "/deployments/", json={**identity, "schedules": []}).raise_for_status()
        number = _applied(client, deployment)
    return number


def _applied(client: SyncPrefectClient, deployment: RunnerDeployment) -> UUID:
    number: UUID = deployment.apply()  # type: ignore[assignment]
    client.request("PATCH", "/deployments/{id}", path_params={"id": number}, json=_AS_MADE).raise_for_status()
    return number


def when(deployment: RunnerDeployment) -> str:
    """When a deployment runs, in words."""
    schedules = [each for each in deployment.schedules or [] if each.schedule is not None]
    if not schedules:
        return "by hand"
    text = ", ".join(" ".join(map(str, _time(each))) for each in schedules)
    return text + (" (paused)" if deployment.paused or not all(each.active for each in schedules) else "")


def plans(loaded: LoadedDeployments) -> list[Plan]:
    """Plan of each nightly config, so that a bad one is found before anything is deployed; reads no data."""
    today = datetime.now(UTC).date()
    return [plan_near(loaded.configs[night.config], today) for night in loaded.deployments.night]


def stores(loaded: LoadedDeployments) -> list[str]:
    """Look at the store of each nightly config; a line for each that cannot be looked at yet.

    Raises
    ------
    DataError, StoreError
        A store does not fit its config, so that its nights would be refused.
    """
    by_config = {night.config: look(loaded.configs[night.config]) for night in loaded.deployments.night}
    return [f"{name}: {store.sentence}" for name, store in by_config.items() if not store.there]


def keep_pauses(deployments: Sequence[RunnerDeployment]) -> None:
    """Leave paused what a person has paused on the server: deploying again must not start it behind their back."""
    with get_client(sync_client=True) as client:
        on_server = shown_deployments(client, [each.full_name for each in deployments])
        for deployment in deployments:
            current = on_server.get(deployment.full_name)
            if current is None:
                continue
            deployment.paused = current.paused
            pauses = {_time(each) for each in current.schedules if not each.active}
            # A night that was switched off stays so when its file names another hour.
            off = bool(current.schedules) and len(pauses) == len(current.schedules)
            for schedule in deployment.schedules or []:
                schedule.active = bool(schedule.active) and not off and _time(schedule) not in pauses


def _time(planned: DeploymentSchedule | DeploymentScheduleCreate | DeploymentScheduleUpdate) -> tuple[Any, Any]:
    return getattr(planned.schedule, "cron", None), getattr(planned.schedule, "timezone", None)


def _night(loaded: LoadedDeployments, night: NightSection) -> RunnerDeployment:
    section = loaded.configs[night.config].config.release
    deployment = _deployment(
        release,
        night.config,
        _schedule(night),
        {"release": night.config, "mode": night.mode},
        [f"{DATASET}{section.dataset}"],
    )
    return _choices(deployment, "release", [night.config])


def _check(check: LedgerCheck) -> RunnerDeployment:
    deployment = _deployment(verify_ledger, check.config, _schedule(check), {"config": check.config}, [])
    return _choices(deployment, "config", [check.config])


def _ingest(loaded: LoadedDeployments, each: Ingest) -> RunnerDeployment:
    load_ingest(loaded.root / f"{each.config}.toml")  # a bad one is found before anything is deployed
    deployment = _deployment(ingest_dataset, each.config, _schedule(each), {"config": each.config}, [])
    return _choices(deployment, "config", [each.config])


def _by_hand(loaded: LoadedDeployments) -> RunnerDeployment:
    return _choices(_deployment(release, BY_HAND, None, {}, []), "release", loaded.offered)


def _what_if(loaded: LoadedDeployments, night: NightSection) -> RunnerDeployment:
    """Form filled with a reviewed config, so that a question is one change away."""
    parameters = {"question": question_of(loaded.configs[night.config].config), "budget_of": night.config}
    deployment = _deployment(plan, night.config, None, parameters, [])
    return _choices(deployment, "budget_of", loaded.offered)


def _deployment(
    of: Flow[..., Any],
    name: str,
    schedule: Schedule | None,
    parameters: dict[str, Any],
    tags: Sequence[str],
) -> RunnerDeployment:
    deployment = RunnerDeployment.from_flow(
        of,
        name=name,
        schedule=schedule,
        parameters=parameters,
        tags=[MARK, *tags],
        version=code.running(),
        version_type=prefect_internals.SIMPLE,  # type: ignore[arg-type]
        concurrency_limit=_ONE_AT_A_TIME,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    prefect_internals.set_form(deployment, definitions=_portable(prefect_internals.form(deployment).definitions))
    return deployment


def _portable(schema: Any) -> Any:
    """Without patterns that only the models' own regular expressions know; the flow checks those itself."""
    if isinstance(schema, list):
        return [_portable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _portable(value) for key, value in schema.items() if key != "pattern" or not _foreign(value)}


def _foreign(pattern: Any) -> bool:
    return isinstance(pattern, str) and "\\p{" in pattern


def _schedule(entry: Scheduled) -> Schedule:
    try:
        return Cron(entry.cron, timezone=entry.timezone)
    except ValueError:
        problem = f'"{entry.cron}" is not a schedule'
    raise ConfigError(problem, "A schedule is five cron fields: minute, hour, day, month, weekday", "Correct it")


def _choices(deployment: RunnerDeployment, field: str, names: Sequence[str]) -> RunnerDeployment:
    """Let the form offer these names alone; the flow itself refuses whatever is no reviewed config."""
    schema = prefect_internals.form(deployment)
    form_field: dict[str, Any] = schema.properties[field]
    choice: dict[str, Any] = {"enum": list(names)}
    if "anyOf" in form_field:  # what may be left empty too
        choice = {"anyOf": [{**each, **(choice if each["type"] == "string" else {})} for each in form_field["anyOf"]]}
    prefect_internals.set_form(deployment, properties={**schema.properties, field: {**form_field, **choice}})
    return deployment
