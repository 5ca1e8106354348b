"""Runs that somebody with the server's password makes by hand stop neither a service nor the nights of others."""

import asyncio
import json
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import httpx
import pytest
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.states import Scheduled

from blockveil.flows.runs import release_flow
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.flows.service import deployments, pages, recovery, revival, runner, silence
from blockveil.pipeline.config.deployments_file import load_deployments
from tests.house import support

NIGHT = """
[[night]]
config = "people"
cron = "0 0 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "all"
"""
NAME = "release/people"
LAST, FIRST = datetime(9999, 12, 31, 23, 59, tzinfo=UTC), datetime(1, 1, 1, 0, 1, tzinfo=UTC)


@pytest.fixture
def found(tmp_path, monkeypatch, prefect):
    """A folder whose night is deployed anew on the server of the tests; its runs are removed afterwards."""
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    support.prepare(tmp_path)
    (tmp_path / "deployments.toml").write_text(NIGHT)
    loaded = load_deployments(tmp_path)
    with server() as client:
        with suppress(ObjectNotFound):
            client.delete_deployment(client.read_deployment_by_name(NAME).id)
        deployments.register([each for each in deployments.build(loaded) if each.full_name == NAME])
        yield loaded
        client.delete_deployment(number())


def server():
    return get_client(sync_client=True)


def number():
    with server() as client:
        return client.read_deployment_by_name(NAME).id


def made(state=None, name="strange", **form):
    """Number of a run that no form has checked, with what the server stores although it may not be able to show it."""
    with server() as client:
        known = client.read_deployment(number())
        sent = {
            "name": name,
            "flow_id": str(known.flow_id),
            "deployment_id": str(known.id),
            "parameters": {"release": "people", "mode": "release", **form},
            "state": state or {"type": "SCHEDULED"},
        }
        before = {each["id"] for each in numbers(client)}
        with suppress(PrefectHTTPStatusError):
            client._client.post("/flow_runs/", content=json.dumps(sent).encode()).raise_for_status()
        (one,) = [each["id"] for each in numbers(client) if each["id"] not in before]
        return one


def numbers(client):
    wanted = FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[number()])).model_dump(mode="json")
    return client._client.post("/ui/flow_runs/history", json={"flow_runs": wanted}).json()


def at(when):
    return {"type": "SCHEDULED", "state_details": {"scheduled_time": when.isoformat()}}


@pytest.mark.parametrize("when", [LAST, FIRST], ids=["last", "first"])
def test_a_run_on_a_day_that_is_none_in_the_zone_of_its_night_stops_no_start_of_a_service(found, when):
    run = made(at(when), logical_date=None)
    now = datetime.now(UTC)
    with server() as client:
        assert client.read_flow_run(run).expected_start_time == when
    silence.Watch([number()], died=revival.after_death(found)).look((), 0.0)
    assert revival.revive(found, now) == []
    assert recovery.catch_up_nights(found, None, now, apply=False) == []
    assert recovery.unplanned_nights(found, now, now) == []


def due():
    async def ask():
        async with get_client() as client:
            return await runner.of_deployments([number()])(client, datetime.now(UTC) + timedelta(minutes=1))

    return asyncio.run(ask())


def test_a_run_that_the_server_cannot_show_is_deleted_and_the_others_start(found, caplog):
    good = made()
    bad = made(logical_date="\ud800")
    with pytest.raises(PrefectHTTPStatusError, match="500"):
        due()
    assert [str(run.id) for run in due()] == [good]
    assert f"Deleted run {bad}" in caplog.text
    with server() as client, pytest.raises(ObjectNotFound):
        client.read_flow_run(bad)


@pytest.mark.parametrize(
    "kind", support.slow_but(("SCHEDULED",), ("SCHEDULED", "RUNNING", "CRASHED", "CANCELLED", "COMPLETED"))
)
def test_neither_does_it_stop_the_start_of_a_service(found, kind):
    bad, now = made({"type": kind}, logical_date="\ud800"), datetime.now(UTC)
    silence.Watch([number()], died=revival.after_death(found)).look((), 0.0)
    revival.revive(found, now)
    recovery.catch_up_nights(found, None, now, apply=False)
    with server() as client, pytest.raises(ObjectNotFound):
        client.read_flow_run(bad)


def refusal(status):
    request = httpx.Request("POST", "http://127.0.0.1/api")
    return PrefectHTTPStatusError("words", request=request, response=httpx.Response(status, request=request))


