"""A deployment's record satisfies the registry's schema, says what is so, and has no blank that it does not name."""

import re
from datetime import date
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.disclosure_file import load_disclosure
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.withdrawing import withdraw
from blockveil.pipeline.report.registry_record import DisclosedDeployment, record
from tests.house import support

SCHEMA = yaml.safe_load((Path(__file__).parents[2] / "data" / "registry" / "deployments-schema.yaml").read_text())
PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "disclose.md").read_text()
EXAMPLE = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1]
NIGHTS = date(2026, 11, 20), date(2026, 11, 21)
TODAY = date(2026, 11, 24)


def accept(found):
    jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER).validate(found)


def without(text, *keys):
    return "".join(line for line in text.splitlines(keepends=True) if line.partition(" ")[0] not in keys)


def two_nights(folder):
    loaded = support.prepare(folder, budget=9.0)
    for night in NIGHTS:
        run_release(make_plan(loaded, night), ThreadCompute(2), "test", lambda *_: None)
    return loaded


@pytest.fixture
def people(tmp_path):
    return support.made_once(tmp_path, two_nights)


def told(folder, text):
    (folder / "disclosure.toml").write_text(text)
    return load_disclosure(folder / "disclosure.toml")


@pytest.mark.parametrize("tier", [1, 2, 3])
def test_the_schema_of_the_registry_accepts_each_tier(people, tmp_path, tier):
    found, blank = record(DisclosedDeployment.of(people, TODAY), *told(tmp_path, EXAMPLE), tier)
    accept(yaml.safe_load(yaml.safe_dump(found)))
    assert (found["tier"], blank) == (tier, [])


def test_tier_three_fills_every_place_that_the_schema_has_for_it(people, tmp_path):
    found, _ = record(DisclosedDeployment.of(people, TODAY), *told(tmp_path, EXAMPLE), 3)
    for name, section in SCHEMA["properties"]["deployment"]["properties"].items():
        assert set(section["properties"]) == set(found["deployment"][name]), name


def test_it_says_what_the_plan_and_the_ledger_say(people, tmp_path):
    stated = record(DisclosedDeployment.of(people, TODAY), *told(tmp_path, EXAMPLE), 3)[0]["deployment"]
    assert stated["privacy_loss"]["privacy_unit"] == support.UNIT
    assert stated["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    assert "within epsilon 9 " in stated["privacy_loss"]["privacy_parameters_details"]
    assert stated["deployment_model"]["release_type"] == "Many releases"
    assert stated["deployment_model"]["release_type_details"].startswith("Releases that were published and stand: 2.")
    assert "shaped-gaussian (proven-exact" in stated["implementation"]["mechanisms"]
    assert "at most 10,000 rows" in stated["dp_variant"]["data_domain"]


def test_a_withdrawn_release_counts_no_longer(people, tmp_path):
    withdraw(people, f"people/covariance/{NIGHTS[1]}", "wrong", remove=False)
    model = record(DisclosedDeployment.of(people, TODAY), *told(tmp_path, EXAMPLE), 3)[0]["deployment"][
        "deployment_model"
    ]
    assert model["release_type"] == "One release"
    assert model["release_type_details"].startswith("Releases that were published and stand: 1.")


@pytest.mark.parametrize("key", ["actors", "security", "exploration", "justification", "population", "records_change"])
def test_a_blank_is_refused_in_tier_three_and_named_below_it(people, tmp_path, key):
    said = told(tmp_path, without(EXAMPLE, key))
    with pytest.raises(ConfigError, match=f"leaves blank: {key}"):
        record(DisclosedDeployment.of(people, TODAY), *said, 3)
    found, blank = record(DisclosedDeployment.of(people, TODAY), *said, 2)
    assert blank == [key]
    accept(found)


@pytest.mark.parametrize("key", ["curators", "intended_use", "region", "authors"])
def test_what_the_registry_always_asks_for_is_refused_as_a_blank_in_every_tier(people, tmp_path, key):
    for tier in (1, 2, 3):
        with pytest.raises(ConfigError, match=key) as caught:
            record(DisclosedDeployment.of(people, TODAY), *told(tmp_path, without(EXAMPLE, key)), tier)
        assert "lower tier" not in str(caught.value)  # none would do without it


def test_before_the_first_release_its_day_is_asked_for(tmp_path):
    loaded = support.prepare(tmp_path)
    with pytest.raises(ConfigError, match="first_published"):
        record(DisclosedDeployment.of(loaded, TODAY), *told(tmp_path, EXAMPLE), 3)
    found, _ = record(
        DisclosedDeployment.of(loaded, TODAY), *told(tmp_path, EXAMPLE + "first_published = 2026-12-01\n"), 3
    )
    accept(found)
    assert found["deployment"]["basic"]["publication_date"] == "2026-12-01"


@pytest.mark.parametrize("line", ["unknown = 1", 'sector = "Gambling"', 'title = ""', "curators = 7"])
def test_a_disclosure_that_cannot_be_used_is_refused_by_its_key(tmp_path, line):
    with pytest.raises(ConfigError, match=line.partition(" ")[0]):
        told(tmp_path, without(EXAMPLE, line.partition(" ")[0]) + line + "\n")


def test_the_command_never_writes_over_a_ledger(people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told(tmp_path, EXAMPLE)
    ledger = people.base / "ledger.db"
    before = ledger.read_bytes()
    call = ["export", "disclosure", str(people.path), "--disclosure", "disclosure.toml", "--output", str(ledger)]
    assert CliRunner().invoke(app, call).exit_code != 0
    assert ledger.read_bytes() == before


def test_the_command_writes_what_the_registry_reads(people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told(tmp_path, without(EXAMPLE, "future_use"))
    call = ["export", "disclosure", str(people.path), "--disclosure", "disclosure.toml", "--output", "people.yaml"]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    accept(yaml.safe_load((tmp_path / "people.yaml").read_text()))
    text = (tmp_path / "people.yaml").read_text()
    assert str(support.CANARY) not in text
    assert str(tmp_path) not in text
