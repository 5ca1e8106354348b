"""The two halves of a report: what a reader asks for, in the order of the questions, and what a specialist checks."""

from __future__ import annotations

from collections.abc import Sequence

from blockveil.pipeline.base.printable import as_html
from blockveil.pipeline.report import after, evaluation, own_units, promises, technical_rows
from blockveil.pipeline.report import facts as found
from blockveil.pipeline.report.facts import Facts, Rows
from blockveil.pipeline.report.loading import loading
from blockveil.pipeline.report.markup import (
    figure,
    folded,
    grid,
    pairs,
    paragraph,
    place,
    promise,
    section,
    sourced,
    sourced_lines,
    warning,
)
from blockveil.pipeline.report.number_sources import Sources
from blockveil.pipeline.report.pictures import Picture, heat_map, heat_map_caption, spectrum
from blockveil.pipeline.report.reader_limits import limits
from blockveil.pipeline.report.training_curve import training

FEW = 40
"""Rows of a table that a reader is shown without opening it."""

_PLUS_MINUS = "The number after ± is the standard deviation of the noise that was added for privacy."
_AT_MOST = (
    "The number after ± is at most the standard deviation of the noise that was added for privacy; ∞ says that it is "
    "too large beside the variances to be stated."
)


TOGETHER, BUDGET = "together", "budget"
"""Places of a page whose markup is changed while the rest of it stays."""

_ELSEWHERE = (
    "What this release and all others of its budget promise together is known to the ledger, which this page was "
    "written without."
)
_BELOW = "The section on the budget states what this release and all others of its budget promise together."


def for_the_reader(facts: Facts, budget: Rows, spent: Picture | None, sources: Sources) -> list[str]:
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
    places, model = budget_places(budget, spent), training(facts)

    def part(title: str, *parts: str) -> str:
        return sourced(sources.of(title), section(title, *parts))

    out = sources.of("What stands out from the noise?")
    return [
        *([sourced(out, warning(found.finding(facts)))] if facts.nothing else []),
        *([warning(found.UNRELIABLE)] if not facts.reliable else []),
        *([warning(found.IN_CLEAR)] if facts.in_clear else []),
        *([] if facts.drift is None else [sourced("learned", warning(facts.drift))]),
        _promise(facts, places[TOGETHER], sources),
        *([sourced(sources.of("What was trained?"), *model)] if model else []),
        part("What stands out from the noise?", *_findings(facts)),
        part(_asked(facts), *_estimates(facts)),
        *([part("How many directions are more than noise?", *_directions(facts))] if facts.has_spectrum else []),
        place(BUDGET, places[BUDGET]),
        part("What does the promise not cover?", _limits(facts)),
    ]


def _directions(facts: Facts) -> list[str]:
    sentences = [paragraph(_sentence(line)) for _, line in found.spectrum_lines(facts)]
    return [*sentences, figure(spectrum(facts))]


def budget_places(budget: Rows, spent: Picture | None = None) -> dict[str, str]:
    """What a page says of the budget, by the names of its places: alone of all it says, this changes after the release.

    Parameters
    ----------
    budget
        Lines of what is left; empty where no ledger was asked.
    spent
        How it was spent, or None.
    """
    if not budget:
        return {TOGETHER: paragraph(_ELSEWHERE), BUDGET: ""}
    left = section("What is left of the budget?", *_budget(budget, spent))
    return {TOGETHER: paragraph(_BELOW), BUDGET: sourced(evaluation.LEDGER, left)}


def _promise(facts: Facts, together: str, sources: Sources) -> str:
    exact, *words = promises.promises(facts)
    large, title = promises.too_large(facts), "What is promised?"
    keys = sources.of(title)
    return sourced(
        keys if facts.together is None else f"{keys}, {sources.of('All releases together')}",
        section(
            title,
            promise(*words, more=place(TOGETHER, together) if facts.together is None else ""),
            *([warning(large)] if large is not None else []),
            paragraph(f"In the terms of differential privacy: {exact}", "exact"),
        ),
    )


