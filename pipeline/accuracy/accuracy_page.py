"""The accuracy of a plan as one self-contained HTML page, and as a part of a run's page."""

from __future__ import annotations

from blockveil.pipeline.accuracy.assessment import Assessment
from blockveil.pipeline.accuracy.good_enough import GoodEnough, Rows
from blockveil.pipeline.accuracy.rehearsal_picture import picture
from blockveil.pipeline.plan import promise
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.report.markdown import text_of
from blockveil.pipeline.report.markup import document
from blockveil.pipeline.report.report_sections import ReportSection

_NOTHING = "Nothing was read, charged or released for this page. The records of the preview are simulated."


def accuracy_html(plan: Plan, rows: Rows, found: GoodEnough) -> str:
    """A page of a plan, its expected accuracy and its preview.

    Parameters
    ----------
    plan
        The plan.
    rows
        Lines of the plan, as :func:`.summary.describe` gives them.
    found
        Its accuracy.
    """
    sentences = [promise.sentence(plan), _NOTHING]
    heading = ReportSection(title=f"Plan of {plan.release_id}")
    sections = [
        ReportSection(sentences=sentences, look="promise"),
        _accuracy(found.all_lines),
        *_preview(found),
        ReportSection(title="The plan", lines=rows),
    ]
    return document([heading, *sections])


def _accuracy(rows: Rows) -> ReportSection:
    """Lines whose names carry no indentation: a table has its own."""
    return ReportSection(title="Is it good enough?", lines=[(what.strip(), value) for what, value in rows])


def _preview(found: GoodEnough) -> list[ReportSection]:
    if found.preview is None:
        return []
    if isinstance(found.preview, str):
        return [ReportSection(title="Preview", sentences=[found.preview])]
    return [ReportSection(title="Preview", sentences=found.preview.sentences, picture=picture(found.preview))]


def accuracy_markdown(found: GoodEnough) -> str:
    """The same without the plan, for a run's page."""
    sections = [_accuracy(found.all_lines), *_preview(found)]
    return "\n\n".join(text_of(each, 3) for each in sections) + "\n"


def errors_markdown(expected: Assessment) -> str:
    """The expected errors alone, for the page of a run that releases."""
    return f"{text_of(_accuracy(expected.lines()), 3)}\n"