@pytest.mark.parametrize("bad", [set(), {0}, {199}, {200, 201}, {7, 450}, set(range(451))])
def test_all_that_can_be_shown_of_a_list_is_read_and_the_rest_is_counted(bad):
    def read(limit, offset):
        part = list(range(offset, min(451, offset + limit)))
        if bad & set(part):
            raise refusal(500)
        return part

    assert pages.readable(read) == (sorted(set(range(451)) - bad), len(bad))


def test_a_half_is_asked_for_on_a_new_connection_where_the_server_closed_the_one_on_which_it_failed():
    closed = []

    def read(limit, offset):
        if closed:
            raise closed.pop()
        if offset <= 3 < offset + limit:
            closed.append(httpx.ReadError("reset"))
            raise refusal(500)
        return list(range(offset, min(10, offset + limit)))

    assert pages.readable(read) == ([0, 1, 2, *range(4, 10)], 1)


@pytest.mark.parametrize("status", [500, 401, 503])
def test_a_server_that_answers_nothing_is_no_empty_list(status):
    def read(limit, offset):
        raise refusal(status)

    with pytest.raises(PrefectHTTPStatusError):
        pages.readable(read)


@pytest.mark.parametrize(("failures", "shown"), [(0, True), (1, True), (2, True), (3, False), (9, False)])
def test_a_deployment_that_a_server_fails_to_show_for_a_moment_is_asked_for_again(monkeypatch, failures, shown):
    monkeypatch.setattr(pages, "_SECONDS", 0.0)
    flow, known = SimpleNamespace(id=1, name="release"), SimpleNamespace(flow_id=1, name="people")
    asked = []

    class Server:
        def read_flows(self, limit, offset, **_):
            return [flow][offset : offset + limit]

        def read_deployments(self, limit, offset, **_):
            asked.append(offset)
            if offset == 0 and asked.count(0) <= failures * len(f"{200:b}"):  # once for each size of a part
                raise refusal(500)
            return [known][offset : offset + limit]

    found = pages.shown_deployments(Server(), [NAME, "release/nobody"])
    assert found == ({NAME: known} if shown else {})


@pytest.mark.parametrize("day", [date(2300, 1, 1), date.max], ids=str)
def test_a_release_for_a_date_to_come_hides_no_missed_night(found, day):
    """A mistyped year, or somebody with the password: what the ledger holds stays there for good."""
    assert release_flow.release(release="people", mode="release", logical_date=day, return_state=True).is_completed()
    now = datetime.now(UTC) + timedelta(days=2)
    due = [each.night for each in recovery.catch_up_nights(found, None, now, apply=False)]
    assert len(due) == 2
    assert all(night <= now.date() + timedelta(days=1) for night in due)


def test_the_name_of_a_run_steers_no_terminal(found, caplog):
    name = "\x1b]0;changed\x07\x1b[31mred\u202e"
    made({"type": "CRASHED"}, name=name, logical_date=date.today().isoformat())  # noqa: DTZ011 - any day
    recovery.all_nights(found, datetime.now(UTC))()
    assert "\\u001b]0;changed" in caplog.text
    assert not {"\x1b", "\x07", "\u202e"} & set(caplog.text)
    alive = made(name=name, logical_date=date.today().isoformat())  # noqa: DTZ011
    with server() as client:
        client.set_flow_run_state(alive, Scheduled(), force=True)
        client._client.post(f"/flow_runs/{alive}/set_state", json={"state": {"type": "RUNNING"}, "force": True})
    revival.after_death(found)(alive)
    assert caplog.text.count("\\u001b]0;changed") >= 2
    assert not {"\x1b", "\x07", "\u202e"} & set(caplog.text)


@pytest.mark.slow
def test_alarms_of_ours_are_replaced_whatever_many_others_there_are(found):
    from prefect.events.actions import DoNothing
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

    from blockveil.flows.service import automations

    def other(name):
        return AutomationCore(
            name=name, trigger=EventTrigger(expect={uuid4().hex}, posture=Posture.Reactive, threshold=1),
            actions=[DoNothing()],
        )  # fmt: skip

    with server() as client:
        strange = [client.create_automation(other(f"{automations.PREFIX}zz")) for _ in range(201)]
        automations.install(found)
        left = [each.name for each in pages.readable(lambda n, o: client.read_automations(limit=n, offset=o))[0]]
        assert f"{automations.PREFIX}zz" not in left, len(strange)
