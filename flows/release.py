"""The release flow: a thin Prefect shell around :mod:`pipeline.release`.

Steps are tasks without parameters and without stored results, so that neither data, keys nor paths enter Prefect. A
failure becomes a state with a name and a message that says what was and was not spent; no exception text of a library
gets there.
"""

from __future__ import annotations

import os
import re
import secrets
import time
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar, cast
from uuid import UUID

from prefect import flow, get_client, get_run_logger, runtime, task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

import flows.settings  # noqa: F401 - before Prefect reads its environment
from flows.cluster import open_compute
from pipeline import release as steps
from pipeline import report, summary
from pipeline.config import LoadedConfig, load_config
from pipeline.errors import (
    BlockveilError,
    BudgetExhausted,
    ComputeError,
    ConfigError,
    DataError,
    KeyLost,
    LedgerError,
    ReleaseConflict,
    StoreError,
)
from pipeline.planning import Plan, make_plan

Result = TypeVar("Result")

CONFIG_ROOT = "BLOCKVEIL_CONFIG_ROOT"
"""Environment variable: folder of reviewed configs; without it ``configs`` in the working directory."""

OPEN_OVERRIDES = ("compute", "cluster")
"""Sections that a run may override: they cannot change a bit of the release."""

listener: ContextVar[Callable[[str, float | None], None] | None] = ContextVar("listener", default=None)
"""Receives progress beside Prefect, for a terminal."""

_STATE_NAMES: dict[type[BlockveilError], str] = {
    BudgetExhausted: "BudgetExhausted",
    ConfigError: "BadConfig",
    DataError: "BadData",
    ReleaseConflict: "ReleaseConflict",
    LedgerError: "LedgerProblem",
    StoreError: "StoreProblem",
    ComputeError: "ClusterLost",
    KeyLost: "KeyLost",
}
_RELEASE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_UPDATE_SECONDS = 1.0


def resolve(name: str, overrides: dict[str, str], allowed: tuple[str, ...] | None) -> LoadedConfig:
    """Config of a release name under the config root.

    Raises
    ------
    ConfigError
        The name is not a plain name, has no config, or an override is not allowed.
    """
    if not _RELEASE_NAME.fullmatch(name):
        raise ConfigError(
            f"The release {name[:70]!r} is not a name",
            "A release is chosen by the name of a reviewed config: lower-case letters, digits and dashes",
            f"Give the file name without .toml of a config in the folder {CONFIG_ROOT} names",
        )
    root = Path(os.environ.get(CONFIG_ROOT, "configs"))
    return load_config(root / f"{name}.toml", overrides=overrides, allowed_prefixes=allowed)


def _run_name() -> str:
    given = runtime.flow_run.parameters
    return f"{given['release']} {given['logical_date'] or 'today'} ({given['mode']})"


def _today() -> date:
    """Date of the scheduled start, or of now, in this machine's zone."""
    planned = runtime.flow_run.scheduled_start_time
    return (planned or datetime.now().astimezone()).astimezone().date()


@flow(name="release", flow_run_name=_run_name, persist_result=False, log_prints=False, retries=0)
def release(
    release: str,
    mode: Literal["dry-run", "release"] = "dry-run",
    logical_date: date | None = None,
    overrides: dict[str, str] = {},  # noqa: B006 - a form field; never changed
) -> State[Any]:
    """Release one private matrix, or show what it would cost.

    Args:
        release: Name of a reviewed config, for example quickstart.
        mode: A dry run plans and spends nothing; a release charges the budget once.
        logical_date: The night this release is for; empty means the scheduled date. The same night is never charged
        twice. overrides: Settings of compute and cluster only, for example {"cluster.workers": "4"}.
    """
    allowed = OPEN_OVERRIDES if mode == "release" else None
    night = _Night()
    try:
        loaded = night.step("read the config", lambda: resolve(release, overrides, allowed))
        plan = night.step("plan", lambda: make_plan(loaded, logical_date or _today()))
        _describe_run(plan)
        workspace = steps.Workspace.open(plan)
        _plan_artifact(workspace)
        if mode == "dry-run":
            return Completed(message=f"Dry run of {plan.release_id}: nothing was read, charged or released.")
        return _release(night, workspace)
    except _Stopped as stopped:
        return stopped.state


def _release(night: _Night, workspace: steps.Workspace) -> State[Any]:
    plan, logger = workspace.plan, get_run_logger()
    attempt = str(runtime.flow_run.id)
    night.on_failure = "Nothing was spent."
    reservation = night.step("reserve the budget", lambda: steps.reserve(workspace, attempt))
    if reservation.resumed:
        logger.info("%s: %s", plan.release_id, reservation.resumed)
    night.abandon = lambda reason: steps.abandon(workspace, reservation, reason)
    published = reservation.published
    if published is None:
        tell = _Teller(plan.release_id)

        def measure() -> Any:
            with open_compute(plan.loaded) as compute:
                return steps.measure(workspace, reservation, compute, tell)

        staged = night.step("measure and add noise", measure, retries=2)
        published = night.step("publish", lambda: steps.publish(workspace, staged))
    outcome = night.step("seal", lambda: steps.seal(workspace, reservation, published))
    night.step("report", lambda: _report(workspace, outcome))
    resumed = f" {outcome.resumed[0].upper()}{outcome.resumed[1:]}." if outcome.resumed else ""
    return Completed(message=f"Released {outcome.release_id}.{resumed}")


