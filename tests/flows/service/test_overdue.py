"""A release that is missing is told of by schedule and ledger, and again until the server has sent the alarm."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest
from prefect.states import AwaitingRetry, Cancelled, Completed, Crashed, Failed, Running, Scheduled, Suspended

from blockveil.flows.service import overdue, runner
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.ledger import State
from tests import support
from tests.flows.service.test_silence import Server

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "UTC"
mode = "release"
missed = "latest"

[alerts]
notify = ["webhook/on-call", "mail/on-call"]
late_minutes = 15
"""
AT = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)
RELEASE = "people/covariance/2026-11-20"


class Told:
    """The alarms that were sent by an :class:`.overdue.Overdue` with one night, whose run and charge are given."""

    def __init__(self, folder, monkeypatch, began=AT - timedelta(days=1)):
        support.prepare(folder)
        (folder / "deployments.toml").write_text(NIGHT)
        self.waiting, self.messages, self.run, self.charges, self.executed = [], [], None, {}, {}
        loaded = load_deployments(folder)
        night = loaded.deployments.night[0]
        deployment = SimpleNamespace(id=uuid4(), created=AT - timedelta(hours=5), paused=False, work_pool_name=None)
        monkeypatch.setattr(overdue, "get_client", Server().client)
        monkeypatch.setattr(overdue.revival, "deployed_nights", lambda *_: [(night, deployment)])
        monkeypatch.setattr(overdue.revival, "is_active", lambda _: not deployment.paused)
        monkeypatch.setattr(overdue, "pages", self.pages)
        monkeypatch.setattr(overdue.catch_up, "charges_of", lambda *_: self.charges)
        monkeypatch.setattr(overdue, "_emit", self.emit)
        monkeypatch.setattr(overdue, "_executed", lambda _, event: self.executed.get(event, 0))
        self.deployment, self.overdue = deployment, overdue.Overdue(loaded, began)

    def pages(self, client, asked, ours=None):
        if ours is not None:
            return self.waiting
        return [] if self.run is None else [self.run]

    def emit(self, client, release_id, message):
        self.messages.append((release_id, message))
        return len(self.messages)

    def at(self, minutes):
        """Whether the night was told of, so many minutes after its time."""
        before = len(self.messages)
        self.overdue.tell(AT + timedelta(minutes=minutes))
        return len(self.messages) - before

    def stands(self, state):
        parameters = {"mode": "release"}
        start = AT if self.run is None else self.run.expected_start_time
        self.run = SimpleNamespace(name="of the night", state=state, parameters=parameters, expected_start_time=start)


@pytest.fixture
def told(tmp_path, monkeypatch):
    return Told(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "state",
    [Suspended(timeout_seconds=9), Failed(name="BadData", message="A chunk"), Crashed(), Scheduled(), None,
     Cancelled(message=runner.STOPPED)],
    ids=lambda state: getattr(state, "name", "no run"),
)  # fmt: skip
def test_a_release_that_is_missing_while_nothing_works_at_it_is_told_of_once_it_is_late(told, state):
    if state is not None:
        told.stands(state)
    assert not told.at(14)
    assert told.at(15)
    ((release_id, message),) = told.messages
    assert release_id == RELEASE
    assert message.startswith(f"{RELEASE} is not released. ")
    assert "no run" in message if state is None else state.name in message


@pytest.mark.parametrize("state", [Running(), AwaitingRetry()], ids=lambda state: state.name)
def test_a_night_at_work_is_told_of_only_when_a_newer_one_is_due(told, state):
    told.stands(state)
    assert not told.at(15)
    assert not told.at(20 * 60)
    assert told.at(24 * 60 + 1)


@pytest.mark.parametrize("state", [Completed(name="Skipped"), Cancelled()], ids=lambda state: state.name)
def test_a_night_that_the_policy_skipped_or_a_person_gave_up_is_not_missing(told, state):
    told.stands(state)
    assert not told.at(15)


def test_a_night_that_is_released_or_paused_or_older_than_the_service_and_nobody_s_is_not_missing(
    told, tmp_path, monkeypatch
):
    told.charges = {AT.date(): State.RELEASED}
    assert not told.at(15)
    told.charges = {}
    told.overdue._released.clear()
    told.deployment.paused = True
    assert not told.at(15)
    later = tmp_path / "later"
    later.mkdir()
    assert not Told(later, monkeypatch, began=AT + timedelta(minutes=1)).at(30)


def test_an_alarm_that_a_busy_server_loses_is_raised_again_until_every_recipient_was_sent_it(told):
    told.stands(Crashed())
    assert told.at(15)
    assert not told.at(16), "the server may be about to send it"
    assert told.at(18), "it was lost"
    told.executed[2] = 1
    assert told.at(21), "the mail server was away"
    told.executed[3] = 2
    assert not told.at(24)
    assert not told.at(60)
    assert len(told.messages) == 3


def test_a_run_that_still_waits_for_a_person_is_told_of_whatever_became_of_the_event_of_its_question(told):
    told.charges = {AT.date(): State.RELEASED}
    state = Suspended(timeout_seconds=9, timestamp=AT)
    told.waiting = [SimpleNamespace(id=uuid4(), name="by hand", state=state)]
    assert not told.at(14)
    assert told.at(15)
    assert "by hand still waits for a person" in told.messages[0][1]
    told.executed[1] = 2
    assert not told.at(60)
