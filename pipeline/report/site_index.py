"""The first page of a site, and the same for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

from blockveil.pipeline.report.budgets_found import FoundBudget
from blockveil.pipeline.report.evaluation import LEDGER
from blockveil.pipeline.report.machine_readable import plain
from blockveil.pipeline.report.markup import document
from blockveil.pipeline.report.paid_nights import PaidNight
from blockveil.pipeline.report.report_sections import Cell, Link, ReportSection

_MADE = "the folder of releases, the day on which this page was made"
_PAGES = "the pages of the releases, which name their own sources"
_FREE = "Everything here was published and paid for, or is public in a ledger. Reading it costs no privacy."

VERSION = 1
"""Raised when a key of the JSON changes its meaning or goes."""


@dataclass(frozen=True)
class ShownNight:
    """One release of a site.

    Attributes
    ----------
    release_id
        ``dataset/name/date``.
    page
        Its page in the site; empty where it cannot be read.
    summary
        What it found, in one sentence.
    against, changed
        Page and sentence of what differs from the night before; empty where nothing was compared.
    paid
        What its ledger says of it; None where no ledger is known, or it knows no such release.
    withdrawn
        Whether it was withdrawn; ``summary`` says why then.
    """

    release_id: str
    page: str
    summary: str
    against: str = ""
    changed: str = ""
    paid: PaidNight | None = None
    withdrawn: bool = False

    @property
    def night(self) -> str:
        """Logical date, ISO."""
        return self.release_id.rpartition("/")[2]


@dataclass(frozen=True)
class Shelf:
    """All nights of one ``dataset/name``, the newest last."""

    name: str
    nights: tuple[ShownNight, ...]

    @property
    def newest(self) -> ShownNight:
        """Newest night that was not withdrawn; the newest of all where each was."""
        return next((night for night in reversed(self.nights) if not night.withdrawn), self.nights[-1])

    @property
    def withdrawn(self) -> list[ShownNight]:
        """Nights that were withdrawn."""
        return [night for night in self.nights if night.withdrawn]


@dataclass(frozen=True)
class Contents:
    """What a site shows.

    Attributes
    ----------
    shelves
        Releases.
    budgets
        What pays for them, where configs name ledgers.
    unusable
        Names of configs that cannot be used.
    today
        Day from which nights that are left are counted.
    """

    shelves: tuple[Shelf, ...]
    budgets: tuple[FoundBudget, ...]
    unusable: tuple[str, ...]
    today: date


def html(shown: Contents) -> str:
    """Whole page."""
    heading, *sections = page_sections(shown)
    return document(heading, sections)


def page_sections(shown: Contents) -> list[ReportSection]:
    """All that the first page says, its heading first."""
    left = {ahead.release: ahead.words for budget in shown.budgets for ahead in budget.ahead}
    total = sum(len(shelf.nights) for shelf in shown.shelves)
    under = f"{total:,} release{'' if total == 1 else 's'}; budgets and nights left as of {shown.today}"
    unusable = f"These configs cannot be used, so that their budgets are not shown: {', '.join(shown.unusable)}."
    withdrawn = [f"{each.release_id}: {each.summary}" for shelf in shown.shelves for each in shelf.withdrawn]
    warnings = [
        ([unusable] if shown.unusable else [], "the names of these configs"),
        (withdrawn, "the pointers of the releases"),
    ]
    nights = [_nights(each) for each in shown.shelves]
    latest = [_latest(shelf, left.get(shelf.name, "not known")) for shelf in shown.shelves]
    return [
        ReportSection(title="Releases and budgets", sentences=[under], look="under", source=_MADE),
        *(ReportSection(sentences=texts, look="warning", source=source) for texts, source in warnings if texts),
        ReportSection(
            title="What is there?",
            sentences=[] if latest else ["Nothing was released yet."],
            table=latest,
            source=f"{_PAGES}, {LEDGER}",
        ),
        *(_budget(budget) for budget in shown.budgets),
        *([ReportSection(title="Every night", within=nights, source=_PAGES)] if nights else []),
        ReportSection(sentences=[_FREE]),
    ]


def _latest(shelf: Shelf, left: str) -> dict[str, Cell]:
    newest = shelf.newest
    changed = newest.changed or "There is no night before it."
    return {
        "release": shelf.name,
        "night": (Link(newest.page, newest.night), newest.summary),
        "changed since the night before": (
            (changed, Link(newest.against, "See both nights")) if newest.against else changed
        ),
        "nights left": left,
    }


def _budget(budget: FoundBudget) -> ReportSection:
    title = f"What is left of the budget of {budget.account}?"
    if budget.balance is None:
        return ReportSection(title=title, sentences=[budget.problem], source=LEDGER)
    rows = [(ahead.release, ahead.words) for ahead in budget.ahead]
    return ReportSection(title=title, lines=[*budget.balance.rows, *rows], picture=budget.balance.spent, source=LEDGER)


def _nights(shelf: Shelf) -> ReportSection:
    rows: list[dict[str, Cell]] = [
        {"night": Link(each.page, each.night, each.release_id), "what": each.summary} for each in reversed(shelf.nights)
    ]
    return ReportSection(title=f"{shelf.name}: {len(rows)}", table=rows, folded=True)


def text_of(shown: Contents) -> str:
    """The same as JSON."""
    content: dict[str, Any] = {
        "blockveil_site": VERSION,
        "as_of": shown.today.isoformat(),
        "releases": [
            {
                "release_id": night.release_id,
                "page": night.page or None,
                "finding": night.summary,
                "against": night.against or None,
                "changed": night.changed or None,
                "withdrawn": night.withdrawn,
                "charged": None if night.paid is None else {"share": night.paid.share, "epsilon": night.paid.epsilon},
            }
            for shelf in shown.shelves
            for night in shelf.nights
        ],
        "budgets": [
            {
                "account": budget.account,
                "problem": budget.problem or None,
                **budget.numbers,
                "nights_left": {ahead.release: ahead.nights for ahead in budget.ahead},
            }
            for budget in shown.budgets
        ],
        "unusable_configs": list(shown.unusable),
    }
    return json.dumps(plain(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
