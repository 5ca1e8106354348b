"""Whose rows a release protects: said wherever its guarantee is said, as the store and the config have it."""

import json
from datetime import date

import pytest

from blockveil.pipeline import report
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.markdown import text_of
from blockveil.pipeline.report.page import page_sections
from tests.house import support
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.test_contract import RELEASE

pytestmark = pytest.mark.usefixtures("pictures_in_words")
NIGHT = date(2026, 11, 20)
GROUP = "protected as a group of k, by k times the loss"
IDENTIFIERS = "somebody with k identifiers is k units"

UNITS = {
    "row": (people.ROW, "one visit (one row)", 1, "The ingest took each row as one unit.", "The privacy unit is a row"),
    "one": (people.CHOOSE.format(most=1), "one person", 1, "The ingest kept one row of each unit, chosen", IDENTIFIERS),
    "fifty": (
        people.CHOOSE.format(most=50),
        "one person",
        50,
        "The ingest kept at most 50 rows of each unit, chosen by a rule that looks at that unit alone, and dropped its "
        "further rows.",
        "All 50 rows of a unit are protected together, by group privacy.",
    ),
    "sum": (people.TOGETHER.format(by="sum"), "one person", 1, "The ingest added up all rows of a unit", IDENTIFIERS),
    "mean": (people.TOGETHER.format(by="mean"), "one person", 1, "The ingest averaged all rows of a unit", IDENTIFIERS),
}


def configured(folder, unit, more=""):
    named = ", ".join(f'{{name = "{name}", lower = 0, upper = 1}}' for name in ("cost", "stay"))
    text = RELEASE.format(unit=unit, neighbours="add-remove", kind="covariance", features=named, more=more)
    (folder / "release.toml").write_text(text)
    return load_config(folder / "release.toml")


def ingested(folder, rule):
    people.write_parquet(folder, people.visits())
    people.run(people.configure(folder, people.COLUMNS[:2], unit=rule))


def on_a_run_page(sections):
    return "\n".join(map(text_of, sections))


def released(loaded):
    ledger = Ledger(loaded.ledger_url)
    ledger.set_budget("people", 3.0, 1e-5, make_plan(loaded, NIGHT).neighbours, loaded.config.privacy.unit)
    plan = make_plan(loaded, NIGHT)
    outcome = run_release(plan, ThreadCompute(2), "test", lambda *a: None)
    return outcome, report.make_report(plan, Ledger(plan.loaded.ledger_url), outcome)


@pytest.mark.parametrize("kind", UNITS)
def test_every_form_of_the_guarantee_says_whose_rows_were_bounded_and_how(tmp_path, kind):
    rule, unit, rows, sentence, less = UNITS[kind]
    ingested(tmp_path, rule)
    more = "" if rows == 1 else f", rows_per_unit = {rows}"
    outcome, made = released(configured(tmp_path, unit, more))
    release = read_release(outcome.path)
    said = release.attributes["guarantee"]["contribution"]
    assert (said["rule"], said["rows"], said["charged_rows"]) == (
        {"one": "choose", "fifty": "choose"}.get(kind, kind),
        rows,
        rows,
    )
    assert said["excess_dropped"] is (kind in ("one", "fifty"))
    page, machine = made.path.read_text(), json.loads(made.data.read_text())
    assert machine["guarantee"]["contribution"] == said
    for text in (page, on_a_run_page(made.sections), machine["guarantee"]["sentence"]):
        assert sentence in text
    for text in (page, on_a_run_page(made.sections), machine["guarantee"]["not_protected"]):
        assert less in text
    assert f"<td>{unit}</td>" in page
    assert f"at most {rows} in the store; the noise is for {rows}." in page
    assert ("The privacy unit is a row" in page) == (kind == "row")
    assert ("left out for their own values" in page) == (kind != "row"), "rows without an identifier were dropped"


def test_of_a_store_that_nobody_ingested_the_word_of_the_config_is_taken_and_said(tmp_path):
    outcome, made = released(support.prepare(tmp_path))
    said = read_release(outcome.path).attributes["guarantee"]["contribution"]
    assert said["rule"] == "declared"
    page = made.path.read_text()
    assert "Each row of the store was taken as one unit on the word of the config" in page
    assert f"Nobody has checked that {support.UNIT} has one row in the store" in page
    assert GROUP in page


def test_noise_for_more_rows_than_the_store_has_is_said(tmp_path):
    ingested(tmp_path, people.CHOOSE.format(most=2))
    _, made = released(configured(tmp_path, "one person", ", rows_per_unit = 3"))
    page = made.path.read_text()
    assert "at most 2 in the store; the noise is for 3." in page
    assert "The noise is for 3 rows of a unit." in page
    assert "All 3 rows of a unit are protected together" in page


def test_a_statement_says_how_many_rows_of_a_unit_a_charge_is_for(tmp_path):
    from blockveil.pipeline.ledger.statement import statement

    ingested(tmp_path, people.CHOOSE.format(most=2))
    loaded = configured(tmp_path, "one person", ", rows_per_unit = 2")
    released(loaded)
    assert [line.rows_per_unit for line in statement(Ledger(loaded.ledger_url).history())] == [None, 2]


def test_a_release_that_does_not_state_it_is_shown_without_a_claim(tmp_path):
    outcome, _ = released(support.prepare(tmp_path))
    release = read_release(outcome.path)
    del release.attributes["guarantee"]["contribution"]
    shown = on_a_run_page(page_sections(Facts(release), [], outcome.path.name))
    assert "does not say how the rows of a unit were bounded" in shown
    assert "One with more rows than the noise is for is protected less" in shown
    assert "on the word of the config" not in shown.replace(release.attributes["guarantee"]["sentence"], "")


def test_what_one_unit_contributes_is_the_least_that_contract_and_config_both_hold(tmp_path):
    config = configured(tmp_path, "one person", ", rows_per_unit = 5").config
    contract = Contract("one person", 2, True, True, ("cost", "stay"), "digest", "0" * 32, "choose")
    found = Contribution.of(config, contract)
    assert (found.rows, found.charged_rows, found.dropping) == (2, 5, True)
    assert Contribution.read({"privacy_unit": "one person", "contribution": found.facts()}) == found
    for damage in ({"rows": None}, {"rule": "magic"}, {"charged_rows": "5"}):
        damaged = {"privacy_unit": "one person", "contribution": {**found.facts(), **damage}}
        assert Contribution.read(damaged).rule == "unknown"
