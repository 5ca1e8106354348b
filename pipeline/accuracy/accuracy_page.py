"""The accuracy of a plan as one self-contained HTML page, and as a part of a run's page."""

from __future__ import annotations

from blockveil.pipeline.accuracy.assessment import Assessment
from blockveil.pipeline.accuracy.good_enough import GoodEnough, Rows
from blockveil.pipeline.accuracy.rehearsal_picture import picture
from blockveil.pipeline.base.printable import as_markdown
from blockveil.pipeline.plan import promise
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.report import markdown, markup

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
    title = f"Plan of {plan.release_id}"
    parts = [
        markup.heading(title),
        markup.promise(promise.sentence(plan), _NOTHING),
        markup.section("Is it good enough?", markup.pairs(_together(found.all_lines))),
        *_preview(found),
        markup.section("The plan", markup.pairs(rows)),
    ]
    return markup.document(title, parts)


def _preview(found: GoodEnough) -> list[str]:
    if found.preview is None:
        return []
    if isinstance(found.preview, str):
        return [markup.section("Preview", markup.paragraph(found.preview))]
    sentences_of_it = map(markup.paragraph, found.preview.sentences)
    return [markup.section("Preview", *sentences_of_it, markup.figure(picture(found.preview)))]


def accuracy_markdown(found: GoodEnough) -> str:
    """The same without the plan, for a run's page."""
    parts = [_section(found.all_lines)]
    if isinstance(found.preview, str):
        parts.append(as_markdown(found.preview))
    elif found.preview is not None:
        parts += ["### Preview", markdown.image(picture(found.preview))]
    return "\n\n".join(parts) + "\n"


def errors_markdown(expected: Assessment) -> str:
    """The expected errors alone, for the page of a run that releases."""
    return f"{_section(expected.lines())}\n"


def _section(rows: Rows) -> str:
    return f"### Is it good enough?\n\n{markdown.pairs(_together(rows))}"


def _together(rows: Rows) -> Rows:
    """Lines whose names carry no indentation: a table has its own."""
    return [(what.strip(), value) for what, value in rows]
