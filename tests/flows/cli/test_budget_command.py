"""``blockveil ledger budget``: forecast, split and price, as a person uses them."""

import json
from datetime import date, timedelta

import pytest
from typer.testing import CliRunner

from blockveil.engine.guarantees.guarantee import Loss, Neighbours
from blockveil.flows.cli import app
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.reserving import ChargeRequest
from tests.house import support
from tests.pipeline.verification.test_signed_releases import key_file

RUN = CliRunner()


@pytest.fixture
def people(tmp_path):
    return support.prepare(tmp_path)


def run(*words):
    return RUN.invoke(app, ["ledger", *map(str, words)])


def shared(loaded, name, share):
    text = loaded.path.read_text().replace('name = "covariance"', f'name = "{name}"', 1)
    path = loaded.path.with_name(f"{name}.toml")
    path.write_text(text.replace("delta = 1e-6", f"delta = 1e-6\nshare = {share}"))
    return path


def test_what_was_spent_is_shown_of_a_config_that_cannot_be_planned(people):
    people.path.write_text(people.path.read_text().replace("delta = 1e-6", "delta = 1e-40"))
    shown = run("budget", people.path)
    assert shown.exit_code == 0, shown.output
    assert "by 0 releases" in shown.output
    assert "cannot be planned" in shown.output
    assert json.loads(run("budget", people.path, "--json").output)["nights_left"] is None


def test_a_forecast_is_plain_text_and_json(people):
    until = date.today() + timedelta(days=200)  # noqa: DTZ011 - the command's own day
    shown = run("forecast", people.path, "--until", until)
    assert shown.exit_code == 0, shown.output
    for word in ("Nights left", "people/covariance", f"To {until}", "times the noise"):
        assert word in shown.output
    found = json.loads(run("forecast", people.path, "--json").output)
    assert found["nights_left"] > 1
    assert found["until"] is None


@pytest.mark.parametrize("words", [("--until", "soon"), ("--until", "2020-01-01")])
def test_a_forecast_that_makes_no_sense_is_refused(people, words):
    assert run("forecast", people.path, *words).exception.exit_code == 2


