"""Deployments on a server: pinned code, forms with choices, missed nights, approvals, ledger checks, what-if."""

import asyncio
import errno
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from prefect import flow, get_client
from prefect.client.base import PrefectHttpxSyncClient
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
)
from prefect.exceptions import Pause, PrefectHTTPStatusError
from prefect.states import Cancelled, Crashed, Failed, Pending, Running

from blockveil.flows.base import code
from blockveil.flows.cluster.workers import ClusterUnfit, NoWorker
from blockveil.flows.runs import plan_flow as planning
from blockveil.flows.runs import release_flow as module
from blockveil.flows.runs import turns
from blockveil.flows.runs import verify_flow as verifying
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.flows.runs.steps import TRIED_AGAIN, Steps, Stopped
from blockveil.flows.service import child, deployments, limits, recovery, revival, runner, silence
from blockveil.flows.service import deploy as deploying
from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ComputeError, ConfigError, LedgerError, StoreUnreachable
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.database import ConnectionLost, Locked, Unreachable
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.charged_steps import reserve
from tests.house import support

NIGHT = """
[[night]]
config = "people"
cron = "{cron}"
timezone = "{zone}"
mode = "release"
missed_nights = "{missed}"
grace_minutes = 30

[[verify]]
config = "people"
cron = "0 6 * * *"
timezone = "Europe/Berlin"
"""


@pytest.fixture
def site(tmp_path, monkeypatch, prefect):
    """A folder with records, a config, a budget and deployments.toml, deployed on the test server."""
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))

    def make(names=("release/people",), missed="latest", cron="30 2 * * *", zone="Europe/Berlin", more=""):
        loaded = support.prepare(tmp_path)
        with loaded.path.open("a") as file:
            file.write(more)
        (tmp_path / "deployments.toml").write_text(NIGHT.format(missed=missed, cron=cron, zone=zone))
        found = load_deployments(tmp_path)
        made = [each for each in deployments.build(found) if not names or each.full_name in names]
        deployments.keep_pauses(made)
        deployments.register(made)
        return found

    return make


def server():
    return get_client(sync_client=True)


def read(name):
    with server() as client:
        return client.read_deployment_by_name(name)


def by_hand(name):
    """A run that a person asked for."""
    with server() as client:
        return client.create_flow_run_from_deployment(read(name).id)


def planned_at(name, when):
    """The run that the schedule makes for a time."""
    span = {"start_time": when - timedelta(minutes=1), "end_time": when + timedelta(minutes=1)}
    with server() as client:
        deployment = read(name).id
        body = {**{key: value.isoformat() for key, value in span.items()}, "min_runs": 1}
        client._client.post(f"/deployments/{deployment}/schedule", json=body).raise_for_status()
        wanted = FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[deployment]))
        made = next(run for run in client.read_flow_runs(flow_run_filter=wanted) if run.expected_start_time == when)
    assert made.auto_scheduled
    return made


def start(run):
    """Run it as the process of a run does; its final state."""
    folder = Path(os.environ[CONFIG_ROOT])
    try:
        return child.obey(run.id, folder, folder / "scratch")
    except Pause as pause:  # a suspended run ends its process this way
        return pause.state


def settle(found):
    """What a service does at its start with what seems to be at work."""
    silence.Watch(deployments.served(), died=revival.after_death(found)).look((), patience=0.0)


def artifact(state, key):
    with server() as client:
        wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
        return next(each for each in client.read_artifacts(artifact_filter=wanted) if each.key == key)


def spent(found):
    return Ledger(found.configs["people"].ledger_url).budget("people").spent_mu


def test_every_flow_is_deployed_by_module_path_pinned_and_one_at_a_time(site):
    made = {each.full_name: each for each in deployments.build(site(names=()))}
    assert set(made) == {"release/people", "verify-ledger/people", "release/by-hand", "plan/people"}
    for name in made:
        found = read(name)
        assert found.version == code.running()
        assert found.concurrency_options.collision_strategy == "ENQUEUE"
        assert found.global_concurrency_limit.limit == 1
        assert found.enforce_parameter_schema
        assert not found.pull_steps
        module_path, _, flow = found.entrypoint.rpartition(".")
        assert module_path.startswith("blockveil.flows.")
        assert flow
    schedule = read("release/people").schedules[0].schedule
    assert (schedule.cron, schedule.timezone) == ("30 2 * * *", "Europe/Berlin")


