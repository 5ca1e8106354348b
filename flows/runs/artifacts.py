"""What a run's page shows: a summary first, then one artifact for each question, named by what it answers.

Prefect's pages show first what belongs to a run itself, and then what belongs to its steps, in no order. So the summary
belongs to the run, and everything else to the step that made it. It is made with the plan, and written anew when the
release is there. A server that is away never fails a release.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar, cast
from uuid import UUID

from prefect import get_client, get_run_logger, runtime
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey

from blockveil.flows.runs.pace import duration, pace
from blockveil.pipeline.accuracy.plan_page import plan_page
from blockveil.pipeline.data.preview import Looked
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import effort
from blockveil.pipeline.plan.mechanisms_compared import compared_rows
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases.compute import Tell
from blockveil.pipeline.releases.training_steps import StepsSoFar
from blockveil.pipeline.report import Report, markdown, markup, training_curve

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

SUMMARY = "summary"
"""Key of the artifact that comes first."""

TRAINING = "how-training-goes"
"""Key of the curve of a training under way."""

SITE = "BLOCKVEIL_SITE"
"""Environment variable: address of the site of all releases."""

_SHORT = ("Warning", "Guarantee", "In words", "Expected error", "Charge", "Left", "Budget", "Nights left")
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


def show_plan(plan: Plan, ledger: Ledger, store: Looked | None) -> None:
    """Show cost and expected error before anything is spent.

    Parameters
    ----------
    plan, ledger
        The plan, and the ledger that would pay.
    store
        What the store says of its records; None where it was not looked at.
    """
    release_id = plan.release_id
    _tag_run(release_id)
    _link_site(release_id)
    page = plan_page(plan, ledger, store)
    for what, sentence in page.rows:
        if what == "Warning":
            get_run_logger().warning("%s: %s", release_id, sentence)
    short = [row for row in page.rows if row[0] in _SHORT]
    _summary(f"# {release_id}\n\nPlanned: nothing has been read or spent.\n\n{markdown.pairs(short)}\n")
    _markdown(
        f"## Plan of {release_id}\n\nNothing has been read or spent.\n\n{markdown.pairs(page.rows)}\n\n{page.accuracy}",
        "what-it-costs",
        "What this release costs and how exact it will be; no data was read for it",
    )
    _show_compared(page.compared)
    if page.in_clear:
        get_run_logger().warning("%s: the cluster is %s", release_id, effort.IN_CLEAR)
    lines = dict(page.rows)
    get_run_logger().info(
        "%s is planned: charge %s; left: %s. Nothing has been read or spent.",
        release_id,
        lines["Charge"],
        lines.get("Left", "no budget is granted yet"),
    )


@_optional
def _tag_run(release_id: str) -> None:
    """Add data set, release and night to the run's tags."""
    parts = zip(("dataset", "release", "date"), release_id.split("/"), strict=True)
    tags = [*runtime.flow_run.tags, *(f"{what}:{name}" for what, name in parts)]
    with get_client(sync_client=True) as client:
        client.update_flow_run(runtime.flow_run.id, tags=[*dict.fromkeys(tags)])


def show_what_if(plan: Plan, rows: Sequence[tuple[str, str]], accuracy: str) -> None:
    """Show the answer to a what-if question.

    Parameters
    ----------
    plan
        The plan of the question.
    rows
        Its lines, as :func:`.summary.describe` gives them.
    accuracy
        Whether it is good enough, as markdown.
    """
    _markdown(
        f"## What if: {plan.release_id}\n\nNothing was read, charged or released.\n\n{markdown.pairs(rows)}\n\n"
        f"{accuracy}",
        "what-if",
        f"What {plan.release_id} would cost and how exact it would be; no data was read for it",
    )
    _show_compared(compared_rows(plan.compared, plan.least))


def _show_compared(compared: list[dict[str, str]]) -> None:
    if compared:
        _rows(compared, "which-mechanism", "Expected error of every mechanism; the best is used")


