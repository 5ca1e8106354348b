"""The report of a release: a list of sections, as an HTML page and JSON beside it, and as markdown for a run page.

Everything is computed from published values and public parameters, in memory that does not grow with the release.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blockveil.pipeline.base import named_files
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.data.released import OpenRelease, open_release, stating
from blockveil.pipeline.data.stores import Location
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases.charged_steps import Outcome
from blockveil.pipeline.releases.destination import destination_of
from blockveil.pipeline.report import (
    comparison_page,
    facts,
    machine_readable,
    markdown,
    markup,
    own_units,
    page,
    training_curve,
)
from blockveil.pipeline.report.burndown import UNKNOWN, Balance
from blockveil.pipeline.report.comparison import Comparison, compare
from blockveil.pipeline.report.facts import Rows
from blockveil.pipeline.report.report_sections import ReportSection, every

__all__ = ["Report", "error_lines", "make_report", "report_path", "write_comparison", "write_report"]


@dataclass(frozen=True)
class Report:
    """A written report.

    Attributes
    ----------
    path, data
        HTML page, and JSON of the same.
    sections
        What both say, the heading first.
    lines
        Noise against signal, as lines.
    summary
        What is said first on a run page, Markdown.
    model
        Card of the model that it has trained, Markdown; empty where there is none.
    drift
        Warning that its learned shape shortened more records than declared; None where there is nothing to say.
    """

    path: Path
    data: Path
    sections: Sequence[ReportSection]
    lines: Rows
    summary: str
    model: str
    drift: str | None

    def answers(self) -> Iterator[tuple[str, str, str]]:
        """Key, title and Markdown of each section that answers a question."""
        sections = (each for each in every(self.sections) if each.key)
        return ((each.key, each.title, markdown.text_of(each)) for each in sections if each.title)


def report_path(release: Location) -> Path:
    """Page of a published release, beside it; ConfigError where it is in an object store."""
    return _beside(release).with_suffix(".html")


def _beside(release: Location) -> Path:
    if isinstance(release, Path):
        return release
    raise ConfigError(
        "The release is in an object store, and no page is named",
        "A page is written beside a release on this machine, or where --output says",
        "Give --output",
    )


def error_lines(release: Path) -> list[tuple[str, str]]:
    """Noise against signal in a few lines: those of the report beside a published release where it has one.

    Raises StoreError where there is no report, and the release is damaged.
    """
    file = release.with_suffix(".report.json")
    try:
        content = json.loads(file.read_bytes())
        if content["folder"] == release.name:  # which has the digest of its content
            return [(str(what), str(text)) for what, text in content["in_words"]]
    except (OSError, ValueError, TypeError, KeyError):
        pass
    with stating(release):
        return own_units.lines(facts.Facts(open_release(release)))


def make_report(plan: Plan, ledger: Ledger, outcome: Outcome) -> Report:
    """Read a published release and write its page and JSON beside it, and where the release was sent.

    Raises StoreError where the release is damaged or the report cannot be written or sent.

    Parameters
    ----------
    plan, ledger
        The release, and the ledger that its config names.
    outcome
        What came of it.
    """
    report = write_report(outcome.path, Balance.of(ledger, plan, ledger.budget(plan.config.release.account)))
    place = destination_of(plan.loaded)
    if place is not None:
        place.send_pages(plan.release_id, (report.path, report.data))
    return report


def write_report(release: Location, balance: Balance = UNKNOWN, output: Path | None = None) -> Report:
    """Write the report of a published release.

    Parameters
    ----------
    release
        Its pointer or group, as a path or as an address in an object store.
    balance
        What is left of its budget, where that is to be shown.
    output
        Page to write, ``.html``; beside the release where not given. The JSON has the same name with ``.json``,
        beside the release with ``.report.json``.

    Raises
    ------
    ConfigError
        The release is in an object store and no page is named.
    StoreError
        The release is damaged or the report cannot be written.
    """
    opened = open_release(release)
    with stating(opened.path):
        return _written(opened, balance, output)


def _written(opened: OpenRelease, balance: Balance, output: Path | None) -> Report:
    release_facts, budget = facts.Facts(opened, balance.together), balance.rows
    path = output or report_path(opened.path)
    json_path = path.with_suffix(".json" if output else ".report.json")
    _check_places(path, json_path)
    sections = page.page_sections(release_facts, budget, opened.name, balance.spent)
    content = text_of(machine_readable.content(release_facts, budget, opened.name, sections))
    lines = [*facts.error_lines(release_facts), *facts.spectrum_lines(release_facts)]
    summary = markdown.summary(release_facts, [*lines, *budget], str(opened.path), str(path))
    text, model = markup.document(sections), training_curve.trained(release_facts)
    report = Report(path, json_path, sections, lines, summary, model, release_facts.drift)
    save(json_path, content)
    save(path, text)
    return report


def _check_places(path: Path, data: Path) -> None:
    """Refuse places that may not be written before either is."""
    for place in (path, data):
        named_files.check(place)


def text_of(content: dict[str, Any]) -> str:
    """JSON for a file."""
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def save(path: Path, text: str, what: str = "The report") -> None:
    """Write a page or its JSON at once, over an older one; ``what`` it is, and errors, as in `named_files.write`."""
    named_files.write(path, text.encode(), what)


def write_comparison(release: Location, earlier: Location, output: Path | None = None) -> tuple[Comparison, Path, Path]:
    """Compare two published releases and write the page and its JSON.

    Parameters
    ----------
    release, earlier
        Pointers or groups, as paths or as addresses.
    output
        Page to write, ``.html``; beside the release where not given. The JSON has the same name.

    Raises
    ------
    CannotCompare
        They are the same release, or answer different questions.
    ConfigError
        The release is in an object store and no page is named.
    StoreError
        One is damaged, or the page cannot be written.
    """
    opened, before = open_release(release), open_release(earlier)
    with stating(opened.path):
        comparison = compare(opened, before)
    path = output or _beside(opened.path).with_name(f"{_stem(opened)}.against-{_stem(before)}.html")
    json_path = path.with_suffix(".json")
    _check_places(path, json_path)
    save(path, markup.document(comparison_page.page_sections(comparison)))
    save(json_path, text_of(comparison_page.content(comparison)))
    return comparison, path, json_path


def _stem(opened: OpenRelease) -> str:
    return opened.name.removesuffix(".zarr")
