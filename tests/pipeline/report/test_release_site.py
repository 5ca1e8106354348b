"""A site of releases: what it shows, what it never shows, and how it takes the place of the one before."""

import os
import re
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

import pytest

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import releases_found, site_index, write_report
from blockveil.pipeline.report.release_site import make_site
from tests.house import support
from tests.house.forged import forged, replaced

pytestmark = pytest.mark.usefixtures("pictures_in_words")

NIGHTS = date(2026, 11, 20), date(2026, 11, 21)
TODAY = date(2026, 11, 22)


def keys_of(*numbers):
    """Patch that lets the next nights have noise of known keys."""
    keys = (NoiseKey(bytes([number]) * 32) for number in numbers)
    return mock.patch.object(NoiseKey, "derive", classmethod(lambda *_: next(keys)))


def two_nights(folder):
    loaded = support.prepare(folder, budget=9.0)
    with keys_of(0, 1):
        for night in NIGHTS:
            run_release(make_plan(loaded, night), ThreadCompute(2), "t", lambda *a: None)
    return loaded


@pytest.fixture
def people(tmp_path):
    """A folder of one config with two released nights, of noise of known keys."""
    with keys_of(2):
        yield support.made_once(tmp_path / "configs", two_nights)


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("href", "src", "srcset", "action")]


def pages(output):
    return {str(path.relative_to(output.resolve())): path.read_bytes() for path in output.resolve().rglob("*.*")}


def test_it_shows_each_night_the_budget_the_nights_left_and_what_changed(people, tmp_path):
    output = tmp_path / "site"
    made = make_site(people.base, output, TODAY, "code")
    assert (made.releases, made.made, made.unreadable) == (2, 3, ())
    text = (output / "index.html").read_text()
    for said in (
        "people/covariance",
        "2026-11-21",
        "No covariance entry differs",
        "of it by 2 releases",
        "every night until 20",
    ):
        assert said in text
    page = (output / "people/covariance/2026-11-21.html").read_text()
    for night in NIGHTS:  # where a run's page leads to
        assert text.count(f'id="people/covariance/{night}"') == 1
    assert "What is promised?" in page
    for said in ("Charged", "of the budget; alone it is epsilon", "Left", "Nights left", "more releases like this one"):
        assert said in page
    assert '<a href="../../index.html">' in page
    assert "2026-11-21 against" in (output / "people/covariance/2026-11-21-against-2026-11-20.html").read_text()


def test_every_link_leads_to_a_page_of_the_site_and_nothing_is_loaded(people, tmp_path):
    output = tmp_path / "site"
    make_site(people.base, output, TODAY, "code")
    for name, content in pages(output).items():
        if name.endswith(".html"):
            for target in (each for each in Links(content.decode()).found if not each.startswith("data:")):
                assert ((output / name).parent / target).resolve().is_file(), target
            assert b"<script" not in content
            assert b"default-src 'none'" in content


def test_it_holds_nothing_that_is_not_public(people, tmp_path):
    """Neither fingerprints of records nor paths, addresses of ledgers, times of entries or un-noised values."""
    output = tmp_path / "site"
    make_site(people.base, output, TODAY, "code")
    private = [str(tmp_path), "ledger.db", f"{support.CANARY:.4f}", "271828", "271,828", "T0", "fingerprint"]
    for name, content in pages(output).items():
        text = re.sub(r'src(set)?="data:[^"]+"', "", content.decode())
        assert not [word for word in private if word in text], name


def test_the_same_again_changes_no_file_and_makes_no_page(people, tmp_path):
    output = tmp_path / "site"
    make_site(people.base, output, TODAY, "code")
    before, place = pages(output), output.resolve()
    assert make_site(people.base, output, TODAY, "code").made == 0
    assert (pages(output), output.resolve()) == (before, place)
    assert make_site(people.base, output, TODAY, "other code").made == 3
    assert {file.name for file in tmp_path.iterdir()} == {"configs", "site", output.resolve().name}


