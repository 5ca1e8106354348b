"""The report as one self-contained HTML page: the reader's half first, that of the specialist folded below it."""

from __future__ import annotations

from blockveil.pipeline.report.facts import Facts, Rows
from blockveil.pipeline.report.halves import for_the_reader, for_the_specialist
from blockveil.pipeline.report.markup import document, heading
from blockveil.pipeline.report.pictures import Picture


def html(facts: Facts, budget: Rows, folder: str, spent: Picture | None = None, back: str = "") -> str:
    """Whole page.

    Parameters
    ----------
    facts
        The release.
    budget
        Lines of what is left; an empty budget is left out.
    folder
        Name of the release's folder, for the loading examples.
    spent
        How the budget was spent, where a ledger was asked.
    back
        Markup above the page, such as a link.
    """
    rows, columns = facts.matrix.shape
    under = f"{facts.attributes['release_id']}, {rows:,} by {columns:,}"
    parts = [*for_the_reader(facts, budget, spent), *for_the_specialist(facts, folder)]
    return document(facts.title, [*([back] if back else []), heading(facts.title, under), *parts])
