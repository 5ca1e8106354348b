"""A disk or a ledger that is away for a while ends neither a service nor what it could do without."""

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId
from prefect.states import Running

from blockveil.flows.runs import steps
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.flows.service import child, deployments, own_secret, recovery, revival, silence
from blockveil.pipeline.base import durable
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.database import Unreachable
from tests.house import support

NIGHT = """
[[night]]
config = "{}"
cron = "0 0 * * *"
timezone = "UTC"
mode = "release"
missed_nights = "all"
"""
NAMES = ("people", "visits")


def server():
    return get_client(sync_client=True)


@pytest.fixture
def site(tmp_path, monkeypatch, prefect):
    """Two nights, each with a ledger of its own; the deployments by name."""
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    loaded = support.prepare(tmp_path)
    (tmp_path / "visits.toml").write_text(loaded.path.read_text().replace("ledger.db", "another.db"))
    support.set_budget(load_deployments_of(tmp_path).configs["visits"], 50.0)
    found = load_deployments(tmp_path)
    made = [each for each in deployments.build(found) if each.full_name in {f"release/{name}" for name in NAMES}]
    numbers = {name.removeprefix("release/"): number for name, number in deployments.register(made).items()}
    with server() as client:
        for run in [run for number in numbers.values() for run in runs(number)]:
            client.delete_flow_run(run.id)  # of other tests, by the same name
    yield found, numbers
    with server() as client:
        for number in numbers.values():
            client.delete_deployment(number)


def load_deployments_of(folder):
    (folder / "deployments.toml").write_text("".join(NIGHT.format(name) for name in NAMES))
    return load_deployments(folder)


@pytest.fixture
def away(monkeypatch):
    """Let the ledger of the visits be away until it is said to be back."""
    exists, is_away = Ledger.exists, [True]

    def asked(self):
        if is_away[0] and "another.db" in str(self._database._path):
            raise Unreachable("is away")
        return exists(self)

    monkeypatch.setattr(Ledger, "exists", asked)
    return is_away


def runs(number):
    with server() as client:
        return client.read_flow_runs(
            flow_run_filter=FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[number]))
        )


def test_a_service_that_starts_while_a_ledger_is_away_says_so_and_catches_up_once_it_is_back(
    site, away, monkeypatch, caplog
):
    found, numbers = site
    monkeypatch.setattr(recovery, "_created", lambda *_: datetime.now(UTC) - timedelta(days=2))
    tend = recovery.all_nights(found, datetime.now(UTC), numbers.values())
    tend()
    assert "visits are not caught up yet (Unreachable)" in caplog.text
    assert len(runs(numbers["people"])) == 2, "the other ledger is there"
    assert runs(numbers["visits"]) == []
    away[0] = False
    tend()
    assert len(runs(numbers["visits"])) == 2
    tend()
    assert [len(runs(number)) for number in numbers.values()] == [2, 2], "once"


def test_what_seems_to_be_at_work_waits_for_its_ledger_and_holds_back_no_other_night(site, away):
    found, numbers = site
    with server() as client:
        at_work = {name: client.create_flow_run_from_deployment(number).id for name, number in numbers.items()}
        for run in at_work.values():
            client.set_flow_run_state(run, Running(), force=True)
    watch = silence.Watch(numbers.values(), died=revival.after_death(found))

    def states():
        watch.look((), patience=0.0)
        with server() as client:
            return {name: client.read_flow_run(run).state.name for name, run in at_work.items()}

    assert states() == {"people": "AwaitingRetry", "visits": "Running"}
    away[0] = False
    assert states() == {"people": "AwaitingRetry", "visits": "AwaitingRetry"}


def test_a_run_whose_config_cannot_be_read_for_a_moment_is_tried_again_and_counts_its_tries(site, monkeypatch):
    found, numbers = site
    with server() as client:
        number = client.create_flow_run_from_deployment(numbers["people"]).id
    opened = Path.open

    def fails(self, *args, **more):
        if self.name == "people.toml":
            raise OSError(errno.EIO, "x")
        return opened(self, *args, **more)

    monkeypatch.setattr(Path, "open", fails)
    night = found.deployments.night[0]
    for tries in (1, 2):
        state = child.obey(number, found.root, found.root / "scratch")
        assert state.name == "StoreProblem"
        assert steps.TRIED_AGAIN in state.message
        with server() as client:
            run = client.read_flow_run(number)
            assert run.run_count == tries
            now = datetime.now(UTC)
            assert revival.may_pass(run)
            again = revival.outlook(found, night, run, now)
            assert again.state_details.scheduled_time - now == steps.WAITS[tries - 1]
            client.set_flow_run_state(number, again, force=True)
    monkeypatch.undo()


@pytest.mark.parametrize("name", ["EIO", "EACCES"])
def test_whatever_else_of_a_file_system_fails_in_a_run_says_whether_it_passes(name):
    assert steps.known(OSError(getattr(errno, name), "x")).passes is (name == "EIO")


def test_a_secret_of_our_own_on_a_disk_that_fails_is_not_said_to_be_wrong(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.EIO, "x")

    monkeypatch.setattr(os, "open", fails)
    with pytest.raises(durable.StoreUnreachable):
        own_secret._read(tmp_path / "token", "token", "token:")


def test_what_could_not_be_looked_after_is_told_by_its_place_and_ends_nothing(caplog):
    done = []

    def fails():
        raise KeyError("41.5 of a person")

    recovery._tend((fails, lambda: done.append("the next")))
    (told,) = caplog.messages
    assert told.startswith("Not everything was looked after this time (KeyError at recovery.py:")
    assert "person" not in caplog.text
    assert done
