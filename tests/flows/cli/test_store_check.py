"""The flow, and what is deployed, look at the store before a night; a form cannot make them look elsewhere."""

import numpy as np
import pytest

from blockveil.flows.runs import release_flow as module
from blockveil.flows.runs.release_flow import release
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.flows.service import deployments
from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.config.deployments_file import load_deployments
from tests.house import support

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "latest"
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder with records, a config and deployments.toml."""
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    loaded = support.prepare(tmp_path)
    (tmp_path / "deployments.toml").write_text(NIGHT)
    return loaded


def of_other_columns(folder):
    folder.mkdir(exist_ok=True)
    return support.write_records(folder, np.zeros((5, 2)))


def test_what_is_deployed_is_held_against_its_store_at_the_start(site, tmp_path):
    found = load_deployments(tmp_path)
    assert deployments.stores(found) == []
    of_other_columns(tmp_path)
    with pytest.raises(DataError, match="The records have 2 columns and query declares 3"):
        deployments.stores(found)


def test_a_store_that_is_not_there_yet_is_said_at_the_start_and_stops_nothing(site, tmp_path):
    site.store_path.rename(tmp_path / "away.zarr")
    (line,) = deployments.stores(load_deployments(tmp_path))
    assert line.startswith('people: data.store "records.zarr" is not there')


def test_a_dry_run_is_refused_for_what_the_store_says(site, tmp_path, prefect):
    assert release("people", mode="dry-run", return_state=True).is_completed()
    of_other_columns(tmp_path)
    state = release("people", mode="dry-run", return_state=True)
    assert state.name == "BadData"
    assert "The records have 2 columns" in state.message


def test_a_form_cannot_learn_what_lies_at_a_place_of_its_choice(site, tmp_path, prefect, monkeypatch):
    looked = []
    monkeypatch.setattr(module, "look", lambda loaded: looked.append(loaded) or pytest.fail("it was looked at"))
    other = of_other_columns(tmp_path / "other")
    for store in (other, tmp_path / "nowhere.zarr"):
        state = release("people", mode="dry-run", overrides={"data.store": f'"{store}"'}, return_state=True)
        assert state.is_completed(), state.message
    assert looked == []