def _findings(facts: Facts) -> list[str]:
    rows, left_out = own_units.strongest(facts), found.not_estimable(facts)
    count = facts.matrix.vectors().get("count")
    records = [] if count is None else [paragraph(_records(*(float(part) for part in count)))]
    means = [paragraph(_sentence(line)) for _, line in facts.presenter.lines(facts)]
    parts = [
        paragraph(found.finding(facts), "found"),
        *means,
        *records,
        figure(heat_map(facts), heat_map_caption(facts)),
    ]
    if rows:
        noise = _AT_MOST if facts.matrix.symmetric and facts.correlation is None else _PLUS_MINUS
        parts += [paragraph(f"The strongest of those that stand out. {noise}"), grid(rows)]
    return [*parts, *(paragraph(text) for text in (left_out, found.nothing_learnt(facts)) if text)]


def _records(count: float, deviation: float) -> str:
    if deviation == 0.0:
        return f"The release is of {count:,.0f} records, a number that is public."
    return f"The release is of {own_units.measured(count, deviation)} records."


def _asked(facts: Facts) -> str:
    return "What does it say of each feature?" if facts.matrix.symmetric else "What does it say of each column?"


def _estimates(facts: Facts) -> list[str]:
    rows = own_units.by_feature(facts)
    unit = (
        "Means and standard deviations are in the unit in which the range of the feature was declared. A standard "
        "deviation that does not stand out from the noise is hidden by it, and is at most what is shown. "
    )
    noise = _PLUS_MINUS if any("±" in value for row in rows for value in row.values()) else ""
    text = paragraph(f"{unit if 'standard deviation' in rows[0] else ''}{noise} {found.left_out(facts)}".strip())
    table = grid(rows)
    return [text, table if len(rows) <= FEW else folded(f"All {len(rows)} rows", table)]


def _budget(budget: Rows, spent: Picture | None) -> list[str]:
    picture = [] if spent is None else [figure(spent)]
    return [paragraph("The budget as it stood when this page was written."), pairs(budget), *picture]


def _limits(facts: Facts) -> str:
    rows = "".join(f"<li>{as_html(text)}</li>" for text in limits(facts))
    more = "These are the ten that a reader needs; docs/known-limits.md of the project has all of them."
    return f'<ol class="limits">{rows}</ol>{paragraph(more)}'


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def for_the_specialist(facts: Facts, folder: str, sources: Sources) -> list[str]:
    """What a specialist checks, each part folded; ``folder`` is the release's, for the loading examples."""
    noise = sourced_lines(sources.lines([*found.error_lines(facts), *found.spectrum_lines(facts)]))
    examples = (f"<p>{as_html(name)}</p><pre>{as_html(code)}</pre>" for name, code in loading(facts, folder))
    return [
        "<h2>For the specialist</h2>",
        folded("Guarantee", sourced_lines(sources.lines(technical_rows.guarantee_rows(facts)))),
        folded("Noise and signal", noise, sourced(sources.of("Estimates and their noise"), *_raw(facts))),
        *_after(facts.attributes.get("error") or {}, sources),
        *_compared(found.comparison_rows(facts), sources),
        folded("Evaluation by the levels of NIST SP 800-226", grid(evaluation.rows(facts))),
        folded("Origin of this release", sourced_lines(sources.lines(technical_rows.origin_rows(facts)))),
        folded("How to load it", sourced(sources.of("How to load it"), *examples)),
    ]


def _raw(facts: Facts) -> list[str]:
    """Estimates as they are released, with squares and products of units."""
    text = "Noise is given as a standard deviation, in the unit of the estimate. "
    parts = ["<h3>Estimates and their noise</h3>", paragraph((text + found.left_out(facts)).strip())]
    rows = found.strongest_table(facts)
    strongest = ["<h3>Strongest of the entries that stand out from the noise</h3>", grid(rows)] if rows else []
    return [*parts, grid(found.error_table(facts)), *strongest]


def _after(error: after.Error, sources: Sources) -> list[str]:
    """Error before and after post-processing, and of leading subspaces, where the release tells."""
    sizes, subspaces = after.sizes(error), after.subspaces(error)
    if not sizes:
        return []
    parts = [paragraph(after.explanation(error)), grid(sizes)]
    of = error.get("subspace", {}).get("matrix", "")
    lost = f"Squared sine distance of leading subspaces from the truth, at most their dimension; of the {of}."
    parts += [paragraph(lost), grid(subspaces)] if subspaces else []
    title = "Error before and after post-processing"
    return [folded(title, sourced(sources.of(title), *parts))]


def _compared(rows: Sequence[dict[str, str]], sources: Sources) -> list[str]:
    """Why this mechanism was chosen, where it was chosen automatically."""
    title = "Mechanisms compared"
    return [folded(title, sourced(sources.of(title), grid(rows)))] if rows else []
