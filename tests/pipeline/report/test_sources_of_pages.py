"""Every number of a certificate, of a comparison and of a site's first page stands under the source it comes from."""

from datetime import date
from pathlib import Path

import pytest

from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.report import certificate
from blockveil.pipeline.report.certified import Account, Certified
from blockveil.pipeline.report.release_site import make_site
from tests.flows.cli.test_certificate_command import FIRST, SECOND, made, people, pointer
from tests.pipeline.report.test_evaluation import names_a_source
from tests.pipeline.report.test_number_sources import numbers

__all__ = ["made", "people"]
BESIDE = {
    "of both releases",
    "the day on which this page was made",
    "the folder of releases",
    "the ledger",
    "the names of these configs",
    "the pages of the releases",
    "the pointers of the releases",
    "the release as it was checked for this page",
    "what was asked for",
    "which name their own sources",
}
"""Sources that are no keys or arrays of a release."""


def strange(text, release):
    """Sources that a page names and that are neither there nor known."""
    every = {key for source in numbers(text).named for key in source.removesuffix(", if true").split(", ")}
    known = BESIDE | set(release.arrays)
    return sorted(key for key in every - known if not names_a_source(key, release.attributes))


@pytest.mark.usefixtures("pictures_in_words")
def test_no_number_lacks_its_source_and_every_source_is_there(people, tmp_path):
    release = open_release(pointer(people, FIRST))
    account = Account.of(Ledger(people.ledger_url), "people")
    rows = [("Content", "all arrays have the digest 0")]
    opened = [open_release(pointer(people, night)) for night in (FIRST, SECOND)]
    certified = [Certified(each.path, each.attributes, rows, "1") for each in opened]
    proof = Ledger(people.ledger_url).proof(certified[0].release_id)
    by_id = {each.release_id: each for each in certified}
    pages = [
        certificate.of_release(certified[0], None, None),
        certificate.of_release(certified[0], account, proof),
        certificate.of_period(account, account.within(None, None), by_id, f"nights from {FIRST}"),
    ]
    made_site = make_site(Path(people.path).parent, tmp_path / "site", date(2026, 11, 26), "code")
    pages += [page.read_text() for page in sorted(made_site.output.rglob("*.html"))]
    assert len(pages) == 3 + 1 + 2 + 1  # certificates; the first page, two nights, and their comparison
    for text in pages:
        assert numbers(text).without == []
        assert len(numbers(text).named) >= 3
        assert strange(text, release) == []


def test_a_source_that_no_release_has_is_found(people):
    release = open_release(pointer(people, FIRST))
    assert strange('<p data-source="guarantee, guarantee.absent">1</p>', release) == ["guarantee.absent"]
