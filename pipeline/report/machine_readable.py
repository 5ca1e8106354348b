"""The report as plain JSON values, for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from blockveil.pipeline.report import facts as findings
from blockveil.pipeline.report import own_units, words
from blockveil.pipeline.report.facts import Facts, Rows
from blockveil.pipeline.report.report_sections import ReportSection, as_values
from blockveil.pipeline.report.words import guess_at_most

VERSION = 3
"""Raised when a key changes its meaning or goes; new keys may come without it."""


def content(facts: Facts, budget: Rows, folder: str, sections: Sequence[ReportSection]) -> dict[str, Any]:
    """Sections of the page, and its numbers as such: noise as standard deviations, raw units.

    Parameters
    ----------
    facts
        The release.
    budget
        Lines of what is left; empty where no ledger was asked.
    folder
        Name of the release's folder.
    sections
        What the page says.
    """
    a = facts.attributes
    vectors = {
        name: {"value": value.tolist(), "standard_deviation": noise.tolist()}
        for name, (value, noise) in facts.matrix.vectors().items()
        if value.size <= findings.LONGEST_TABLE
    }
    return plain(
        {
            "blockveil_report": VERSION,
            "release_id": a["release_id"],
            "finding": findings.finding(facts),
            "nothing_stands_out": facts.nothing,
            "in_words": [list(line) for line in own_units.lines(facts)],
            "title": facts.title,
            "folder": folder,
            "reliable": facts.reliable,
            "computed_in_clear": facts.in_clear,
            "drift": facts.drift,
            "guarantee": _guarantee(facts),
            "mechanism": a["mechanism"],
            "query": a["query"],
            "matrix": _matrix(facts),
            "numbers": vectors,
            "estimates": findings.estimates(facts),
            "spectrum": _spectrum(facts),
            "error": a.get("error"),
            "origin": {name: a[name] for name in ("output_digest", "plan_digest", "ledger", "software")},
            "budget": dict(budget),
            "sections": as_values(sections),
        }
    )


def _guarantee(facts: Facts) -> dict[str, Any]:
    guarantee = facts.attributes["guarantee"]
    return {
        **guarantee,
        "in_words": words.promise_in_words(facts),
        "guess_right_at_most": guess_at_most(guarantee),
        "guess_right_at_most_together": None if facts.together is None else asdict(facts.together),
        "warning": words.too_large(facts),
        "not_protected": words.not_protected(facts),
    }


def _matrix(facts: Facts) -> dict[str, Any]:
    scan, matrix = facts.scan, facts.matrix
    return {
        "name": facts.kind,
        "shape": list(matrix.shape),
        "symmetric": matrix.symmetric,
        "entries": scan.entries,
        "entries_standing_out": scan.outside,
        "diagonal_entries_standing_out": scan.diagonal.outside,
        "numbers_held_at_once": scan.alone.held,
        "band_in_standard_deviations": scan.alone.band,
        "errors_known": scan.alone.estimable,
        "entries_beyond_two_deviations": scan.beyond_two,
        "noise_alone_beyond_two_deviations": list(scan.alone.tails.beyond(2.0)),
        "standing_without_ratio": scan.not_estimable,
        "strongest": [
            {**asdict(e), "row": matrix.name(0, e.row), "column": matrix.name(1, e.column)} for e in scan.strongest
        ],
    }


def _spectrum(facts: Facts) -> dict[str, Any] | None:
    if not facts.has_spectrum:
        return None
    return {
        "unit": "noise",
        "values": facts.spectrum.values,
        "complete": facts.spectrum.complete,
        "errors": facts.spectrum.errors,
        "noise_level": facts.scan.noise_level,
        "above_noise": facts.above_noise,
    }


def plain(value: Any) -> Any:
    """The same with lists for arrays, and text for numbers that JSON does not know."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
