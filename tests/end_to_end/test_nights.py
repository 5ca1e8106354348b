"""Nights under kills: twelve nights, one a minute, while the service is killed three times and stopped once."""

import contextlib
import signal
import time
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta

import pytest

from blockveil.flows.runs.steps import FAILURES
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from tests import support
from tests.end_to_end.served import kill_all, serve
from tests.postgres_server import CannotStart, PostgresServer

NIGHTS = 12
POLICIES = ("all", "latest", "skip")
# When the service is stopped, in minutes after the first night, how, and for how many seconds it stays away.
STOPS = ((1.2, "kill", 0), (3.2, "kill", 100), (6.2, "stop", 0), (8.2, "kill", 0))
SETTLED_SECONDS = 900
BEGUN = ["PENDING", "RUNNING", "COMPLETED", "FAILED", "CRASHED", "CANCELLING", "CANCELLED", "PAUSED"]
LEADS = (3, 6, 12)  # minutes before the first night, until a start was in time

NIGHT = """
[[night]]
config = "{config}"
cron = "{at.minute} {at.hour} * * *"
timezone = "UTC"
mode = "release"
missed = "{missed}"
grace_minutes = 1
"""


def site(folder, first):
    """Twelve configs of one data set and one budget, whose nights follow one another by a minute."""
    loaded = support.prepare(folder, budget=6.0)
    text, configs, deployments = loaded.path.read_text(), {}, ""
    for number in range(NIGHTS):
        path = folder / f"night{number}.toml"
        path.write_text(text.replace('name = "covariance"', f'name = "night{number}"'))
        configs[path.stem] = load_config(path)
        at = first + timedelta(minutes=number)
        deployments += NIGHT.format(config=path.stem, at=at, missed=POLICIES[number % len(POLICIES)])
    loaded.path.unlink()
    (folder / "deployments.toml").write_text(deployments)
    return configs


def runs(served):
    """Releases that have begun; the hundreds that are planned ahead would make the answer long."""
    begun = {"flow_runs": {"state": {"type": {"any_": BEGUN}}}}
    found = served.ask("/flow_runs/filter", {"sort": "EXPECTED_START_TIME_ASC", "limit": 200, **begun})
    return [run for run in found if run["parameters"].get("mode") == "release"]


def at_work(served):
    """Runs that a stop would meet, once one of them works."""
    found = [run for run in runs(served) if run["state_type"] in ("RUNNING", "PENDING")]
    return found if any(run["state_type"] == "RUNNING" for run in found) else []


def alarms(served):
    """Numbers of runs of which an event says that they failed or died, which is what alarms are made of."""
    names = [f"prefect.flow-run.{name}" for name in FAILURES]
    answer = served.ask("/events/filter", {"filter": {"event": {"name": names}, "order": "ASC"}, "limit": 50})
    return {event["resource"]["prefect.resource.id"].removeprefix("prefect.flow-run.") for event in answer["events"]}


def released(ledger):
    return [entry.release_id for entry in ledger.history() if entry.kind == "RELEASED"]


def settled(served, ledger, configs):
    """Which nights are released and which are skipped, once that is all of them."""
    skipped = {run["parameters"]["release"] for run in runs(served) if run["state_name"] == "Skipped"}
    done = {name.split("/")[1] for name in released(ledger)} | skipped
    busy = [run for run in runs(served) if run["state_type"] in ("RUNNING", "PENDING", "CANCELLING")]
    return (done, skipped) if done >= configs.keys() and not busy else None


@contextlib.contextmanager
def prefect_in_postgres():
    """Settings of a Prefect server whose database lies in PostgreSQL, or None and why that cannot be had here."""
    try:
        server = PostgresServer(of_machine=True)
    except CannotStart as reason:
        yield None, f"PostgreSQL cannot be started here: {reason}"
        return
    try:
        if server.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'"):
            url = server.url(server.new_database()).replace("postgresql://", "postgresql+asyncpg://")
            yield {"PREFECT_SERVER_DATABASE_CONNECTION_URL": url}, ""
        else:
            yield None, "Prefect needs pg_trgm, which this PostgreSQL does not bring"
    finally:
        server.stop()