def test_forms_offer_reviewed_configs_alone_and_the_server_refuses_others(site):
    site(names=("release/people", "release/by-hand"))
    for name in ("release/by-hand", "release/people"):
        assert read(name).parameter_openapi_schema["properties"]["release"]["enum"] == ["people"]
    deployment = read("release/by-hand").id
    for bad in ({"release": "../people"}, {"release": "people", "mode": "spend"}):
        with server() as client, pytest.raises(PrefectHTTPStatusError, match="409"):
            client.create_flow_run_from_deployment(deployment, parameters=bad)


def test_forms_offer_a_config_soon_after_it_came_into_the_folder(site, tmp_path, monkeypatch):
    # What other tests have left on the server would pause the night.
    monkeypatch.setattr(recovery.Alarms, "tell", lambda *_: None)
    found = site(names=())
    names = deployments.offer(found, found.offered)
    assert names == ("people",)
    (tmp_path / "later.toml").write_text((tmp_path / "people.toml").read_text())

    async def nothing(client, before):
        return []

    look = recovery.tended(nothing, recovery.all_nights(found, datetime.now(UTC)))
    (tmp_path / "second.toml").write_text((tmp_path / "people.toml").read_text())
    (tmp_path / "later.toml").unlink()

    async def once():
        async with get_client() as client:
            await look(client, datetime.now(UTC))

    asyncio.run(once())
    for name, names in (("release/by-hand", ["people", "second"]), ("release/people", ["people"])):
        assert read(name).parameter_openapi_schema["properties"]["release"]["enum"] == names


def test_no_field_of_the_form_that_spends_takes_a_secret_an_epsilon_or_a_path(site):
    site(names=("release/people", "release/by-hand"))
    for name in ("release/by-hand", "release/people"):
        fields = read(name).parameter_openapi_schema["properties"]
        assert set(fields) == {"release", "mode", "logical_date", "overrides"}


def test_a_worker_with_other_code_refuses_before_anything_is_read(site, monkeypatch):
    found = site()
    run = by_hand("release/people")
    monkeypatch.setattr(code, "running", lambda: "0.0.9+somethingelse")
    state = start(run)
    assert state.name == "WrongVersion"
    assert "0.0.9+somethingelse" in state.message
    assert "Nothing was read, charged or released" in state.message
    assert spent(found) == 0


