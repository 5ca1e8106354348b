"""What a run's page shows: plan, progress, report, error and budget. A server that is away never fails a release."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar, cast
from uuid import UUID

from prefect import get_client, get_run_logger, runtime
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from flows import budgets
from pipeline import summary
from pipeline.planning import Plan
from pipeline.report import Report

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

listener: ContextVar[Callable[[str, float | None], None] | None] = ContextVar("listener", default=None)
"""Receives progress beside Prefect, for a terminal."""

_UPDATE_SECONDS = 1.0


def _optional(show: Callable[Arguments, Result]) -> Callable[Arguments, Result | None]:
    """Make a function that talks to the server only try."""

    @wraps(show)
    def tried(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result | None:
        try:
            return show(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - what is shown must not decide what is released
            get_run_logger().warning("The run's page could not be updated (%s)", type(error).__name__)
        return None

    return tried


@_optional
def tag_run(plan: Plan) -> None:
    """Add data set, release and night to the run's tags."""
    section = plan.config.release
    added = [f"dataset:{section.dataset}", f"release:{section.name}", f"date:{plan.logical_date}"]
    with get_client(sync_client=True) as client:
        client.update_flow_run(runtime.flow_run.id, tags=[*dict.fromkeys([*runtime.flow_run.tags, *added])])


def show_plan(plan: Plan) -> None:
    """Show cost and expected error before anything is spent."""
    _markdown(
        f"## Plan of {plan.release_id}\n\n" + _table(summary.describe(plan, budgets.granted(plan))),
        "release-plan",
        "What this release costs and how exact it will be; no data was read for it",
    )


def show_report(release_id: str, made: Report) -> None:
    """Show the finished release: report, noise beside each estimate, and what is left of the budget."""
    _markdown(made.markdown, "release-report", f"Report of {release_id}")
    _rows(made.errors, "release-error", "Noise beside each estimate")
    _rows([{"what": what, "value": value} for what, value in made.budget], "privacy-budget", "What is left")


@_optional
def _markdown(text: str, key: str, description: str) -> None:
    create_markdown_artifact(text, key=key, description=description)


@_optional
def _rows(rows: list[dict[str, str]], key: str, description: str) -> None:
    create_table_artifact(rows, key=key, description=description)


def _table(rows: summary.Rows) -> str:
    cells = [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "| | |\n|---|---|\n" + "\n".join(f"| {what} | {value} |" for what, value in cells) + "\n"


class Teller:
    """Progress as an artifact, as a log line for each stage, and to a listening terminal."""

    def __init__(self, release_id: str) -> None:
        self._artifact = self._create(release_id)
        self._stage, self._last = "", 0.0

    def __call__(self, stage: str, share: float | None) -> None:
        """Tell of a stage, and of the fraction of it that is done where that is known."""
        heard = listener.get()
        if heard is not None:
            heard(stage, share)
        if stage != self._stage:
            get_run_logger().info(stage)
            self._stage = stage
        now = time.monotonic()
        if share is not None and (share >= 1.0 or now - self._last >= _UPDATE_SECONDS):
            self._last = now
            self._update(share)

    @staticmethod
    @_optional
    def _create(release_id: str) -> UUID:
        made = create_progress_artifact(0.0, key="release-progress", description=f"Progress of {release_id}")
        return cast(UUID, made)

    @_optional
    def _update(self, share: float) -> None:
        if self._artifact is not None:
            update_progress_artifact(self._artifact, progress=round(100.0 * share, 1))