class _Stopped(Exception):
    """Ends the flow with a state that explains itself."""

    def __init__(self, state: State[Any]) -> None:
        super().__init__("stopped")
        self.state = state


class _Night:
    """Runs steps as tasks and turns failures into states."""

    def __init__(self) -> None:
        self.on_failure = "Nothing was read, charged or released."
        self.abandon: Callable[[str], bool] | None = None

    def step(self, name: str, work: Callable[[], Result], retries: int = 0) -> Result:
        """Run one step as a task.

        Only lost computations are tried again, and only they raise inside the task; other failures end it with a state.
        """
        box: dict[str, Any] = {}

        def body() -> State[Any]:
            box.clear()
            try:
                box["result"] = work()
            except ComputeError as error:
                box["error"] = error
                raise
            except BlockveilError as error:
                box["error"] = error
                return Failed(name=_name(error), message=str(error))
            except Exception as error:  # noqa: BLE001 - its text could quote a record; it stays in a private file
                box["error"] = _unexpected(error)
                return Failed(name="Failed", message=str(box["error"]))
            return Completed()

        run = task(
            name=name,
            cache_policy=NO_CACHE,
            persist_result=False,
            retries=retries,
            retry_condition_fn=lambda _task, _run, _state: isinstance(box.get("error"), ComputeError),
        )(body)
        run(return_state=True)
        if "error" in box:
            raise _Stopped(self._explain(box["error"]))
        result: Result = box["result"]
        return result

    def _explain(self, error: BlockveilError) -> State[Any]:
        spent = self.on_failure
        if self.abandon is not None:
            try:
                voided = self.abandon(type(error).__name__)
                spent = (
                    "Nothing was drawn; the budget was given back."
                    if voided
                    else ("The charge stands; running the same release again finishes it at no further cost.")
                )
            except BlockveilError as second:
                spent = (
                    f"Whether the budget was given back is not known ({type(second).__name__}); run again to settle it."
                )
        get_run_logger().error("%s %s", error, spent)
        return Failed(name=_name(error), message=f"{error} {spent}", data=error)


def _name(error: BlockveilError) -> str:
    return _STATE_NAMES.get(type(error), "Failed")


def _unexpected(error: Exception) -> ComputeError:
    """Hide an unexpected error behind a number; its traceback goes to a file that only this user can read."""
    shown = ComputeError(type(error).__name__, secrets.token_hex(4))
    folder = Path(os.environ.get("PREFECT_HOME", Path.home() / ".prefect")) / "blockveil-errors"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / f"{shown.error_id}.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write("".join(traceback.format_exception(error)))
    except OSError:
        get_run_logger().warning("no details of error %s could be kept", shown.error_id)
    return shown


class _Teller:
    """Progress as a Prefect artifact, a log line a stage, and to a listening terminal."""

    def __init__(self, release_id: str) -> None:
        artifact = create_progress_artifact(0.0, key="release-progress", description=f"Progress of {release_id}")
        self._artifact = cast(UUID, artifact)
        self._stage, self._last = "", 0.0

    def __call__(self, stage: str, share: float | None) -> None:
        heard = listener.get()
        if heard is not None:
            heard(stage, share)
        if stage != self._stage:
            get_run_logger().info(stage)
            self._stage = stage
        now = time.monotonic()
        if share is not None and (share >= 1.0 or now - self._last >= _UPDATE_SECONDS):
            self._last = now
            update_progress_artifact(self._artifact, progress=round(100.0 * share, 1))


def _describe_run(plan: Plan) -> None:
    tags = [
        f"dataset:{plan.config.release.dataset}",
        f"release:{plan.config.release.name}",
        f"date:{plan.logical_date}",
    ]
    with get_client(sync_client=True) as client:
        client.update_flow_run(runtime.flow_run.id, tags=tags)


def _plan_artifact(workspace: steps.Workspace) -> None:
    try:
        budget = workspace.budget()
    except LedgerError:
        budget = None
    rows = summary.describe(workspace.plan, budget)
    table = "\n".join(f"| {what} | {value} |" for what, value in rows)
    create_markdown_artifact(
        f"## Plan of {workspace.plan.release_id}\n\n| | |\n|---|---|\n{table}\n",
        key="release-plan",
        description="What this release costs and how exact it will be; no data was read for it",
    )


def _report(workspace: steps.Workspace, outcome: steps.Outcome) -> None:
    made = report.make_report(workspace, outcome)
    create_markdown_artifact(made.markdown, key="release-report", description=f"Report of {outcome.release_id}")
    create_table_artifact(made.errors, key="release-error", description="Noise beside each estimate")
    create_table_artifact(
        [{"what": what, "value": value} for what, value in made.budget],
        key="privacy-budget",
        description="What is left",
    )