def show_report(release_id: str, made: Report) -> None:
    """Show the finished release: its summary, each section that answers a question, and the card of its model."""
    _summary(made.summary)
    for key, title, text in made.answers():
        _markdown(text, key, title)
    if made.model:
        _markdown(made.model, "which-model", "Card of the model: public things only")
    get_run_logger().info("Released %s. Report: %s", release_id, made.path)
    if made.drift is not None:
        get_run_logger().warning("%s: %s", release_id, made.drift)


@_optional
def _summary(text: str) -> None:
    """Write the summary of this run, once or anew."""
    _written(SUMMARY, text, "What this run is about, in short")


def _written(key: str, text: str, about: str) -> None:
    """Write an artifact of the run itself, once or anew."""
    run = UUID(str(runtime.flow_run.id))
    criteria = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]), key=ArtifactFilterKey(any_=[key]))
    with get_client(sync_client=True) as client:
        artifacts = client.read_artifacts(artifact_filter=criteria)
        if artifacts:
            client.update_artifact(artifacts[0].id, ArtifactUpdate(data=text))
        else:
            artifact = ArtifactCreate(key=key, type="markdown", description=about, data=text, flow_run_id=run)
            client.create_artifact(artifact)


@_optional
def show_training(so_far: StepsSoFar) -> None:
    """Show the curve of a training under way, once or anew; of public numbers alone."""
    about = "Training so far: steps, noise, and lengths of released sums of gradients"
    _written(TRAINING, training_curve.under_way(so_far), about)


@_optional
def _link_site(release_id: str) -> None:
    """Link to this night on the site of all releases, where the service has one."""
    address = os.environ.get(SITE)
    if address:
        text = f"All releases and budgets, and {release_id} once it is there"
        night = f"{address}#{markup.anchor(release_id)}"
        create_link_artifact(night, text, key="where-all-releases-are", description="The site; it asks for the login")


@_optional
def _markdown(text: str, key: str, description: str) -> None:
    create_markdown_artifact(text, key=key, description=description)


@_optional
def _rows(rows: list[dict[str, str]], key: str, description: str) -> None:
    create_table_artifact(rows, key=key, description=description)


class Teller:
    """Progress as an artifact with pace and time left, as a log line for each stage, and to a listening terminal.

    Parameters
    ----------
    what
        What makes progress.
    key
        Name of the artifact.
    heard
        Receives progress beside Prefect, for a terminal.
    """

    def __init__(self, what: str, key: str = "where-it-stands", heard: Tell | None = None) -> None:
        self._what, self._heard = what, heard
        self._key, self._tried = key, False
        self._artifact: UUID | None = None
        self._started = time.monotonic()
        self._stage, self._began, self._last, self._share = "", 0.0, 0.0, 0.0

    def __call__(self, stage: str, share: float | None) -> None:
        """Tell of a stage, and of the fraction of it that is done where that is known."""
        if self._heard is not None:
            self._heard(stage, share)
        now = time.monotonic()
        if stage != self._stage:
            get_run_logger().info("%s: %s", self._what, stage)
            self._stage, self._began, self._last = stage, now, 0.0
            if share is None:
                self._update(stage)
        if share is not None:
            self._share = share  # the end of a stage is told by the one that follows
            if now - self._last >= _UPDATE_SECONDS:
                self._last = now
                self._update(f"{stage}: {pace(share, now - self._began)}")

    def done(self) -> None:
        """Say that there is nothing more to come."""
        self._share = 1.0
        if self._artifact is not None:
            self._update(f"done in {duration(time.monotonic() - self._started)}")

    @staticmethod
    @_optional
    def _create(what: str, key: str) -> UUID:
        artifact_id = create_progress_artifact(0.0, key=key, description=f"Progress of {what}")
        return cast(UUID, artifact_id)

    @_optional
    def _update(self, text: str) -> None:
        if not self._tried:  # in the step that makes progress, to which it then belongs
            self._tried, self._artifact = True, self._create(self._what, self._key)
        if self._artifact is not None:
            percent = round(100.0 * self._share, 1)
            update_progress_artifact(self._artifact, progress=percent, description=f"{self._what}: {text}")
