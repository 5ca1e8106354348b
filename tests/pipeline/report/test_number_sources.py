"""Every number on the page of a release stands under the source that it comes from, and each source is there."""

from html.parser import HTMLParser

import numpy as np
import pytest

from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.report import page
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.report_sections import as_values
from tests.house import support
from tests.pipeline.kinds.histograms import test_column_histograms as histograms
from tests.pipeline.kinds.totals import test_totals as totals
from tests.pipeline.questions import test_ordered_axes as ranges
from tests.pipeline.questions import test_queries as queries
from tests.pipeline.releases.test_training_steps import training
from tests.pipeline.report.test_evaluation import names_a_source
from tests.pipeline.report.test_own_units import found, people
from tests.pipeline.study import test_frozen_outputs as frozen

__all__ = ["found", "people"]
BUDGET = [("Spent", "0.5 of 3"), ("Nights left", "7")]


class Numbers(HTMLParser):
    """Numbers of a page that stand under no source, and all sources that it names."""

    def __init__(self):
        super().__init__()
        self.without, self.named, self._above = [], set(), []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag not in ("br", "img", "meta", "source"):
            self._above.append((tag, given.get("data-source")))
        self.named |= {given["data-source"]} if "data-source" in given else set()
        self._look(given.get("alt", ""))

    def handle_endtag(self, tag):
        opened, _ = self._above.pop()
        assert opened == tag

    def handle_data(self, data):
        self._look(data)

    def _look(self, text):
        inside = any(tag in ("style", "title", "summary") for tag, _ in self._above)
        if any(each.isdigit() for each in text) and not inside and not any(source for _, source in self._above):
            self.without.append(text)


def numbers(text):
    looked = Numbers()
    looked.feed(text.removeprefix("<!doctype html>"))
    return looked


def sources_that_are_not_there(named, facts):
    def there(key):
        return facts.matrix.array(key) is not None or names_a_source(key, facts.attributes)

    every = [key for each in named for key in each.removesuffix(", if true").split(", ")]
    return [key for key in every if not there(key)]


@pytest.mark.usefixtures("pictures_in_words")
def test_no_number_on_the_page_lacks_its_source_and_every_source_is_there(found):
    for budget in ([], BUDGET):
        looked = numbers(support.page_of(found, budget, "folder"))
        assert looked.without == []
        assert len(looked.named) > 15
        assert sources_that_are_not_there(looked.named, found) == []
    assert sources_that_are_not_there({"guarantee.absent, covariance"}, found) == ["guarantee.absent"]


OTHERS = {
    "rows": lambda folder: queries.prepare(folder, queries.ROWS),
    "outer products": lambda folder: queries.prepare(folder, queries.OUTER),
    "counts": lambda folder: queries.prepare(folder, queries.COUNTS, queries.records(queries.COUNTS)),
    "totals": lambda folder: queries.prepare(folder, totals.TOTALS),
    "tables with ranges": lambda folder: ranges.asked(folder, ranges.QUERY, neighbours="add-remove"),
    "histograms": histograms.asked,
    "directions": lambda folder: drawn(folder, "exponential", np.full((60, 5), 0.3)),
    "buckets": lambda folder: drawn(folder, "dawa", np.arange(60.0)[:, None] % 8),
    "training": lambda folder: budgeted(load_config(training(folder, steps=3))),
}


def budgeted(loaded):
    support.set_budget(loaded, 40.0, 1e-5)
    return loaded


def drawn(folder, mechanism, values):
    support.write_records(folder, values)
    path, query = folder / "drawn.toml", frozen.QUERIES[mechanism]
    path.write_text(frozen.CONFIG.format(query=query, neighbours="add-remove", mechanism=mechanism, rows=""))
    return budgeted(load_config(path))


@pytest.mark.usefixtures("pictures_in_words")
@pytest.mark.parametrize("query", OTHERS)
def test_the_same_holds_of_other_queries(query, tmp_path):
    _, outcome = queries.run(OTHERS[query](tmp_path))
    facts = Facts(read_release(outcome.path))
    looked = numbers(support.page_of(facts, [], "folder"))
    assert looked.without == []
    assert sources_that_are_not_there(looked.named, facts) == []


@pytest.mark.usefixtures("pictures_in_words")
def test_a_number_without_a_source_is_found(found):
    text = support.page_of(found, BUDGET, "folder").replace(' data-source="the ledger"', "")
    assert numbers(text).without == ["0.5 of 3", "7"]


@pytest.mark.usefixtures("pictures_in_words")
def test_a_reader_and_a_program_are_told_the_sources(found):
    text = support.page_of(found, [], "folder")
    assert "Where each number comes from" in text
    assert "<td>guarantee.epsilon, guarantee.delta</td>" in text
    sections = page.page_sections(found, BUDGET, "folder")
    told = {each["title"]: each.get("source") for each in as_values(sections) if "title" in each}
    assert told[found.title].endswith("covariance")
    assert told["What is left of the budget?"] == "the ledger"
    assert "covariance_standard_deviation" in told["What stands out from the noise?"]
