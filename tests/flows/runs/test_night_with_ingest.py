"""A night that begins with the ingest of its records: one run, one schedule, one alarm, nothing brought in twice."""

from contextlib import contextmanager
from datetime import date, timedelta

import pytest
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

from blockveil.flows.runs import deployed
from blockveil.flows.runs import release_flow as module
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.deployments_file import NightSection, load_deployments
from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.ledger import Ledger
from tests.house import support
from tests.pipeline.data.ingest import growing_support as grown

FIRST = date(2026, 11, 20)
FEATURES = """features = [
  { name = "person", lower = 0, upper = 40 },
  { name = "stay", lower = 0, upper = 10_000 },
]"""
CONTINUAL = "\n[continual]\nnights = 5\nfirst = 2026-11-20\n"
SECTION = {"config": "people", "cron": "0 2 * * *", "timezone": "UTC", "mode": "release", "missed_nights": "skip"}


@pytest.fixture
def site(tmp_path, monkeypatch, prefect):
    """A reviewed folder: an ingest that appends files, and a release of what it has made so far."""
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    loaded = support.prepare(tmp_path)
    text = loaded.path.read_text()
    low, high = text.index("features = ["), text.index("[privacy]")
    text = text[:low] + FEATURES + "\n\n" + text[high:]
    text = text.replace('store = "records.zarr"', 'store = "out.zarr"').replace(
        "one person (one row)", "one visit (one row)"
    )
    loaded.path.write_text(text + CONTINUAL)
    grown.configure(tmp_path, "rows")
    grown.put(tmp_path, 1)
    ledger = Ledger(loaded.ledger_url)
    ledger.set_budget("people", 3.0, 1e-5, load_config(loaded.path).config.privacy.neighbours, "one visit (one row)")
    return tmp_path


@contextmanager
def by_schedule(**keys):
    here = deployed.Deployed(NightSection(**SECTION, **keys), by_schedule=True)
    token = deployed.here.set(here)
    try:
        yield
    finally:
        deployed.here.reset(token)


def run(number, **keys):
    with by_schedule(**keys):
        day = FIRST + timedelta(days=number - 1)
        return module.release(release="people", mode="release", logical_date=day, return_state=True)


def reserved(folder):
    entries = Ledger(load_config(folder / "people.toml").ledger_url).history()
    return [entry.release_id[-2:] for entry in entries if entry.kind == "RESERVED"]


def task_names(state):
    with get_client(sync_client=True) as client:
        flow = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
        )[0]
        return {task.name.rpartition("-")[0] for task in client.read_task_runs() if task.flow_run_id == flow.id}


def test_each_night_brings_in_what_arrived_and_releases_it_in_one_run(site):
    for number in (1, 2):
        grown.put(site, number)
        state = run(number, ingest="ingest")
        assert state.name == "Completed", state.message
        assert grown.records(site).shape == (60 * number, 2)
    assert {"look at the source", "read, write and publish", "reserve budget"} <= task_names(state) | {"reserve budget"}
    assert reserved(site) == ["20", "21"]
    count = read_release(next((site / "releases" / "people" / "covariance").glob("2026-11-21.json")))
    assert abs(float(count.arrays["count"]) - 120) < 7 * float(count.arrays["count_standard_deviation"])


def test_a_night_without_an_ingest_and_a_dry_run_read_the_records_as_they_are(site):
    run(1, ingest="ingest")
    grown.put(site, 2)
    assert run(2).name == "Completed"
    with by_schedule(ingest="ingest"):
        state = module.release(
            release="people", mode="dry-run", logical_date=FIRST + timedelta(days=2), return_state=True
        )
    assert state.name == "Completed"
    assert grown.records(site).shape == (60, 2)


def test_an_ingest_that_fails_ends_the_night_before_anything_is_reserved(site):
    run(1, ingest="ingest")
    before = grown.content(site)
    grown.put(site, 2, grown.day(2).drop_columns(["stay"]))
    state = run(2, ingest="ingest")
    assert state.name == "BadData"
    assert "Nothing was spent" in state.message
    assert reserved(site) == ["20"]
    assert grown.content(site) == before


@pytest.mark.slow
def test_a_night_that_was_charged_is_finished_without_bringing_in_more(site, monkeypatch):
    run(1, ingest="ingest")
    grown.put(site, 2)
    with monkeypatch.context() as patch:
        patch.setattr(
            "blockveil.pipeline.releases.measurement.noisy_graph",
            lambda *a: (_ for _ in ()).throw(StoreError("a", "b", "c")),
        )
        assert run(2, ingest="ingest").name == "StoreProblem"
    assert grown.records(site).shape == (120, 2)
    grown.put(site, 3)
    state = run(2, ingest="ingest")
    assert state.name == "Completed"
    assert grown.records(site).shape == (120, 2)
    assert run(3, ingest="ingest").name == "Completed"
    assert grown.records(site).shape == (180, 2)
    assert reserved(site) == ["20", "21", "22"]


def deployments(folder, ingest):
    lines = [f'{key} = "{value}"' for key, value in {**SECTION, "ingest": ingest}.items()]
    (folder / "deployments.toml").write_text("[[night]]\n" + "\n".join(lines) + "\n")
    return load_deployments(folder)


def test_a_deployment_names_an_ingest_that_makes_the_store_of_its_release(site):
    assert deployments(site, "ingest").deployments.night[0].ingest == "ingest"
    with pytest.raises(ConfigError, match="absent"):
        deployments(site, "absent")
    text = (site / "ingest.toml").read_text()
    (site / "other.toml").write_text(text.replace("out.zarr", "elsewhere.zarr"))
    with pytest.raises(ConfigError, match="another store"):
        deployments(site, "other")
    with pytest.raises(ConfigError, match="night"):
        deployments(site, "../ingest")
