"""What a reader asks of a release, in the order of the questions: promise, findings, estimates, budget and limits."""

from __future__ import annotations

from blockveil.pipeline.report import evaluation, own_units, words
from blockveil.pipeline.report import facts as findings
from blockveil.pipeline.report.facts import Facts, Rows
from blockveil.pipeline.report.number_sources import BOOKED, PLAN, RELEASED, Sources
from blockveil.pipeline.report.papers import Picture
from blockveil.pipeline.report.pictures import heat_map, heat_map_caption, spectrum
from blockveil.pipeline.report.report_sections import ReportSection

FEW = 40
"""Rows of a table that a reader is shown without opening it."""

_PLUS_MINUS = "The number after ± is the standard deviation of the noise that was added for privacy."
_AT_MOST = (
    "The number after ± is at most the standard deviation of the noise that was added for privacy; ∞ says that it is "
    "too large beside the variances to be stated."
)
_SPREADS = (
    "Means and standard deviations are in the unit in which the range of the feature was declared. A standard "
    "deviation that does not stand out from the noise is hidden by it, and is at most what is shown."
)
_ELSEWHERE = (
    "What this release and all others of its budget promise together is known to the ledger, which this page was "
    "written without."
)
_BELOW = "The section on the budget states what this release and all others of its budget promise together."
_MORE_LIMITS = "These are the ten that a reader needs; docs/known-limits.md of the project has all of them."


LIMITS = {
    "What a whole group has in common": (
        "The promise is about one unit. What is true of a whole group (smokers fall ill more often) is what a release "
        "is for: it can be learned, and applied to somebody whose records are not in the data."
    ),
    "Prior knowledge": (
        "The bounds on a guess are for one guess about one unit, with two answers that are equally likely beforehand. "
        "Who considers one of them likelier, or guesses about many people, is right more often."
    ),
    "Several rows of one person in a store that no ingest made": "",
    "Identifiers that do not identify": (
        "A person with two identifiers is two units, and is protected as a group of two, by twice the loss."
    ),
    "Other releases about the same people": (
        "What all releases promise together is known of one budget only. Data sets that share people must share it, "
        "and nobody can check that they do."
    ),
    "The bounds themselves": (
        "Ranges were declared as public knowledge. The product cannot check that nobody looked at the records to "
        "choose them."
    ),
    "The operator": (
        "Whoever can read the raw records, the machines or the key store during a run is outside the guarantee."
    ),
    "Errors that are not noise": (
        "The noise stated here is what was added for privacy. Records beyond their declared range were moved into it, "
        "and records are a sample: neither error is in the numbers after the sign ±."
    ),
    "The key store's medium": (
        "The key of the noise is overwritten when a release is sealed. Snapshots and backups of its disk may keep it; "
        "whoever finds it can take the noise away."
    ),
    "A snapshot of a whole machine that is put back": (
        "The sums over all nights follow from the ledger. Where a whole machine was put back to an earlier state, it "
        "has forgotten what was released since."
    ),
}
"""The ten limits that a reader needs, the most important first: title on the page of known limits, and the text for a
reader; the empty text is that of the release itself, which says how the rows of a unit were bounded."""


def reader_sections(facts: Facts, budget: Rows, spent: Picture | None, sources: Sources) -> list[ReportSection]:
    """Promise, findings, pictures, budget and limits.

    Parameters
    ----------
    facts
        The release.
    budget
        Lines of what is left; empty where no ledger was asked.
    spent
        How it was spent, or None.
    sources
        Where numbers come from.
    """
    together, budget_section = budget_sections(budget, spent)
    limits = [text or words.not_protected(facts) for text in LIMITS.values()]
    warnings = [
        *([(findings.finding(facts), sources.arrays)] if facts.nothing else []),
        *([] if facts.reliable else [(findings.UNRELIABLE, "")]),
        *([(findings.IN_CLEAR, "")] if facts.in_clear else []),
        *([] if facts.drift is None else [(facts.drift, "learned")]),
    ]
    return [
        *(ReportSection(sentences=[text], look="warning", source=source) for text, source in warnings),
        _promise(facts, together),
        *facts.presenter.sections(facts),
        _findings(facts, sources),
        _estimates(facts, sources),
        *_directions(facts, sources),
        budget_section,
        ReportSection(
            title="What does the promise not cover?",
            key="what-it-does-not-cover",
            within=[ReportSection(sentences=limits, look="list"), ReportSection(sentences=[_MORE_LIMITS])],
            source="guarantee",
            decided_by=PLAN,
        ),
    ]


