"""All that the report of a release says: the reader's sections first, those of the specialist folded below."""

from __future__ import annotations

from collections.abc import Sequence

from blockveil.pipeline.report.evaluation import LEDGER
from blockveil.pipeline.report.facts import Facts, Rows
from blockveil.pipeline.report.number_sources import BOOKED, PLAN, Sources
from blockveil.pipeline.report.papers import Picture
from blockveil.pipeline.report.reader_sections import reader_sections
from blockveil.pipeline.report.report_sections import ReportSection, every
from blockveil.pipeline.report.specialist_sections import specialist_sections

_SOURCES = (
    "A source is keys of the release's attributes and names of its arrays, or what is named. The tables for the "
    "specialist name the source of each line themselves."
)


def page_sections(facts: Facts, budget: Rows, folder: str, spent: Picture | None = None) -> list[ReportSection]:
    """All that a report says, its heading first.

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
    """
    rows, columns = facts.matrix.shape
    sources = Sources(facts)
    heading = ReportSection(
        title=facts.title,
        sentences=[f"{facts.attributes['release_id']}, {rows:,} by {columns:,}"],
        look="under",
        source=f"title, logical_date, release_id, {facts.kind}",
        decided_by=PLAN,
    )
    sections = [
        heading,
        *reader_sections(facts, budget, spent, sources),
        *specialist_sections(facts, folder, sources),
    ]
    return [*sections, _sources(sections)]


def _sources(sections: Sequence[ReportSection]) -> ReportSection:
    """Where each number comes from, and those of what is put in when a ledger is asked."""
    heading, *others = [each for each in every(sections) if each.decided_by and not each.changes]
    rows = [("Title", heading.decided_by, heading.source)]
    rows += [(each.title, each.decided_by, each.source) for each in others]
    rows += [(part, BOOKED, LEDGER) for part in ("All releases together", "What is left of the budget?")]
    table = [{"part": part, "what decides it": what, "source": source} for part, what, source in rows]
    return ReportSection(title="Where each number comes from", sentences=[_SOURCES], table=table, folded=True)