@pytest.mark.slow
def test_a_team_s_worker_leaves_runs_of_other_code_to_those_that_have_it_until_they_are_deployed_anew(
    site, monkeypatch, caplog
):
    due_since = (datetime.now(UTC) - timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    found = site(names=(), cron=f"0 {due_since.hour} * * *", zone="UTC", missed="all")
    pool = found.deployments.pool
    deploying._make_pool(pool)
    deployments.register(deployments.build(found, pool))
    run = planned_at("release/people", due_since)
    find = runner.of_pool(pool, "worker of the test", 10)

    async def due():
        async with get_client() as client:
            return [each.id for each in await find(client, datetime.now(UTC) + timedelta(seconds=10))]

    monkeypatch.setattr(code, "installed", lambda: "9.9.9+thenewone")
    assert (asyncio.run(due()), asyncio.run(due())) == ([], [])
    assert sum("wait for a worker with the code" in line for line in caplog.messages) == 1
    with server() as client:
        assert client.read_flow_run(run.id).state.is_scheduled()
    monkeypatch.setattr(code, "running", lambda: "9.9.9+thenewone")
    deployments.register(deployments.build(found, pool))
    assert asyncio.run(due()) == [run.id]
    assert start(run).is_completed()
    assert spent(found) > 0


def test_the_code_version_changes_with_any_source_file():
    version, _, digest = code.running().partition("+")
    assert version.count(".") == 2
    assert len(digest) == 12


@pytest.mark.parametrize(
    ("missed", "hours_late", "skipped"),
    [
        ("skip", 2, True),
        ("latest", 26, True),
        pytest.param("skip", 0, False, marks=pytest.mark.slow),
        pytest.param("latest", 2, False, marks=pytest.mark.slow),
        pytest.param("all", 50, False, marks=pytest.mark.slow),
    ],
)
def test_a_night_that_starts_late_follows_its_policy(site, missed, hours_late, skipped):
    now = datetime.now(UTC)
    at = now.replace(second=0, microsecond=0) - timedelta(hours=hours_late)
    found = site(missed=missed, cron=f"{at.minute} {at.hour} * * *", zone="UTC")
    run = planned_at("release/people", at)
    state = start(run)
    assert state.is_completed(), state.message
    assert (state.name == "Skipped") == skipped, state.message
    assert (spent(found) == 0) == skipped
    assert at.date().isoformat() in state.message


@pytest.mark.parametrize(
    ("cron", "zone", "planned", "night"),
    [
        ("30 0 * * *", "Europe/Berlin", datetime(2026, 11, 10, 23, 30, tzinfo=UTC), "2026-11-11"),
        ("30 23 * * *", "UTC", datetime(2026, 11, 10, 23, 30, tzinfo=UTC), "2026-11-10"),
        # Clocks there skip the midnight of the 24th, and Prefect plans its run for one in the morning.
        ("0 0 * * *", "Africa/Cairo", datetime(2026, 4, 23, 22, tzinfo=UTC), "2026-04-24"),
    ],
)
def test_a_scheduled_night_is_the_day_in_the_zone_of_its_schedule(site, cron, zone, planned, night):
    site(missed="all", cron=cron, zone=zone)
    state = start(planned_at("release/people", planned))
    assert state.is_completed(), state.message
    assert f"people/covariance/{night}" in state.message
    with server() as client:
        assert client.read_flow_run(state.state_details.flow_run_id).name == f"people {night} (release)"


@pytest.mark.slow
def test_a_late_night_that_was_begun_is_finished_under_every_policy(site):
    at = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(days=3)
    found = site(missed="skip", cron=f"{at.minute} {at.hour} * * *", zone="UTC")
    night = {"release": "people", "mode": "release", "logical_date": at.date()}
    assert module.release(**night, return_state=True).is_completed()
    before = spent(found)
    state = start(planned_at("release/people", at))
    assert "complete already" in state.message
    assert spent(found) == before


def test_a_night_whose_midnight_the_clocks_skip_is_caught_up(site):
    found = site(missed="all", cron="0 0 * * *", zone="Africa/Cairo")
    late = datetime(2026, 4, 25, 12, tzinfo=UTC)
    nights = [each.night for each in recovery.catch_up_nights(found, date(2026, 4, 22), late, apply=False)]
    assert nights == [date(2026, 4, day) for day in (22, 23, 24, 25)]


def test_a_server_is_told_nothing_about_the_folder_in_which_a_command_is_called(site, tmp_path, monkeypatch):
    """Prefect asks git there: for words of a commit, and for an address that can hold a token."""
    repository = tmp_path / "checkout"
    author = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    for words in (
        ("init", "-q", "."),
        (*author, "commit", "-q", "--allow-empty", "-m", "SECRET words"),
        ("remote", "add", "origin", "https://user:SECRET@git.example/team/site.git"),
    ):
        repository.mkdir(exist_ok=True)
        subprocess.run(["git", *words], cwd=repository, check=True)
    monkeypatch.chdir(repository)
    for name in ("GITHUB_SHA", "GITHUB_REPOSITORY", "GITHUB_REF_NAME", "GITHUB_SERVER_URL"):
        monkeypatch.setenv(name, "SECRET")  # of a runner of a forge
    sent, send = [], PrefectHttpxSyncClient.send

    def seen(client, request, *words, **more):
        sent.append(request.read())
        return send(client, request, *words, **more)

    monkeypatch.setattr(PrefectHttpxSyncClient, "send", seen)
    site()
    assert any(code.running().encode() in body for body in sent)
    assert not [body for body in sent if b"SECRET" in body]


@pytest.mark.slow
def test_what_a_person_paused_stays_paused_when_it_is_deployed_again(site):
    names = ("release/people", "verify-ledger/people")
    site(names)
    with server() as client:
        client.pause_deployment(read("release/people").id)
        schedule = read("verify-ledger/people").schedules[0]
        client.update_deployment_schedule(read("verify-ledger/people").id, schedule.id, active=False)
    site(names)
    assert read("release/people").paused
    assert not read("verify-ledger/people").schedules[0].active
    with server() as client:
        client.resume_deployment(read("release/people").id)
        client.update_deployment_schedule(
            read("release/people").id, read("release/people").schedules[0].id, active=False
        )
    site(names, cron="17 4 * * *")
    planned = read("release/people").schedules
    assert [(each.schedule.cron, each.active) for each in planned] == [("17 4 * * *", False)]
    assert not read("release/people").paused


def forget_deployment():
    with server() as client:
        client.delete_deployment(read("release/people").id)


@pytest.mark.slow
def test_missed_and_begun_nights_get_runs_once(site):
    site()
    forget_deployment()
    found = site(missed="all", cron="0 0 * * *", zone="UTC")
    today, now = datetime.now(UTC).date(), datetime.now(UTC) + timedelta(days=3)
    module.release(release="people", mode="release", logical_date=today + timedelta(days=1), return_state=True)
    shown = recovery.catch_up_nights(found, None, now, apply=False)
    assert [each.night for each in shown] == [today + timedelta(days=2), today + timedelta(days=3)]
    made = recovery.catch_up_nights(found, None, now, apply=True)
    assert [each.night for each in made] == [each.night for each in shown]
    assert recovery.catch_up_nights(found, None, now, apply=True) == [], "their runs are planned now"
    with server() as client:
        client.pause_deployment(read("release/people").id)
    assert recovery.catch_up_nights(found, today - timedelta(days=9), now, apply=True) == []


@pytest.mark.slow
@pytest.mark.parametrize("missed", ["latest", "all"])
def test_the_first_night_of_a_config_is_made_up_for_from_the_time_that_it_was_deployed(site, missed):
    site()
    forget_deployment()
    found = site(missed=missed, cron="0 0 * * *", zone="UTC")
    today = datetime.now(UTC).date()
    assert recovery.catch_up_nights(found, None, datetime.now(UTC), apply=True) == []
    made = recovery.catch_up_nights(found, None, datetime.now(UTC) + timedelta(days=1), apply=False)
    assert [each.night for each in made] == [today + timedelta(days=1)]


@pytest.mark.slow
def test_nights_before_their_deployment_are_made_up_for_only_when_a_person_asks(site):
    site()
    forget_deployment()
    found = site(missed="all", cron="0 0 * * *", zone="UTC")
    today, now = datetime.now(UTC).date(), datetime.now(UTC)
    module.release(release="people", mode="release", logical_date=today - timedelta(days=3), return_state=True)
    before = spent(found)
    assert recovery.catch_up_nights(found, None, now, apply=True) == []
    assert spent(found) == before
    asked = recovery.catch_up_nights(found, today - timedelta(days=2), now, apply=False)
    assert [each.night for each in asked] == [today - timedelta(days=2), today - timedelta(days=1), today]


def dead(run, state=None):
    with server() as client:
        client.set_flow_run_state(run.id, Running(), force=True)
        client.set_flow_run_state(run.id, state or Crashed(message="Its process died"), force=True)
        return client.read_flow_run(run.id)


def night_run(day, **more):
    with server() as client:
        parameters = {"release": "people", "mode": "release", "logical_date": day.isoformat(), **more}
        return client.create_flow_run_from_deployment(read("release/people").id, parameters=parameters)


def state_of(run):
    with server() as client:
        return client.read_flow_run(run.id).state


def test_a_night_whose_process_died_is_tried_again_with_growing_waits_and_not_for_ever(site):
    found, now = site(), datetime.now(UTC)
    run, waits = night_run(now.date()), []
    while True:
        run = dead(run)
        told = revival.revive(found, now)
        state = state_of(run)
        if state.is_crashed():
            break
        assert len(told) == 1
        assert state.name == "AwaitingRetry"
        waits.append(state.state_details.scheduled_time - now)
    assert waits == list(revival.WAITS)
    assert waits == sorted(waits)
    assert told == []


def failure_of(error):
    """State of a run that an error ends, as the run itself makes it."""

    def work():
        raise error

    ended = []

    @flow
    def night():
        try:
            Steps().run("reserve budget", work)
        except Stopped as stopped:
            ended.append(stopped.state)

    night()
    return ended[0]


PASSING = (
    Unreachable("does not answer"),
    ConnectionLost(),
    Locked(),
    StoreUnreachable("The store did not answer", "It must", "Look at it"),
    durable.store_error(OSError(errno.ENOSPC, "full"), "the release cannot be written"),
    ComputeError("KilledWorker", "0f20a269"),
    NoWorker("The cluster has no worker", "It needs one", "Look at it"),
)
LASTING = (
    LedgerError("A ledger is older", "It must not be", "Restore it"),
    durable.store_error(OSError(errno.EACCES, "no"), "the release cannot be written"),
    ClusterUnfit("A worker has other code", "It must not", "Install it"),
    ConfigError("A key is missing", "It must be there", "Write it"),
    RuntimeError("whatever"),
)


@pytest.mark.parametrize("error", [*PASSING, *LASTING], ids=lambda error: type(error).__name__)
def test_a_failure_that_passes_is_tried_again_like_a_death_and_another_is_not(site, error):
    found, now = site(), datetime.now(UTC)
    run, waits = night_run(now.date()), []
    state = failure_of(error)
    assert (f"{TRIED_AGAIN} 30 s." in state.message) == (error in PASSING)
    while True:
        run = dead(run, state)
        told = revival.revive(found, now)
        if not told:
            break
        assert state_of(run).name == "AwaitingRetry"
        assert "failed by what may pass" in state_of(run).message
        waits.append(state_of(run).state_details.scheduled_time - now)
    assert state_of(run).is_failed()
    assert waits == (list(revival.WAITS) if error in PASSING else [])


def test_a_failure_that_passes_says_when_its_next_try_is_and_the_last_that_there_is_none(site, monkeypatch):
    site()
    told = []
    for tries in range(1, len(revival.WAITS) + 2):
        monkeypatch.setenv("PREFECT__RUNTIME__FLOW_RUN__RUN_COUNT", str(tries))
        told.append(failure_of(ConnectionLost()).message.splitlines()[-1].rpartition("This may pass")[2])
    waits = ["30 s", "2 min", "8 min", "32 min", "128 min"]
    assert told[:-1] == [f": a night of a schedule is tried again in {wait}." for wait in waits]
    assert told[-1] == ", but 6 tries have failed: run it again once it has."


def test_a_ledger_that_is_away_keeps_no_night_of_another_from_being_tried_again(site, monkeypatch):
    found, now, outlook = site(), datetime.now(UTC), revival.outlook
    nights = [dead(night_run(now.date() - timedelta(days=days))) for days in (0, 1, 2)]

    def one_is_away(loaded, night, run, *rest):
        if run.id == nights[1].id:
            raise Unreachable("does not answer")
        return outlook(loaded, night, run, *rest)

    monkeypatch.setattr(revival, "outlook", one_is_away)
    revival.revive(found, now)
    assert [state_of(run).name for run in nights] == ["AwaitingRetry", "Crashed", "AwaitingRetry"]
    monkeypatch.setattr(revival, "outlook", outlook)
    revival.revive(found, now)
    assert state_of(nights[1]).name == "AwaitingRetry"


def test_a_server_that_refuses_a_state_is_not_taken_for_a_ledger_that_is_away(site, monkeypatch, caplog):
    found, now = site(), datetime.now(UTC)
    run = dead(night_run(now.date()))

    def refuse(*_, **__):
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(SyncPrefectClient, "set_flow_run_state", refuse)
        with pytest.raises(ConnectionError):
            revival.revive(found, now)
    assert "not tried again yet" not in caplog.text
    revival.revive(found, now)
    assert state_of(run).name == "AwaitingRetry"


def test_of_many_workers_that_see_a_failed_night_one_revives_it(site):
    found, pool = site(names=()), "nights"
    deploying._make_pool(pool)
    deployments.register([each for each in deployments.build(found, pool) if each.full_name == "release/people"])
    now = datetime.now(UTC)
    try:
        run = dead(night_run(now.date()), Failed(message=f"{TRIED_AGAIN} 30 s."))
        assert revival.revive(found, now) == [], "a service serves no pool"
        assert revival.revive(found, now, "another pool") == []
        with server() as client:
            held, second = turns.take(client, revival._TURN), turns.take(client, revival._TURN)
            assert held is not None
            assert second is None
            assert revival.revive(found, now, pool) == []
            turns.give_back(client, held)
            client.delete_global_concurrency_limit_by_name(revival._TURN)  # all of them make it below
        with ThreadPoolExecutor(8) as beside:
            told = list(beside.map(lambda _: revival.revive(found, now, pool), range(8)))
        assert sorted(map(len, told)) == [0] * 7 + [1]
        with server() as client:
            states = [each.name for each in client.read_flow_run_states(run.id)]
        assert states.count("AwaitingRetry") == 1
        assert revival.revive(found, now, pool) == []
        with server() as client:
            client.set_flow_run_state(run.id, Running(), force=True)
        assert revival.after_death(found)(run.id) is None
        assert revival.after_death(found, pool)(run.id).name == "AwaitingRetry"
    finally:
        deployments.register([each for each in deployments.build(found) if each.full_name == "release/people"])


def test_a_dead_night_that_the_ledger_calls_released_ends_as_completed(site):
    found, day = site(), datetime.now(UTC).date()
    run = dead(night_run(day))
    assert module.release(release="people", mode="release", logical_date=day, return_state=True).is_completed()
    before = spent(found)
    revival.revive(found, datetime.now(UTC))
    assert state_of(run).is_completed()
    assert "Released people/covariance" in state_of(run).message
    assert spent(found) == before


def test_a_night_goes_on_after_the_service_was_stopped_and_not_after_a_person_cancelled_it(site):
    found, now = site(), datetime.now(UTC)
    stopped = dead(night_run(now.date()), Cancelled(message=runner.STOPPED))
    cancelled = dead(night_run(now.date() - timedelta(days=1)), Cancelled(message="Cancelled by a person"))
    revival.revive(found, now)
    assert state_of(stopped).name == "AwaitingRetry"
    assert state_of(stopped).state_details.scheduled_time == now
    assert state_of(cancelled).is_cancelled()


@pytest.mark.parametrize("why", ["long ago", "a dry run", "paused"])
def test_a_dead_run_that_is_not_to_be_tried_again_stays(site, why):
    found, now = site(), datetime.now(UTC)
    run = dead(night_run(now.date(), **({"mode": "dry-run"} if why == "a dry run" else {})))
    with server() as client:
        if why == "paused":
            client.pause_deployment(read("release/people").id)
        try:
            revival.revive(found, now + (timedelta(days=3) if why == "long ago" else timedelta()))
        finally:
            client.resume_deployment(read("release/people").id)
    assert state_of(run).is_crashed()


def test_a_night_that_was_revived_finishes_what_it_had_begun_with_one_charge(site):
    found, now = site(), datetime.now(UTC)
    reserve(*support.opened(make_plan(found.configs["people"], now.date())), "killed")
    run = dead(night_run(now.date()))
    revival.revive(found, now - timedelta(minutes=5))
    with server() as client:
        state = start(client.read_flow_run(run.id))
    assert state.is_completed(), state.message
    assert [e.kind for e in Ledger(found.configs["people"].ledger_url).history()].count("RESERVED") == 1


def test_a_process_that_died_is_asked_about_before_its_run_is_marked_as_crashed(site):
    found, now = site(), datetime.now(UTC)
    died = revival.after_death(found)
    run = night_run(now.date())
    with server() as client:
        client.set_flow_run_state(run.id, Running(), force=True)
    assert died(run.id).name == "AwaitingRetry"
    failed = dead(night_run(now.date()), Failed(name="BadData", message="words"))
    assert died(failed.id) is None
    assert state_of(failed).name == "BadData"
    other = by_hand("release/people")
    with server() as client:
        client.set_flow_run_state(other.id, Running(), force=True)
        client.update_deployment(read("release/people").id, DeploymentUpdate(paused=True))
        try:
            assert died(other.id) is None
        finally:
            client.update_deployment(read("release/people").id, DeploymentUpdate(paused=False))


NO_DATES = ("tonight", "2026-13-40", "20261120", 20261120, ["2026-11-20"], {"a": 1})


def with_date(given):
    """A run whose form no server has checked."""
    known = read("release/people")
    sent = {"flow_id": str(known.flow_id), "deployment_id": str(known.id)}
    sent["parameters"] = {"release": "people", "mode": "release", "logical_date": given}
    with server() as client:
        made = client._client.post("/flow_runs/", json=sent)
        made.raise_for_status()
        return client.read_flow_run(made.json()["id"])


def test_runs_whose_date_is_none_stop_neither_the_start_of_a_service_nor_the_search_for_other_nights(site):
    found, now = site(), datetime.now(UTC)
    strange = [with_date(given) for given in NO_DATES]
    waiting, alive, cancelled, crashed = (with_date("tonight") for _ in range(4))
    good = dead(night_run(now.date()))
    with server() as client:
        try:
            assert {revival.night_of(run, found.deployments.night[0]) for run in strange} == {None}
            client.set_flow_run_state(alive.id, Running(), force=True)
            client.set_flow_run_state(cancelled.id, Cancelled(message="Cancelled by a person"), force=True)
            dead(crashed)
            settle(found)
            assert any(good.name in line for line in revival.revive(found, now))
            assert recovery.catch_up_nights(found, None, now, apply=False) == []
            assert recovery.unplanned_nights(found, now, now) == []
            assert {state_of(run).type.name for run in (alive, crashed)} == {"CRASHED"}
            assert state_of(good).name == "AwaitingRetry"
        finally:
            for run in (*strange, waiting, alive, cancelled, crashed, good):
                client.delete_flow_run(run.id)


@pytest.mark.slow
def test_a_night_that_fell_between_two_plans_of_the_server_gets_one_run(site):
    began = datetime.now(UTC)
    at = began + timedelta(minutes=2)
    site()
    forget_deployment()
    found = site(missed="skip", cron=f"{at.minute} {at.hour} * * *", zone="UTC")
    assert recovery.unplanned_nights(found, began, at + timedelta(minutes=1)) == [], "the server may still plan it"
    long_before = began - timedelta(hours=1)
    assert recovery.unplanned_nights(found, long_before, at + timedelta(minutes=5)) == [], "no start removed it"
    [made] = recovery.unplanned_nights(found, began, at + timedelta(minutes=5))
    assert made.night == at.date()
    assert recovery.unplanned_nights(found, began, at + timedelta(minutes=5)) == []


@pytest.mark.slow
@pytest.mark.parametrize("missed", ["skip", "latest"])
def test_a_night_whose_process_died_before_it_began_starts_again_and_follows_the_policy(site, missed):
    at = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=2)
    site()
    forget_deployment()
    found = site(missed=missed, cron=f"{at.minute} {at.hour} * * *", zone="UTC")
    run = planned_at("release/people", at)
    with server() as client:
        client.set_flow_run_state(run.id, Pending(), force=True)
    settle(found)
    assert state_of(run).name == "AwaitingRetry"
    with server() as client:
        state = start(client.read_flow_run(run.id))
    assert state.is_completed(), state.message
    assert (state.name == "Skipped") == (missed == "skip")
    assert (spent(found) == 0) == (missed == "skip")


