"""The first page of a site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from blockveil.pipeline.report.budgets_found import FoundBudget
from blockveil.pipeline.report.evaluation import LEDGER
from blockveil.pipeline.report.report_sections import Cell, Link, ReportSection

_MADE = "the folder of releases, the day on which this page was made"
_PAGES = "the pages of the releases, which name their own sources"
_FREE = "Everything here was published and paid for, or is public in a ledger. Reading it costs no privacy."


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
    withdrawn
        Whether it was withdrawn; ``summary`` says why then.
    """

    release_id: str
    page: str
    summary: str
    against: str = ""
    changed: str = ""
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


def page_sections(
    shelves: Sequence[Shelf], budgets: Sequence[FoundBudget], unusable: Sequence[str], today: date
) -> list[ReportSection]:
    """All that the first page says, its heading first.

    Parameters
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
    outlooks = {release: words for budget in budgets for release, words in budget.ahead}
    total = sum(len(shelf.nights) for shelf in shelves)
    under = f"{total:,} release{'' if total == 1 else 's'}; budgets and nights left as of {today}"
    text = f"These configs cannot be used, so that their budgets are not shown: {', '.join(unusable)}."
    notices = [f"{night.release_id}: {night.summary}" for each in shelves for night in each.nights if night.withdrawn]
    warnings = [([text] if unusable else [], "the names of these configs"), (notices, "the pointers of the releases")]
    nights = [_nights(each) for each in shelves]
    latest = [_latest(shelf, outlooks.get(shelf.name, "not known")) for shelf in shelves]
    return [
        ReportSection(title="Releases and budgets", sentences=[under], look="under", source=_MADE),
        *(ReportSection(sentences=texts, look="warning", source=source) for texts, source in warnings if texts),
        ReportSection(
            title="What is there?",
            sentences=[] if latest else ["Nothing was released yet."],
            table=latest,
            source=f"{_PAGES}, {LEDGER}",
        ),
        *(_budget(budget) for budget in budgets),
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
    rows = [*budget.balance.rows, *budget.ahead]
    return ReportSection(title=title, lines=rows, picture=budget.balance.spent, source=LEDGER)


def _nights(shelf: Shelf) -> ReportSection:
    rows: list[dict[str, Cell]] = [
        {"night": Link(each.page, each.night, each.release_id), "what": each.summary} for each in reversed(shelf.nights)
    ]
    return ReportSection(title=f"{shelf.name}: {len(rows)}", table=rows, folded=True)
