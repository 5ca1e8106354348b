"""Limits, deployments and pools that somebody with the server's password has changed stop no service and no worker."""

import asyncio
import inspect
import json
from datetime import UTC, datetime, timedelta

import pytest
from prefect import get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, PREFECT_RUNNER_PROCESS_LIMIT, temporary_settings

from blockveil.flows.runs import turns
from blockveil.flows.service import automations, deployments, limits, recovery, revival, runner, silence
from blockveil.flows.service import deploy as deploying
from tests.flows.service.test_strange_runs import NAME, found, made, number, server
from tests.house import support

__all__ = ["found"]

UNREADABLE = "\ud800"
DATASET = turns.limit_name("people")


@pytest.fixture(autouse=True)
def impatient(prefect):
    """An answer that stays an error is asked for once again; no other test waits for a slot that is taken here."""
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 1}):
        yield
        with server() as client:
            limits._delete(client, DATASET)


def ask(method, path, body=None):
    with server() as client:
        sent = None if body is None else json.dumps(body).encode()
        answer = client._client.request(method, path, content=sent, headers={"content-type": "application/json"})
        answer.raise_for_status()
        return json.loads(answer.text or "null")


def begin(loaded, anew=True):
    """What a service does before it starts runs; with ``anew`` on a server of its own."""
    now = datetime.now(UTC)
    limits.prepare(loaded, anew)
    built = [each for each in deployments.build(loaded) if each.full_name == NAME]
    deployments.keep_pauses(built)
    deployments.register(built, anew)
    revival.revive(loaded, now)
    recovery.catch_up_nights(loaded, None, now, apply=False)


def shown():
    """A deployment's own limit."""
    with server() as client:
        return client.read_deployment_by_name(NAME).global_concurrency_limit


def spoil_schedule(deployment):
    """Give it a schedule with a text that the server stores and can never show."""
    schedule = {"schedule": {"cron": "0 0 * * *"}, "parameters": {"text": UNREADABLE}, "active": True}
    ask("PATCH", f"/deployments/{deployment}", {"schedules": [schedule]})
    with pytest.raises(PrefectHTTPStatusError, match="500"):
        ask("GET", f"/deployments/{deployment}")


def test_a_deployment_that_the_server_cannot_show_stops_no_start_and_is_put_right(found):
    before = number()
    spoil_schedule(before)
    assert revival.revive(found, datetime.now(UTC)) == []
    recovery.all_nights(found, datetime.now(UTC))()
    begin(found)
    automations.install(found)
    with server() as client:
        known = client.read_deployment_by_name(NAME)
    assert known.id == before  # so that runs that wait for a person still belong to it
    assert [each.schedule.cron for each in known.schedules] == ["0 0 * * *"]
    assert known.schedules[0].parameters == {}


def test_a_team_s_worker_starts_the_others_runs_beside_a_deployment_that_the_server_cannot_show(found):
    pool = found.deployments.pool
    deploying._make_pool(pool)
    built = [each for each in deployments.build(found, pool) if each.full_name == NAME]
    deployments.register(built)
    good = ask("POST", f"/deployments/{number()}/create_flow_run", {})["id"]
    with server() as client:
        flow = str(client.read_deployment(number()).flow_id)
    strange = ask("POST", "/deployments/", {"name": "strange", "flow_id": flow, "work_pool_name": pool})["id"]
    bad = ask("POST", f"/deployments/{strange}/create_flow_run", {})["id"]
    spoil_schedule(strange)

    async def due():
        async with get_client() as client:
            return await runner.of_pool(pool, "worker of the test", 10)(
                client, datetime.now(UTC) + timedelta(minutes=1)
            )

    try:
        assert {good, bad} <= {str(run.id) for run in asyncio.run(due())}
    finally:
        ask("DELETE", f"/deployments/{strange}")


SPOILED = {
    "none at a time": {"limit": 0},
    "any number": {"limit": 2**31 - 1},
    "switched off": {"active": False},
    "decays too fast to be shown": {"slot_decay_per_second": 1e300, "active_slots": 1},
    "decays too slowly": {"slot_decay_per_second": 1e-300},
    "all slots taken": {"active_slots": 10**9},
    "another name": {"name": "another-name"},
}


