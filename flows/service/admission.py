"""What a run obeys: of a server only which deployment, which config, which mode and which date.

Whoever may change a deployment on a server could name code, places, environments and blocks there. None of it is
used: what a run does is looked up in the reviewed folder, and a run whose deployment says anything else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.deployments.runner import RunnerDeployment
from prefect.utilities.schema_tools.validation import ValidationError, validate

from blockveil.flows.base import code, prefect_internals
from blockveil.flows.runs import overrides
from blockveil.flows.runs.deployed import Deployed, NotReviewed
from blockveil.flows.runs.reviewed import config_file
from blockveil.flows.service import deployments
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.deployments_file import load_deployments

LONGEST_TEXT, MOST_BYTES, DEEPEST = 2000, 200_000, 20
"""Bounds of what a form may send: letters of one text, bytes of all of it as JSON, and how deep it is nested."""

_HYDRATED = "__prefect_kind"  # a value that Prefect would compute from a template, a variable or a block
_REFERENCE = "$ref"
_RULE = "A run obeys the reviewed folder alone; of a server it takes the config's name, the mode and the date"


@dataclass(frozen=True)
class Admitted:
    """A run that may start."""

    flow: Flow[..., Any]
    parameters: dict[str, Any]
    deployed: Deployed


def admit(run: FlowRun, deployment: DeploymentResponse | None, flow_name: str, root: Path) -> Admitted:
    """Look a run up in the reviewed folder.

    Parameters
    ----------
    run, deployment
        What the server has; everything of it may have been changed by whoever knows the server's password.
    flow_name
        Name of the deployment's flow on the server.
    root
        The reviewed folder.

    Raises
    ------
    NotReviewed
        The run asks for anything that the folder does not say.
    WrongVersion
        The deployment was made with other code.
    ConfigError
        The folder's own files cannot be used.
    """
    if deployment is None or run.flow_id != deployment.flow_id:
        raise _refusal(f"The run '{run.id}' belongs to no deployment", "Start a run of a reviewed deployment")
    loaded = load_deployments(root, only=deployment.name)
    entry, local = deployments.find(loaded, f"{flow_name}/{deployment.name}")
    code.check(deployment.version)
    fields = differences(local, deployment)
    if fields:
        raise _refusal(
            f"The deployment '{local.full_name}' on the server differs from the reviewed folder: {', '.join(fields)}",
            "Where the folder has changed since, deploy it again (or restart `blockveil serve`); else find out who "
            "changed the server, and then do the same",
        )
    _check_run(run)
    flow = deployments.FLOWS[flow_name]
    parameters = _parameters(run.parameters, local, flow)
    context = Deployed(entry, run.auto_scheduled)
    return Admitted(flow, parameters, context)


def differences(made: RunnerDeployment, known: DeploymentResponse) -> list[str]:
    """Names of what a deployment on a server has otherwise than the reviewed folder says."""
    empty = ("pull_steps", "storage_document_id", "infrastructure_document_id", "job_variables", "path")
    expected = {
        **dict.fromkeys(empty),
        "entrypoint": made.entrypoint,
        "enforce_parameter_schema": True,
        "parameters": made.model_dump(mode="json", include={"parameters"})["parameters"],
        "parameter_openapi_schema": _without_choices(prefect_internals.form(made).model_dump(exclude_unset=True)),
        "tags": sorted(made.tags),
    }
    actual = {name: getattr(known, name) or None for name in (*empty, "entrypoint", "enforce_parameter_schema")}
    actual |= {
        "parameters": known.parameters,
        "parameter_openapi_schema": _without_choices(known.parameter_openapi_schema),
    }
    actual["tags"] = sorted(known.tags)
    return [name for name, value in expected.items() if _as_sent(actual[name]) != _as_sent(value)]


def _without_choices(schema: Any) -> Any:
    """A form without what its fields offer: that follows the files of the folder, which each run is held against."""
    fields = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(fields, dict):
        return schema
    return {**schema, "properties": {name: _of_any_choice(field) for name, field in fields.items()}}


def _of_any_choice(field: Any) -> Any:
    if isinstance(field, list):
        return [_of_any_choice(each) for each in field]
    if not isinstance(field, dict):
        return field
    return {key: _of_any_choice(value) if key == "anyOf" else value for key, value in field.items() if key != "enum"}


def _as_sent(value: Any) -> Any:
    """A value as it comes back from a server; one and one point nought are the same there."""
    return json.loads(_text(value))


def _text(value: Any) -> str:
    return json.dumps(value, default=str)


def _check_run(run: FlowRun) -> None:
    """A run may say by itself where and how often it works; ours may not."""
    policy = run.empirical_policy
    settings = {
        "job_variables": run.job_variables,
        "infrastructure_document_id": run.infrastructure_document_id,
        "empirical_policy.retries": policy.retries,
        "empirical_policy.retry_delay": policy.retry_delay,
    }
    fields = [name for name, value in settings.items() if value]
    if fields:
        raise _refusal(f"The run has {', '.join(fields)} of its own", "Start it again from its deployment's form")


def _parameters(given: dict[str, Any], made: RunnerDeployment, flow: Flow[..., Any]) -> dict[str, Any]:
    schema = prefect_internals.form(made).model_dump(exclude_unset=True)
    for problem in _hostile(given):
        raise _refusal(problem, "Send plain values, as the form does")
    unknown = sorted(set(given) - set(schema["properties"]))
    if unknown:
        raise _refusal(f"The form has no field {unknown[0][:60]!r}", "Send the fields of the form alone")
    if flow.should_validate_parameters:  # a flow that checks for itself says more
        try:
            validate(given, schema, raise_on_error=True)
        except ValidationError as error:
            problem = str(error)[:300]
        else:
            problem = ""
        if problem:
            raise _refusal(f"The form: {problem}", "Correct that field")
    for key in given.get("overrides") or ():
        if not overrides.may_be_asked(key, given.get("mode") == "release"):
            raise _refusal(f"The form may not change {key[:60]!r}", f"It may change {overrides.of_form_in_words()}")
    _check_sizes(given)
    return dict(given)


def _check_sizes(given: dict[str, Any]) -> None:
    """Refuse a form that asks for more workers, threads or memory than its reviewed config has."""
    changes = given.get("overrides")
    if not changes:
        return
    with suppress(ConfigError):  # which the flow tells of itself
        path = config_file(given["release"])
        reviewed, variant = load_config(path), load_config(path, overrides=changes)
        too_large = overrides.raised(reviewed.config, variant.config)
        if too_large is not None:
            key, size, most = too_large
            raise _refusal(
                f"The form asks for {key} = {size:g}, and the reviewed config has {most:g}",
                f"Ask for at most {most:g}, or have the config changed",
            )


def _hostile(value: Any) -> Iterator[str]:
    """What no form sends: references, templates, and values of a size that only an attack has."""
    if len(_text(value)) > MOST_BYTES:
        yield f"The form holds more than {MOST_BYTES} bytes"
        return
    yield from _hostile_part(value, 0)


def _hostile_part(value: Any, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        yield f"The form is nested more than {DEEPEST} deep"
    elif isinstance(value, dict):
        for key, part in value.items():
            if key in (_HYDRATED, _REFERENCE):
                yield f"The form holds {key}, which Prefect would replace by something else"
            yield from _hostile_part(key, depth + 1)
            yield from _hostile_part(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            yield from _hostile_part(part, depth + 1)
    elif isinstance(value, str) and len(value) > LONGEST_TEXT:
        yield f"The form holds a text of more than {LONGEST_TEXT} letters"
    elif not (value is None or isinstance(value, str | bool | int | float)):
        yield f"The form holds a value of type {type(value).__name__}"


def _refusal(what: str, remedy: str) -> NotReviewed:
    return NotReviewed(what, _RULE, remedy)