def test_runs_that_only_seem_to_be_running_are_settled_at_the_start(site):
    found = site(("release/people", "verify-ledger/people"))
    night, check = by_hand("release/people"), by_hand("verify-ledger/people")
    with server() as client:
        for run in (night, check):
            client.set_flow_run_state(run.id, Running(), force=True)
    settle(found)
    assert state_of(night).name == "AwaitingRetry"
    assert state_of(check).is_crashed()


APPROVAL = "\n[approval]\nthreshold_share = 0.05\n"


def suspended(found):
    run = by_hand("release/people")
    state = start(run)
    assert state.name == "Suspended"
    assert spent(found) == 0
    assert not found.configs["people"].output_root.exists()
    return run


def resume(run, **answer):
    with server() as client:
        client.resume_flow_run(run.id, run_input=answer)
        again = client.read_flow_run(run.id)
    return start(again)


def test_a_costly_release_waits_for_a_person_and_then_runs_with_their_name_in_the_ledger(site):
    found = site(more=APPROVAL)
    state = resume(suspended(found), decision="approve", name="Ada on call")
    assert state.is_completed(), state.message
    (reserved,) = [e for e in Ledger(found.configs["people"].ledger_url).history() if e.kind == "RESERVED"]
    assert reserved.payload["attempt"].endswith("approved by Ada on call")