@pytest.mark.parametrize("what", support.slow_but(("switched off", "all slots taken"), SPOILED))
def test_limits_that_somebody_spoils_stop_no_start_of_a_service_which_puts_them_right(found, what):
    begin(found)
    places = [DATASET, f"deployment:{number()}"]
    for place in places:
        ask("PATCH", f"/v2/concurrency_limits/{place}", SPOILED[what])
        if "name" in SPOILED[what]:
            ask("DELETE", "/v2/concurrency_limits/another-name")
    begin(found)
    assert shown().name == places[1]
    for place in places:
        known = ask("GET", f"/v2/concurrency_limits/{place}")
        assert {"active": True, "limit": 1, "active_slots": 0, "slot_decay_per_second": 0.0}.items() <= known.items()


def test_a_deployment_that_shares_a_limit_with_others_gets_its_own_back_and_theirs_stays(found):
    begin(found)
    theirs = ask("POST", "/v2/concurrency_limits/", {"name": "of-others", "limit": 3})["id"]
    try:
        for anew in (True, False):
            ask("PATCH", f"/deployments/{number()}", {"global_concurrency_limit_id": theirs})
            assert shown().name == "of-others"
            begin(found, anew)
            assert shown().name == f"deployment:{number()}"
            assert ask("GET", "/v2/concurrency_limits/of-others")["id"] == theirs
    finally:
        ask("DELETE", "/v2/concurrency_limits/of-others")


def test_who_holds_a_slot_keeps_it_where_a_team_deploys_again(found):
    begin(found)
    for place in (DATASET, f"deployment:{number()}"):
        ask("POST", "/v2/concurrency_limits/increment-with-lease", {"names": [place], "slots": 1, "lease_duration": 60})
        begin(found, anew=False)
        assert ask("GET", f"/v2/concurrency_limits/{place}")["active_slots"] == 1
    begin(found)
    assert ask("GET", f"/v2/concurrency_limits/{DATASET}")["active_slots"] == 0


def test_a_run_puts_the_limit_of_its_data_set_right_and_takes_its_turn(found):
    begin(found)
    ask("PATCH", f"/v2/concurrency_limits/{DATASET}", {"slot_decay_per_second": 1e300, "active": False})
    with server() as client:
        turns.make_limit(client, DATASET)
    ask("POST", "/v2/concurrency_limits/increment", {"names": [DATASET], "slots": 1})
    with pytest.raises(PrefectHTTPStatusError, match="423"):
        ask("POST", "/v2/concurrency_limits/increment", {"names": [DATASET], "slots": 1})


def test_a_limit_that_the_server_cannot_list_keeps_neither_deploy_nor_worker_from_starting(found):
    ask("POST", "/v2/concurrency_limits/", {"name": "a-limit", "limit": 1})
    try:
        ask("PATCH", "/v2/concurrency_limits/a-limit", {"slot_decay_per_second": 1e300})
        with server() as client, pytest.raises(PrefectHTTPStatusError, match="503"):
            client.read_global_concurrency_limits()
        assert deploying.require_server()
    finally:
        ask("DELETE", "/v2/concurrency_limits/a-limit")


def test_a_worker_starts_as_many_runs_at_once_as_a_service_unless_it_is_told_otherwise(found, monkeypatch):
    asked_with, said, words_of = [], [], inspect.signature(runner.Runner)

    class Watched(runner.Runner):
        def __init__(self, *words):
            asked_with.append(words_of.bind(*words).arguments["limit"])

        async def until_stopped(self, gone):
            pass

    monkeypatch.setattr(runner, "Runner", Watched)
    with temporary_settings({PREFECT_RUNNER_PROCESS_LIMIT: 3}):
        deploying.work(found, said.append)
    assert asked_with == [3]
    assert "at most 3 at once" in said[0]


def test_of_many_runs_that_are_due_no_more_are_started_than_may_work(found, monkeypatch, tmp_path):
    runs = [made() for _ in range(7)]
    started = []

    async def look():
        async with get_client() as client:
            looks = runner.Runner(runner.of_deployments([number()]), tmp_path, 10, 5, silence.Watch())

            async def start(client, run):
                started.append(str(run.id))

            monkeypatch.setattr(looks, "_start", start)
            await looks._look(client)
            await looks._look(client)
            await asyncio.gather(*looks._tasks)

    asyncio.run(look())
    assert len(started) == 5
    assert set(started) <= set(runs)
