"""Static pages of all releases: what was found, what each budget has left, and what changed since the night before.

Published values and public facts of the ledger alone. A page of a release is taken from the present site where neither
the release nor the code has changed; what it says of the budget is put in anew. The first page is always made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.data.pointers import require_own_place
from blockveil.pipeline.data.released import open_release, stating
from blockveil.pipeline.report import comparison_page, facts, page, site_index
from blockveil.pipeline.report.budgets_found import Paid, look_at_budgets
from blockveil.pipeline.report.comparison import compare
from blockveil.pipeline.report.markup import document
from blockveil.pipeline.report.reader_sections import budget_sections
from blockveil.pipeline.report.releases_found import FoundNight, look_at, nights_of
from blockveil.pipeline.report.report_sections import Link
from blockveil.pipeline.report.site_folder import SiteDraft, replacing
from blockveil.pipeline.report.site_index import Shelf, ShownNight

INDEX = "index.html"


@dataclass(frozen=True)
class MadeSite:
    """A site that was made.

    Attributes
    ----------
    output
        Where it is.
    releases
        How many releases it shows.
    made
        How many pages were made now; the others were taken from the site before.
    unreadable
        What could not be shown: releases that are damaged, and configs that cannot be used.
    """

    output: Path
    releases: int
    made: int
    unreadable: tuple[str, ...]


def make_site(source: Path, output: Path, today: date, code: str) -> MadeSite:
    """Make the pages of all releases of a folder of configs, or of a folder of releases.

    Parameters
    ----------
    source
        The folder.
    output
        Where the site is to be; a link that is replaced at once.
    today
        Day from which nights that are left are counted.
    code
        Which code this is: pages that other code has made are made again.

    Raises
    ------
    ConfigError
        There is nothing to show.
    StoreError
        The site cannot be written.
    """
    contents = look_at(source)
    budgets = look_at_budgets(contents.configs.values(), today)
    writer = _Writer(code, {release: rows for budget in budgets for release, rows in budget.paid.items()})
    with replacing(output) as draft:
        shelves = []
        for number, root in enumerate(contents.roots, start=1):
            folder = f"root-{number}/" if len(contents.roots) > 1 else ""
            for name, nights in nights_of(root).items():
                shelves.append(Shelf(name, tuple(writer.show(draft, folder, name, nights))))
        first = site_index.page_sections(shelves, budgets, contents.unusable, today)
        draft.write(INDEX, document(first).encode(), [], "")
    total = sum(len(shelf.nights) for shelf in shelves)
    return MadeSite(output, total, writer.made, (*contents.unusable, *writer.unreadable))


class _Writer:
    """Writes the pages of releases, each once."""

    def __init__(self, code: str, paid: Paid) -> None:
        self._code, self._paid = code, paid
        self.made, self.unreadable = 0, list[str]()

    def show(self, draft: SiteDraft, folder: str, name: str, nights: list[FoundNight]) -> list[ShownNight]:
        """Pages of the nights of one release, and of the newest against the one before it."""
        pages = [self._night(draft, folder, night) for night in nights]
        indices = [index for index, each in enumerate(nights) if not each.withdrawn][-2:]
        if len(indices) > 1 and all(pages[index].page for index in indices):
            before, newest = indices
            last, sentence = self._change(draft, f"{folder}{name}", nights[before], nights[newest])
            pages[newest] = replace(pages[newest], against=last, changed=sentence)
        return pages

    def _night(self, draft: SiteDraft, folder: str, night: FoundNight) -> ShownNight:
        if night.withdrawn:
            return ShownNight(night.release_id, "", night.withdrawn, withdrawn=True)
        if not night.output_digest:
            self.unreadable.append(night.release_id)
            return ShownNight(night.release_id, "", "The pointer of this release cannot be read.")
        path, of = f"{folder}{night.release_id}.html", [night.output_digest, self._code]
        budget = self._paid.get((night.release_id, night.output_digest), ())
        summary = draft.again(path, of, budget_sections(budget))
        if summary is None:
            try:
                with stating(night.pointer):
                    opened = open_release(night.pointer)
                    require_own_place(night.pointer, opened.attributes, night.release_id)
                    release_facts = facts.Facts(opened)
                    sections = page.page_sections(
                        release_facts, budget, f"{night.night}-{night.output_digest[:16]}.zarr"
                    )
                    text, summary = document(sections, _back(path)), facts.finding(release_facts)
            except BlockveilError:
                self.unreadable.append(night.release_id)
                return ShownNight(night.release_id, "", "This release cannot be read: it is damaged.")
            draft.write(path, text.encode(), of, summary)
            self.made += 1
        return ShownNight(night.release_id, path, summary)

    def _change(self, draft: SiteDraft, folder: str, before: FoundNight, night: FoundNight) -> tuple[str, str]:
        """Page and sentence of what differs between two nights; no page where they cannot be compared."""
        path = f"{folder}/{night.night}-against-{before.night}.html"
        of = [night.output_digest, before.output_digest, self._code]
        summary = draft.again(path, of, ())
        if summary is not None:
            return path, summary
        try:
            with stating(night.pointer):
                comparison = compare(open_release(night.pointer), open_release(before.pointer))
                summary = comparison_page.sentence(comparison)
                text = document(comparison_page.page_sections(comparison), _back(path))
        except BlockveilError as refusal:  # of other questions, or what somebody has changed
            return "", f"{refusal.value}."
        draft.write(path, text.encode(), of, summary)
        self.made += 1
        return path, summary


def _back(path: str) -> Link:
    return Link("../" * path.count("/") + INDEX, "All releases")