def test_a_page_that_is_not_made_again_says_what_its_budget_has_left_now(people, tmp_path):
    output = tmp_path / "site"
    make_site(people.base, output, TODAY, "code")
    first = "people/covariance/2026-11-20.html"
    before = (output / first).read_text()
    run_release(make_plan(people, date(2026, 11, 22)), ThreadCompute(2), "t", lambda *a: None)
    assert make_site(people.base, output, TODAY, "code").made == 2  # the new night, and that night against the last
    after = (output / first).read_text()
    assert "of it by 2 releases" in before
    assert "of it by 3 releases" in after
    assert after == make_page_anew(people, tmp_path / "anew" / "site", first)


def make_page_anew(people, output, page):
    make_site(people.base, output, TODAY, "code")
    return (output / page).read_text()


def test_a_release_that_its_ledger_does_not_know_is_shown_without_a_budget(people, tmp_path):
    """By its content, not by its name: another folder may hold other releases of the same name."""
    people.ledger_path.unlink()
    support.set_budget(people, 9.0)
    make_site(people.base, tmp_path / "site", TODAY, "code")
    page = (tmp_path / "site/people/covariance/2026-11-20.html").read_text()
    assert "which this page was written without" in page
    assert "<h2>What is left of the budget?" not in page  # its table of sources names that part


def test_a_page_that_somebody_has_changed_is_made_again(people, tmp_path):
    output = tmp_path / "site"
    make_site(people.base, output, TODAY, "code")
    (output / "people/covariance/2026-11-20.html").write_text("<script>")
    (output / "pages.json").write_text("[" * 9)
    make_site(people.base, output, TODAY, "code")
    assert "<script" not in (output / "people/covariance/2026-11-20.html").read_text()


def test_nobody_else_can_change_a_site_in_a_folder_that_all_may_write_to(people, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    make_site(people.base, shared / "site", TODAY, "code")
    assert (shared / "site").stat().st_mode & 0o7777 == 0o775


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_pages_of_another_account_are_not_shown_although_they_are_the_same(people, tmp_path):
    output = tmp_path / "site"
    make_site(people.base, output, TODAY, "code")
    os.chown(output.resolve(), 65534, 65534)
    output.unlink()
    make_site(people.base, output, TODAY, "code")
    assert output.resolve().stat().st_uid == 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".staging")] == []


def test_after_a_failure_the_site_before_stays_and_nothing_is_left_behind(people, tmp_path, monkeypatch):
    output = tmp_path / "site"
    make_site(people.base, output, TODAY, "code")
    before = pages(output)

    def broken(*shown):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(site_index, "page_sections", broken)
        with pytest.raises(StoreError, match="disk or quota is full"):
            make_site(people.base, output, date(2026, 12, 1), "code")
    assert pages(output) == before
    assert {file.name for file in tmp_path.iterdir()} == {"configs", "site", output.resolve().name}


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_something_else_at_the_place_is_never_replaced(people, tmp_path, what):
    output = tmp_path / "site"
    if what == "file":
        output.write_text("mine")
    elif what == "folder":
        output.mkdir()
        (output / "mine").write_text("mine")
    else:
        output.symlink_to(people.base)
    with pytest.raises(StoreError, match="no site that was made here"):
        make_site(people.base, output, TODAY, "code")
    assert output.exists()


def test_an_empty_folder_that_was_made_for_it_is_used(people, tmp_path):
    (tmp_path / "site").mkdir()
    make_site(people.base, tmp_path / "site", TODAY, "code")
    assert (tmp_path / "site" / "index.html").is_file()


def test_a_folder_of_releases_alone_is_shown_without_budgets(people, tmp_path):
    make_site(people.output_root, tmp_path / "site", TODAY, "code")
    text = (tmp_path / "site" / "index.html").read_text()
    assert "not known" in text
    assert "budget of people" not in text
    page = (tmp_path / "site/people/covariance/2026-11-20.html").read_text()
    assert "which this page was written without" in page
    assert "Charged" not in page


def test_a_folder_with_nothing_to_show_is_refused(tmp_path):
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ConfigError):
            make_site(place, tmp_path / "site", TODAY, "code")
    assert not (tmp_path / "site").exists()