@pytest.mark.slow
def test_a_refused_release_spends_nothing(site):
    found = site(more=APPROVAL)
    state = resume(suspended(found), decision="refuse", name="Ada")
    assert state.name == "NotApproved"
    assert "Nothing was read, charged or released" in state.message
    assert spent(found) == 0


def test_an_approval_does_not_hold_for_a_config_that_changed_meanwhile(site, tmp_path):
    found = site(more=APPROVAL)
    run = suspended(found)
    path = support.write_config(tmp_path, epsilon=1.5)
    path.write_text(path.read_text() + APPROVAL)
    state = resume(run, decision="approve", name="Ada")
    assert state.name == "Suspended", "it asks again, for the plan as it is now"
    assert spent(found) == 0


def test_a_run_without_a_deployment_cannot_wait_and_says_what_to_do(site):
    found = site(more=APPROVAL)
    state = module.release(release="people", mode="release", logical_date=date(2026, 11, 20), return_state=True)
    assert state.name == "NotApproved"
    assert "--approve NAME" in state.message
    assert spent(found) == 0


def test_what_others_spend_while_a_run_waits_for_its_turn_is_approved_too(site, monkeypatch):
    found = site(more=APPROVAL.replace("0.05", "0.4"))
    loaded = found.configs["people"]

    @contextmanager
    def late(steps, dataset):
        plan = make_plan(loaded, date(2026, 11, 19))
        left = Ledger(loaded.ledger_url).budget("people").nights_left(plan.charge)
        for day in range(1, left):
            reserve(*support.opened(make_plan(loaded, date(2026, 10, day))), "another")
        yield

    monkeypatch.setattr(module.turns, "of_dataset", late)
    state = module.release(release="people", mode="release", logical_date=date(2026, 11, 20), return_state=True)
    assert state.name == "NotApproved", "the last release that fits takes all that is left"
    assert Ledger(loaded.ledger_url).find("people/covariance/2026-11-20") is None


