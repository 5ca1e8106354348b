"""The report of a release: an HTML page beside it, and markdown and tables for a run page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline import durable, staging
from pipeline.publishing import Release, read_release
from pipeline.release import Outcome, Workspace
from pipeline.report import facts, page
from pipeline.summary import budget_lines

__all__ = ["Report", "error_lines", "make_report", "report_path"]


@dataclass(frozen=True)
class Report:
    """A written report.

    Attributes
    ----------
    path
        HTML page.
    markdown
        The same for a run page.
    errors
        Estimates and noise by feature, as text.
    budget
        What is left, as lines.
    """

    path: Path
    markdown: str
    errors: list[dict[str, str]]
    budget: list[tuple[str, str]]


def report_path(release: Path) -> Path:
    """Page of a published release."""
    return release.with_suffix(".html")


def error_lines(release: Release) -> list[tuple[str, str]]:
    """Noise against signal in a few lines."""
    return facts.error_lines(facts.gather(release))


def make_report(workspace: Workspace, outcome: Outcome) -> Report:
    """Read a published release and write its page beside it.

    Raises
    ------
    StoreError
        The release is damaged or the page cannot be written.
    """
    release = read_release(outcome.path)
    found = facts.gather(release)
    budget = budget_lines(workspace.budget(), workspace.plan.charge)
    path = report_path(outcome.path)
    content = page.html(found, budget, outcome.path.name).encode()
    try:
        durable.replace_file(path, content, staging.scratch_path(path.parent, "report"))
    except OSError as error:
        failure = durable.store_error(error, "the report cannot be written")
    else:
        text = page.markdown(found, budget, str(outcome.path), str(path))
        return Report(path, text, facts.error_table(found), budget)
    raise failure