def test_a_file_of_bounds_is_no_config_of_a_release(people, tmp_path):
    (people.base / "bounds.toml").write_text('release = "people/covariance-bounds/2026-11-20"\nfeatures = []\n')
    made = make_site(people.base, tmp_path / "site", TODAY, "code")
    assert made.unreadable == ()
    assert "cannot be used" not in (tmp_path / "site" / "index.html").read_text()


def test_a_damaged_release_and_a_config_that_cannot_be_used_are_named_and_stop_nothing(people, tmp_path):
    (people.base / "broken.toml").write_text("[release]\nname = 1\n")
    first = next(people.output_root.rglob("2026-11-20-*.zarr"))
    next((first / "mean" / "c").rglob("*")).unlink()
    (people.base / "torn.toml").write_text("[release")
    (people.output_root / "people" / "covariance" / "2026-11-21.json").write_text("{")
    made = make_site(people.base, tmp_path / "site", TODAY, "code")
    nights = ("people/covariance/2026-11-20", "people/covariance/2026-11-21")
    assert made.unreadable == ("broken", "torn", *nights)
    text = (tmp_path / "site" / "index.html").read_text()
    assert "cannot be used, so that their budgets are not shown: broken, torn." in text
    assert "This release cannot be read" in text
    assert "The pointer of this release cannot be read." in text


@pytest.mark.parametrize(
    "change",
    [
        lambda stated: stated.update(mechanism=5),
        lambda stated: stated["guarantee"].update(epsilon="one"),
    ],
    ids=["a number for a table", "a text for a number"],
)
def test_a_release_whose_attributes_somebody_has_changed_stops_nothing(people, tmp_path, change):
    forged(next((people.output_root / "people/covariance").glob("2026-11-20-*.zarr")), change)
    made = make_site(people.base, tmp_path / "site", TODAY, "code")
    assert made.releases == 2
    assert (tmp_path / "site/people/covariance/2026-11-21.html").is_file()
    (pointer,) = (people.output_root / "people/covariance").glob("2026-11-20.json")
    with pytest.raises(StoreError, match=r"states of itself|is no table"):
        write_report(pointer, output=tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_budget_that_is_not_granted_or_whose_ledger_is_damaged_is_said_to_be_so(people, tmp_path):
    output = tmp_path / "site"
    people.ledger_path.write_bytes(b"no ledger")
    make_site(people.base, output, TODAY, "code")
    assert "Its ledger cannot be read" in (output / "index.html").read_text()
    people.ledger_path.unlink()
    make_site(people.base, output, TODAY, "code")
    assert "Nobody has granted it yet." in (output / "index.html").read_text()
    assert not people.ledger_path.exists(), "a site makes no ledger"


@pytest.mark.parametrize("name", ["../evil", "a\nb", "<b>", ".hidden", "UPPER", "x" * 64])
def test_a_pointer_with_an_unsafe_name_is_no_release(tmp_path, name):
    folder = tmp_path / "people" / "covariance"
    folder.mkdir(parents=True)
    for path in (
        folder / f"{name.replace('/', '_')}.json",
        folder / "2026-13-01.json",
        folder / "2026-11-20.report.json",
    ):
        path.write_text("{}")
    assert list(releases_found.pointers(tmp_path)) == []


def test_hostile_text_of_a_release_stays_text(people, tmp_path):
    first = next(people.output_root.rglob("2026-11-20-*.zarr"))
    forged(first, lambda stated: stated.update(replaced(stated, "one person", "<script>alert(1)</script>")))
    make_site(people.base, tmp_path / "site", TODAY, "code")
    assert b"<script" not in b"".join(pages(tmp_path / "site").values())


def test_two_folders_of_releases_with_one_name_have_pages_of_their_own(people, tmp_path):
    other = (people.base / "people.toml").read_text().replace('root = "releases"', 'root = "elsewhere"')
    (people.base / "other.toml").write_text(other)
    copied = people.base / "elsewhere" / "people" / "covariance"
    copied.mkdir(parents=True)
    for path in Path(people.output_root, "people", "covariance").glob("2026-11-20*.json"):
        (copied / path.name).write_bytes(path.read_bytes())
    made = make_site(people.base, tmp_path / "site", TODAY, "code")
    assert made.releases == 3
    names = set(pages(tmp_path / "site"))
    assert "root-2/people/covariance/2026-11-21.html" in names