@pytest.mark.parametrize(
    ("url", "same", "other"),
    [
        ("postgresql://nightly:{}@db.example.org/ledger?sslmode=verify-full", True, "db.example.org/second"),
        ("postgresql://nightly@db.example.org/ledger?sslmode=verify-full&password={}", True, "elsewhere.org/ledger"),
        ("sqlite:////srv/{}.db", False, ""),
    ],
)
def test_what_is_kept_of_a_ledger_is_named_after_its_place_and_no_password(url, same, other):
    one, two = (verifying.head_variable(url.format(word)) for word in ("first", "second"))
    assert (one == two) is same
    assert not other or verifying.head_variable(f"postgresql://nightly:first@{other}") != one


def test_a_ledger_that_verifies_is_remembered_and_one_that_was_cut_off_is_found(site):
    found = site()
    loaded = found.configs["people"]
    first = verifying.verify_ledger(config="people", return_state=True)
    assert first.is_completed(), first.message
    before = loaded.ledger_path.read_bytes()
    module.release(release="people", mode="release", logical_date=date(2026, 11, 20), return_state=True)
    second = verifying.verify_ledger(config="people", return_state=True)
    assert "continues what the last check saw" in second.message
    assert "chain intact" in artifact(second, "ledger-verification").description
    for extra in ("-wal", "-shm"):
        loaded.ledger_path.with_name(loaded.ledger_path.name + extra).unlink(missing_ok=True)
    loaded.ledger_path.write_bytes(before)  # an old copy is restored: it forgets a charge
    third = verifying.verify_ledger(config="people", return_state=True)
    assert third.name == verifying.DAMAGED
    assert "cut off or rewritten" in third.message