def test_a_forecast_needs_one_budget(people, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(people.path.read_text().replace('dataset = "people"', 'dataset = "others"'))
    assert run("forecast", people.path, other).exception.exit_code == 2


def test_a_split_is_shown_and_held_for_all_or_none(people):
    paths = [shared(people, "first", 0.6), shared(people, "second", 0.4)]
    shown = run("split", *paths, "--date", "2026-11-20")
    assert shown.exit_code == 0, shown.output
    assert "people/first/2026-11-20" in shown.output
    assert "epsilon 1 of 1" in shown.output
    ledger = Ledger(people.ledger_url)
    assert ledger.budget("people").charges == 0
    held = json.loads(run("split", *paths, "--date", "2026-11-20", "--reserve", "--json").output)
    assert [row["share"] for row in held["releases"]] == [0.6, 0.4]
    assert 0.999 < held["epsilon"] <= 1.0
    assert ledger.budget("people").charges == 2
    assert ledger.find("people/second/2026-11-20").state == "RESERVED"


def test_a_split_of_which_one_does_not_fit_holds_none(tmp_path):
    people = support.prepare(tmp_path, budget=0.75)
    paths = [shared(people, "first", 0.6), shared(people, "second", 0.4)]
    assert run("split", *paths, "--reserve").exception.exit_code == 3
    assert Ledger(people.ledger_url).budget("people").charges == 0


def test_holding_does_not_go_round_a_persons_approval(people):
    path = shared(people, "first", 0.6)
    path.write_text(path.read_text() + "\n[approval]\nthreshold_share = 0.05\n")
    refused = run("split", path, "--reserve")
    assert refused.exception.exit_code == 11
    assert Ledger(people.ledger_url).budget("people").charges == 0
    assert run("split", path).exit_code == 0


def test_what_officers_have_signed_is_held_and_else_they_are_asked_for(people, tmp_path):
    key_file(tmp_path / "officer.pem")
    path = shared(people, "first", 0.6)
    with path.open("a") as file:
        file.write('\n[approval]\nthreshold_share = 0.01\nofficers = { Ann = "file:officer.pub" }\n')
    words = ("split", path, "--date", "2026-11-20", "--reserve")
    refused = run(*words).exception
    assert refused.exit_code == 11
    assert "a typed name does not count" in refused.remedy
    signing = ("--sign", f"file:{tmp_path / 'officer.pem'}", "--by", "Ann", "--why", "two releases")
    signed = RUN.invoke(app, ["ledger", "approve", str(path), "--date", "2026-11-20", *signing])
    assert signed.exit_code == 0, signed.output
    assert run(*words).exit_code == 0
    assert Ledger(people.ledger_url).find("people/first/2026-11-20").approval.name == "Ann"


EVENTS = """
neighbours = "add-remove"
unit = "one person"
[[event]]
kind = "poisson-gaussian"
probability = 0.01
noise_multiplier = 1.0
count = 1000
"""


def test_a_series_is_priced(tmp_path):
    path = tmp_path / "events.toml"
    path.write_text(EVENTS)
    shown = run("price", path, "--delta", "1e-5", "--epsilon", "2")
    assert shown.exit_code == 0, shown.output
    assert "epsilon 1.829" in shown.output  # dp-accounting 0.6: 1.82824, rounded up
    found = json.loads(run("price", path, "--delta", "1e-5", "--json").output)
    assert found["mu"] > 0.5
    path.write_text(EVENTS + '[[event]]\nkind = "zcdp"\nrho = 0.01\n')
    assert json.loads(run("price", path, "--delta", "1e-5", "--json").output)["epsilon"] > found["epsilon"]
    path.write_text(
        EVENTS.replace("poisson-gaussian", "zcdp")
        .replace("probability = 0.01", "rho = 1e-5")
        .replace("noise_multiplier = 1.0\n", "")
    )
    concentrated = json.loads(run("price", path, "--delta", "1e-5", "--json", "--epsilon", "1").output)
    assert 0.4 < concentrated["epsilon"] < 0.75
    assert concentrated["delta_there"] < 1e-5
    assert run("price", path, "--delta", "0").exception.exit_code == 2


def test_a_budget_has_parts_and_periods(people):
    granted = run(
        "grant",
        people.path,
        "--epsilon",
        4,
        "--delta",
        "1e-5",
        "--reserve",
        0.5,
        "--slack",
        0.1,
        "--period",
        "month:1.5",
    )
    assert granted.exit_code == 0, granted.output
    for words in (
        "This month",
        "0 % of epsilon 1.5 by 0 releases; 100 % left",
        "epsilon 0.5 for pure losses",
        "0.1 of delta",
    ):
        assert words in granted.output
    assert "This month" not in run("grant", people.path, "--epsilon", 4, "--delta", "1e-5", "--no-periods").output
    assert run("grant", people.path, "--epsilon", 4, "--delta", "1e-5", "--period", "month").exception.exit_code == 6
    zcdp = run("grant", people.path, "--epsilon", 4, "--delta", "1e-5", "--accountant", "zcdp")
    assert "zcdp" in zcdp.output


def test_what_another_tool_draws_is_booked_once(people, tmp_path):
    path = tmp_path / "events.toml"
    text = EVENTS.replace("one person", support.UNIT)
    text += '[[event]]\nkind = "approximate"\nepsilon = 0.01\ndelta = 1e-8\n'
    path.write_text(text)
    words = ("charge", people.path, path, "--name", "training", "--date", "2026-11-20")
    Ledger(people.ledger_url).reserve(
        ChargeRequest(
            release_id="people/first/2026-11-19",
            dataset="people",
            spec={},
            spec_digest="0" * 64,
            charge=Loss(0.01, 0.0, 1e-25),
            neighbours=Neighbours.ADD_REMOVE,
            unit=support.UNIT,
            attempt="test",
        )
    )
    refused = run(*words)
    assert refused.exception.exit_code == 3  # beside another release, a failure needs slack
    (tmp_path / "other").mkdir()
    people = support.prepare(tmp_path / "other")
    words = ("charge", people.path, *words[2:])
    run("grant", people.path, "--epsilon", 3, "--delta", "1e-5", "--slack", 0.1)
    for _ in range(2):
        booked = run(*words)
        assert booked.exit_code == 0, booked.output
        assert "people/training/2026-11-20 is booked" in booked.output
    status = Ledger(people.ledger_url).budget("people")
    assert status.charges == 1
    assert status.spent.failure > 0
    assert Ledger(people.ledger_url).find("people/training/2026-11-20").state == "RELEASED"
    shown = RUN.invoke(app, ["ledger", "show", str(people.path)]).output
    assert "failure" in shown
    path.write_text(text.replace("1000", "2000"))
    assert run(*words).exception.exit_code == 5
    path.write_text(EVENTS)
    assert run("charge", people.path, path, "--name", "other").exception.exit_code == 6  # another privacy unit
    assert run("charge", people.path, path, "--name", "../x").exception.exit_code == 2


def test_a_config_may_name_the_budget_that_pays(people):
    people.path.write_text(people.path.read_text().replace('dataset = "people"', 'dataset = "people"\nbudget = "town"'))
    run("grant", people.path, "--epsilon", 3, "--delta", "1e-5")
    assert "for 'town'" in run("budget", people.path).output
    assert json.loads(run("forecast", people.path, "--json").output)["dataset"] == "town"
