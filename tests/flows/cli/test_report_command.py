"""``blockveil report``: names, files, and refusals a person can act on."""

import json
from datetime import date

import pytest
from typer.testing import CliRunner

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report.comparison import CannotCompare
from tests.house import support

NIGHTS = date(2026, 11, 20), date(2026, 11, 21)


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Folder, config and two released nights."""
    folder = tmp_path_factory.mktemp("people")
    loaded = support.prepare(folder, budget=9.0)
    # Known keys: of fresh ones, one pair of nights in twenty differs beyond a band that holds in 95 of 100.
    keys = (NoiseKey(bytes([number]) * 32) for number in range(len(NIGHTS)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoiseKey, "derive", classmethod(lambda *_: next(keys)))
        outcomes = [run_release(make_plan(loaded, day), ThreadCompute(2), "t", lambda *a: None) for day in NIGHTS]
    return folder / "people.toml", outcomes


def report(*words):
    found = CliRunner().invoke(app, ["report", *map(str, words)])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.output


def test_a_release_is_named_by_its_id_its_pointer_or_its_folder(people):
    config, (outcome, _) = people
    pages = []
    for named in (("people/covariance/2026-11-20", "--config", config), (outcome.pointer,), (outcome.path,)):
        told = report(*named)
        for words in ("people/covariance/2026-11-20", "out from the noise", ".report.json"):
            assert words in told
        pages.append(outcome.path.with_suffix(".html").read_text())
    assert "Budget" in pages[0]
    assert "Budget" not in pages[1]
    assert pages[1] == pages[2]


def test_a_budget_of_another_data_set_is_not_shown(people, tmp_path):
    _, (outcome, _) = people
    config = tmp_path / "animals.toml"
    support.prepare(tmp_path)
    config.write_text((tmp_path / "people.toml").read_text().replace('dataset = "people"', 'dataset = "animals"'))
    report(outcome.path, "--config", config)
    assert "Budget" not in outcome.path.with_suffix(".html").read_text()


def test_the_json_can_be_piped(people):
    _, (outcome, other) = people
    assert json.loads(report(outcome.path, "--json"))["release_id"] == outcome.release_id
    assert json.loads(report(other.path, "--against", outcome.path, "--json"))["matrix"]["entries"] == 6


def test_two_nights_are_compared(people):
    config, (_, other) = people
    told = report("people/covariance/2026-11-21", "--against", "people/covariance/2026-11-20", "--config", config)
    for words in ("No covariance entry differs", "Leading subspace", "2026-11-21 against people/covariance/2026-11-20"):
        assert words in told
    assert list(other.path.parent.glob("*.against-*.html"))


def test_a_page_can_be_written_elsewhere(people, tmp_path):
    _, (outcome, _) = people
    report(outcome.pointer, "--output", tmp_path / "night.html")
    assert {file.name for file in tmp_path.iterdir()} == {"night.html", "night.json"}


def test_what_is_not_there_or_cannot_be_compared_is_refused(people, tmp_path):
    config, (outcome, _) = people
    for error, words in (
        (ConfigError, ("people/covariance/2026-11-20",)),
        (ConfigError, ("people/covariance/2026-13-20", "--config", config)),
        (ConfigError, (outcome.path, "--output", tmp_path / "page.txt")),
        (StoreError, ("people/covariance/2026-11-29", "--config", config)),
        (StoreError, (tmp_path,)),
        (CannotCompare, (outcome.path, "--against", outcome.pointer)),
    ):
        with pytest.raises(error):
            report(*words)