def begun(stack, folder, environment):
    """A service that was there before its first night; its folder, the time of that night, and its configs.

    On a busy machine a start takes minutes, and nights before a deployment are never made up for: then another folder
    is tried with more time.
    """
    for lead in LEADS:
        place = folder / f"lead-{lead}"
        place.mkdir(parents=True)
        first = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=lead)
        configs = site(place, first)
        with contextlib.ExitStack() as tried:
            served = tried.enter_context(serve(place, place / "home", **environment))
            if datetime.now(UTC) < first - timedelta(seconds=10):
                stack.push(tried.pop_all())
                return served, place, first, configs
    return pytest.fail(f"no service starts in {LEADS[-1]} minutes")


def ended(served, at, how):
    """End a service at a time, in the middle of a night; the runs that its end met."""
    time.sleep(max(0.0, (at - datetime.now(UTC)).total_seconds()))
    met = {run["id"] for run in served.wait(lambda: at_work(served), "no night is at work")}
    if how == "kill":
        kill_all(served.process)
    else:
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(120)
    return met


def lived(folder, environment):
    """Twelve nights of one service, none of which is lost or doubled."""
    met, (minutes, how, away), *others = set(), *STOPS
    with contextlib.ExitStack() as stack:
        served, place, first, configs = begun(stack, folder, environment)
        met |= ended(served, first + timedelta(minutes=minutes), how)
    time.sleep(away)
    for minutes, how, away in others:
        with serve(place, place / "home", **environment) as served:
            met |= ended(served, first + timedelta(minutes=minutes), how)
        time.sleep(away)
    ledger = Ledger(configs["night0"].ledger_url)
    with serve(place, place / "home", **environment) as served:
        served.patience = SETTLED_SECONDS
        time.sleep(max(0.0, (first + timedelta(minutes=NIGHTS - 1) - datetime.now(UTC)).total_seconds()))
        done, skipped = served.wait(lambda: settled(served, ledger, configs), "a night is lost")
        false = alarms(served) - met
        states = {run["parameters"]["release"]: run["state_name"] for run in runs(served)}
    committed = [entry.release_id for entry in ledger.history() if entry.kind == "COMMITTED"]
    doubled = len(committed) - len(set(committed))
    print(
        f"\n{folder.name}: {len(set(released(ledger)))} released, {len(skipped)} skipped as configured, "
        f"{doubled} doubled, {len(configs.keys() - done)} lost, {len(false)} false alarms\n{states}"
    )
    assert doubled == 0
    assert sorted(released(ledger)) == sorted(set(committed)), "each charge ended in a release"
    assert all(POLICIES[int(name.removeprefix("night")) % len(POLICIES)] == "skip" for name in skipped)
    assert set(states.values()) <= {"Completed", "Skipped"}
    assert false == set(), "only a process that died may be told of"
    assert ledger.verify().problems == []
    assert not list(place.rglob(".staging*"))


@pytest.mark.slow
@pytest.mark.timeout(2700)
def test_of_twelve_nights_none_is_lost_or_doubled_by_three_kills_and_a_stop(tmp_path):
    """By a service whose Prefect has its database in SQLite, and at the same time by one that has it in PostgreSQL."""
    with prefect_in_postgres() as (in_postgres, why_not), ThreadPoolExecutor(2) as beside:
        services = {"sqlite": {}} | ({} if in_postgres is None else {"postgres": in_postgres})
        nights = [beside.submit(lived, tmp_path / name, settings) for name, settings in services.items()]
        wait(nights)
        for each in nights:
            each.result()
    if why_not:
        pytest.skip(f"with SQLite all is well; {why_not}")
