"""The report as one self-contained HTML page: the reader's half first, that of the specialist folded below it."""

from __future__ import annotations

from blockveil.pipeline.report.facts import Facts, Rows
from blockveil.pipeline.report.halves import for_the_reader, for_the_specialist
from blockveil.pipeline.report.markup import document, folded, grid, heading, paragraph, sourced
from blockveil.pipeline.report.number_sources import Sources
from blockveil.pipeline.report.pictures import Picture

_SOURCES = (
    "A source is keys of the release's attributes and names of its arrays, or what is named. The tables for the "
    "specialist name the source of each line themselves."
)


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
    sources = Sources(facts)
    top = sourced(sources.of("Title"), heading(facts.title, under))
    parts = [top, *for_the_reader(facts, budget, spent, sources), *for_the_specialist(facts, folder, sources)]
    where = folded("Where each number comes from", paragraph(_SOURCES), grid(sources.rows("".join(parts))))
    return document(facts.title, [*([back] if back else []), *parts, where])
