"""The report in a real browser, in both colour schemes and on paper: policy kept, nothing fetched, nothing cut off."""

import re
from datetime import date

import pytest

from blockveil.pipeline import report
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import browser, support

NIGHTS = date(2026, 11, 20), date(2026, 11, 21)

PAGES = {0: "report", 1: "comparison", 2: "mechanisms compared"}

pytestmark = browser.needed


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    loaded = support.prepare(tmp_path_factory.mktemp("people"), budget=9.0)
    first, second = (run_release(make_plan(loaded, day), ThreadCompute(2), "t", lambda *a: None) for day in NIGHTS)
    chosen = _chosen(tmp_path_factory.mktemp("chosen"))
    return report.write_report(first.path).path, report.write_comparison(second.path, first.path)[1], chosen


def _chosen(folder):
    """The page of a release whose mechanism was chosen, with the table of all that were compared."""
    config = support.prepare(folder, budget=9.0).path
    before, after = config.read_text().split("[mechanism]")
    _, bracket, rest = after.partition("\n[")
    config.write_text(f'{before}[mechanism]\nkind = "auto"\nminimise = "relative"\n{bracket}{rest}')
    plan = make_plan(load_config(config), NIGHTS[0])
    return report.write_report(run_release(plan, ThreadCompute(2), "t", lambda *a: None).path).path


@pytest.fixture(scope="module")
def chromium():
    with browser.chromium() as found:
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", [0, 1], ids=["report", "comparison"])
def test_a_page_shows_its_pictures_and_keeps_its_policy(pages, chromium, which, scheme):
    context = chromium.new_context(color_scheme=scheme, viewport={"width": 1000, "height": 800})
    shown, complaints, fetched = context.new_page(), [], []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("request", lambda request: fetched.append(request.url))
    shown.goto(f"file://{pages[which]}")
    images = shown.eval_on_selector_all(
        "img", "all => all.map(one => [one.complete, one.naturalWidth, one.currentSrc])"
    )
    assert len(images) == 1
    assert all(complete and width > 100 for complete, width, _ in images)
    sources = shown.eval_on_selector_all("source", "all => all.map(one => one.srcset)")
    assert ([source for *_, source in images] == sources) == (scheme == "dark")
    assert complaints == []
    assert [url for url in fetched if not url.startswith(("data:", "file:"))] == []
    paper = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 22, 22)"}[scheme], "the style is allowed"
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()


_BROKEN_NUMBERS = """[...document.querySelectorAll('td.n')].filter(cell => {
    const text = document.createRange();
    text.selectNodeContents(cell);
    return new Set([...text.getClientRects()].map(line => Math.round(line.top))).size > 1;
}).map(cell => cell.textContent)"""

_FOLDED = "[...document.querySelectorAll('details > :not(summary)')].map(one => one.checkVisibility())"


@pytest.mark.parametrize("which", PAGES, ids=PAGES.values())
def test_what_is_folded_on_a_screen_is_printed(pages, chromium, which):
    context = chromium.new_context()
    shown = context.new_page()
    shown.goto(f"file://{pages[which]}")
    assert not any(shown.evaluate(_FOLDED)), "it is folded on a screen"
    shown.emulate_media(media="print")
    assert all(shown.evaluate(_FOLDED))
    if which != 1:
        assert len(shown.evaluate(_FOLDED)) > 5
    context.close()


@pytest.mark.parametrize("which", PAGES, ids=PAGES.values())
@pytest.mark.parametrize("width", [380, 1000])
def test_a_page_is_as_wide_as_the_screen_also_unfolded(pages, chromium, which, width):
    context = chromium.new_context(viewport={"width": width, "height": 800})
    shown = context.new_page()
    shown.goto(f"file://{pages[which]}")
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    shown.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()


_SHEET = {"width": 673, "height": 1001}
"""A4 less its margins, in CSS pixels."""


def test_the_first_sheet_holds_the_promise_and_the_picture(pages, chromium):
    context = chromium.new_context(viewport=_SHEET)
    shown = context.new_page()
    shown.goto(f"file://{pages[0]}")
    shown.emulate_media(media="print")
    bottom = shown.evaluate("document.querySelector('figure').getBoundingClientRect().bottom")
    # A figure is never divided: one that ends below leaves the rest of the sheet empty.
    assert bottom <= _SHEET["height"]
    context.close()


@pytest.mark.parametrize("which", PAGES, ids=PAGES.values())
def test_a_page_is_printed_on_a4_as_for_light_paper_and_nothing_is_cut_off(pages, chromium, which):
    context = chromium.new_context(color_scheme="dark", viewport=_SHEET)
    shown = context.new_page()
    shown.goto(f"file://{pages[which]}")
    shown.emulate_media(media="print", color_scheme="dark")
    assert shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert shown.evaluate(_BROKEN_NUMBERS) == []
    sources = shown.eval_on_selector_all("source", "all => all.map(one => one.srcset)")
    images = shown.eval_on_selector_all("img", "all => all.map(one => one.currentSrc)")
    assert not set(images) & set(sources)
    printed = shown.pdf(prefer_css_page_size=True)
    sheets = re.findall(rb"/MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", printed)
    assert 1 <= len(sheets) <= 12
    assert {tuple(round(float(side) / 72 * 25.4) for side in sheet) for sheet in sheets} == {(210, 297)}
    context.close()
