"""``blockveil plan`` answers whether a release is good enough; what is supposed of the records is for display alone."""

import json
import re
from datetime import date

import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from tests.house import support

NIGHT = "2026-11-20"


def planned(path, *words):
    found = CliRunner().invoke(app, ["plan", str(path), "--date", NIGHT, *words])
    assert found.exception is None, found.output
    return found.output


def refused(path, *words):
    found = CliRunner().invoke(app, ["plan", str(path), "--date", NIGHT, *words])
    assert isinstance(found.exception, ConfigError), found.output
    assert len(str(found.exception)) < 400
    return str(found.exception)


def files(folder):
    return {path.relative_to(folder): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_guess_is_answered_in_the_units_of_the_features_with_the_best_three_levers(tmp_path):
    shown = planned(support.write_config(tmp_path), "--rows", "2000")
    for word in (
        "2,000 records (a guess)",
        "age",
        "mean ± ",
        "correlation of 0.5",
        "At the bound",
        "less noise",
        "Options",
    ):
        assert word in shown
    assert shown.count("times less noise") == 3
    assert planned(tmp_path / "people.toml", "--rows", "2000", "--options").count("times less noise") > 3


def test_without_a_guess_a_plan_says_what_holds_at_the_bound_and_how_to_ask(tmp_path):
    shown = planned(support.write_config(tmp_path))
    assert "10,000 records (as many as there may be)" in shown
    assert "--rows N" in shown
    assert "times less noise" not in shown


def test_what_is_supposed_enters_no_digest_no_ledger_and_no_file_but_the_page_that_was_asked_for(tmp_path):
    loaded = support.prepare(tmp_path)
    ledger = Ledger(loaded.ledger_url)
    head, before = ledger.head(), files(tmp_path)
    digest = make_plan(loaded, date.fromisoformat(NIGHT)).digest
    page = tmp_path / "page.html"
    asked = ["--rows", "1234", "--correlation", "0.3", "--spread", "0.1", "--options", "--preview"]
    with_guess = json.loads(planned(loaded.path, *asked, "--target", "correlation 0.2", "--html", str(page), "--json"))
    plain = json.loads(planned(loaded.path, "--json"))
    assert with_guess["plan_digest"] == plain["plan_digest"] == digest
    supposed, usual = with_guess.pop("accuracy"), plain.pop("accuracy")
    assert with_guess == plain
    assert "1234" not in json.dumps(plain)
    assert supposed["at_a_guess"]["population"]["rows"] == 1234
    assert "at_a_guess" not in usual
    assert ledger.head() == head
    after = files(tmp_path)
    assert {name for name, time in after.items() if before.get(name) != time} - {page.relative_to(tmp_path)} == set()


def test_the_json_has_errors_levers_preview_and_what_is_enough(tmp_path):
    path = support.write_config(tmp_path)
    words = ("--rows", "2000", "--preview", "--target", "correlation 0.05", "--json")
    found = json.loads(planned(path, *words))["accuracy"]
    assert {error["what"] for error in found["at_a_guess"]["errors"]} >= {"mean of age", "standard deviation of debt"}
    assert found["options"][0]["times_less_noise"] >= found["options"][-1]["times_less_noise"]
    assert found["preview"]["numbers"] == 9
    assert found["target"]["options"]["privacy.epsilon"] > 1.0


def test_the_preview_is_shown_in_the_terminal(tmp_path):
    shown = planned(support.write_config(tmp_path), "--rows", "2000", "--preview")
    assert "2,000 simulated records" in shown
    assert re.search(r"^true +released$", shown, re.MULTILINE)
    assert "95 % interval" in shown


def test_what_was_laid_over_the_file_is_told_on_the_terminal_and_on_the_page(tmp_path):
    path, page = support.write_config(tmp_path), tmp_path / "plan.html"
    words = ["--set", "privacy.epsilon=2.5", "--set", "compute.memory_gib=3.0", "--html", str(page)]
    shown = [" ".join(line.split()) for line in planned(path, *words).splitlines()]
    told = ["privacy.epsilon = 2.5, in place of 1.0", "compute.memory_gib = 3.0, which the file leaves out"]
    assert [line for line in shown if line.startswith("Override")] == [f"Override {each}" for each in told]
    text = page.read_text()
    assert all(f'<tr><th scope="row">Override</th><td>{each}</td></tr>' in text for each in told)
    assert "Override" not in planned(path)


def test_the_page_stands_alone_and_holds_no_script(tmp_path):
    path = support.write_config(tmp_path)
    path.write_text(path.read_text().replace('"income"', '"<script>alert(1)</script>"'))
    page = tmp_path / "plan.html"
    assert f"Page  {page}" in planned(path, "--rows", "2000", "--html", str(page))
    text = page.read_text()
    assert "default-src 'none'" in text
    assert "Is it good enough?" in text
    assert "true and released" in text
    assert "<script" not in text
    assert not re.search(r'(?:src|href)="http', text)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--rows", "0"), "--rows 0"),
        (("--rows", "20000"), "query.rows_at_most bounds"),
        (("--correlation", "2"), "--correlation 2"),
        (("--spread", "nan"), "--spread nan"),
        (("--target", "correlation 0.1"), "without --rows"),
        (("--rows", "100", "--target", "income 3"), "is not a number of this release"),
        (("--html", "plan.pdf"), "ends with .html"),
        (("--html", "nowhere/plan.html"), "in a folder that is there"),
    ],
)
def test_what_makes_no_sense_is_refused_and_writes_nothing(tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    path = support.write_config(tmp_path)
    before = files(tmp_path)
    assert told in refused(path, *words)
    assert files(tmp_path) == before


def test_a_page_that_cannot_be_written_is_told_so(tmp_path):
    path = support.write_config(tmp_path)
    there = tmp_path / "page.html"
    there.mkdir()
    assert "ends with .html" in refused(path, "--html", str(there))


def test_the_config_is_not_touched_by_any_question(tmp_path):
    path = support.write_config(tmp_path)
    before = path.read_bytes()
    planned(path, "--rows", "2000", "--options", "--target", "directions 2")
    assert path.read_bytes() == before
    assert load_config(path).config.query.rows_at_most == 10_000