def test_what_if_questions_show_cost_and_cannot_spend(site):
    found = site(names=("plan/people",))
    question = read("plan/people").parameters["question"]
    question["privacy"]["epsilon"] = 2.5
    state = planning.plan(question=question, budget_of="people", return_state=True)
    assert state.is_completed(), state.message
    answer = artifact(state, "what-if").data
    assert "e^2.5" in answer
    assert "**Left**" in answer
    assert spent(found) == 0
    assert not found.configs["people"].output_root.exists()
    question["privacy"]["neighbours"] = "replace-one"
    assert planning.plan(question=question, budget_of="people", return_state=True).name == "BadConfig"
    assert planning.plan(question=question, return_state=True).is_completed()
    question["mechanism"] = {"kind": "auto", "minimise": "total"}
    state = planning.plan(question=question, return_state=True)
    assert "shaped-gaussian" in artifact(state, "which-mechanism").data


def test_a_date_that_no_month_has_is_refused_before_anything_is_deployed(site):
    with pytest.raises(ConfigError, match="not a schedule"):
        site(cron="30 2 99 * *")


@pytest.mark.slow
def test_of_two_runs_of_a_data_set_the_second_waits(site, monkeypatch):
    from prefect.concurrency.sync import concurrency

    from blockveil.flows.runs import turns

    found = site()
    limits.prepare(found)
    with monkeypatch.context() as hurried, concurrency(turns.limit_name("people"), strict=True):
        hurried.setattr(turns, "WAIT_SECONDS", 1)
        state = module.release(release="people", mode="release", logical_date=date(2026, 11, 20), return_state=True)
    assert state.name == "DatasetBusy"
    assert "Nothing was" in state.message
    assert spent(found) == 0
    state = module.release(release="people", mode="release", logical_date=date(2026, 11, 20), return_state=True)
    assert state.is_completed(), state.message