def budget_sections(budget: Rows, spent: Picture | None = None) -> tuple[ReportSection, ReportSection]:
    """What a page says of the budget, beside the promise and for itself: this alone changes after the release."""
    text = [_BELOW if budget else _ELSEWHERE]
    together = ReportSection(key="what-all-promise", sentences=text, changes=True)
    if not budget:
        return together, ReportSection(key="what-is-left", changes=True)
    stood = ["The budget as it stood when this page was written."]
    return together, ReportSection(
        title="What is left of the budget?",
        key="what-is-left",
        sentences=stood,
        lines=budget,
        picture=spent,
        source=evaluation.LEDGER,
        decided_by=BOOKED,
        changes=True,
    )


def _promise(facts: Facts, together: ReportSection) -> ReportSection:
    exact, *promises = words.promises(facts)
    large, alone = words.too_large(facts), facts.together is None
    return ReportSection(
        title="What is promised?",
        key="what-is-promised",
        within=[
            ReportSection(sentences=promises, look="promise", within=[together] if alone else []),
            *([] if large is None else [ReportSection(sentences=[large], look="warning")]),
            ReportSection(sentences=[f"In the terms of differential privacy: {exact}"], look="exact"),
        ],
        source="guarantee" if alone else f"guarantee, {evaluation.LEDGER}",
        decided_by=PLAN,
    )


def _findings(facts: Facts, sources: Sources) -> ReportSection:
    rows, count = own_units.strongest(facts), facts.matrix.vectors().get("count")
    records = [] if count is None else [_records(*(float(part) for part in count))]
    noise = _AT_MOST if facts.matrix.symmetric and facts.correlation is None else _PLUS_MINUS
    overview = ReportSection(
        sentences=[*(_sentence(line) for _, line in facts.presenter.lines(facts)), *records],
        picture=heat_map(facts),
        caption=heat_map_caption(facts),
    )
    strongest = ReportSection(sentences=[f"The strongest of those that stand out. {noise}"], table=rows)
    others = [text for text in (findings.not_estimable(facts), findings.nothing_learnt(facts)) if text]
    return ReportSection(
        title="What stands out from the noise?",
        key="what-stands-out",
        within=[
            ReportSection(sentences=[findings.finding(facts)], look="finding"),
            overview,
            *([strongest] if rows else []),
            ReportSection(sentences=others),
        ],
        source=sources.arrays,
        decided_by=RELEASED,
    )


def _records(count: float, deviation: float) -> str:
    if deviation == 0.0:
        return f"The release is of {count:,.0f} records, a number that is public."
    return f"The release is of {own_units.measured(count, deviation)} records."


def _estimates(facts: Facts, sources: Sources) -> ReportSection:
    rows = own_units.by_feature(facts)
    text = [
        *([_SPREADS] if "standard deviation" in rows[0] else []),
        *([_PLUS_MINUS] if any("±" in value for row in rows for value in row.values()) else []),
        *([left_out] if (left_out := findings.left_out(facts)) else []),
    ]
    return ReportSection(
        title=f"What does it say of each {'feature' if facts.matrix.symmetric else 'column'}?",
        key="what-each-feature-says",
        sentences=[" ".join(text)] if text else [],
        table=rows if len(rows) <= FEW else [],
        within=[] if len(rows) <= FEW else [ReportSection(title=f"All {len(rows)} rows", table=rows, folded=True)],
        source=f"query, {sources.arrays}",
        decided_by=RELEASED,
    )


def _directions(facts: Facts, sources: Sources) -> list[ReportSection]:
    if not facts.has_spectrum:
        return []
    return [
        ReportSection(
            title="How many directions are more than noise?",
            key="which-directions-stand-out",
            sentences=[_sentence(line) for _, line in findings.spectrum_lines(facts)],
            picture=spectrum(facts),
            source=sources.arrays,
            decided_by=RELEASED,
        )
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
